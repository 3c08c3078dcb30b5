package iface

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Query defines how the local address of a SystemNetwork is found: exactly one of Interface, CIDR and Address is set.
type Query struct {
	Network   string // name of the SystemNetwork, for errors
	Interface string
	CIDR      netip.Prefix
	Address   netip.Addr
	// Listed is this node's address on the network in the list of members: if several addresses fit, this one is
	// chosen. Not valid: not known.
	Listed netip.Addr
}

// Local is this node's side of a SystemNetwork.
type Local struct {
	Network   string
	Address   netip.Addr
	Interface string // the interface that has the address now
	// Index is the kernel's number of Interface. An interface that was removed and created again has the same name but
	// another index.
	Index int
	// Internal is true if packets of other nodes never arrive through Interface: it is the loopback or a dummy
	// interface, and packets to its addresses arrive through another one.
	Internal bool
	// Pinned is true if the address counts only on Interface, because the network was asked for by its name.
	Pinned bool

	query Query // the query that found it; Watch uses it to find a new address
}

// Find resolves a query. If several addresses fit, the result is the listed one: a virtual address of kube-vip or
// keepalived may be inside the same prefix, and a router may assign many IPv6 addresses to an interface. If the listed
// address does not exist, an interface yields its first primary IPv4 address, otherwise its first global IPv6 address,
// and a prefix yields its only address.
func Find(q Query) (Local, error) {
	s, err := readKernel()
	if err != nil {
		return Local{}, fmt.Errorf("network %s: %w", q.Network, err)
	}
	l, err := s.find(q)
	if err != nil {
		return Local{}, fmt.Errorf("network %s: %w", q.Network, err)
	}
	l.Network, l.query = q.Network, q
	return l, nil
}

// Up reports whether a network works on this node now: an interface with its address can send. It applies the same
// rules as Watch.
func Up(l Local) (bool, error) {
	s, err := readKernel()
	if err != nil {
		return false, fmt.Errorf("network %s: %w", l.Network, err)
	}
	return s.carrier(l) != 0, nil
}

// snapshot holds the kernel's links and addresses at one moment.
type snapshot struct {
	links     map[int]link // by index
	addresses []address    // in the kernel's order
}

type link struct {
	name     string
	loopback bool
	internal bool // loopback or dummy
	up       bool // administratively up, with carrier and operational
}

type address struct {
	ip        netip.Addr
	link      int
	tentative bool // not usable yet, or never usable if it is a duplicate
	secondary bool // IPv4: not the first of its subnet; IPv6: temporary or deprecated
	single    bool // its prefix is as long as the address: a virtual address, unless it is the only one
}

var loopbackNet = netip.MustParsePrefix("127.0.0.0/8")

func (s *snapshot) find(q Query) (Local, error) {
	set := 0
	for _, isSet := range []bool{q.Interface != "", q.CIDR.IsValid(), q.Address.IsValid()} {
		if isSet {
			set++
		}
	}
	switch {
	case set != 1:
		return Local{}, errors.New("exactly one of interface, cidr and address is needed")
	case q.Interface != "":
		return s.byInterface(q.Interface, q.Listed)
	case q.CIDR.IsValid():
		return s.byCIDR(q.CIDR, q.Listed)
	default:
		return s.byAddress(q.Address)
	}
}

func (s *snapshot) byInterface(name string, listed netip.Addr) (Local, error) {
	index := s.index(name)
	if index == 0 {
		return Local{}, fmt.Errorf("interface %q does not exist; there are: %s", name, s.listLinks())
	}
	var best *address
	bestRank := 0
	for i, a := range s.addresses {
		if a.link != index || a.tentative || a.ip.IsLinkLocalUnicast() {
			continue
		}
		rank := 1
		if a.ip.Is4() {
			rank += 2
		}
		if !a.secondary {
			rank++
		}
		if a.ip == listed {
			rank += 4
		}
		if rank > bestRank {
			best, bestRank = &s.addresses[i], rank
		}
	}
	if best == nil {
		return Local{}, fmt.Errorf("interface %q has no usable address: give it an IPv4 or a global IPv6 address; local addresses are: %s", name, s.listAddresses())
	}
	l := s.local(best.ip, index)
	l.Pinned = true
	return l, nil
}

func (s *snapshot) byCIDR(p netip.Prefix, listed netip.Addr) (Local, error) {
	var inside []address
	several := false
	for _, a := range s.addresses {
		if p.Contains(a.ip) && !a.tentative {
			inside = append(inside, a)
			several = several || a.ip != inside[0].ip
		}
	}
	if a, ok := s.holder(listed); ok && p.Contains(listed) {
		return s.local(a.ip, a.link), nil
	}
	if own, ok := plain(inside); ok && !listed.IsValid() {
		return s.local(own.ip, own.link), nil
	}
	switch {
	case len(inside) == 0:
		return Local{}, fmt.Errorf("no local address is inside %s; local addresses are: %s", p, s.listAddresses())
	case !several:
		a, _ := s.holder(inside[0].ip) // if two interfaces have the same address, the one that is up counts
		return s.local(a.ip, a.link), nil
	case listed.IsValid():
		return Local{}, fmt.Errorf("several local addresses are inside %s: %s; none is %s, which the list of members has for this node: give the node that address, or correct the list",
			p, s.list(inside), listed)
	default:
		return Local{}, fmt.Errorf("several local addresses are inside %s: %s; choose one with a narrower network, an interface or an address", p, s.list(inside))
	}
}

