package doubt

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// crash lets a node crash and returns how long it took until all others knew.
func (w *world) crash(p int) (time.Duration, bool) {
	w.dead[p] = w.now
	for range 60 {
		w.run(100 * time.Millisecond)
		if d, all := w.known(p); all {
			return d, true
		}
	}
	return 0, false
}

func TestACrashIsKnownToAllWithinTwoAndAHalfSeconds(t *testing.T) {
	for _, size := range []int{9, 30, 100} {
		for _, networks := range []int{1, 2, 3} {
			for seed := range uint64(3) {
				w := newWorld(t, seed, size, networks, 0, netgossip.Any())
				w.run(2 * time.Second)
				took, all := w.crash(int(seed) * 7 % size)
				if !all || took > 3*time.Second || took < time.Duration(windowTimeouts*200)*time.Millisecond {
					t.Errorf("size %d, networks %d, seed %d: known after %v, to all: %v", size, networks, seed, took, all)
				}
				if f := w.falsely(); len(f) > 0 {
					t.Errorf("size %d, networks %d, seed %d: falsely LEFT: %v", size, networks, seed, f)
				}
			}
		}
	}
}

func TestOneNodeLessThanLeastHasNoDoubts(t *testing.T) {
	w := newWorld(t, 1, Least-1, 2, 0, netgossip.Any())
	w.run(2 * time.Second)
	if _, all := w.crash(3); all || w.words+w.looks > 0 {
		t.Errorf("%d words, %d looks, LEFT %v", w.words, w.looks, w.left)
	}
}

func TestUnderLossTheDeadAreFoundAndNobodyElse(t *testing.T) {
	for _, c := range []struct {
		networks int
		loss     float64
	}{{1, 0.05}, {2, 0.05}, {2, 0.2}, {1, 0.1}, {1, 0.2}} {
		for seed := range uint64(3) {
			w := newWorld(t, seed, 40, c.networks, c.loss, netgossip.Any())
			w.run(20 * time.Second)
			if took, all := w.crash(int(seed)); !all || took > 4*time.Second {
				t.Errorf("%+v, seed %d: known after %v, to all: %v", c, seed, took, all)
			}
			if f := w.falsely(); len(f) > 0 {
				t.Errorf("%+v, seed %d: falsely LEFT: %v", c, seed, f)
			}
		}
	}
}

func TestAStallShorterThanTheWindowIsForgiven(t *testing.T) {
	for seed := range uint64(12) {
		w := newWorld(t, seed, 30, int(seed)%2+1, 0, netgossip.Any())
		for range 12 {
			p := w.rand.IntN(w.size)
			w.stall(p, time.Duration(500+w.rand.IntN(1050))*time.Millisecond)
			w.run(2500 * time.Millisecond)
		}
		if f := w.falsely(); len(f) > 0 {
			t.Errorf("seed %d: falsely LEFT: %v", seed, f)
		}
		if len(w.left) > 0 {
			t.Errorf("seed %d: LEFT %v", seed, w.left)
		}
	}
}

// In a node that stalled for long, the first timer that fires finds silences before the node reads the packets that
// have arrived.
func TestANodeThatStoodStillDoubtsNobody(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(t, seed, 12, 2, 0, netgossip.Any())
		w.run(2 * time.Second)
		w.stall(4, time.Duration(2+seed%7)*time.Second)
		for range 120 {
			w.run(100 * time.Millisecond)
			for k := range w.left {
				if k[0] == 4 {
					t.Fatalf("seed %d: %d is LEFT at the node that stood still", seed, k[1])
				}
			}
		}
	}
}

func TestAnswersEndALeft(t *testing.T) {
	w := newWorld(t, 3, 20, 2, 0, netgossip.Any())
	w.run(2 * time.Second)
	w.stall(5, 4*time.Second)
	w.run(3800 * time.Millisecond)
	if len(w.left) != w.size-1 {
		t.Fatalf("LEFT at %d nodes", len(w.left))
	}
	w.run(400 * time.Millisecond)
	for i := range w.size {
		if i != 5 {
			w.do(i, func(c *Core) { c.Answered(0, 5, w.now, 7, w.now) })
		}
	}
	if len(w.left) != 0 {
		t.Errorf("LEFT still: %v", w.left)
	}
	if got, want := w.cores[0].window(5, w.now), 2*w.cores[0].times(windowTimeouts); got != want {
		t.Errorf("the window of a peer that came back with the same boot is %v, want %v", got, want)
	}
	w.do(0, func(c *Core) { c.Answered(0, 5, w.now, 8, w.now) })
	if got, want := w.cores[0].window(5, w.now), w.cores[0].times(windowTimeouts); got != want {
		t.Errorf("with another boot it is %v, want %v", got, want)
	}
}

