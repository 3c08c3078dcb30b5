package diskquorum

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Every random schedule ends with a test of survival. Its premise is that from some moment on:
//
//   - the network is split into two equal halves, and every node with a running agent has noticed it,
//   - the agents of one half run, are scheduled, and hear each other,
//   - each of them has a majority of the devices, not necessarily the same ones, on which every I/O ends within its
//     time limit and every slot is readable; on a majority, failed writes of at most one copy of its slot may still
//     land.
//
// The state from before is not changed: begun ballots, accepted values, grants in force, tokens of dead boots, writes
// that may land late, agents that are claiming their slots. The other half may be dead, hang, be equally healthy, or go
// on under all faults of the schedule.
//
// Then a half wins within spareTime: the spared half as a whole or, if it is able to, the other half. For the other
// half, one node that feeds is enough, because it is under faults. A late write of a holder is a sign of life, so the
// time begins again with each; their number is finite. It also begins again when a damaged slot is readable again. If a
// slot stays damaged for spareTime, its owner does not reach it, and the premise is not true. A holder of the other
// half that reads a slot as damaged, on devices that the owner does not reach, lives but cannot feed: its half keeps
// the grant for as long as that lasts (docs/lease.md, "What is known to be weak").

// spareTime can be computed: a holder's expiry and the head start of holders, a claim, and heartbeats for the half to
// settle and repeat a few ballots.
func spareTime(tm *Timing) time.Duration {
	return tm.Expire + rigWatchdog + tm.Takeover + 3*tm.IOTimeout + 15*tm.Heartbeat
}

// maxMends limits how often a slot may be damaged and become readable again while a half is spared. Beyond that the
// premise counts as not true: under all faults, the owner can go on like this for ever.
const maxMends = 5

// mostSpares limits, in multiples of spareTime, for how long the time may begin again. Under all faults the other half
// can land late writes for hours of virtual time. Schedules that reach the limit are counted, with the seed of one.
const mostSpares = 1000

// fate is what happens to the half that is not spared.
type fate int

const (
	fateDead   fate = iota // its agents are killed and not started again
	fateHung               // its agents run, and none of its I/O ends
	fateFaulty             // all faults go on
	fateSound              // the other half is spared, too
	fates
)

// ending is the result of the last part of a schedule.
type ending struct {
	held    bool // the premise was true
	damaged bool // the premise was not true because a slot was damaged
	kept    bool // no win is required: a holder that reads a damaged slot kept the grant
	endless bool // the time began again until the bound
	fate    fate
	won     bool // the spared half won, not the other one
	took    time.Duration
	ballots int // ballots that the spared half began
}

// spare ends a schedule with the test of survival.
func (e *explorer) spare() {
	r := e.rig
	p := e.rng.Perm(len(r.nodes))
	spared, others := p[:len(p)/2], p[len(p)/2:]
	e.end.fate, e.paused, e.risen = fate(e.rng.IntN(int(fates))), -1, -1
	e.groups = [][]int{slices.Sorted(slices.Values(spared)), slices.Sorted(slices.Values(others))}
	r.trace("network %v, %v is spared, fate of the rest %d", e.groups, spared, e.end.fate)
	for i := range r.nodes {
		e.notice(i)
	}
	for _, i := range spared {
		e.free(i)
	}
	for _, i := range others {
		e.doom(i)
	}
	end := r.now.Add(spareTime(&r.timing))
	hurt, mends, kept := false, 0, false
	whole := r.now // the last moment at which no slot was damaged
	for begun := r.now; r.now < end && mends < maxMends && r.oracle.violation == ""; {
		if r.now.Sub(begun) > mostSpares*spareTime(&r.timing) {
			e.end.endless = true
			return
		}
		doubt := e.doubtful(spared) && r.now.Sub(begun) < 3*lateWrite // this ends, because no I/O fails any more
		if doubt && e.chance(95) {
			r.now = r.now.Add(lateWrite) // no node runs in this time
			end = r.now.Add(spareTime(&r.timing))
		}
		late := e.pass(spared, others)
		mended := hurt && !e.damaged(spared)
		hurt = e.damaged(spared)
		if mended {
			mends++
		}
		if !hurt {
			whole = r.now
		}
		if r.now.Sub(whole) > spareTime(&r.timing) {
			e.end.damaged = true
			return
		}
		if late || mended || doubt { // the premise is true from here on
			end, kept = r.now.Add(spareTime(&r.timing)), false
		}
		kept = kept || e.kept(spared[0], others)
		if !e.sound(spared) {
			return // its arbiter gave up for good: another agent wrote its slot
		}
		if e.end.won = e.feedTogether(spared); e.end.won || e.feedsAny(others) {
			e.end.held, e.end.took = true, r.now.Sub(begun)
			return
		}
	}
	if e.end.kept = kept; e.damaged(spared) || mends == maxMends || kept {
		e.end.damaged = true
		return
	}
	e.end.held = true
	r.oracle.add("nodes %v could write and read a majority of devices for %v, and nobody won", spared, spareTime(&r.timing))
}

