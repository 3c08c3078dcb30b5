package swim

import (
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/netip"
	"reflect"
	"unicode/utf8"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

// Config describes one instance. The instance keeps the pointers; except for the keyring, the data that they point to
// must not change afterwards.
type Config struct {
	Network int    // index of the SystemNetwork in all reports
	Name    string // name of the SystemNetwork, key of Member.Addresses
	Label   string // <cluster>/<group>/<network>: packets with another label are refused

	Roster   *roster.Roster
	BindAddr netip.Addr // this node's address, bound and advertised
	Port     int        // the port of this node and of every peer
	Params   netgossip.Params

	Keyring *memberlist.Keyring // nil: no encryption
	// AnySource accepts packets and streams from every address. Without it they must come from a member's address,
	// which is not the case if addresses are translated between the nodes.
	AnySource bool
	Transport Listener // nil: the package's own sockets, pinned to Device
	// Device is the network interface to which the sockets are pinned, so that nothing is sent or received through
	// another one; "": routing decides. It is used only if Transport is nil.
	Device string

	Clock boottime.Clock
	Sink  Sink
	// Statement returns this node's latest statement, or nil before there is one. It is called from any goroutine and
	// must not block.
	Statement func() *netgossip.Statement
	// Relay returns this node's relay about the LUN; nil: it never has one. It is called from any goroutine and must
	// not block.
	Relay func() netgossip.Relay
	// Known returns the latest statement of a peer, and its digest, from an earlier instance for the same network and
	// roster. The peer must have answered that instance until now and see this node. If Known or the statement is nil,
	// nothing is known. It is called once for each peer, at the start.
	Known func(peer int) (statement *netgossip.Statement, digest uint64)
	// Sees reports whether a statement returned by Statement, whose sets use another roster than Roster, has a node
	// among the seen; nil: Statement never returns such a statement. It must not block.
	Sees func(s *netgossip.Statement, node string) bool
	// HandsOver returns a list that this node uses, for a peer that lacks it; nil: the list must not be handed over. It
	// is called from the evidence goroutine and must not block.
	HandsOver func(list roster.Ref) *roster.Roster
	// Handed receives a list that Instance.Fetch has fetched, with the requested digest. It is called like a Sink; nil:
	// no list is fetched.
	Handed func(r *roster.Roster)

	// Doubts is shared by the instances of the node; nil: the node has no doubts, and sends no words.
	Doubts *Doubts

	Logger  *slog.Logger
	Metrics *Metrics // shared by the instances of the process; nil: none
}

// validate reports all problems at once.
func (c *Config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Name != "", "network name is empty")
	check(len(c.Label) <= memberlist.LabelMaxSize, "label %q has %d bytes, but at most %d are allowed", c.Label, len(c.Label), memberlist.LabelMaxSize)
	check(c.Roster != nil, "roster is missing")
	check(c.Clock != nil && c.Sink != nil && c.Statement != nil && c.Logger != nil, "clock, sink, statement and logger are needed")
	check(c.Port > 0 && c.Port <= 65535, "port %d: it must be 1 to 65535", c.Port)
	// With a wildcard, memberlist advertises a guessed address. A zone is lost before the address reaches the socket,
	// which then binds all interfaces.
	check(c.BindAddr.IsValid() && !c.BindAddr.IsUnspecified() && c.BindAddr.Zone() == "",
		"bind address %q: one address of the node without a zone is needed", c.BindAddr)
	check(c.Transport == nil || c.Device == "", "device %q is for sockets of our own, not for a transport that was given", c.Device)
	errs = append(errs, checkParams(c.Params)...)
	return errors.Join(errs...)
}

func checkParams(p netgossip.Params) []error {
	var errs []error
	for i, v := 0, reflect.ValueOf(p); i < v.NumField(); i++ {
		if v.Field(i).Int() <= 0 {
			errs = append(errs, fmt.Errorf("parameter %s must be positive", v.Type().Field(i).Name))
		}
	}
	if p.EvidenceTimeout >= p.EvidenceMaxAge || p.EvidenceInterval >= p.EvidenceMaxAge {
		errs = append(errs, fmt.Errorf("evidenceMaxAge %v must exceed evidenceInterval %v and evidenceTimeout %v",
			p.EvidenceMaxAge, p.EvidenceInterval, p.EvidenceTimeout))
	}
	return errs
}

