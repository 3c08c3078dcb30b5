package diskquorum

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/integration/race"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// bounds defines which faults may happen in an exhaustive search, and how often at most. Within them every order of
// events is tried.
type bounds struct {
	name      string
	groups    [][]int
	idle      []int           // nodes that propose nothing
	stained   []int           // copies to which a write of node 0 failed before and may still land
	early     bool            // I/O is slow, and each half has shown its view only once
	asleep    bool            // node 0 holds a grant, slept through its end and is about to wake
	jumps     []time.Duration // jumps of the clock, in this order, each at any moment
	kills     int             // number of killed agents; each is started again at any later moment
	boots     int             // how many of these starts are in another boot
	fails     int             // I/Os that fail: a write then lands late, or never
	parts     int             // writes that land, and reads that are done, in two halves
	states    int             // minimum number of states: a search that finds fewer does not test enough
	decisions int             // minimum number of decisions; 0: one
	short     bool            // included in short runs, too
	long      bool            // only included in long runs
}

const (
	again   = 6 * time.Millisecond   // a failed ballot is repeated within this time
	publish = 100 * time.Millisecond // a changed slot is written within this time
	expire  = 12 * time.Second       // a holder whose slot has not changed expires within this time
)

var halves = [][]int{{0}, {1}}

var exhaustive = []bounds{
	{name: "two ballots each", groups: halves, jumps: []time.Duration{again}, states: 3800, short: true},
	{name: "a failing I/O", groups: halves, fails: 1, states: 450, short: true},
	{name: "a crash and a reboot", groups: halves, kills: 1, boots: 1, states: 2500, short: true},
	{name: "torn writes", groups: halves, parts: 2, fails: 1, states: 1700},
	{name: "three proposers", groups: [][]int{{0, 1}, {2, 3}}, idle: []int{3}, states: 1700},
	{name: "decisions are published", groups: halves, jumps: []time.Duration{publish}, states: 5000},
	{name: "time runs out", groups: halves, jumps: []time.Duration{expire}, states: 2300},
	{name: "take-over from a holder that slept", groups: halves, asleep: true, jumps: []time.Duration{again}, states: 400, short: true, decisions: 2},
	{name: "take-over from a holder that crashes", groups: halves, asleep: true, kills: 1, boots: 1, states: 500, short: true, decisions: 2},
	{name: "take-over with a failing I/O", groups: halves, asleep: true, fails: 1, jumps: []time.Duration{again}, states: 500, decisions: 2},
	{name: "late writes of both copies", groups: halves, stained: []int{0, 1}, jumps: []time.Duration{again}, states: 40, short: true},
	{name: "a late write, and torn ones", groups: halves, stained: []int{0}, parts: 1, fails: 1, states: 10000, long: true},
	{name: "late writes of both copies, a crash", groups: halves, stained: []int{1, 0}, kills: 1, boots: 1, states: 3900},
	{name: "early ballots", groups: halves, early: true, states: 70, short: true},
	{name: "early ballots, a failing I/O", groups: halves, early: true, fails: 1, states: 600, short: true},
	{name: "early ballots, then others", groups: halves, early: true, jumps: []time.Duration{again}, states: 7000, long: true},
	{name: "early ballots that wait for a partner", groups: [][]int{{0, 1}, {2, 3}}, idle: []int{1, 3}, early: true, states: 9000, long: true},
	{name: "two failing I/Os", groups: halves, fails: 2, states: 500},
	{name: "a failing I/O, then another ballot", groups: halves, fails: 1, jumps: []time.Duration{again}, states: 10000, long: true},
	{name: "a crash, then another ballot", groups: halves, kills: 1, boots: 1, jumps: []time.Duration{again}, states: 10000, long: true},
	{name: "three proposers, a crash", groups: [][]int{{0, 1}, {2, 3}}, idle: []int{3}, kills: 1, states: 10000, long: true},
}

// TestExhaustive tries every order of I/O, faults and clock jumps within bounds, on the real arbiters, depth first; a
// state that was reached before is skipped. The oracle checks every step. The test is deterministic.
func TestExhaustive(t *testing.T) {
	long := os.Getenv("DISKQUORUM_EXHAUSTIVE") != ""
	for _, b := range exhaustive {
		t.Run(b.name, func(t *testing.T) {
			switch {
			case b.long && !long:
				t.Skip("a long search: set DISKQUORUM_EXHAUSTIVE, or make model")
			case !b.short && testing.Short(), race.Detector && b.states > 1000: // nothing here runs concurrently
				t.Skip("not in a short run")
			}
			s := search{t: t, b: &b, visited: map[uint64]struct{}{}}
			begun := time.Now()
			s.expand(s.root(), left{b.kills, b.boots, b.fails, b.parts, 0}, nil)
			t.Logf("%s: %d states, %d transitions, depth %d, %d decided, %d adopted, %d won, %d late landings, in %v", b.name,
				len(s.visited), s.transitions, s.depth, s.decided, s.adopted, s.won, s.landings, time.Since(begun).Round(10*time.Millisecond))
			if len(s.visited) < b.states || s.won == 0 || s.decided < max(1, b.decisions) {
				t.Errorf("the search does not reach what it is to check")
			}
		})
	}
}

