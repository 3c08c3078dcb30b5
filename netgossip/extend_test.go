package netgossip

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// A peer is counted by either kind of evidence, and the quorum lasts until the evidence of the last needed peer runs
// out. The oracle checks each instant.
func TestExtendCountsByBoth(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	for range 3000 {
		n := 2 + rng.IntN(7)
		m := testMerger(t, n, 1+rng.IntN(2), Any())
		lists := 1 + rng.IntN(2)
		var electorates []Electorate
		if rng.IntN(2) == 0 {
			for range lists {
				var set roster.Set
				for p := range n {
					if rng.IntN(4) > 0 {
						set.Add(p)
					}
				}
				electorates = append(electorates, Electorate{Members: set, Quorum: set.Len()/2 + 1})
			}
			m.Recount(electorates)
		}
		quorum := n/2 + 1
		until := make([]boottime.Instant, n)
		for p := 1; p < n; p++ {
			if rng.IntN(2) == 0 {
				answer(m, rng.IntN(len(m.up)), p, boottime.Instant(rng.IntN(10))*sec)
			}
			if rng.IntN(2) == 0 {
				until[p] = boottime.Instant(rng.IntN(25)) * sec
			}
		}
		now := 10 * sec
		networks := m.Evaluate(now, quorum)
		v := networks
		m.Extend(&v, now, quorum, until)
		lasts := func(p int, at boottime.Instant) bool {
			return p == 0 || until[p] > at || networks.Counted.Has(p) && m.peerExpiry(p) > at
		}
		quorate := func(at boottime.Instant) bool {
			if electorates == nil {
				electorates = []Electorate{{Members: roster.FullSet(n), Quorum: quorum}}
			}
			return !slices.ContainsFunc(electorates, func(e Electorate) bool {
				have := 0
				for p := range n {
					if e.Members.Has(p) && lasts(p, at) {
						have++
					}
				}
				return have < e.Quorum
			})
		}
		for p := range n {
			if v.Counted.Has(p) != lasts(p, now) {
				t.Fatalf("%d is counted: %v", p, v.Counted.Has(p))
			}
		}
		if v.Seen != networks.Seen || v.Contact != networks.Contact {
			t.Fatalf("whom the networks show has changed")
		}
		if got := v.QuorumUntil > now; got != quorate(now) {
			t.Fatalf("quorum until %v: %v", v.QuorumUntil, quorate(now))
		}
		if end := v.QuorumUntil; end > now && (!quorate(end-1) || end < now.Add(m.maxAge) && quorate(end)) {
			t.Fatalf("quorum until %v", time.Duration(end))
		}
		for p := range n {
			if e := v.NextExpiry; lasts(p, now) && p > 0 && e > now && !lasts(p, e-1) {
				t.Fatalf("%d ceases to be counted before %v", p, e)
			}
		}
	}
}

func TestExtendDoesNotAllocate(t *testing.T) {
	m := testMerger(t, 9, 2, Any())
	for p := 1; p < 6; p++ {
		answer(m, 0, p, 9*sec)
	}
	until := make([]boottime.Instant, 9)
	until[7] = 20 * sec
	for _, e := range [][]Electorate{nil, {{Members: roster.FullSet(9), Quorum: 5}}} {
		m.Recount(e)
		if n := testing.AllocsPerRun(100, func() {
			v := m.Evaluate(10*sec, 5)
			m.Extend(&v, 10*sec, 5, until)
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
