package rejoin

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

func list(as []Action) string {
	var b strings.Builder
	for _, a := range as {
		fmt.Fprintf(&b, "\n\t%v", a)
	}
	return b.String()
}

// bounds limits one search of all states.
type bounds struct {
	root   func(Budget) State
	left   Budget
	orders int
	short  bool // for all runs
	long   bool // only for make model KIND=lease
}

var searches = []bounds{
	{root: won, left: Budget{Cuts: 1}, orders: 24, short: true},
	{root: won, left: Budget{Cuts: 2}, orders: 2},
	{root: won, left: Budget{Cuts: 2}, orders: 24, long: true},
	{root: won, left: Budget{Cuts: 3}, orders: 2, long: true},
	{root: won, left: Budget{Cuts: 2, Paths: 1}, orders: 2, long: true},
	{root: won, left: Budget{Cuts: 2, Hangs: 1}, orders: 2, long: true},
	{root: won, left: Budget{Cuts: 2, Late: 1}, orders: 2, long: true},
	{root: won, left: Budget{Cuts: 2, Starts: 1}, orders: 2, long: true},
	{root: healthy, left: Budget{Cuts: 3}, orders: 1, long: true},
}

func exhaustive() bool { return os.Getenv("REJOIN_EXHAUSTIVE") != "" }

// Nothing is wrong in any state that is possible within the bounds, in any order.
func TestSearch(t *testing.T) {
	for i, b := range searches {
		t.Run(fmt.Sprintf("%d: %d orders, %+v", i, b.orders, b.left), func(t *testing.T) {
			switch {
			case b.long && !exhaustive():
				t.Skip("a long search: set REJOIN_EXHAUSTIVE, or make model KIND=lease")
			case !b.short && testing.Short():
				t.Skip("not in a short run")
			}
			begun := time.Now()
			f := group(Safe, b.orders).Search(b.root(b.left), search.Env("REJOIN_LIMIT", 5_000_000))
			t.Logf("%d states, %d steps deep, all: %t, %+v, in %v", f.States, f.Depth, !f.Cut, f.Met, time.Since(begun).Round(10*time.Millisecond))
			if f.Wrong != "" {
				t.Errorf("%s:%s\n%v", f.Wrong, list(f.Way), &f.State)
			}
			if f.Met.Beside == 0 || f.Met.Ended == 0 || b.left.Cuts > 1 && f.Met.Joined*f.Met.Rival*f.Met.Dead == 0 {
				t.Errorf("the search does not reach what it is to check: %+v", f.Met)
			}
		})
	}
}

func walk(r Rules, seed uint64) Found {
	rng := rand.New(rand.NewPCG(seed, 14))
	left := Budget{
		Cuts: uint8(2 + rng.IntN(12)), Paths: uint8(rng.IntN(4)), Hangs: uint8(rng.IntN(4)), Late: uint8(rng.IntN(8)), Starts: uint8(rng.IntN(5)),
	}
	root := won(left)
	if rng.IntN(3) == 0 {
		root = healthy(left)
	}
	return group(r, 24).Walk(root, 150, rng)
}

// REJOIN_SEED and REJOIN_RUNS choose other seeds and numbers of walks.
func TestRandomWalks(t *testing.T) {
	runs := 5000
	if testing.Short() {
		runs = 1000
	}
	first := search.Env("REJOIN_SEED", 1)
	runs = search.Env("REJOIN_RUNS", runs)
	var met Met
	steps := 0
	for seed := uint64(first); seed < uint64(first+runs); seed++ {
		f := walk(Safe, seed)
		if f.Wrong != "" {
			t.Fatalf("%s, REJOIN_SEED=%d REJOIN_RUNS=1 repeats it:%s\n%v", f.Wrong, seed, list(f.Way), &f.State)
		}
		steps += f.States
		met.add(&f.Met)
	}
	t.Logf("seeds %d to %d: %d steps, %+v", first, first+runs-1, steps, met)
	if runs >= 1000 && met.Beside*met.Joined*met.Ended*met.Rival*met.Dead == 0 {
		t.Errorf("the walks do not reach what they are to check: %+v", met)
	}
}

// Two guards back each other up: the token, which prevents the grant from being replaced, and the partner's statement
// with this node's view. A search finds an error without both, which proves that it can find one. Without only one of
// them nothing happens that exceeds the time budget.
func TestWithoutBothGuardsTwoPartsFeed(t *testing.T) {
	token, word := Safe, Safe
	token.Keep = false
	word.Exact, word.Fresh = false, false
	none := word
	none.Keep = false
	if f := group(none, 1).Search(won(Budget{Cuts: 2}), 1_000_000); f.Wrong == "" {
		t.Errorf("without both guards nothing is found in %d states", f.States)
	} else {
		t.Logf("%s, %d states, %d steps", f.Wrong, f.States, len(f.Way))
	}
	if testing.Short() {
		return
	}
	for _, r := range []Rules{token, word} {
		if f := group(r, 1).Search(won(Budget{Cuts: 2}), 1_000_000); f.Wrong != "" || f.Cut {
			t.Errorf("%+v: %s:%s\n%v", r, f.Wrong, list(f.Way), &f.State)
		}
	}
}

// way makes a history happen.
func way(t *testing.T, m *Model, s State, as ...Action) State {
	t.Helper()
	for _, a := range as {
		next, ok := m.Apply(&s, a)
		if !ok {
			t.Fatalf("cannot be: %v\n%v", a, &s)
		}
		if s = next; s.Wrong() != "" {
			t.Fatalf("%s\n%v", s.Wrong(), &s)
		}
	}
	return s
}

// rounds returns n rounds of time.
func rounds(n int) (as []Action) {
	for range n {
		as = append(as, Action{what: passes})
	}
	return as
}

// This is the purpose of the rule: history 27 of docs/lease.md.
func TestWhoLives(t *testing.T) {
	pieces := Action{what: cut, arg: 2} // 1 sees all others, and 2 sees only 1
	for _, c := range []struct {
		name  string
		rules Rules
		way   []Action
		want  why
	}{
		{"with the rule 2 goes on", Safe, append([]Action{pieces}, rounds(12)...), beside},
		{"and has a majority in the end", Safe, append(append([]Action{pieces}, rounds(12)...), append([]Action{{what: cut, arg: 1}}, rounds(2)...)...), majority},
		{"without it 2 is reset", Without, append([]Action{pieces}, rounds(12)...), starves},
		{"who cannot write the LUN stops", Safe, append([]Action{pieces, {what: moves, node: 1}}, rounds(12)...), starves},
		{"and who has lost its partner", Safe, append(append([]Action{pieces}, rounds(3)...), append([]Action{{what: cut, arg: 4}}, rounds(3)...)...), starves},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := way(t, group(c.rules, 1), won(Budget{Cuts: 9, Paths: 9}), c.way...)
			if got := s.nodes[1].feeds; got != c.want {
				t.Errorf("2 %v, want %v\n%v", got, c.want, &s)
			}
		})
	}
}