// left is the number of faults that may still happen, and of clock jumps that were made.
type left struct{ kills, boots, fails, parts, jumps int }

type search struct {
	t       *testing.T
	b       *bounds
	visited map[uint64]struct{}

	transitions, depth                      int
	decided, adopted, won, landings, failed int
}

// root is the state in which both halves are ready to propose a grant.
func (s *search) root() *rig {
	timing := rigTiming()
	timing.Stagger, timing.Arbitrate = 0, 40*time.Millisecond
	n := 0
	for _, g := range s.b.groups {
		n += len(g)
	}
	r := newRig(n, timing)
	r.startAll()
	for _, which := range s.b.stained {
		r.failCopy(s.t, 0, which)
	}
	if s.b.early {
		r.nearly(s.b.groups...)
	} else {
		r.settle(s.b.groups...)
	}
	for _, i := range s.b.idle {
		r.nodes[i].arb.retryAt = boottime.Never
	}
	if s.b.asleep {
		r.sleepThroughGrant()
	}
	return r
}

// nearly does what settle does, but for nodes whose I/O is slow. It ends when each slot has shown the view of its half
// once and its next write is due.
func (r *rig) nearly(groups ...[]int) {
	for _, g := range groups {
		for _, i := range g {
			r.setView(i, g...)
		}
	}
	r.hold(boottime.Never)
	for slices.ContainsFunc(r.nodes, func(n *rigNode) bool { h := n.arb.assess(n.view); return !h.near }) {
		r.run(10 * time.Millisecond)
	}
	r.now = r.now.Add(r.timing.Heartbeat)
	for _, n := range r.nodes {
		n.slowed(r.now, r.timing.Heartbeat)
		n.arb.ready = 0
	}
	r.hold(0)
}

// sleepThroughGrant lets node 0 win, and then do nothing until node 1 may take over.
func (r *rig) sleepThroughGrant() {
	holder, rival := r.nodes[0], r.nodes[1]
	rival.arb.retryAt = boottime.Never
	r.run(time.Second)
	arb := holder.arb
	holder.arb = nil // the holder is not scheduled
	r.run(r.timing.Expire + rigWatchdog + 3*r.timing.Heartbeat)
	holder.arb, rival.arb.retryAt = arb, 0
}

// move is one event. It returns the faults that may still happen after it.
type move struct {
	name string
	do   func(*rig) left
}

func (s *search) expand(r *rig, l left, path []string) {
	key := hashRig(r) ^ (uint64(l.kills)<<32|uint64(l.boots)<<24|uint64(l.fails)<<16|uint64(l.parts)<<8|uint64(l.jumps))*0x9E3779B97F4A7C15
	if _, known := s.visited[key]; known || s.failed > 0 {
		return
	}
	s.visited[key] = struct{}{}
	s.depth = max(s.depth, len(path))
	for _, m := range s.moves(r, l) {
		next := cloneRig(r)
		rest := m.do(next)
		s.transitions++
		s.judge(next, append(path, m.name))
		s.expand(next, rest, append(path, m.name))
	}
}

// judge looks for violations and counts the reached results.
func (s *search) judge(r *rig, path []string) {
	if won := winners(r); won != "" {
		r.oracle.add("%s", won)
	}
	if v := r.oracle.violation; v != "" && s.failed == 0 {
		s.failed++
		s.t.Errorf("%s\nafter: %v", v, path)
	}
	s.decided, s.adopted = max(s.decided, len(r.oracle.decided)), max(s.adopted, r.oracle.adoptions)
	for _, n := range r.nodes {
		if n.arb != nil && n.out.Split == tie.Won {
			s.won++
		}
	}
}

// winners names two nodes that feed under different grants at the same moment, or returns "".
func winners(r *rig) string {
	for i, n := range r.nodes {
		for j, m := range r.nodes[:i] {
			if feeds(n) && feeds(m) && !same(n.arb.lease.grant, m.arb.lease.grant) {
				return r.nodes[i].roster.Name(i) + " and " + r.nodes[j].roster.Name(j) + " feed under two grants"
			}
		}
	}
	return ""
}

