package sim

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// A sentence needs no majority and no claims: in a large group a node that is cut off is known to be dead hardly later
// than in a small one. A LUN has slots for diskquorum.MaxSlots nodes; larger groups have no sentences.
func TestSentenceInALargeGroup(t *testing.T) {
	for _, tc := range []struct{ nodes, cut int }{{10, 1}, {10, 5}, {30, 1}, {100, 1}, {100, 50}, {diskquorum.MaxSlots, 1}} {
		if tc.nodes > max(30, *largest) {
			continue
		}
		began := time.Now()
		c := New(DefaultConfig(tc.nodes, uint64(tc.nodes)))
		if !c.RunUntil(2*time.Minute, func() bool { return len(c.Feeding()) == tc.nodes }) {
			t.Fatalf("%d nodes: %d feed", tc.nodes, len(c.Feeding()))
		}
		c.Run(40 * time.Second)
		var groups [2][]int
		for i := range tc.nodes {
			g := min(1, i/tc.cut)
			groups[g] = append(groups[g], i)
		}
		c.Split(groups[:])
		start, first, last := c.Now(), time.Duration(0), time.Duration(0)
		done := func() bool {
			lost, all := groups[0], groups[1]
			if 2*tc.cut == tc.nodes && c.nodes[tc.cut].Resets > 0 {
				lost, all = all, lost
			}
			said := 0
			for _, by := range all {
				if c.nodes[by].core.Deaths().Fenced().Len() == len(lost) {
					said++
				}
			}
			if said > 0 && first == 0 {
				first = c.Now() - start
			}
			return said == len(all)
		}
		if c.RunUntil(time.Minute, done) {
			last = c.Now() - start
		}
		t.Logf("| %d | %d | %.1f s | %.1f s | took %v", tc.nodes, tc.cut, first.Seconds(), last.Seconds(), time.Since(began).Round(time.Second))
		limit := 16 * time.Second
		if tc.nodes > 64 {
			limit = 20 * time.Second // the echo blocks are read and written with every second heartbeat
		}
		if last == 0 || last > limit || c.Sentences() != tc.cut || c.Resets() != tc.cut {
			t.Errorf("%d nodes, %d cut off: FENCED after %v to %v, %d sentences, %d resets", tc.nodes, tc.cut, first, last, c.Sentences(), c.Resets())
		}
		noViolations(t, c)
	}
}