// plain returns the only address among several that is neither secondary nor virtual. It is used if no list defines the
// address: at the first start of a node that has to announce its addresses itself.
func plain(as []address) (own address, ok bool) {
	for _, a := range as {
		switch {
		case a.secondary || a.single:
		case ok && a.ip != own.ip:
			return address{}, false
		default:
			own, ok = a, true
		}
	}
	return own, ok
}

func (s *snapshot) byAddress(ip netip.Addr) (Local, error) {
	if ip.Zone() != "" || ip.IsUnspecified() {
		return Local{}, fmt.Errorf("address %s: give one address of this node, without a zone", ip)
	}
	ip = ip.Unmap()
	if a, ok := s.holder(ip); ok {
		return s.local(ip, a.link), nil
	}
	if loopbackNet.Contains(ip) {
		return s.local(ip, s.loopback()), nil
	}
	return Local{}, fmt.Errorf("address %s is not local; local addresses are: %s", ip, s.listAddresses())
}

// local describes an address on the link with an index.
func (s *snapshot) local(ip netip.Addr, index int) Local {
	l := s.links[index]
	return Local{Address: ip, Interface: l.name, Index: index, Internal: l.internal}
}

// carrier returns the index of the interface by which this node's side of a network works,
// or 0 if it does not.
func (s *snapshot) carrier(l Local) int {
	best := 0
	for _, a := range s.addresses {
		if s.holds(a, l) && s.links[a.link].up && (best == 0 || a.link == l.Index) {
			best = a.link // the interface that had it before, if that also works
		}
	}
	if best == 0 && !l.Pinned && loopbackNet.Contains(l.Address) && s.links[s.loopback()].up {
		return s.loopback()
	}
	return best
}

// holds reports whether an entry is the address of a network, on an interface where it counts.
func (s *snapshot) holds(a address, l Local) bool {
	return a.ip == l.Address && !a.tentative && (!l.Pinned || s.links[a.link].name == l.Interface)
}

// holder finds the usable entry of an address, on an interface that is up if there is one.
func (s *snapshot) holder(ip netip.Addr) (address, bool) {
	var found address
	ok := false
	for _, a := range s.addresses {
		if a.ip != ip || a.tentative {
			continue
		}
		if s.links[a.link].up {
			return a, true
		}
		found, ok = a, true
	}
	return found, ok
}

// gone returns why a network would not work even if its interface had carrier; nil: its address is there. The lists of
// members on all nodes have the old address, so a new one cannot be used.
func (s *snapshot) gone(l Local) error {
	for _, a := range s.addresses {
		if s.holds(a, l) {
			return nil
		}
	}
	now, err := s.find(l.query)
	switch {
	case err == nil && now.Address != l.Address && now.Address.Is4() == l.Address.Is4():
		return fmt.Errorf("its address has changed from %v to %v (%s): give the interface its old address, or put the new one on the members' list", l.Address, now.Address, now.Interface)
	case l.Pinned && s.index(l.Interface) == 0:
		return fmt.Errorf("interface %q does not exist any more", l.Interface)
	}
	return fmt.Errorf("its address %v is gone", l.Address)
}

func (s *snapshot) index(name string) int {
	for i, l := range s.links {
		if l.name == name {
			return i
		}
	}
	return 0
}

// loopback returns the index of the loopback interface, 0 if there is none.
func (s *snapshot) loopback() int {
	for i, l := range s.links {
		if l.loopback {
			return i
		}
	}
	return 0
}

// maxListed bounds the addresses in an error: a cluster node may have thousands.
const maxListed = 16

func (s *snapshot) listAddresses() string { return s.list(s.addresses) }

func (s *snapshot) list(as []address) string {
	var out []string
	for i, a := range as {
		if i == maxListed {
			out = append(out, fmt.Sprintf("and %d more", len(as)-i))
			break
		}
		out = append(out, fmt.Sprintf("%s (%s)", a.ip, s.links[a.link].name))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

func (s *snapshot) listLinks() string {
	var names []string
	for _, l := range s.links {
		names = append(names, l.name)
	}
	slices.Sort(names)
	if len(names) > maxListed {
		names = append(names[:maxListed], fmt.Sprintf("and %d more", len(names)-maxListed))
	}
	return strings.Join(names, ", ")
}