func feeds(n *rigNode) bool {
	return n.arb != nil && n.out.Split == tie.Won && n.out.Until > n.r.now
}

// moves lists everything that can happen next.
func (s *search) moves(r *rig, l left) []move {
	var out []move
	for i, n := range r.nodes {
		switch {
		case n.arb == nil:
			out = append(out, s.revivals(i, n, l)...)
			continue
		case n.ios[0] != nil:
			out = append(out, s.endings(i, n, l)...)
		default:
			out = append(out, move{"step" + digit(i), func(r *rig) left { r.act(i); return l }})
		}
		if l.kills > 0 {
			rest := l
			rest.kills--
			out = append(out, move{"kill" + digit(i), func(r *rig) left { r.kill(i); return rest }})
		}
	}
	for k := range r.late {
		out = append(out, move{"late" + digit(k), func(r *rig) left { s.landings++; r.landLate(k, wholeIO); return l }})
	}
	if l.jumps < len(s.b.jumps) {
		rest := l
		rest.jumps++
		out = append(out, move{"+" + s.b.jumps[l.jumps].String(), func(r *rig) left { r.now = r.now.Add(s.b.jumps[l.jumps]); return rest }})
	}
	return out
}

func digit(i int) string { return string(rune('0' + i)) }

// act steps a node; nodes that count it hear its statement at once.
func (r *rig) act(i int) {
	for j := range r.nodes {
		if r.nodes[i].view.Has(j) {
			r.gossip(i, j)
		}
	}
	r.step(i)
	for j := range r.nodes {
		if r.nodes[j].view.Has(i) {
			r.gossip(j, i)
		}
	}
}

const firstHalf = 1<<(sectorsPerBlock/2) - 1

// endings returns the ways in which an I/O can end: it completes, or it fails and lands late or never, or half of it
// happens first.
func (s *search) endings(i int, n *rigNode, l left) []move {
	out := []move{{"done" + digit(i), func(r *rig) left { r.complete(i); r.act(i); return l }}}
	if l.fails > 0 {
		rest := l
		rest.fails--
		out = append(out, move{"lost" + digit(i), func(r *rig) left { r.lose(i, false); r.act(i); return rest }})
		if n.ios[0].op.Kind == OpWrite {
			out = append(out, move{"delayed" + digit(i), func(r *rig) left { r.lose(i, true); r.act(i); return rest }})
		}
	}
	if l.parts > 0 && n.ios[0].todo&firstHalf == firstHalf {
		rest := l
		rest.parts--
		out = append(out, move{"half" + digit(i), func(r *rig) left { r.progress(r.nodes[i].ios[0], firstHalf); return rest }})
	}
	return out
}

// revivals returns the ways in which a killed agent can start again: its last write lands, is lost or is still under
// way when the next agent starts, in the same boot or, if the write is lost or late, in another boot.
func (s *search) revivals(i int, n *rigNode, l left) []move {
	var out []move
	if n.orphans[0] != nil {
		out = append(out, move{"orphan lands" + digit(i), func(r *rig) left {
			n := r.nodes[i]
			r.progress(n.orphans[0], wholeIO)
			r.abandon(n.orphans[0], false)
			n.orphans[0] = nil
			return l
		}})
	}
	out = append(out, move{"start" + digit(i), func(r *rig) left { r.start(i); r.act(i); return l }})
	if l.boots > 0 {
		rest := l
		rest.boots--
		for _, late := range []bool{false, true} {
			if late && n.orphans[0] == nil {
				continue
			}
			out = append(out, move{"boot" + digit(i), func(r *rig) left { r.reboot(i, late); r.start(i); r.act(i); return rest }})
		}
	}
	return out
}

// A copy must be the same state and must not share mutable data.
func TestSnapshot(t *testing.T) {
	r := startedRig(t, 4)
	r.oracle.fatal, r.logf = nil, nil
	r.settle([]int{0, 1}, []int{2, 3})
	c := cloneRig(r)
	if hashRig(c) != hashRig(r) {
		t.Fatal("a copy has another hash")
	}
	image, before := slices.Clone(r.image), hashRig(r)
	c.run(3 * time.Second)
	if hashRig(r) != before || !slices.Equal(image, r.image) {
		t.Error("what happens to a copy happens to the original")
	}
	if hashRig(c) == before {
		t.Error("another state has the same hash")
	}
	again := cloneRig(r)
	again.run(3 * time.Second)
	if hashRig(again) != hashRig(c) {
		t.Error("the same events lead to two states")
	}
}
