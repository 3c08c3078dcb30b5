package lab

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// In a large lab the kernel's table of hardware addresses would be too small without permanent entries.
func TestIntroducedNodesAskForNobody(t *testing.T) {
	needLab(t)
	n := newNetwork4(t)
	if err := n.introduceAll(); err != nil {
		t.Fatal(err)
	}
	n.expect("mgmt", everybody)
	n.expect("data", everybody)
	for _, node := range n.Nodes() {
		err := n.Links(node, func(h *netlink.Handle) error {
			known, err := h.NeighList(0, netlink.FAMILY_V4)
			permanent := 0
			for _, k := range known {
				if k.State == netlink.NUD_PERMANENT {
					permanent++
				}
			}
			if want := 2 * (len(n.Nodes()) - 1); permanent != want || len(known) != want {
				t.Errorf("%s knows %d neighbours, %d of them for good; want %d", node, len(known), permanent, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRefusedNeighboursAreCounted(t *testing.T) {
	for text, want := range map[string]uint64{
		"": 0,
		"entries  allocs  table_fulls\n0000004f 00011dbe 0000000f\n0000004f 0000c952 00000010\n": 31,
		"entries  table_fulls  allocs\n0000004f 00000003\n0000004f\n":                            3,
		"entries  allocs\n0000004f 00011dbe\n":                                                   0,
	} {
		if got := sumOf(strings.NewReader(text), "table_fulls"); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