// memberlist returns the configuration of the library. It starts from the library's defaults because some fields must
// not be zero: for example, QueueCheckInterval 0 causes a busy loop.
func (c *Config) memberlist(transport memberlist.Transport, logger *log.Logger) *memberlist.Config {
	m := memberlist.DefaultLANConfig()
	m.Name = c.Roster.Name(c.Roster.Self)
	m.Label = c.Label
	m.Transport = transport
	m.Logger = logger
	// Both addresses are set explicitly: the address that the library guesses from a wildcard is wrong on nodes with
	// several networks.
	m.BindAddr, m.BindPort = c.BindAddr.String(), c.Port
	m.AdvertiseAddr, m.AdvertisePort = c.BindAddr.String(), c.Port
	m.Keyring = c.Keyring
	// Probes and acks never shrink, and compressing costs 64 KiB of garbage a packet.
	m.EnableCompression = false

	p := c.Params
	m.GossipInterval, m.GossipNodes = p.GossipInterval, p.GossipNodes
	m.UDPBufferSize = max(p.GossipPacketSize, c.leastPacket())
	m.ProbeInterval, m.ProbeTimeout = p.ProbeInterval, p.ProbeTimeout
	m.IndirectChecks = p.IndirectChecks
	m.RetransmitMult = p.RetransmitMult
	m.PushPullInterval = p.PushPullInterval
	m.TCPTimeout = p.TCPTimeout
	m.SuspicionMult = p.SuspicionMult
	m.SuspicionMaxTimeoutMult = p.SuspicionMaxTimeoutMult
	m.AwarenessMaxMultiplier = p.AwarenessMaxMultiplier
	m.GossipToTheDeadTime = p.GossipToTheDeadTime
	m.DeadNodeReclaimTime = p.DeadNodeReclaimTime
	return m
}

// newsOverhead is the size of a packet with the longest piece of news, without label and names: the frame, the
// encryption, an IPv6 address, the names of the fields.
const newsOverhead = 200

// leastPacket returns the size of a packet that has room for any piece of news: memberlist keeps a piece that does not
// fit for ever, and never sends it. The longest piece names two members.
func (c *Config) leastPacket() int {
	longest := 0
	for _, m := range c.Roster.Members {
		longest = max(longest, len(m.Name))
	}
	return newsOverhead + len(c.Label) + 2*longest
}

// addresses returns every member's address on this network, including this node's.
func (c *Config) addresses(targets []target) map[int]netip.AddrPort {
	at := map[int]netip.AddrPort{c.Roster.Self: netip.AddrPortFrom(c.BindAddr.Unmap(), uint16(c.Port))}
	for _, t := range targets {
		at[t.index] = netip.MustParseAddrPort(t.addr.Addr) // targets has checked it
	}
	return at
}

// targets returns the other members of the roster with their addresses on this network. A member without an address
// here is left out: it is only on other networks.
func (c *Config) targets() ([]target, error) {
	var targets []target
	var errs []error
	for i, m := range c.Roster.Members {
		if len(m.Name) > wire.MaxName || !utf8.ValidString(m.Name) {
			errs = append(errs, fmt.Errorf("member %q: name must be UTF-8 and have at most %d bytes", m.Name, wire.MaxName))
		}
		text, ok := m.Addresses[c.Name]
		if i == c.Roster.Self || !ok {
			continue
		}
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" || ip.IsUnspecified() {
			errs = append(errs, fmt.Errorf("member %q: address %q is not an IP address of a node", m.Name, text))
			continue
		}
		addr := netip.AddrPortFrom(ip.Unmap(), uint16(c.Port)).String()
		targets = append(targets, target{index: i, addr: memberlist.Address{Addr: addr, Name: m.Name}})
	}
	return targets, errors.Join(errs...)
}
