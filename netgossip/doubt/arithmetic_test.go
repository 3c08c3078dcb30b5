package doubt

import (
	"math"
	"testing"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// falsePerHour bounds how often per hour a peer that answers is LEFT by doubt on some node, if a share p of all packets
// is lost, independently of each other. Each of the perSecond samples of the peer may start a doubt, and three of its
// finder and five watchers must miss all their looks of a window. The further condition, a missed look of each
// observer, is ignored.
func falsePerHour(p float64, networks int, perSecond, gap float64) float64 {
	q := 1 - (1-p)*(1-p)
	looks := math.Floor(windowTimeouts / gap)
	return 3600 * perSecond * 20 * math.Pow(q, 3*float64(networks)*looks) // 20 = C(6, 3)
}

// TestTheArithmeticOfFalseLefts checks the figures of docs/tuning.md.
func TestTheArithmeticOfFalseLefts(t *testing.T) {
	for _, c := range []struct {
		loss     float64
		networks int
		gap      float64
		most     float64
	}{
		{0.05, 1, 0.75, 1e-24}, {0.05, 2, 0.75, 1e-54},
		{0.10, 1, 0.50, 1e-26}, {0.10, 2, 0.50, 1e-58},
		{0.20, 1, 0.50, 1e-14}, {0.20, 2, 0.50, 1e-34},
		{0.20, 1, 1.25, 1e-2}, {0.20, 2, 1.25, 1e-10}, // loss that a node has not measured yet
	} {
		got := falsePerHour(c.loss, c.networks, 7.5, c.gap)
		t.Logf("loss %v, %d networks, a look each %v timeouts: %.1e an hour", c.loss, c.networks, c.gap, got)
		if got > c.most || got < c.most/100 {
			t.Errorf("loss %v, %d networks: %.1e an hour, want about %.0e", c.loss, c.networks, got, c.most)
		}
	}
	for _, loss := range []float64{0.05, 0.1, 0.2} {
		w := newWorld(t, 1, 12, 1, loss, netgossip.Any())
		w.run(0)
		want := map[float64]float64{0.05: 0.75, 0.1: 0.5, 0.2: 0.5}[loss]
		w.cores[0].loss.share = 1 - (1-loss)*(1-loss)
		if got := w.cores[0].gap(); got != w.cores[0].times(want) {
			t.Errorf("loss %v: a look each %v", loss, got)
		}
	}
}
