package sim

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// shortLived is a group whose watchdogs are short, so that deaths are proven soon.
func shortLived(n int, seed uint64) Config {
	cfg := DefaultConfig(n, seed)
	cfg.Watchdog, cfg.Feed = 6*time.Second, time.Second
	cfg.Timing.Expire = cfg.Timing.Grant + cfg.Feed + cfg.Margin
	return cfg
}

// answerTime is how long an original has to answer when a copy of it has been met.
const answerTime = 7 * time.Second

// proofTime bounds the time from a loss to the proof of the death.
func (c *Cluster) proofTime() time.Duration {
	return c.cfg.Timing.MaxAge + c.cfg.Budget().Horizon() + watchdog.ProofDelay + 2*c.cfg.Evidence
}

func (c *Cluster) proves(witness, victim int) func() bool {
	return func() bool { return c.nodes[witness].core.Deaths().Fenced().Has(victim) }
}

func TestMajorityProvesTheDeathOfTheRest(t *testing.T) {
	for _, n := range []int{3, 4, 5, 7} {
		c := started(t, shortLived(n, uint64(n)))
		c.Split([][]int{seq(0, n/2+1), seq(n/2+1, n)})
		for w := range n/2 + 1 {
			for v := n/2 + 1; v < n; v++ {
				mustRun(t, c, "the death is proven", c.proofTime(), c.proves(w, v))
			}
		}
		for v := n/2 + 1; v < n; v++ {
			if c.nodes[v].core.Deaths().Fenced().Len() > 0 {
				t.Errorf("n=%d: n%d, which was reset, proves deaths", n, v+1)
			}
		}
		noViolations(t, c)
	}
}

func TestGrantedHalfProvesTheDeathOfTheOther(t *testing.T) {
	for _, n := range []int{2, 4, 6} {
		c := started(t, shortLived(n, uint64(n)))
		c.Split([][]int{seq(0, n/2), seq(n/2, n)})
		mustRun(t, c, "one half feeds", 30*time.Second, func() bool { return len(c.Feeding()) == n/2 })
		won := c.Feeding()
		for v := range n {
			if v < won[0] || v > won[len(won)-1] {
				mustRun(t, c, "the death is proven", c.proofTime()+c.cfg.Timing.Arbitrate, c.proves(won[0], v))
			}
		}
		noViolations(t, c)
	}
}

// Guard: the term R of the budget. The agent of a starved node is killed right before its
// watchdog fires, and the kernel gives the node another timeout.
func TestStarvedAgentIsKilledAtTheLastMoment(t *testing.T) {
	c := started(t, shortLived(3, 8).withoutSentences())
	c.Split([][]int{{0, 1}, {2}})
	mustRun(t, c, "n3 starves", 20*time.Second, func() bool { return c.nodes[2].decision.Action == watchdog.Starve })
	victim := c.nodes[2]
	left := victim.lastFeed.Add(c.cfg.Watchdog).Sub(c.now)
	c.Run(left - time.Millisecond)
	c.Kill(2)
	died := boottime.Instant(0)
	c.at(c.cfg.Watchdog, func() { died = c.now })
	mustRun(t, c, "the death is proven", c.proofTime(), c.proves(0, 2))
	if died == 0 || c.now < died || victim.Resets != 1 {
		t.Errorf("proven at %v, died at %v, %d resets", c.now, died, victim.Resets)
	}
	noViolations(t, c)
}

// Guard: an isolated node does not obey its disable file, since the others count it dead.
func TestDisableFileDoesNotRescueAnIsolatedNode(t *testing.T) {
	c := started(t, shortLived(3, 9))
	c.Split([][]int{{0, 1}, {2}})
	c.Run(5 * time.Second)
	c.Disable(2, true)
	mustRun(t, c, "the death is proven", c.proofTime(), c.proves(0, 2))
	if c.nodes[2].Resets != 1 {
		t.Errorf("%d resets", c.nodes[2].Resets)
	}
	noViolations(t, c)
}

// Guard: a node in maintenance is never proven dead by time, however long it is away; a
// survivor that did not hear of the maintenance itself asks those who did.
func TestUnarmedNodeIsNotProvenDead(t *testing.T) {
	for seed := range uint64(5) {
		c := started(t, shortLived(5, seed))
		c.Split([][]int{{0}, {1, 2, 3, 4}}) // n1 does not hear of the maintenance
		c.Run(2 * time.Second)
		c.Disable(4, true)
		mustRun(t, c, "n5 is disarmed", 10*time.Second, func() bool { return !c.nodes[4].armed })
		c.Heal()
		c.Split([][]int{{0, 1, 2, 3}, {4}})
		c.Run(3 * c.proofTime())
		for w := range 4 {
			if c.proves(w, 4)() {
				t.Errorf("seed %d: n%d calls n5 dead, which runs unarmed", seed, w+1)
			}
		}
		noViolations(t, c)
	}
}

// A node that comes back is not fenced any more, and its earlier incarnation stays dead.
func TestProofIsWithdrawnWhenTheNodeIsBack(t *testing.T) {
	cfg := shortLived(3, 10)
	cfg.Reboot = time.Minute
	c := started(t, cfg)
	was := c.nodes[2].boot
	c.Split([][]int{{0, 1}, {2}})
	mustRun(t, c, "the death is proven", c.proofTime(), c.proves(0, 2))
	c.Heal()
	mustRun(t, c, "the node is back", 2*time.Minute, func() bool { return !c.proves(0, 2)() })
	mustRun(t, c, "its former boot has ended", answerTime, c.ended(0, 2, was))
	if d := c.nodes[0].core.Deaths().Of(2); d.Boot != was || d.Proof != watchdog.ProofBoot || !c.nodes[0].core.View().Seen.Has(2) {
		t.Errorf("%+v, boot was %x", d, was)
	}
	noViolations(t, c)
}

func seq(from, to int) []int {
	var s []int
	for i := from; i < to; i++ {
		s = append(s, i)
	}
	return s
}

// Guard: the horizon of a peer is the peer's own sum. A majority of nodes with short
// watchdogs waits for the one with the long one, even where that one's agent is killed right
// before it fires.
func TestDeathWaitsForTheVictimsOwnTimes(t *testing.T) {
	cfg := shortLived(3, 9)
	cfg.Odd = &Times{Timing: cfg.Timing, Feed: 5 * time.Second, Watchdog: 30 * time.Second}
	c := started(t, cfg)
	c.Split([][]int{{0, 2}, {1}})
	victim := c.nodes[1]
	mustRun(t, c, "n2 starves", 20*time.Second, func() bool { return victim.decision.Action == watchdog.Starve })
	c.Run(victim.lastFeed.Add(cfg.Odd.Watchdog).Sub(c.now) - time.Millisecond)
	c.Kill(1)
	mustRun(t, c, "the death is proven", c.longest()+watchdog.ProofDelay, c.proves(0, 1))
	if victim.Resets != 1 {
		t.Errorf("%d resets", victim.Resets)
	}
	noViolations(t, c)
}
