package iface

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// host returns a node with two interfaces, one of them without a usable address.
func host() *snapshot {
	return &snapshot{
		links: map[int]link{
			1: {name: "lo", loopback: true, internal: true, up: true},
			2: {name: "eth0", up: true},
			3: {name: "eth1", up: true},
			4: {name: "eth2", up: true},
			5: {name: "eth3", up: true},
			6: {name: "dummy0", internal: true, up: true},
		},
		addresses: []address{
			{ip: ip("127.0.0.1"), link: 1},
			{ip: ip("::1"), link: 1},
			{ip: ip("10.0.0.9"), link: 2, secondary: true},
			{ip: ip("fd00::1"), link: 2},
			{ip: ip("10.0.0.1"), link: 2},
			{ip: ip("10.0.0.2"), link: 2},
			{ip: ip("fe80::1"), link: 3},
			{ip: ip("169.254.1.1"), link: 3},
			{ip: ip("fd01::f"), link: 4, secondary: true},
			{ip: ip("fe80::2"), link: 4},
			{ip: ip("fd01::dad"), link: 4, tentative: true},
			{ip: ip("fd01::2"), link: 4},
			{ip: ip("10.1.0.1"), link: 5},
			{ip: ip("10.2.0.1"), link: 6},
			{ip: ip("10.3.0.1"), link: 6},
			{ip: ip("10.3.0.100"), link: 6, single: true},
		},
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		q    Query
		want string
	}{
		{Query{Interface: "eth0"}, "10.0.0.1 eth0 2 pinned"},
		{Query{Interface: "eth2"}, "fd01::2 eth2 4 pinned"},
		{Query{Interface: "lo"}, "127.0.0.1 lo 1 internal pinned"},
		{Query{CIDR: netip.MustParsePrefix("10.1.0.0/16")}, "10.1.0.1 eth3 5"},
		{Query{CIDR: netip.MustParsePrefix("fd01::/124")}, "fd01::2 eth2 4"},
		{Query{CIDR: netip.MustParsePrefix("10.3.0.0/24")}, "10.3.0.1 dummy0 6 internal"},
		{Query{CIDR: netip.MustParsePrefix("10.3.0.100/32")}, "10.3.0.100 dummy0 6 internal"},
		{Query{CIDR: netip.MustParsePrefix("10.0.0.0/24")}, "several local addresses are inside 10.0.0.0/24: 10.0.0.9 (eth0), 10.0.0.1 (eth0), 10.0.0.2 (eth0); choose"},
		{Query{CIDR: netip.MustParsePrefix("fd01::2/128")}, "fd01::2 eth2 4"},
		{Query{Address: ip("10.0.0.2")}, "10.0.0.2 eth0 2"},
		{Query{Address: ip("::ffff:10.0.0.2")}, "10.0.0.2 eth0 2"},
		{Query{Address: ip("127.0.0.11")}, "127.0.0.11 lo 1 internal"},
		{Query{CIDR: netip.MustParsePrefix("10.2.0.0/16")}, "10.2.0.1 dummy0 6 internal"},
		{Query{Address: ip("fe80::1")}, "fe80::1 eth1 3"},

		// The list of members selects one of several addresses.
		{Query{Interface: "eth0", Listed: ip("10.0.0.9")}, "10.0.0.9 eth0 2 pinned"},
		{Query{Interface: "eth0", Listed: ip("fd00::1")}, "fd00::1 eth0 2 pinned"},
		{Query{Interface: "eth0", Listed: ip("10.0.0.7")}, "10.0.0.1 eth0 2 pinned"},
		{Query{Interface: "eth2", Listed: ip("fd01::f")}, "fd01::f eth2 4 pinned"},
		{Query{Interface: "eth2", Listed: ip("fd01::dad")}, "fd01::2 eth2 4 pinned"},
		{Query{Interface: "eth0", Listed: ip("10.1.0.1")}, "10.0.0.1 eth0 2 pinned"},
		{Query{CIDR: netip.MustParsePrefix("10.0.0.0/24"), Listed: ip("10.0.0.2")}, "10.0.0.2 eth0 2"},
		{Query{CIDR: netip.MustParsePrefix("fd01::/120"), Listed: ip("fd01::2")}, "fd01::2 eth2 4"},
		{Query{CIDR: netip.MustParsePrefix("10.0.0.0/24"), Listed: ip("10.0.0.3")}, "none is 10.0.0.3, which the list of members has"},
		{Query{CIDR: netip.MustParsePrefix("10.0.0.0/24"), Listed: ip("10.1.0.1")}, "none is 10.1.0.1, which the list of members has"},
		{Query{CIDR: netip.MustParsePrefix("10.1.0.0/16"), Listed: ip("10.1.0.7")}, "10.1.0.1 eth3 5"},

		{Query{}, "exactly one of"},
		{Query{Interface: "eth0", Address: ip("10.0.0.1")}, "exactly one of"},
		{Query{Interface: "eth9"}, `interface "eth9" does not exist; there are: dummy0, eth0, eth1, eth2, eth3, lo`},
		{Query{Interface: "eth1"}, `interface "eth1" has no usable address`},
		{Query{CIDR: netip.MustParsePrefix("10.9.0.0/16")}, "no local address is inside 10.9.0.0/16; local addresses are: 127.0.0.1 (lo)"},
		{Query{CIDR: netip.MustParsePrefix("10.0.0.0/8")}, "several local addresses are inside 10.0.0.0/8: 10.0.0.9 (eth0), 10.0.0.1 (eth0), 10.0.0.2 (eth0), 10.1.0.1 (eth3), 10.2.0.1 (dummy0), 10.3.0.1 (dummy0), 10.3.0.100 (dummy0)"},
		{Query{Address: ip("10.0.0.3")}, "address 10.0.0.3 is not local; local addresses are: "},
		{Query{Address: ip("fd01::dad")}, "address fd01::dad is not local"},
		{Query{Address: ip("fe80::1%eth1")}, "without a zone"},
		{Query{Address: ip("0.0.0.0")}, "one address of this node"},
	} {
		l, err := host().find(c.q)
		got := fmt.Sprint(l.Address, " ", l.Interface, " ", l.Index)
		if l.Internal {
			got += " internal"
		}
		if l.Pinned {
			got += " pinned"
		}
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.HasPrefix(got, c.want) && !strings.Contains(got, c.want)) {
			t.Errorf("%+v:\n got %s\nwant %s", c.q, got, c.want)
		}
	}
}

