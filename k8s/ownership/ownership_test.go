package ownership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Guard: with one view of the replicas each piece of work has exactly one first, one second and so on.
func TestRanksAreAPermutation(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 1000 {
		var replicas []string
		for i := range 1 + r.IntN(7) {
			replicas = append(replicas, fmt.Sprintf("controller-%d-%d", i, r.IntN(1000)))
		}
		work := fmt.Sprintf("node-%d", r.IntN(1000))
		rank := []func(string, string, []string) int{Rank, RankModulo}[r.IntN(2)]
		var ranks []int
		for _, self := range replicas {
			shuffled := slices.Clone(replicas)
			r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			ranks = append(ranks, rank(work, self, append(shuffled, shuffled[0])))
		}
		slices.Sort(ranks)
		for i, rank := range ranks {
			if rank != i {
				t.Fatalf("%s among %q: ranks %v", work, replicas, ranks)
			}
		}
	}
}

// A replica that leaves moves only its own work, and work is spread.
func TestLittleMovesAndWorkIsSpread(t *testing.T) {
	all := []string{"a-1", "a-2", "a-3"}
	first := map[string]int{}
	for i := range 3000 {
		work := fmt.Sprintf("node-%d", i)
		for _, self := range all {
			if Rank(work, self, all) == 0 {
				first[self]++
				continue
			}
			if self == "a-2" && Rank(work, self, all[:2]) == 0 && Rank(work, "a-3", all) != 0 {
				t.Errorf("%s moves to a-2 when a-3 goes, which was not first", work)
			}
		}
	}
	for _, self := range all {
		if first[self] < 800 || first[self] > 1200 {
			t.Errorf("first of 3000: %v, want about 1000 each", first)
		}
	}
}

// Guard: no replica waits for ever, whatever replicas are listed.
func TestDelaysAreBounded(t *testing.T) {
	for _, c := range []struct {
		self     string
		replicas []string
		most     time.Duration
	}{
		{"a", nil, 0},
		{"a", []string{"a"}, 0},
		{"a", []string{"a", "b"}, time.Second},
		{"a", []string{"b", "c"}, 2 * time.Second},
	} {
		if d := Delay("n1", c.self, c.replicas, time.Second); d > c.most || len(c.replicas) == 0 && d != 0 {
			t.Errorf("%s among %q waits %v", c.self, c.replicas, d)
		}
	}
	if d := Delay("n1", "a", []string{"b", "c"}, time.Second); d != 2*time.Second {
		t.Errorf("a replica that is not listed waits %v", d)
	}
}
