package nodelist

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

var (
	mgmt  = Network{Name: "mgmt", CIDR: netip.MustParsePrefix("10.0.0.0/16"), Port: 7946}
	data  = Network{Name: "data", CIDR: netip.MustParsePrefix("10.1.0.0/16"), Port: 7946}
	eth   = Network{Name: "eth", Port: 7946}
	other = Network{Name: "other", Port: 7947}
)

func node(name string, internal ...string) Node {
	n := Node{Name: name, Annotations: map[string]string{}}
	for _, a := range internal {
		n.Internal = append(n.Internal, netip.MustParseAddr(a))
	}
	return n
}

func says(n Node, network, address string) Node {
	all := map[string]string{AddressAnnotation + network: address}
	maps.Copy(all, n.Annotations)
	all[AddressAnnotation+network] = address
	n.Annotations = all
	return n
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		name     string
		node     Node
		networks []Network
		want     string // of the map, or the error's part
	}{
		{"internal address", node("n", "10.0.0.1"), []Network{eth}, "map[eth:10.0.0.1]"},
		{"first internal address", node("n", "10.0.0.1", "fd00::1"), []Network{eth}, "map[eth:10.0.0.1]"},
		{"the cidr chooses", node("n", "192.168.0.1", "10.1.0.1", "10.0.0.1"), []Network{mgmt, data}, "map[data:10.1.0.1 mgmt:10.0.0.1]"},
		{"annotation first", says(node("n", "10.0.0.1"), "mgmt", "10.0.9.9"), []Network{mgmt}, "map[mgmt:10.0.9.9]"},
		{"annotation of another network", says(node("n", "10.0.0.1"), "data", "10.1.0.1"), []Network{mgmt, data}, "map[data:10.1.0.1 mgmt:10.0.0.1]"},
		{"same address, other port", node("n", "10.0.0.1"), []Network{eth, other}, "map[eth:10.0.0.1 other:10.0.0.1]"},
		{"mapped", says(node("n"), "mgmt", "::ffff:10.0.0.1"), []Network{mgmt}, "map[mgmt:10.0.0.1]"},
		{"outside of the cidr", node("n", "192.168.0.1"), []Network{mgmt}, "node n has no internal address in 10.0.0.0/16 for network mgmt: its agent has to write the annotation fencing-agent.io/address.mgmt"},
		{"none", node("n"), []Network{eth}, "node n has no internal address for network eth"},
		{"two networks, one address", node("n", "10.0.0.1"), []Network{mgmt, eth}, "its agent has not yet written"},
		{"nonsense", says(node("n", "10.0.0.1"), "mgmt", "eth0"), []Network{mgmt}, `annotation fencing-agent.io/address.mgmt is "eth0": one IP address is needed`},
		{"zone", says(node("n", "10.0.0.1"), "mgmt", "fe80::1%eth0"), []Network{mgmt}, "one IP address is needed"},
		{"unspecified", says(node("n", "10.0.0.1"), "mgmt", "0.0.0.0"), []Network{mgmt}, "one IP address is needed"},
		{"empty", says(node("n", "10.0.0.1"), "mgmt", ""), []Network{mgmt}, "one IP address is needed"},
	} {
		got, err := Addresses(&c.node, c.networks)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) || err == nil && text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

// Guard: the annotations that a node writes make all nodes find its addresses, and it writes no more than needed.
func TestMissingAnnotationsMakeTheAddressesRight(t *testing.T) {
	for _, c := range []struct {
		name     string
		node     Node
		networks []Network
		found    map[string]string
		want     int
	}{
		{"nothing to say", node("n", "10.0.0.1"), []Network{mgmt}, map[string]string{"mgmt": "10.0.0.1"}, 0},
		{"another network", node("n", "10.0.0.1"), []Network{mgmt, data}, map[string]string{"mgmt": "10.0.0.1", "data": "10.1.0.1"}, 2},
		{"two interfaces", node("n", "10.0.0.1"), []Network{eth, {Name: "eth1", Port: 7946}}, map[string]string{"eth": "10.0.0.1", "eth1": "10.1.0.1"}, 2},
		{"second internal address", node("n", "10.0.0.1", "10.0.0.2"), []Network{mgmt}, map[string]string{"mgmt": "10.0.0.2"}, 1},
		{"moved", says(node("n", "10.0.0.1"), "mgmt", "10.0.0.7"), []Network{mgmt}, map[string]string{"mgmt": "10.0.0.2"}, 1},
	} {
		found := map[string]netip.Addr{}
		for k, v := range c.found {
			found[k] = netip.MustParseAddr(v)
		}
		n := c.node
		write := Missing(&n, c.networks, found)
		if len(write) != c.want {
			t.Errorf("%s: writes %v, want %d", c.name, write, c.want)
		}
		n.Annotations = maps.Clone(n.Annotations)
		maps.Copy(n.Annotations, write)
		if got, err := Addresses(&n, c.networks); err != nil || !maps.Equal(got, c.found) {
			t.Errorf("%s: then %v %v", c.name, got, err)
		}
		if more := Missing(&n, c.networks, found); len(more) != 0 {
			t.Errorf("%s: then writes %v as well", c.name, more)
		}
	}
	stale := says(node("n", "10.0.0.1"), "mgmt", "10.0.0.7")
	if w := Missing(&stale, []Network{mgmt}, map[string]netip.Addr{"mgmt": netip.MustParseAddr("10.0.0.1")}); w[AddressAnnotation+"mgmt"] != "10.0.0.1" {
		t.Errorf("an outdated annotation is not corrected: %v", w)
	}
}

