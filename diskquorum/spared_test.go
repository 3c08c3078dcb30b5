package diskquorum

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Every random schedule ends with a test of survival. Its premise: from some moment on
//
//   - the network is two equal halves, and a node that runs an agent has noticed,
//   - the agents of one half run, are scheduled, and hear each other,
//   - each of them has a majority of the devices, not the same for all, on which every
//     I/O ends well within its time limit, and which tell every slot; on a majority
//     failed writes of one copy of its slot, at most, may still land.
//
// Whatever happened before is left as it is: ballots begun, values accepted, grants in force,
// tokens of dead boots, writes that may land late, agents that are just claiming their slots.
// The other half may be dead, hang, be as sound, or go on under all faults of the schedule.
//
// Then somebody wins within spareTime: the spared half as a whole, or, if the other half is
// able to, that one: one node of it that feeds is enough, for no more can be asked of a half
// under faults. A write of a holder that lands late is a sign of life, so the time begins again
// with each; there are finitely many. It begins again, too, when a damaged slot is whole again; one that stays
// damaged for spareTime is one that its owner does not reach, and the devices do not tell every slot. A holder of
// the other half that reads a slot as damaged, on devices that the owner does not reach, lives and cannot
// feed: its half has the grant for as long as that lasts (docs/lease.md, "What is known to be weak").

// spareTime is a promise that can be computed: a holder's expiry and the head start of
// holders, a claim, and heartbeats for the half to settle and repeat a few ballots.
func spareTime(tm *Timing) time.Duration {
	return tm.Expire + rigWatchdog + tm.Takeover + 3*tm.IOTimeout + 15*tm.Heartbeat
}

// maxMends is how often a slot may be damaged and whole again while a half is spared, before
// the premise counts as one that never held: its owner, under all faults, can go on for ever.
const maxMends = 5

// mostSpares bounds for how long the time may begin again. Under all faults the other half can land late writes for
// hours of virtual time. Schedules that come to the bound are counted, with the seed of one.
const mostSpares = 1000

// fate is what becomes of the half that is not spared.
type fate int

const (
	fateDead   fate = iota // its agents are killed and not started again
	fateHung               // its agents run, and none of its I/O ends
	fateFaulty             // all faults go on
	fateSound              // it is spared, too
	fates
)

// ending is how the last part of a schedule went.
type ending struct {
	held    bool // the premise did
	damaged bool // it did not, for a slot was damaged
	kept    bool // nor can it be asked for: a holder that reads a damaged slot kept the grant
	endless bool // the time began again and again
	fate    fate
	won     bool // the spared half did, not the other one
	took    time.Duration
	ballots int // that the spared half began
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
	whole := r.now // when no slot was damaged for the last time
	for begun := r.now; r.now < end && mends < maxMends && r.oracle.violation == ""; {
		if r.now.Sub(begun) > mostSpares*spareTime(&r.timing) {
			e.end.endless = true
			return
		}
		doubt := e.doubtful(spared) && r.now.Sub(begun) < 3*lateWrite // it ends, for nothing fails any more
		if doubt && e.chance(95) {
			r.now = r.now.Add(lateWrite) // everything stands still
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
		if late || mended || doubt { // the premise holds from here on
			end, kept = r.now.Add(spareTime(&r.timing)), false
		}
		kept = kept || e.kept(spared[0], others)
		if !e.sound(spared) {
			return // its arbiter gave up for good: another writer was in its slot
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

// pass lets a tenth of a heartbeat pass. It reports whether a write landed late.
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
			return // the rest takes until the next turn
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

// damaged reports whether a node reports a slot as damaged: that is what two torn writes in a
// row, each on most devices and to another copy, make of it. Who writes nothing any more
// cannot mend it, and nothing is decided until an administrator does (B9).
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
