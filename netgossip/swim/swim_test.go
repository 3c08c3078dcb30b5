package swim_test

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

func TestNodesFindEachOther(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5} {
		t.Run(fmt.Sprintf("N=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, n, nil)
				c.awaitComplete(5 * time.Second)
				for _, nd := range c.nodes {
					if h := nd.metric(t, "fencing_agent_network_health_score", "network", "mgmt"); h != 0 {
						t.Errorf("node %d has health score %v", nd.index, h)
					}
				}
			})
		})
	}
}

// Evidence is refreshed each interval, dated by the probe's start, and carries the
// statement that the peer made after that.
func TestEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.awaitComplete(5 * time.Second)
		n1, n2 := c.nodes[0], c.nodes[1]
		interval := n1.cfg.Params.EvidenceInterval
		for counter := uint32(2); counter < 30; counter++ {
			n2.say(counter)
			said := clock()
			<-time.After(interval + interval/8)
			s, anchor := n1.sink.latest(n2.index), n1.sink.anchor(n2.index)
			if *s != *n2.statement.Load() {
				t.Fatalf("after an interval n1 has %+v", s)
			}
			if age := clock().Sub(anchor); age > interval+interval/8 {
				t.Fatalf("evidence is %v old", age)
			}
			n1.sink.view(func() {
				for _, a := range n1.sink.answers[n2.index] {
					if a.Statement.Token.Counter == counter && a.SentAt.Before(said.Add(-2*time.Millisecond)) {
						t.Fatalf("a statement of %v is dated %v", said, a.SentAt)
					}
				}
			})
		}
	})
}

func TestAnchorIsBeforeTheSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 2, nil)
		c.awaitComplete(5 * time.Second)
		const oneWay = 50 * time.Millisecond
		c.net.SetAll(netgossiptest.Link{Delay: oneWay})
		from := clock().Add(time.Second)
		n1, n2 := c.nodes[0], c.nodes[1]
		for n1.sink.anchor(n2.index) <= from {
			last := len(n1.sink.answers[n2.index])
			c.await(5*time.Second, "another answer", func() bool {
				arrived := false
				n1.sink.view(func() { arrived = len(n1.sink.answers[n2.index]) > last })
				return arrived
			})
		}
		// The poll saw the answer within a millisecond of its arrival.
		if age := clock().Sub(n1.sink.anchor(n2.index)); age < 2*oneWay || age > 2*oneWay+2*time.Millisecond {
			t.Errorf("an answer that took %v is dated %v back", 2*oneWay, age)
		}
	})
}

func TestNudgeReachesEverybodyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 5, nil)
		c.awaitComplete(5 * time.Second)
		for counter := uint32(2); counter < 12; counter++ {
			<-time.After(733 * time.Millisecond)
			c.nodes[0].say(counter)
			c.nodes[0].Nudge()
			// The bound is urgeInterval and a few one-way delays of at most 0.5 ms.
			c.await(60*time.Millisecond, "the new statement is everywhere", func() bool {
				for _, nd := range c.nodes[1:] {
					if nd.sink.latest(0).Token.Counter != counter {
						return false
					}
				}
				return true
			})
		}
	})
}

func TestNudgesAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 4, nil)
		c.awaitComplete(5 * time.Second)
		before := c.nodes[0].Stats().Probes
		for range 1000 {
			c.nodes[0].Nudge()
			<-time.After(time.Millisecond)
		}
		// One second holds 20 rounds of 3 peers; the usual probes are among them.
		if sent := c.nodes[0].Stats().Probes - before; sent > 21*3 || sent < 15*3 {
			t.Errorf("1000 nudges in a second made %d probes", sent)
		}
	})
}

func TestOneWayCutIsNoEvidence(t *testing.T) {
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprintf("N=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, n, nil)
				c.awaitComplete(5 * time.Second)
				n1, n2 := c.nodes[0], c.nodes[1]
				c.net.Cut(n1.addr, n2.addr)
				cut := clock()
				<-time.After(time.Second)
				heard1, heard2 := n1.sink.countHeard(1), n2.sink.countHeard(0)
				<-time.After(time.Minute)
				if at := n1.sink.anchor(1); at > cut {
					t.Errorf("n1 has evidence of n2 from %v after the cut", at.Sub(cut))
				}
				if at := n2.sink.anchor(0); at > cut {
					t.Errorf("n2 has evidence of n1 from %v after the cut", at.Sub(cut))
				}
				if n1.sink.countHeard(1) == heard1 {
					t.Error("n1 does not hear n2, although that direction is open")
				}
				n1.sink.view(func() { // and dates what it hears by when it was sent
					if late := clock().Sub(n1.sink.lastHeard[1]); late > 3*time.Second {
						t.Errorf("n1 last heard n2 %v ago", late)
					}
				})
				if n2.sink.countHeard(0) != heard2 {
					t.Error("n2 hears n1 through the cut")
				}
				if n > 2 && n1.sink.anchor(2) <= cut {
					t.Error("the cut hurt evidence of a third node")
				}
				c.net.Heal()
				c.awaitComplete(2 * n1.cfg.Params.EvidenceInterval)
			})
		})
	}
}

