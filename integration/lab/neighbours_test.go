package lab

import (
	"testing"

	"github.com/vishvananda/netlink"
)

// In a large lab the kernel's table of hardware addresses would be too small.
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