func TestANetworkThatIsDownForAllDoesNotBlock(t *testing.T) {
	for _, policy := range []netgossip.Policy{netgossip.Any(), netgossip.AtLeast(1)} {
		w := newWorld(t, 4, 20, 2, 0, policy)
		w.run(2 * time.Second)
		w.loss[1] = 1
		w.run(4 * time.Second)
		if f := w.falsely(); len(f) > 0 {
			t.Errorf("falsely LEFT: %v", f)
		}
		if took, all := w.crash(7); !all || took > 3*time.Second {
			t.Errorf("known after %v, to all: %v", took, all)
		}
	}
}

func TestPolicies(t *testing.T) {
	for _, policy := range []netgossip.Policy{netgossip.All(), netgossip.AtLeast(2)} {
		w := newWorld(t, 5, 20, 3, 0, policy)
		w.run(2 * time.Second)
		if took, all := w.crash(7); !all || took > 3*time.Second {
			t.Errorf("%v: known after %v, to all: %v", policy, took, all)
		}
		if f := w.falsely(); len(f) > 0 {
			t.Errorf("%v: falsely LEFT: %v", policy, f)
		}
	}
}

func TestFiveOfAHundred(t *testing.T) {
	w := newWorld(t, 6, 100, 2, 0, netgossip.Any())
	w.run(2 * time.Second)
	for p := range 5 {
		w.dead[p*20] = w.now
	}
	w.run(3 * time.Second)
	for p := range 5 {
		if took, all := w.known(p * 20); !all {
			t.Errorf("%d: after %v not known to all", p*20, took)
		}
	}
}

// If a half is cut off, no node sends words.
func TestACutIsNotTalkedAbout(t *testing.T) {
	w := newWorld(t, 7, 200, 2, 0, netgossip.Any())
	w.run(2 * time.Second)
	for i := range w.size {
		for p := range w.size {
			w.deaf[[2]int{i, p}] = i%2 != p%2
		}
	}
	w.run(time.Second)
	before := w.words
	for i := range w.size { // the sweep
		for p := range w.size {
			if i%2 != p%2 {
				for k := range w.networks {
					w.do(i, func(c *Core) { c.Late(k, p, w.now.Add(-150*time.Millisecond), true, w.now) })
				}
			}
		}
	}
	w.run(3 * time.Second)
	if perNode := (w.words - before) / w.size; perNode > 8*watchers*w.networks {
		t.Errorf("%d words a node", perNode)
	}
}

// Nodes that have been off for long do not belong to the present event: a crash does not count as a cut because of
// them, they are not asked to look, and they do not use up the looks.
func TestNodesThatStayAwayDoNotEndTheDoubts(t *testing.T) {
	w := newWorld(t, 5, 30, 2, 0, netgossip.Any())
	w.run(2 * time.Second)
	for p := 20; p < 26; p++ {
		w.dead[p] = w.now
		w.run(w.cores[0].lifetime() + 5*time.Second)
	}
	for i := range 20 {
		c := w.cores[i]
		if len(c.Left()) != 6 || c.missed > 0 || c.looked > 0 || c.watchersOf(19).Intersects(roster.SetOf(20, 21, 22, 23, 24, 25)) {
			t.Errorf("seed %d: node %d has %d LEFT, misses %d, looks at %d, and asks %v about 19", w.seed, i, len(c.Left()), c.missed,
				c.looked, c.watchersOf(19))
		}
	}
	if took, all := w.crash(10); !all || took > 2500*time.Millisecond {
		t.Errorf("seed %d: a crash is LEFT at all: %v, after %v", w.seed, all, took)
	}
	if f := w.falsely(); len(f) > 0 {
		t.Errorf("seed %d: LEFT though they live: %v", w.seed, f)
	}
}
