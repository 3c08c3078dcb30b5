package sim

import (
	"math/rand/v2"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Kill ends the agent of a node without notice. An armed watchdog starts its countdown from the beginning, because the
// kernel closes the descriptor.
func (c *Cluster) Kill(i int) {
	n := c.nodes[i]
	if !n.up {
		return
	}
	c.end(n)
	c.trace("%s is killed", n.Name)
	c.closeWatchdog(n)
}

// closeWatchdog closes the watchdog of a killed process, at once or after the process has hung in the kernel for a
// while. An armed watchdog then starts its countdown from the beginning.
func (c *Cluster) closeWatchdog(n *Node) {
	if n.timeout > netgossip.MaxSentence {
		n.judged, n.obeyed = false, false // it was decided only in memory, and nothing was sent
	}
	boot, shut := n.boot, func() {
		n.dying = false
		if n.armed {
			n.lastFeed = c.now
			c.watchFire(n)
		}
	}
	if !c.cfg.Lingers || !n.armed || c.rng.IntN(2) == 0 {
		shut()
		return
	}
	n.dying = true
	c.at(time.Duration(c.rng.Int64N(int64(2*time.Second))), func() {
		if n.boot == boot && n.dying {
			shut()
		}
	})
}

// lateness returns the time by which the driver ends a short countdown late.
func (c *Cluster) lateness(n *Node) time.Duration {
	if n.timeout > netgossip.MaxSentence {
		return 0
	}
	return time.Duration(c.rng.Int64N(int64(499 * time.Millisecond)))
}

// lookAtKernel is the first step of an agent (P2').
func (c *Cluster) lookAtKernel(n *Node) {
	short := n.armed && n.timeout <= netgossip.MaxSentence
	switch {
	case c.times(n).Watchdog <= netgossip.MaxSentence || c.cfg.Blind > 0 && c.rng.Float64() < c.cfg.Blind:
		n.core.Blind()
		c.waitForEnd(n)
	case short:
		c.trace("%s: this boot is condemned, as the kernel shows", n.Name)
		n.core.Inherit(c.now, n.timeout)
		n.judged = true
	}
}

// waitForEnd tells an agent when its predecessor is gone.
func (c *Cluster) waitForEnd(n *Node) {
	c.during(n, 100*time.Millisecond, func() {
		if n.dying {
			c.waitForEnd(n)
			return
		}
		n.core.PredecessorGone(c.now)
	})
}

// checkSentence carries out what a node decides about itself, and checks it against the truth: another node must still
// be alive.
func (c *Cluster) checkSentence(n *Node, fx *watchdog.Effects) {
	if fx.Condemn == 0 {
		return
	}
	if a := fx.Decision.Action; a != watchdog.Starve || fx.Arm || fx.Disarm {
		c.check.add("%v: %s is condemned, and is to %v", c.Now(), n.Name, a)
	}
	if n.judged {
		return
	}
	n.judged = true
	c.check.Sentences++
	c.trace("%s condemns itself", n.Name)
	c.checkOrder(n)
	latest := boottime.Instant(0)
	for _, m := range c.nodes {
		if m != n && !m.judged {
			latest = max(latest, m.lived)
		}
	}
	if bound := c.overlap(0); c.now.Sub(latest) > bound {
		c.check.add("%v: %s condemns itself, and nobody has lived for %v", c.Now(), n.Name, c.now.Sub(latest))
	}
	// The feeder sets the timeout, and then reads it back. It can be killed before, between and after these steps.
	c.during(n, c.moment(), func() {
		if !n.open {
			n.core.Sentenced(0)
			return
		}
		if !c.cfg.Refuses {
			n.timeout, n.lastFeed = fx.Condemn.Round(time.Second), c.now
			c.watchFire(n)
		}
		c.during(n, c.moment(), func() {
			c.trace("%s has a timeout of %v", n.Name, n.timeout)
			n.core.Sentenced(n.timeout)
			c.wakeNode(n, 0)
		})
	})
}

func (c *Cluster) moment() time.Duration {
	return time.Duration(c.rng.Int64N(int64(50 * time.Millisecond)))
}

// harm records an action on the watchdog of a condemned boot that is never allowed.
func (c *Cluster) harm(n *Node, does string) {
	if n.judged {
		c.check.add("%v: %s is condemned, and %s its watchdog", c.Now(), n.Name, does)
	}
}

// Sentences counts how many boots were condemned.
func (c *Cluster) Sentences() int { return c.check.Sentences }

// withoutSentences returns the configuration in which deaths are proven only by time and by boot.
func (c Config) withoutSentences() Config {
	c.Sentence = watchdog.Sentencing{}
	return c
}

// withSentences draws when nodes condemn themselves, and which faults can occur then.
func (c Config) withSentences(seed uint64) Config {
	rng := rand.New(rand.NewPCG(seed, 0x5e47e))
	c.Lingers, c.Blind, c.Refuses = rng.IntN(2) == 0, []float64{0, 0.3, 1}[rng.IntN(3)], rng.IntN(10) == 0
	c.Sentence.After = []time.Duration{0, 2500 * time.Millisecond, 3 * time.Second, c.Sentence.After, c.Sentence.After}[rng.IntN(5)]
	c.Sentence.Timeout = time.Duration(1+rng.IntN(3)) * time.Second
	c.Sentence.LUNLoss = rng.IntN(2) == 0 // only with LUNAnd
	return c
}