// free makes the premise true of a node: at most a minority of its paths hangs.
func (e *explorer) free(i int) {
	r, n := e.rig, e.rig.nodes[i]
	n.hangs = 0
	if d := e.rng.IntN(2 * len(n.ios)); len(n.ios) > 1 && d < len(n.ios) {
		n.hangs = 1 << d
	}
	for d := range n.orphans {
		if n.orphans[d] != nil && !n.hangs.has(d) {
			e.endOrphanNow(n, d)
		}
	}
	if n.arb == nil {
		r.start(i)
	}
}

func (e *explorer) endOrphanNow(n *rigNode, d int) {
	if e.chance(50) {
		e.rig.progress(n.orphans[d], wholeIO)
	}
	e.rig.abandon(n.orphans[d], false)
	n.orphans[d] = nil
	if n.arb != nil {
		e.rig.grantLock(n)
	}
}

// doom gives a node of the other half its fate.
func (e *explorer) doom(i int) {
	n := e.rig.nodes[i]
	switch e.end.fate {
	case fateDead:
		if n.arb != nil {
			e.rig.kill(i)
		}
	case fateHung:
		n.hangs = 1<<len(n.ios) - 1
	case fateSound:
		e.free(i)
	}
}

// pass advances the clock by a tenth of a heartbeat. It reports whether a write landed late.
func (e *explorer) pass(spared, others []int) bool {
	r := e.rig
	end := r.now.Add(r.timing.Heartbeat / 10)
	landed := e.late
	r.forgetLate()
	if e.chance(e.pLand) && len(r.late) > 0 {
		e.landLate()
	}
	e.endOrphans()
	turns := slices.Clone(spared)
	if e.end.fate != fateDead {
		turns = append(turns, others...)
	}
	e.rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	for _, i := range turns {
		switch {
		case e.end.fate != fateFaulty || slices.Contains(spared, i):
			e.serve(i)
		default:
			for range 1 + e.rng.IntN(8) {
				r.now += 1 + boottime.Instant(e.rng.Int64N(int64(3*time.Millisecond)))
				e.actOn(i)
			}
		}
	}
	r.now = max(r.now, end)
	return e.late != landed
}

// serve steps a node and ends its I/O, most of it at once.
func (e *explorer) serve(i int) {
	r, n := e.rig, e.rig.nodes[i]
	if n.arb == nil {
		return
	}
	for j := range r.nodes {
		if n.view.Has(j) {
			r.gossip(i, j)
		}
	}
	was := n.arb.prop.phase
	for r.step(i); n.busy(); r.step(i) {
		if was == phaseIdle && n.arb.prop.phase != phaseIdle {
			e.end.ballots++
		}
		was = n.arb.prop.phase
		r.now += boottime.Instant(time.Millisecond)
		for d, io := range n.ios {
			if io != nil && !n.hangs.has(d) {
				r.completeOn(i, d)
			}
		}
		if e.chance(20) {
			return // the other I/Os end in a later turn
		}
	}
}

func (e *explorer) sound(nodes []int) bool {
	for _, i := range nodes {
		if e.rig.nodes[i].arb.claim == claimFailed {
			return false
		}
	}
	return true
}

// doubtful reports whether a node waits for the end of its failed writes (B3).
func (e *explorer) doubtful(nodes []int) bool {
	return slices.ContainsFunc(nodes, func(i int) bool {
		a := e.rig.nodes[i].arb
		return a != nil && a.claim == claimActive && !a.enoughSure(e.rig.now)
	})
}

// damaged reports whether a node reports a slot as damaged. Two consecutive torn writes, each on most devices and to
// another copy, cause this. An owner that writes no more cannot repair the slot, and nothing is decided until an
// administrator repairs it (B9).
func (e *explorer) damaged(nodes []int) bool {
	return slices.ContainsFunc(nodes, func(i int) bool { return e.rig.nodes[i].arb.table.unreadable() >= 0 })
}

// kept reports whether the latest decision, as a spared node reads it, names a node of the other half that
// writes its slot and reads one as damaged.
func (e *explorer) kept(spared int, others []int) bool {
	a := e.rig.nodes[spared].arb
	g := a.table.log(&a.ballot).grant
	return g != nil && slices.ContainsFunc(others, func(i int) bool {
		o := e.rig.nodes[i].arb
		if o == nil || o.slot < 0 || o.table.unreadable() < 0 {
			return false
		}
		named, ok := g.token(o.slot)
		return ok && named == o.token
	})
}

// feedTogether reports whether all these nodes feed, under one grant.
func (e *explorer) feedTogether(nodes []int) bool {
	first := e.rig.nodes[nodes[0]]
	for _, i := range nodes {
		if n := e.rig.nodes[i]; !feeds(n) || !same(n.arb.lease.grant, first.arb.lease.grant) {
			return false
		}
	}
	return true
}

// feedsAny reports whether one of the nodes of the other half feeds, of those that may.
func (e *explorer) feedsAny(others []int) bool {
	if e.end.fate == fateDead || e.end.fate == fateHung {
		return false
	}
	return slices.ContainsFunc(others, func(i int) bool { return feeds(e.rig.nodes[i]) })
}
