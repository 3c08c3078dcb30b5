package netns

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// twoWays has two nodes on two networks. The default route of each leads to the other node over network b. Network a
// has two pairs of members: one uses sockets that are bound to the interface of a, and the other uses memberlist's own
// transport.
type twoWays struct {
	*lab.Lab
	pinned, stock [2]*member
}

func newTwoWays(t *testing.T) *twoWays {
	t.Helper()
	need(t)
	l, err := lab.New(lab.Config{Nodes: []string{memberName(0), memberName(1)}, Networks: []string{"a", "b"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	w := &twoWays{Lab: l}
	for i := range 2 {
		// The thread has its own view of /proc/sys.
		err := l.Do(memberName(i), func() error {
			return os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("2"), 0)
		})
		if err != nil {
			t.Fatal(err)
		}
		err = l.Links(memberName(i), func(h *netlink.Handle) error {
			b, err := h.LinkByName("b")
			if err != nil {
				return err
			}
			return h.RouteAdd(&netlink.Route{
				LinkIndex: b.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)},
				Gw: l.Address(memberName(1-i), "b").AsSlice(),
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		c := memberConfig{Self: i, Network: "a", Addrs: []netip.Addr{l.Address(memberName(0), "a"), l.Address(memberName(1), "a")}}
		c.Port, c.Device = 7946, "a"
		w.pinned[i] = startMember(t, l, c)
		c.Port, c.Device = 7947, ""
		w.stock[i] = startMember(t, l, c)
	}
	for _, m := range []*member{w.pinned[0], w.pinned[1], w.stock[0], w.stock[1]} {
		awaitCondition(t, startLimit, "the members find each other", func() bool { s := m.state(); return s.alive && s.anchor > 0 })
	}
	return w
}

// setDown takes a node's interface on network a down.
func (w *twoWays) setDown(t *testing.T, node int) {
	t.Helper()
	err := w.Links(memberName(node), func(h *netlink.Handle) error {
		a, err := h.LinkByName("a")
		if err != nil {
			return err
		}
		return h.LinkSetDown(a)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func awaitCondition(t *testing.T, within time.Duration, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !cond(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// noticeLimit is the longest time for which a member may count a peer as alive after its network is lost.
const noticeLimit = 8 * time.Second

// gone waits until the two members with bound sockets have given each other up, and checks that they got no evidence
// after the cut.
func (w *twoWays) gone(t *testing.T, cut boottime.Instant) {
	t.Helper()
	for i, m := range w.pinned {
		awaitCondition(t, noticeLimit, memberName(i)+", pinned, gives its peer up", func() bool { return !m.state().alive })
		s := m.state()
		if s.anchor >= cut {
			t.Errorf("%s has evidence from %v after the cut", memberName(i), s.anchor.Sub(cut))
		}
		t.Logf("%s, pinned, gave its peer up %v after the cut", memberName(i), s.died.Sub(cut).Round(10*time.Millisecond))
	}
}

// TestDeadNetworkDoesNotLiveOnThroughAnother: when network a is down on both ends, sockets that are bound only to its
// addresses still communicate, over network b.
func TestDeadNetworkDoesNotLiveOnThroughAnother(t *testing.T) {
	t.Run("both ends", func(t *testing.T) {
		t.Parallel()
		w := newTwoWays(t)
		w.setDown(t, 0)
		w.setDown(t, 1)
		cut := boottime.Now()
		w.gone(t, cut)
		for i, m := range w.stock {
			awaitCondition(t, noticeLimit, memberName(i)+", not pinned, has evidence through the other network",
				func() bool { return m.state().anchor > cut.Add(noticeLimit/2) })
			if s := m.state(); !s.alive || s.deaths > 0 {
				t.Errorf("%s, not pinned, gave its peer up: there is no way around, and this test proves nothing", memberName(i))
			}
		}
		for i, m := range w.pinned {
			if s := m.state(); s.alive || s.anchor >= cut {
				t.Errorf("%s, pinned, has its peer back", memberName(i))
			}
		}
	})
	t.Run("one end", func(t *testing.T) {
		t.Parallel()
		w := newTwoWays(t)
		w.setDown(t, 0)
		cut := boottime.Now()
		w.gone(t, cut)
		awaitCondition(t, noticeLimit, "h2, not pinned, gives h1 up", func() bool { return !w.stock[1].state().alive })
		// The packets of h1 still arrive over the other network. How long it counts h2 as alive depends on memberlist's
		// timing; "both ends" proves that it can do so.
		s := w.stock[0].state()
		t.Logf("h1, not pinned, holds h2 alive then: %v", s.alive && s.deaths == 0)
	})
}

// TestDeviceMadeAnew: sockets stay bound to their interface, and a new interface with the same name is a different one.
func TestDeviceMadeAnew(t *testing.T) {
	need(t)
	c := newCluster(t, 2, 512, nil)
	c.startAll()
	began := time.Now()
	if err := c.Lab().RemoveInterface("n1", "data"); err != nil {
		t.Fatal(err)
	}
	c.await(2*c.budget().GetDMax().AsDuration(), "the network is gone", observe.Networks(false, []string{"data"}, c.nodes))
	if err := c.Lab().RestoreInterface("n1", "data"); err != nil {
		t.Fatal(err)
	}
	_, took := c.await(5*time.Second, "it works again", c.everybody())
	t.Logf("network works %v after its device is back", took.Round(10*time.Millisecond))
	c.hold(0, "nobody noticed", observe.Steady(began, c.nodes...), observe.Quiet(began, c.nodes...))
}

// TestOwnAddressChanges: the network counts as down, and the log says why.
func TestOwnAddressChanges(t *testing.T) {
	need(t)
	c := newCluster(t, 2, 512, nil)
	c.startAll()
	const line = "its address has changed from "
	replace := func(old, fresh string) {
		t.Helper()
		err := c.Lab().Links("n1", func(h *netlink.Handle) error {
			link, err := h.LinkByName("data")
			if err != nil {
				return err
			}
			a, err := netlink.ParseAddr(old)
			if err != nil {
				return err
			}
			b, err := netlink.ParseAddr(fresh)
			if err != nil {
				return err
			}
			if err := h.AddrDel(link, a); err != nil {
				return err
			}
			return h.AddrAdd(link, b)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	own := c.Lab().Address("n1", "data").String() + "/24"
	other := "10.77.2.77/24"
	replace(own, other)
	c.await(5*time.Second, "the network is down", func(v *observe.View) string {
		for _, n := range v.Status["n1"].GetNetworks() {
			if n.GetName() == "data" && n.GetUp() {
				return "n1's network data is up"
			}
		}
		return ""
	})
	told := func() int {
		text, err := os.ReadFile(c.Lab().LogPath("n1"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), line)
	}
	awaitCondition(t, 5*time.Second, "the log says why", func() bool { return told() > 0 })
	replace(other, own)
	c.await(10*time.Second, "it works again", c.everybody(), observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, c.nodes...))
	if n := told(); n != 1 {
		t.Error(fmt.Sprint("the change was logged ", n, " times"))
	}
}