func TestFindOnAnEmptyHost(t *testing.T) {
	s := &snapshot{}
	for _, q := range []Query{{Interface: "lo"}, {CIDR: loopbackNet}, {Address: ip("10.0.0.1")}} {
		if _, err := s.find(q); err == nil {
			t.Errorf("%+v was found", q)
		}
	}
}

func TestErrorsStayReadable(t *testing.T) {
	s := &snapshot{links: map[int]link{1: {name: "kube-ipvs0", up: true}}}
	for i := range 2000 {
		s.addresses = append(s.addresses, address{ip: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), link: 1})
	}
	_, err := s.find(Query{Address: ip("10.0.0.1")})
	if err == nil || len(err.Error()) > 1000 || !strings.HasSuffix(err.Error(), "and 1984 more") {
		t.Errorf("error of %d bytes", len(err.Error()))
	}
}

func TestCarrier(t *testing.T) {
	pinned := Local{Address: ip("10.0.0.1"), Interface: "eth0", Index: 2, Pinned: true}
	free := Local{Address: ip("10.0.0.1"), Interface: "eth0", Index: 2}
	set := func(s *snapshot, index int, up bool) {
		l := s.links[index]
		l.up = up
		s.links[index] = l
	}
	also := func(s *snapshot, index int) {
		s.addresses = append(s.addresses, address{ip: ip("10.0.0.1"), link: index})
	}
	for _, c := range []struct {
		name   string
		local  Local
		change func(*snapshot)
		want   int
	}{
		{"untouched", pinned, func(*snapshot) {}, 2},
		{"link down", pinned, func(s *snapshot) { set(s, 2, false) }, 0},
		{"another link down", pinned, func(s *snapshot) { set(s, 5, false) }, 2},
		{"link gone", pinned, func(s *snapshot) { delete(s.links, 2) }, 0},
		{"link made again", pinned, func(s *snapshot) {
			s.links[9] = s.links[2]
			delete(s.links, 2)
			s.addresses[4].link = 9
		}, 9},
		{"address gone", pinned, func(s *snapshot) { s.addresses[4].ip = ip("10.0.0.77") }, 0},
		{"address tentative", pinned, func(s *snapshot) { s.addresses[4].tentative = true }, 0},
		{"address moved", pinned, func(s *snapshot) { s.addresses[4].link = 5 }, 0},
		{"address moved, not pinned", free, func(s *snapshot) { s.addresses[4].link = 5 }, 5},
		{"also on another link", free, func(s *snapshot) { also(s, 3) }, 2},
		{"also on another link, and down", free, func(s *snapshot) { also(s, 3); set(s, 2, false) }, 3},
		{"also on a link that is down", free, func(s *snapshot) { s.addresses[0].ip = ip("10.0.0.1"); set(s, 1, false) }, 2},
		{"127.0.0.11", Local{Address: ip("127.0.0.11")}, func(*snapshot) {}, 1},
		{"127.0.0.11 without lo", Local{Address: ip("127.0.0.11")}, func(s *snapshot) { set(s, 1, false) }, 0},
	} {
		s := host()
		c.change(s)
		if got := s.carrier(c.local); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// On the real kernel, with an interface that every machine has.
func TestFindLoopback(t *testing.T) {
	for _, q := range []Query{
		{Network: "mgmt", Interface: "lo"},
		{Network: "mgmt", CIDR: netip.MustParsePrefix("127.0.0.1/32")},
		{Network: "mgmt", Address: ip("127.0.0.1")},
	} {
		l, err := Find(q)
		want := Local{
			Network: "mgmt", Address: ip("127.0.0.1"), Interface: "lo", Index: 1, Internal: true, Pinned: q.Interface != "", query: q,
		}
		if err != nil || l != want {
			t.Errorf("%+v: %+v, %v", q, l, err)
		}
	}
	if l, err := Find(Query{Network: "mgmt", Address: ip("127.9.8.7")}); err != nil || l.Interface != "lo" {
		t.Errorf("127.9.8.7: %+v, %v", l, err)
	}
	_, err := Find(Query{Network: "mgmt", Interface: "no-such-card"})
	if err == nil || !strings.HasPrefix(err.Error(), "network mgmt: interface \"no-such-card\" does not exist; there are: ") {
		t.Errorf("error %v", err)
	}
}