func member(name, address string) roster.Member {
	return roster.Member{Name: name, Addresses: map[string]string{"mgmt": address}}
}

func names(ms []roster.Member) string {
	var out []string
	for _, m := range ms {
		out = append(out, m.Name+"="+m.Addresses["mgmt"])
	}
	return strings.Join(out, " ")
}

// Guards: a first list leaves no node out; a later one does not wait for a node that was never there.
func TestMembers(t *testing.T) {
	nets := []Network{mgmt}
	nodes := []Node{node("n2", "10.0.0.2"), node("n1", "10.0.0.1"), node("n3")}
	if ms, _, err := Members(nodes, nets, nil); err == nil {
		t.Errorf("first list %s without n3's address", names(ms))
	}
	present := []roster.Member{member("n1", "10.0.0.1"), member("n2", "10.0.0.2")}
	ms, notes, err := Members(nodes, nets, present)
	if err != nil || names(ms) != "n1=10.0.0.1 n2=10.0.0.2" || len(notes) != 1 {
		t.Errorf("%s %v %v", names(ms), notes, err)
	}
	ms, notes, err = Members(nodes, nets, append(present, member("n3", "10.0.0.9")))
	if err != nil || names(ms) != "n1=10.0.0.1 n2=10.0.0.2 n3=10.0.0.9" || len(notes) != 1 {
		t.Errorf("a member without an address: %s %v %v", names(ms), notes, err)
	}
	for _, bad := range [][]Node{
		{node("n1", "10.0.0.1"), node("n2", "10.0.0.1")},
		{node("n1", "10.0.0.1"), says(node("n2"), "mgmt", "fd00::1")},
	} {
		if ms, _, err := Members(bad, nets, nil); err == nil {
			t.Errorf("%s is taken for a list", names(ms))
		}
	}
}

func TestJudge(t *testing.T) {
	list := func(from, to int) []roster.Member {
		var ms []roster.Member
		for i := from; i < to; i++ {
			ms = append(ms, member(fmt.Sprintf("n%d", i), fmt.Sprintf("10.0.0.%d", i)))
		}
		return ms
	}
	for _, c := range []struct {
		name           string
		present, shown []roster.Member
		want           string // "", again, confirm, never
	}{
		{"same", list(1, 4), list(1, 4), ""},
		{"grows", list(1, 4), list(1, 9), ""},
		{"first", nil, list(1, 2), ""},
		{"one goes", list(1, 6), list(1, 5), "again"},
		{"one is replaced", list(1, 4), list(2, 5), "again"},
		{"half goes", list(1, 5), list(1, 3), "again"},
		{"one of two goes", list(1, 3), list(1, 2), "again"},
		{"more than half", list(1, 6), list(1, 3), "confirm"},
		{"all others", list(1, 4), list(7, 10), "confirm"},
		{"empty", list(1, 4), nil, "never"},
		{"empty at first", nil, nil, "never"},
	} {
		q := Judge(c.present, c.shown, nil)
		got := ""
		switch {
		case q == nil:
		case q.Again:
			got = "again"
		case q.Digest != "":
			got = "confirm"
		default:
			got = "never"
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if got == "confirm" && (Judge(c.present, c.shown, []string{q.Digest}) != nil || Judge(c.present, c.shown, []string{Digest(list(1, 3)[1:])}) == nil) {
			t.Errorf("%s: the confirmation of this list, and of no other, must do", c.name)
		}
		if got == "never" && Judge(c.present, c.shown, []string{""}) == nil {
			t.Errorf("%s: confirmed by nothing", c.name)
		}
	}
	if q := Judge(list(1, 21), list(1, 2), nil); len(q.Text) > 200 || !slices.Contains(q.Gone, "n20") {
		t.Errorf("%q", q.Text)
	}
}

// No answer of the API server makes the code panic, and netgossip accepts each resulting list.
func FuzzMembers(f *testing.F) {
	f.Add("10.0.0.1", "fd00::1", "n1", "n1")
	f.Add("", "%", "a", "b")
	f.Fuzz(func(t *testing.T, one, two, first, second string) {
		nodes := []Node{says(Node{Name: first}, "mgmt", one), says(Node{Name: second}, "mgmt", two)}
		ms, _, err := Members(nodes, []Network{mgmt}, nil)
		if err != nil {
			return
		}
		for _, m := range ms {
			if _, err := netip.ParseAddr(m.Addresses["mgmt"]); err != nil {
				t.Errorf("%v", ms)
			}
		}
		_, rosterErr := roster.Of(0, ms, first)
		if (rosterErr != nil) != (first == second) {
			t.Errorf("%v: %v", ms, rosterErr)
		}
	})
}
