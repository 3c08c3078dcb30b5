package soak

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSameSeedSameRounds(t *testing.T) {
	p := Plan{Seed: 7, Nodes: 5, Steady: 2, LUN: true}
	for i := range 100 {
		if a, b := p.Round(i), p.Round(i); !reflect.DeepEqual(a, b) {
			t.Fatalf("round %d: %v, and then %v", i, a, b)
		}
	}
	other := Plan{Seed: 8, Nodes: 5, Steady: 2, LUN: true}
	if reflect.DeepEqual(p.Round(0), other.Round(0)) && reflect.DeepEqual(p.Round(1), other.Round(1)) {
		t.Error("another seed makes the same rounds")
	}
}

func TestRoundsAreSound(t *testing.T) {
	for _, p := range []Plan{{Seed: 1, Nodes: 4, Steady: 1, LUN: true}, {Seed: 2, Nodes: 9, Steady: 2}} {
		seen := map[Kind]int{}
		for i := range 2000 {
			r := p.Round(i)
			if len(r.Faults) < 1 || len(r.Faults) > 2 || r.Calm < 2*time.Second {
				t.Fatalf("%+v", r)
			}
			for _, f := range r.Faults {
				seen[f.Kind]++
				if f.For < time.Second || f.For > 14*time.Second || slices.ContainsFunc(f.Nodes, func(n int) bool { return n < 0 || n >= p.Nodes }) {
					t.Fatalf("%+v", f)
				}
				switch f.Kind {
				case Crash, Reboot, Restart:
					if f.Nodes[0] < p.Steady {
						t.Fatalf("%v happens to a node that is never restarted", f)
					}
				case Partition, OneNetwork:
					if len(f.Nodes) == 0 || 2*len(f.Nodes) > p.Nodes {
						t.Fatalf("%v is not a cut, or names the greater part", f)
					}
				case OneWay:
					if len(f.Nodes) != 2 || f.Nodes[0] == f.Nodes[1] {
						t.Fatal(f)
					}
				}
			}
			if len(r.Faults) == 2 && clash(r.Faults[0], r.Faults[1]) {
				t.Fatal(r)
			}
		}
		for _, k := range faultKinds {
			if (seen[k.kind] == 0) != (k.kind == FreezeLUN && !p.LUN) {
				t.Errorf("%s happens %d times in 2000 rounds", k.kind, seen[k.kind])
			}
		}
	}
}

func TestWhoMayBeLeft(t *testing.T) {
	cut := Fault{Kind: Partition, Nodes: []int{0, 1}, For: 10 * time.Second}
	restart := Fault{Kind: Restart, Nodes: []int{3}, For: 10 * time.Second}
	crash := Fault{Kind: Crash, Nodes: []int{4}, For: 10 * time.Second}
	short := Fault{Kind: Crash, Nodes: []int{4}, For: time.Second}
	reboot := Fault{Kind: Reboot, Nodes: []int{4}, For: time.Second}
	freeze := Fault{Kind: Freeze, Nodes: []int{2}, For: 10 * time.Second}
	oneWay := Fault{Kind: OneWay, Nodes: []int{0, 1}, For: 10 * time.Second}
	loss := Fault{Kind: Loss, Percent: 20, For: 10 * time.Second}
	for _, c := range []struct {
		what           string
		faults         []Fault
		observer, node int
		may, must      bool
	}{
		{"across a cut", []Fault{cut}, 0, 2, true, true},
		{"across a cut, other direction", []Fault{cut}, 2, 0, true, true},
		{"on the same side", []Fault{cut}, 2, 3, false, false},
		{"itself, without quorum perhaps", []Fault{cut}, 0, 0, true, false},
		{"planned restart", []Fault{restart}, 0, 3, false, false},
		{"who restarts", []Fault{restart}, 3, 0, false, false},
		{"planned restart without quorum", []Fault{restart, cut}, 2, 3, true, false},
		{"planned restart, seen across a cut", []Fault{restart, cut}, 0, 3, true, false},
		{"crash", []Fault{crash}, 0, 4, true, true},
		{"crash, seen by the crashed", []Fault{crash}, 4, 0, true, false},
		{"crash of another", []Fault{crash}, 0, 1, false, false},
		{"short crash", []Fault{short}, 0, 4, true, false},
		{"short reboot", []Fault{reboot}, 0, 4, true, true},
		{"stopped", []Fault{freeze}, 0, 2, true, true},
		{"seen by the stopped", []Fault{freeze}, 2, 0, true, false},
		{"one way", []Fault{oneWay}, 1, 0, true, false},
		{"one way, a third node", []Fault{oneWay}, 2, 0, false, false},
		{"loss", []Fault{loss}, 0, 1, false, false},
		{"loss, itself", []Fault{loss}, 0, 0, false, false},
	} {
		r := Round{Faults: c.faults}
		if got := r.MayLeave(c.observer, c.node); got != c.may {
			t.Errorf("%s: may be LEFT: %v", c.what, got)
		}
		if got := r.MustLeave(c.observer, c.node, 8*time.Second); got != c.must {
			t.Errorf("%s: must be LEFT: %v", c.what, got)
		}
	}
}

func TestDisjointFeeders(t *testing.T) {
	began := time.Now()
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	d := Disjoint{Bound: 10 * time.Second}
	both := map[string]Feeder{
		"n1": {true, []string{"n1", "n2"}}, "n2": {true, []string{"n1", "n2"}},
		"n3": {true, []string{"n3", "n4"}}, "n4": {false, []string{"n3", "n4"}},
	}
	for s := 0.0; s <= 10; s++ {
		if v := d.Observe(at(s), both); len(v) > 0 {
			t.Fatalf("after %v s, within the bound: %v", s, v)
		}
	}
	v := d.Observe(at(10.5), both)
	if len(v) != 2 || !strings.Contains(strings.Join(v, " "), "n1 [n1 n2] and n3 [n3 n4]") || d.Longest < 10*time.Second {
		t.Fatalf("beyond the bound: %v, longest %v", v, d.Longest)
	}
	both["n3"] = Feeder{false, both["n3"].Counted}
	d.Observe(at(11), both)
	both["n3"] = Feeder{true, both["n3"].Counted}
	if v := d.Observe(at(12), both); len(v) > 0 {
		t.Fatalf("the clock starts again: %v", v)
	}
	together := map[string]Feeder{"n1": {true, []string{"n1", "n2", "n3"}}, "n3": {true, []string{"n1", "n2", "n3"}}}
	d.Observe(at(20), together)
	if v := d.Observe(at(60), together); len(v) > 0 {
		t.Fatalf("with a common view: %v", v)
	}
}

func TestLeaks(t *testing.T) {
	from := Usage{Memory: 30 << 20, Goroutines: 60, Descriptors: 30}
	if leaks := (Usage{Memory: 40 << 20, Goroutines: 75, Descriptors: 35}).grown(from); len(leaks) > 0 {
		t.Error(leaks)
	}
	if leaks := (Usage{Memory: 90 << 20, Goroutines: 200, Descriptors: 300}).grown(from); len(leaks) != 3 {
		t.Error(leaks)
	}
}
