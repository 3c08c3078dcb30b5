package diskquorum

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// TestRandomSchedules drives two or four arbiters over a LUN of one or three devices, I/O by
// I/O, through random schedules of delays, failures, late and torn writes, crashes, reboots, pauses and changed
// views, and has the oracle judge every step. The seed of a failing schedule is printed;
// DISKQUORUM_SEED replays it with a trace, DISKQUORUM_RUNS asks for more of them.
func TestRandomSchedules(t *testing.T) {
	runs := uint64(5000)
	switch {
	case raceEnabled:
		runs = 300
	case testing.Short():
		runs = 2500
	}
	runs = fromEnv(t, "DISKQUORUM_RUNS", runs)
	base := fromEnv(t, "DISKQUORUM_SEED", 0)
	if base != 0 {
		runs = fromEnv(t, "DISKQUORUM_RUNS", 1)
	} else {
		base = rand.Uint64() >> 1
	}
	var total explorerStats
	begun := time.Now()
	for i := range runs {
		e := newExplorer(base + i)
		if runs == 1 {
			e.rig.logf, e.rig.oracle.trace = t.Logf, t.Logf
		}
		e.run()
		total.add(e)
		if v := e.rig.oracle.violation; v != "" {
			t.Fatalf("seed %d: %s\nreplay: DISKQUORUM_SEED=%d go test -v -run TestRandomSchedules ./diskquorum", base+i, v, base+i)
		}
	}
	t.Logf("%d schedules from seed %d in %v: %+v", runs, base, time.Since(begun), total)
	if runs > 1000 && (total.Triples == 0 || total.TripleWon == 0 || total.Outvoted == 0 || total.Relayed == 0 || total.Decided == 0 || total.Adopted == 0 || total.Won == 0 || total.Lost == 0 || total.Late == 0) {
		t.Errorf("the schedules do not reach what they are to check: %+v", total)
	}
}

