package swim

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strconv"

	"github.com/hashicorp/memberlist"
)

// Senders are checked twice. Packets and streams that do not come from the address of another member are refused
// unread, unless Config.AnySource is set: no byte of a stranger reaches a decoder. And memberlist accepts only news
// that name a member at the member's own address: no node can be brought into the group by gossip.

// admits reports whether a packet or stream from the address may be read. If not, it counts and reports the refusal.
func (l *ledger) admits(from netip.Addr) bool {
	if _, ok := l.peers[from]; ok || l.foreign == nil {
		return true
	}
	l.refused[refusedSource].add(1)
	l.foreign(from)
	return false
}

// reportForeign is the ledger's foreign function of an instance.
func (in *Instance) reportForeign(from netip.Addr) {
	in.journal.warn("foreign source", "refused gossip from an address that no other member has: is it a node of this group that the list of members lacks, or has at another address? where addresses are translated between nodes, set experimental.gossipSources to any",
		slog.String("from", from.String()))
}

// reportFrame is the ledger's report function of an instance.
func (in *Instance) reportFrame(why refusal, from netip.Addr) {
	msg := "refused undecodable gossip"
	switch why {
	case refusedVersion:
		msg = "gossip of encryption version 0 refused: a frame was altered to crash this agent, or an agent has no key: give all nodes the same key file, and find out who else can send on this network"
	case refusedKey:
		msg = "refused unencrypted gossip: give all nodes the same key file"
	}
	in.journal.warn(string(why), msg, slog.String("from", from.String()))
}

var (
	errStranger  = errors.New("it is not on the list of members")
	errMeta      = errors.New("it has metadata, which no agent has")
	errElsewhere = errors.New("the list of members has it at another address")
)

// NotifyAlive decides which nodes memberlist accepts (memberlist.AliveDelegate).
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	in := d.in
	want, ok := in.where(n.Name)
	if !ok {
		in.count.refused[refusedStranger].add(1)
		in.journal.warn("stranger member", "gossip has a node that is not on the list of members, or has no address on this network", slog.String("member", n.Name))
		return errStranger
	}
	ip, _ := netip.AddrFromSlice(n.Addr)
	if at := netip.AddrPortFrom(ip.Unmap(), n.Port); at != want {
		d.conflict(n.Name, at.String())
		return errElsewhere
	}
	// memberlist's table would grow beyond the size that a peer accepts, and no peer would exchange tables with it any
	// more.
	if len(n.Meta) > 0 {
		in.count.refused[refusedMalformed].add(1)
		return errMeta
	}
	return nil
}

// where returns a node's address on this network, as in the roster.
func (in *Instance) where(name string) (netip.AddrPort, bool) {
	index, ok := in.cfg.Roster.Index(name)
	if !ok {
		return netip.AddrPort{}, false
	}
	at, ok := in.addresses[index]
	return at, ok
}

// NotifyConflict reports that a second node uses the name of a member. NotifyAlive already refuses most such nodes;
// this covers the cases that only memberlist notices.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	d.conflict(existing.Name, net.JoinHostPort(other.Addr.String(), strconv.Itoa(int(other.Port))))
}

// conflict raises the alarm for a second node, at an address, with the name of a member,
// possibly ours.
func (d delegate) conflict(name, address string) {
	in := d.in
	in.journal.warn("conflict", "two nodes use one name: give each node a name of its own",
		slog.String("member", name), slog.String("second_address", address))
	in.gate.pass(func() { in.cfg.Sink.Conflict(in.cfg.Network, name, address) })
}
