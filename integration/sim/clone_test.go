package sim

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// impersonate has another machine answer all others in the name of a node, as a copy of it does that
// took over its addresses. The original goes on with its LUN. It returns how to end that.
func (c *Cluster) impersonate(i int, st netgossip.Statement) (end func()) {
	for p := range c.nodes {
		c.Split([][]int{{i}, {p}})
	}
	r := c.nodes[i].roster
	st.RosterEpoch, st.RosterDigest, st.Seen = r.Epoch, r.Digest, roster.FullSet(r.Size())
	answers := true
	var answer func()
	answer = func() {
		if !answers {
			return
		}
		for p, n := range c.nodes {
			if p != i && n.up {
				for k := range c.cfg.Networks {
					n.core.Merger().Answered(netgossip.Answer{Network: k, Peer: i, SentAt: c.now, Statement: &st})
				}
				c.wakeNode(n, 0)
			}
		}
		c.at(200*time.Millisecond, answer)
	}
	answer()
	return func() { answers = false }
}

func (c *Cluster) ended(witness, victim int, boot uint64) func() bool {
	return func() bool {
		d := c.nodes[witness].core.Deaths().Of(victim)
		return d.Proof == watchdog.ProofBoot && d.Boot == boot
	}
}

// Guard: a copy of a machine answers with another boot while the original still writes its slot.
// That proves nothing before the original is gone, and raises the alarm.
func TestCopyOfAMachineDoesNotEndTheOriginal(t *testing.T) {
	for _, n := range []int{3, 4} {
		c := started(t, shortLived(n, 3))
		was, alarm := c.nodes[1].boot, false
		c.impersonate(1, netgossip.Statement{Boot: 99})
		for c.nodes[1].Resets == 0 {
			c.Run(100 * time.Millisecond)
			alarm = alarm || c.nodes[0].core.Deaths().Strangers().Has(1)
			noViolations(t, c)
		}
		if !alarm {
			t.Errorf("n=%d: two machines ran and nobody said so", n)
		}
		mustRun(t, c, "the original has ended, its slot stands still", 15*time.Second, c.ended(0, 1, was))
		noViolations(t, c)
	}
}

// A node that is back is known to have ended as it was, whatever node has lost the LUN.
func TestReturnIsProvenWithoutTheLUN(t *testing.T) {
	for _, tc := range []struct {
		name  string
		who   []int
		after time.Duration // the node is back; 0: from before its loss
	}{{"the node that is back", []int{1}, 0}, {"the witness", []int{0}, 0}, {"the witness, while it looks", []int{0}, 2 * time.Second}, {"nobody", nil, 0}} {
		cfg := shortLived(3, 4)
		cfg.Reboot = 5 * time.Second
		c := started(t, cfg)
		was := c.nodes[1].boot
		c.Split([][]int{{1}, {0, 2}})
		lose := func() {
			for _, i := range tc.who {
				c.LUNFaults(i, &Faults{Down: true})
			}
		}
		if tc.after == 0 {
			c.at(5*time.Second, lose)
		}
		mustRun(t, c, "n2 is reset", time.Minute, func() bool { return c.nodes[1].Resets == 1 })
		c.Heal()
		mustRun(t, c, tc.name+": n2 is back", 20*time.Second, func() bool { return c.nodes[0].core.View().Seen.Has(1) })
		if tc.after > 0 {
			c.at(tc.after, lose)
		}
		took := mustRun(t, c, tc.name+": its end is proven", answerTime+3*time.Second, c.ended(0, 1, was))
		t.Logf("%s: %v after its return", tc.name, took)
		noViolations(t, c)
	}
}
