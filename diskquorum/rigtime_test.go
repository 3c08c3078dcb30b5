package diskquorum

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// run advances the clock by d without faults: running nodes are stepped ten times per heartbeat, I/O is fast, and nodes
// that count each other exchange statements.
func (r *rig) run(d time.Duration) {
	for end := r.now.Add(d); r.now < end; {
		r.now = min(end, r.now.Add(r.timing.Heartbeat/10))
		for i, n := range r.nodes {
			if n.arb == nil {
				continue
			}
			for j, m := range r.nodes {
				if n.view.Has(j) && m.view.Has(i) {
					r.gossip(i, j)
				}
			}
			ios := 0
			for r.step(i); n.busy() && ios < restless; r.step(i) {
				r.now += boottime.Instant(time.Millisecond)
				for d, io := range n.ios {
					if io != nil && !r.broken(i, d) {
						r.completeOn(i, d)
						ios++
					}
				}
			}
			if ios == restless {
				r.oracle.add("n%d does I/O without a pause", i)
				return
			}
		}
	}
}

// broken reports whether the path of a node to a device hangs.
func (r *rig) broken(i, d int) bool { return r.nodes[i].hangs.has(d) }

// busy reports whether the node has an I/O under way that will end.
func (n *rigNode) busy() bool {
	for d, io := range n.ios {
		if io != nil && !n.hangs.has(d) {
			return true
		}
	}
	return false
}

// restless is a number of consecutive I/Os that no node reaches.
const restless = 100

// settle sets each node's view to its group and waits, with all ballots held back, until each half is ready to propose
// a grant. Then the ballots are released, but no node has been stepped yet.
func (r *rig) settle(groups ...[]int) {
	for _, g := range groups {
		for _, i := range g {
			r.setView(i, g...)
		}
	}
	r.hold(boottime.Never)
	r.run(3 * time.Second)
	r.hold(0)
}

// hold keeps every running node from beginning a ballot before the instant.
func (r *rig) hold(until boottime.Instant) {
	for _, n := range r.nodes {
		if n.arb != nil {
			n.arb.retryAt = until
		}
	}
}

func members(s roster.Set) []int {
	out := []int{}
	for i := range s.All() {
		out = append(out, i)
	}
	return out
}
