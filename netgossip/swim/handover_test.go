package swim_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// longList returns a list of n members on two networks.
func longList(t *testing.T, n int) *roster.Roster {
	t.Helper()
	members := make([]roster.Member, n)
	for i := range members {
		members[i] = roster.Member{Name: fmt.Sprintf("node-%04d.example", i), Addresses: map[string]string{
			"mgmt": memory(i).String(), "data": fmt.Sprintf("fd00::%x", i+1),
		}}
	}
	r, err := roster.Of(7, members, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fetching returns a cluster whose nodes all hand over a list, and records the lists that they receive.
func fetching(t *testing.T, n int, gives func(roster.Ref) *roster.Roster) (c *cluster, got *atomic.Pointer[roster.Roster]) {
	got = &atomic.Pointer[roster.Roster]{}
	c = startCluster(t, n, func(cfg *swim.Config) {
		cfg.HandsOver = gives
		cfg.Handed = func(r *roster.Roster) { got.Store(r) }
	})
	c.awaitComplete(5 * time.Second)
	return c, got
}

// A list of 1000 members is fetched within seconds, even if packets are lost.
func TestListIsFetchedFromAPeer(t *testing.T) {
	for _, size := range []int{1, 3, roster.MaxNodes} {
		for _, loss := range []float64{0, 0.1} {
			t.Run(fmt.Sprint(size, loss), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					list := longList(t, size)
					c, got := fetching(t, 3, func(ref roster.Ref) *roster.Roster {
						if ref != list.Ref() {
							return nil
						}
						return list
					})
					c.net.SetAll(netgossiptest.Link{Delay: 100 * time.Microsecond, Loss: loss})
					before, from := c.nodes[0].Stats(), time.Now()
					c.nodes[0].Fetch("n002", list.Ref())
					c.await(90*time.Second, "the list", func() bool { return got.Load() != nil })
					if r := got.Load(); r.Ref() != list.Ref() || r.Size() != size {
						t.Errorf("got %v of %d members, want %v of %d", r.Ref(), r.Size(), list.Ref(), size)
					}
					after := c.nodes[0].Stats()
					t.Logf("%d members, %v of packets lost: %v, %d bytes came in", size, loss, time.Since(from).Round(time.Millisecond), after.BytesIn-before.BytesIn)
				})
			})
		}
	}
}

// Guard: a fetched list counts only if it is the announced one.
func TestTextWithAnotherDigestDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := longList(t, 3)
		c, got := fetching(t, 2, func(roster.Ref) *roster.Roster { return list })
		announced := roster.Ref{Epoch: list.Epoch, Digest: list.Digest + 1}
		c.nodes[0].Fetch("n002", announced)
		c.await(5*time.Second, "the text is refused", func() bool { return c.nodes[0].refused(t, "malformed") > 0 })
		if got.Load() != nil {
			t.Error("another list was handed over under the announced digest")
		}
	})
}

// A peer that hands nothing over, for instance of an earlier version, costs only the attempt.
func TestPeerThatGivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := longList(t, 40)
		var gives atomic.Pointer[roster.Roster]
		c, got := fetching(t, 3, func(roster.Ref) *roster.Roster { return gives.Load() })
		n := c.nodes[0]
		n.Fetch("n002", list.Ref())
		from := clock()
		c.await(10*time.Second, "more evidence of the peer", func() bool { return n.sink.anchor(1) > from.Add(3*time.Second) })
		if got.Load() != nil || n.refused(t, "malformed") > 0 {
			t.Error("it gave something")
		}
		gives.Store(list)
		n.Fetch("n003", list.Ref())
		n.Fetch("nobody", list.Ref())
		c.await(5*time.Second, "the list of another peer", func() bool { return got.Load() != nil })
	})
}