func fromEnv(t *testing.T, key string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(key)
	if s == "" {
		return otherwise
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return v
}

type explorerStats struct {
	IOs, Decided, Adopted, Won, Lost, Late int
	// Schedules with three devices, steps in them in which a node fed under a grant, and
	// those of them in which one of its paths was broken.
	Triples, TripleWon, Outvoted int
	Relayed                      int // steps in which a node fed by the writes of another holder
}

func (s *explorerStats) add(e *explorer) {
	o := &e.rig.oracle
	s.IOs += e.ios
	s.Decided += len(o.decided)
	s.Adopted += o.adoptions
	s.Won += o.won
	s.Lost += o.lost
	s.Late += e.late
	s.Relayed += o.relayed
	if len(e.rig.images) > 1 {
		s.Triples++
		s.TripleWon += o.won
		s.Outvoted += o.outvoted
	}
}

// explorer is a seeded scheduler of a rig.
type explorer struct {
	rig    *rig
	rng    *rand.Rand
	steps  int
	groups [][]int // what the network is to look like; nodes notice one by one

	// Chances in percent; drawn anew for each schedule, so that some are calm and some are not.
	pFail, pLate, pLand, pPart, pKill, pNet, pPause, pJump, pGossip, pPath int

	paused    int // node that is not scheduled, -1: none
	ios, late int
}

func newExplorer(seed uint64) *explorer {
	rng := rand.New(rand.NewPCG(seed, 0xd15c))
	timing := rigTiming()
	timing.Stagger, timing.Arbitrate = 0, 40*time.Millisecond // ballots of all nodes at once, again and again
	if rng.IntN(4) == 0 {
		timing.Takeover = 5 * time.Second
	}
	nodes, devices := []int{2, 2, 4}[rng.IntN(3)], 1+rng.IntN(2)*2
	e := &explorer{rig: newSetRig(nodes, devices, timing), rng: rng, steps: devices * (60 + rng.IntN(300)), paused: -1}
	for _, n := range e.rig.nodes {
		n.seed = rng.Uint64()
	}
	e.pFail, e.pLate, e.pPart = e.draw(20), e.draw(100), e.draw(60)
	e.pKill, e.pLand, e.pJump = e.draw(8), 1+e.draw(20), e.draw(4)
	e.pNet, e.pPause, e.pGossip = e.draw(5), e.draw(4), 20+e.draw(80)
	e.pPath = e.draw(2 * devices)
	return e
}

// draw is 0 in one schedule of three, else up to most.
func (e *explorer) draw(most int) int { return max(0, e.rng.IntN(most*3/2+1)-most/2) }

func (e *explorer) chance(percent int) bool { return e.rng.IntN(100) < percent }

func (e *explorer) run() {
	r := e.rig
	r.startAll()
	e.split()
	e.race()
	for range e.steps {
		if r.oracle.violation != "" {
			return
		}
		e.act()
	}
}

// race ends all faults for a while and lets all nodes begin their ballots at once.
func (e *explorer) race() {
	for i, n := range e.rig.nodes {
		if 2*n.hangs.len() > len(n.ios) {
			n.hangs = 0 // most devices must do
		}
		if n.arb == nil {
			e.rig.start(i)
		}
	}
	e.rig.settle(e.groups...)
}

// split makes the network tie: two halves, each of which sees itself only.
func (e *explorer) split() {
	n := len(e.rig.nodes)
	p := e.rng.Perm(n)
	e.groups = [][]int{p[:n/2], p[n/2:]}
	switch e.rng.IntN(8) {
	case 0:
		e.groups = [][]int{p}
	case 1:
		e.groups = [][]int{p[:1], p[1:]}
	}
	for _, g := range e.groups {
		slices.Sort(g)
	}
	e.rig.trace("network %v", e.groups)
}

func (e *explorer) notice(i int) {
	for _, g := range e.groups {
		if slices.Contains(g, i) && e.rig.nodes[i].view != netgossip.SetOf(g...) {
			e.rig.setView(i, g...)
		}
	}
}

// act does one thing, mostly to one node.
func (e *explorer) act() {
	r := e.rig
	r.now += boottime.Instant(e.rng.Int64N(int64(3 * time.Millisecond)))
	if e.chance(e.pNet) {
		e.split()
		if e.chance(30) {
			e.race()
		}
	}
	if e.chance(e.pLand) && len(r.late) > 0 {
		e.landLate()
	}
	for _, n := range r.nodes {
		for d := range n.orphans {
			if n.orphans[d] != nil && e.chance(20) {
				e.endOrphan(n, d)
			}
		}
	}
	if e.chance(e.pPath) {
		e.turnPath()
	}
	if e.chance(e.pPause) {
		e.paused = e.rng.IntN(2*len(r.nodes)) - len(r.nodes)
	}
	if e.chance(e.pJump) {
		r.now += boottime.Instant(e.rng.Int64N(int64(9 * time.Second)))
	}
	i := e.rng.IntN(len(r.nodes))
	n := r.nodes[i]
	switch {
	case i == e.paused:
	case n.arb == nil:
		e.revive(n)
	case e.chance(e.pKill):
		r.kill(i)
	case n.busy() && e.chance(80):
		e.advance(n)
	default:
		if e.chance(50) {
			e.notice(i)
		}
		for j := range r.nodes {
			if n.view.Has(j) && e.chance(e.pGossip) {
				r.gossip(i, j)
			}
		}
		if r.step(i); !n.busy() {
			e.idle(i)
		}
	}
}

// idle moves time on to when a node that waits for nothing but time wants to be stepped.
func (e *explorer) idle(i int) {
	if wake := e.rig.nodes[i].out.Wake; wake != boottime.Never && e.chance(60) {
		e.rig.now = max(e.rig.now, min(wake, e.rig.now.Add(time.Second)))
	}
}

// turnPath lets the path of a node to a device hang, or heals it, or all of them.
func (e *explorer) turnPath() {
	n := e.rig.nodes[e.rng.IntN(len(e.rig.nodes))]
	if d := e.rng.IntN(len(n.ios)); e.chance(70) {
		n.hangs ^= 1 << d
	} else {
		n.hangs = 0
	}
	e.rig.trace("n%d: devices %03b hang", n.index, n.hangs)
}

// advance does something to an I/O of a node.
func (e *explorer) advance(n *rigNode) {
	r := e.rig
	d := e.rng.IntN(len(n.ios))
	for n.ios[d] == nil || n.hangs.has(d) {
		d = (d + 1) % len(n.ios)
	}
	switch {
	case e.chance(e.pPart):
		r.progress(n.ios[d], e.rng.Uint32())
	case e.chance(e.pFail):
		e.ios++
		r.loseOn(n.index, d, e.chance(e.pLate))
	case e.chance(70):
		e.ios++
		r.completeOn(n.index, d)
		if e.chance(90) {
			r.step(n.index)
		}
	}
}

// revive lets the orphaned write of a dead agent end, starts the agent, or boots its node.
func (e *explorer) revive(n *rigNode) {
	r := e.rig
	switch {
	case e.chance(20):
		r.reboot(n.index, e.chance(e.pLate))
	case e.chance(40):
		r.start(n.index)
	}
}

// endOrphan lets the kernel end the write of a killed agent: some of it lands, all, or nothing.
func (e *explorer) endOrphan(n *rigNode, d int) {
	if e.chance(e.pPart) {
		e.rig.progress(n.orphans[d], e.rng.Uint32())
	} else if !e.chance(e.pFail) {
		e.rig.progress(n.orphans[d], wholeIO)
	}
	if e.chance(60) {
		e.rig.abandon(n.orphans[d], false)
		n.orphans[d] = nil
		if n.arb != nil {
			e.rig.grantLock(n)
		}
	}
}

func (e *explorer) landLate() {
	mask := wholeIO
	if e.chance(e.pPart) {
		mask = e.rng.Uint32()
	}
	e.late++
	e.rig.landLate(e.rng.IntN(len(e.rig.late)), mask)
}