// With every tenth packet lost no evidence may get as old as EvidenceMaxAge. Without repeated probes that would happen
// every few seconds.
func TestLossDoesNotStarveEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 4, nil)
		c.awaitComplete(5 * time.Second)
		c.net.SetAll(netgossiptest.Link{Loss: 0.1})
		for range 120 {
			<-time.After(time.Second)
			for _, a := range c.nodes {
				for _, b := range c.nodes {
					if a == b {
						continue
					}
					if age := clock().Sub(a.sink.anchor(b.index)); age >= a.cfg.Params.EvidenceMaxAge {
						t.Fatalf("evidence of node %d at node %d is %v old", b.index, a.index, age)
					}
				}
			}
		}
	})
}

// On a network slower than EvidenceTimeout every probe is repeated before its answer can
// come; the late answers must still count.
func TestSlowNetworkGivesEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 2, nil)
		c.awaitComplete(5 * time.Second)
		c.net.SetAll(netgossiptest.Link{Delay: 700 * time.Millisecond})
		<-time.After(10 * time.Second)
		before := c.nodes[0].Stats()
		<-time.After(20 * time.Second)
		after := c.nodes[0].Stats()
		if age := clock().Sub(c.nodes[0].sink.anchor(1)); age >= c.nodes[0].cfg.Params.EvidenceMaxAge {
			t.Errorf("evidence is %v old", age)
		}
		if probes := after.Probes - before.Probes; probes > 6*20 {
			t.Errorf("%d probes in 20 s", probes)
		}
	})
}

func TestSilentPeerIsProbedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		n1 := c.nodes[0]
		n1.start(t)
		p := n1.cfg.Params
		<-time.After(p.EvidenceMaxAge)
		// The first probe goes out at a random moment of the first interval.
		if got, least := n1.Stats().Probes, uint64((p.EvidenceMaxAge-p.EvidenceInterval)/(p.EvidenceTimeout*13/10)); got < least {
			t.Errorf("%d probes before the peer counts as silent, want %d", got, least)
		}
		<-time.After(2 * p.EvidenceInterval)
		before := n1.Stats().Probes
		<-time.After(60 * p.EvidenceInterval)
		if got := n1.Stats().Probes - before; got < 55 || got > 65 {
			t.Errorf("%d probes in 60 intervals of silence", got)
		}
		c.nodes[1].start(t)
		c.awaitComplete(2 * p.EvidenceInterval)
	})
}

// A peer that was silent is probed as soon as it is heard again, not when its turn comes.
func TestReturnOfASilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 2, func(cfg *swim.Config) {
			cfg.Params.EvidenceInterval, cfg.Params.EvidenceMaxAge = 100*time.Second, 200*time.Second
		})
		c.awaitComplete(200 * time.Second)
		c.net.CutBoth(memory(0), memory(1))
		<-time.After(500 * time.Second)
		for _, nd := range c.nodes {
			nd.sink.view(func() { nd.sink.heard = map[int]int{} })
		}
		c.net.Heal()
		healed := clock()
		c.await(110*time.Second, "one hears the other", func() bool {
			return c.nodes[0].sink.countHeard(1)+c.nodes[1].sink.countHeard(0) > 0
		})
		c.await(60*time.Millisecond, "both have evidence", func() bool {
			return c.nodes[0].sink.anchor(1) > healed && c.nodes[1].sink.anchor(0) > healed
		})
	})
}

func TestNoStatementNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		n1, n2 := c.nodes[0], c.nodes[1]
		n2.statement.Store(nil)
		n1.start(t)
		n2.start(t)
		<-time.After(10 * time.Second)
		if n1.sink.anchor(1) != 0 {
			t.Error("n1 has evidence of a node that has said nothing")
		}
		if n2.sink.anchor(0) == 0 {
			t.Error("a node without a statement cannot probe")
		}
		if got := n1.refused(t, "malformed"); got != 0 {
			t.Errorf("%v answers without a statement were sent", got)
		}
		n2.say(1)
		c.awaitComplete(2 * time.Second)
	})
}

func TestDeathIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		leave  bool
		within time.Duration
	}{
		"crash": {false, 6 * time.Second},
		"leave": {true, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := startCluster(t, 4, nil)
				cl.awaitComplete(5 * time.Second)
				cl.nodes[3].stop(t, c.leave)
				cl.await(c.within, "the others report the death", func() bool {
					for _, nd := range cl.nodes[:3] {
						if nd.sink.isAlive(3) {
							return false
						}
					}
					return true
				})
				for _, nd := range cl.nodes[:3] {
					nd.sink.view(func() {
						if got := fmt.Sprint(nd.sink.changes[len(nd.sink.changes)-1]); got != "3 false" {
							t.Errorf("the last change is %q", got)
						}
					})
				}
			})
		})
	}
}

// A false accusation voids evidence on the nodes that accept it, so the accused peer is probed at once and not only
// when its turn comes.
func TestDeathIsVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(c *swim.Config) { c.Params.EvidenceInterval, c.Params.EvidenceMaxAge = 20*time.Second, time.Minute }
		c := startCluster(t, 3, slow)
		c.awaitComplete(25 * time.Second)
		n1 := c.nodes[0]
		<-time.After(time.Millisecond)
		before := clock()        // it may answer once more while it leaves
		c.nodes[2].stop(t, true) // to n1 it is dead; then it answers again, under the same name
		c.await(time.Second, "n3 has left", func() bool { return !n1.sink.isAlive(2) })
		c.nodes[2].restart(t)
		c.await(5*time.Second, "evidence younger than the death", func() bool { return n1.sink.anchor(2) > before })
	})
}

// memberlist forgets its dead after GossipToTheDeadTime and never finds them again.
func TestLongPartitionHeals(t *testing.T) {
	for name, mute := range map[string]bool{"answers lead the way": false, "rounds alone": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, 5, func(cfg *swim.Config) {
					if !mute {
						cfg.Params.RejoinInterval = 10 * time.Minute // rounds would come too late
					}
				})
				c.awaitComplete(5 * time.Second)
				left := []netip.Addr{memory(0), memory(1)}
				right := []netip.Addr{memory(2), memory(3), memory(4)}
				c.net.Partition(left, right)
				<-time.After(10 * c.nodes[0].cfg.Params.GossipToTheDeadTime)
				if a, b := c.nodes[0].Stats().Members, c.nodes[2].Stats().Members; a != 2 || b != 3 {
					t.Fatalf("the parts have %d and %d members", a, b)
				}
				within := 3 * time.Second
				if mute { // no node answers probes, so no node notices the end of the partition
					for _, nd := range c.nodes {
						nd.statement.Store(nil)
					}
					within = 20 * time.Second
				}
				c.net.Heal()
				c.await(within, "memberlist lists everybody again", func() bool {
					for _, nd := range c.nodes {
						if nd.Stats().Members != 5 {
							return false
						}
					}
					return true
				})
				for _, nd := range c.nodes {
					nd.say(2)
				}
				c.awaitComplete(3 * time.Second)
			})
		})
	}
}

func TestRestartOfAName(t *testing.T) {
	for name, away := range map[string]time.Duration{
		"unnoticed": 300 * time.Millisecond,
		"dead":      10 * time.Second,
		"forgotten": 3 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, 4, nil)
				c.awaitComplete(5 * time.Second)
				deaths := func() (n int) {
					for _, nd := range c.nodes[:3] {
						nd.sink.view(func() {
							for _, change := range nd.sink.changes {
								if change == "3 false" {
									n++
								}
							}
						})
					}
					return n
				}
				n4 := c.nodes[3]
				n4.stop(t, false)
				<-time.After(away)
				n4.restart(t)
				n4.say(2)
				c.awaitComplete(5 * time.Second)
				<-time.After(20 * time.Second)
				want := 3
				if name == "unnoticed" {
					want = 0
				}
				if got := deaths(); got != want {
					t.Errorf("%d nodes reported a death, want %d", got, want)
				}
				if got := c.nodes[0].sink.latest(3).Token.Counter; got != 2 {
					t.Errorf("the statement is that of the old instance: %d", got)
				}
			})
		})
	}
}
