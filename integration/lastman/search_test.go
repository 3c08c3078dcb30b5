package lastman

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func list(as []Action) string {
	var b strings.Builder
	for _, a := range as {
		fmt.Fprintf(&b, "\n\t%v", a)
	}
	return b.String()
}

// bounds are those of one search of all states.
type bounds struct {
	rules Rules
	nodes int
	log   uint8
	left  Budget
	short bool // for all runs
	long  bool // for make exhaustive
}

var searches = []bounds{
	{rules: Safe, nodes: 4, log: 4, left: Budget{Cuts: 1}, short: true},
	{rules: Safe, nodes: 4, log: 4, left: Budget{Resets: 1, Cuts: 1}},
	{rules: Gated, nodes: 4, log: 4, left: Budget{Resets: 1, Cuts: 1}, long: true},
	{rules: Safe, nodes: 4, log: 4, left: Budget{Disks: 1, Cuts: 1}, long: true},
	{rules: Safe, nodes: 4, log: 4, left: Budget{Resets: 1, Cuts: 1, Hangs: 1}, long: true},
	{rules: Gated, nodes: 4, log: 4, left: Budget{Resets: 1, Cuts: 1, Hangs: 1}, long: true},
	{rules: Safe, nodes: 4, log: 4, left: Budget{Resets: 1, Cuts: 1, Paths: 1}, long: true},
	{rules: Safe, nodes: 4, log: 5, left: Budget{Resets: 1, Cuts: 1}, long: true},
	{rules: Safe, nodes: 4, log: 4, left: Budget{Resets: 1, Cuts: 2}, long: true},
	{rules: Safe, nodes: 4, log: 4, left: Budget{Resets: 2, Cuts: 1}, long: true},
	{rules: Safe, nodes: 6, log: 4, left: Budget{Cuts: 1}, long: true},
}

func exhaustive() bool { return os.Getenv("LASTMAN_EXHAUSTIVE") != "" }

// No two parts live, whatever happens within the bounds and in whatever order.
func TestSearch(t *testing.T) {
	for _, b := range searches {
		t.Run(fmt.Sprintf("%d nodes, %v, log %d, %+v", b.nodes, b.rules.Memory, b.log, b.left), func(t *testing.T) {
			switch {
			case b.long && !exhaustive():
				t.Skip("a long search: set LASTMAN_EXHAUSTIVE, or make exhaustive")
			case !b.short && (testing.Short() || raceEnabled):
				t.Skip("not in a short run")
			}
			m := group(b.nodes, b.rules)
			m.Log = b.log
			begun := time.Now()
			f := m.Search(won(b.nodes, b.left), env("LASTMAN_LIMIT", 7_000_000))
			t.Logf("%d states, %d steps deep, all: %t, %+v, in %v", f.States, f.Depth, !f.Cut, f.Met, time.Since(begun).Round(10*time.Millisecond))
			if f.Torn != nil {
				t.Errorf("two parts live:%s\n%v", list(f.Torn), &f.State)
			}
			if f.Met.Shrunk == 0 || b.nodes == 4 && slices.Contains([]int{f.Met.Few, f.Met.Outvoted, f.Met.Again}, 0) {
				t.Errorf("the search does not reach what it is to check: %+v", f.Met)
			}
		})
	}
}

func env(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// walk is random: the graphs are any partitions and some that are none, and much more may happen than a search could try.
func walk(r Rules, seed uint64) Found {
	rng := rand.New(rand.NewPCG(seed, 15))
	n := 4 + 2*rng.IntN(2)
	m := &Model{Rules: r, Log: maxLog}
	for range 5 {
		parts := make([]Set, 1+rng.IntN(3))
		for x := range n {
			parts[rng.IntN(len(parts))] |= setOf(x)
			if rng.IntN(6) == 0 { // who has links to two parts: contact is not transitive
				parts[rng.IntN(len(parts))] |= setOf(x)
			}
		}
		m.Graphs = append(m.Graphs, parts)
	}
	m.Graphs = append(m.Graphs, []Set{full(n)})
	left := Budget{Resets: uint8(rng.IntN(6)), Cuts: uint8(rng.IntN(8)), Paths: uint8(rng.IntN(5)), Hangs: uint8(rng.IntN(3)), Disks: uint8(rng.IntN(2))}
	root := won(n, left)
	if rng.IntN(4) == 0 {
		root = healthy(n, left)
	}
	return m.Walk(root, 250, rng)
}

// LASTMAN_SEED and LASTMAN_RUNS choose others.
func TestRandomWalks(t *testing.T) {
	runs := 1000
	if testing.Short() || raceEnabled {
		runs = 300
	}
	first := env("LASTMAN_SEED", 1)
	runs = env("LASTMAN_RUNS", runs)
	var met Met
	steps := 0
	for seed := uint64(first); seed < uint64(first+runs); seed++ {
		for _, r := range []Rules{Safe, Gated} {
			f := walk(r, seed)
			if f.Torn != nil {
				t.Fatalf("two parts live (%v), LASTMAN_SEED=%d LASTMAN_RUNS=1 repeats it:%s\n%v", r.Memory, seed, list(f.Torn), &f.State)
			}
			steps += f.States
			met.add(&f.Met)
		}
	}
	t.Logf("seeds %d to %d: %d steps, %+v", first, first+runs-1, steps, met)
	if runs >= 1000 && slices.Contains([]int{met.Shrunk, met.Few, met.Again, met.Bound, met.Outvoted}, 0) {
		t.Errorf("the walks do not reach what they are to check: %+v", met)
	}
}

// Walks and searches are worth something only if they find what a missing rule lets through.
func TestMissingRulesAreFound(t *testing.T) {
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			r := h.rules
			h.leave(&r)
			switch h.found {
			case byWalk:
				for seed := range uint64(2000) {
					if f := walk(r, seed); f.Torn != nil {
						t.Logf("seed %d, %d steps", seed, len(f.Torn))
						return
					}
				}
			case byLongSearch, bySearch:
				if h.found == byLongSearch && !exhaustive() {
					t.Skip("a long search: set LASTMAN_EXHAUSTIVE, or make exhaustive")
				}
				left := Budget{Resets: 1, Cuts: 1}
				if r.Memory == Stored {
					left = Budget{Disks: 1, Cuts: 1}
				}
				if f := group(4, r).Search(won(4, left), 1_000_000); f.Torn != nil {
					t.Logf("%d states, %d steps", f.States, len(f.Torn))
					return
				}
			default:
				t.Skip("only as a history")
			}
			t.Error("without the rule nothing is found")
		})
	}
}
