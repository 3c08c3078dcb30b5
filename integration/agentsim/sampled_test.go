package agentsim

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Guard: the inquiry, in whole agents. Of twelve nodes on two networks each asks few random samples, and nobody is told of news: its
// statements of most are older than claims may be. One node that is cut off is proven dead by time by all others all the same, within
// seconds of the earliest moment. Without the inquiry only some of them had proven it then.
func TestSampledGroupProvesByTime(t *testing.T) {
	const nodes = 12
	var others []int
	for i := 1; i < nodes; i++ {
		others = append(others, i)
	}
	s := group(nodes, func(s *Schedule) { s.LUN, s.Reboot, s.Quiet, s.MaxAge = false, time.Hour, true, longAge }, split([]int{0}, others))
	due := s.timing().dead - s.timing().arbitrate + watchdog.ProofDelay
	s.End = healthyFor + due + 15*time.Second
	r := run(t, s)
	t.Logf("FENCED after %v at the earliest, due after %v, %d deaths", said(t, r, "FENCED "+nodeName(0)), due, r.Deaths)
	if first := said(t, r, "FENCED "+nodeName(0)); first > healthyFor+due+time.Second {
		t.Errorf("FENCED after %v: no claim is dated", first)
	}
	if len(r.Violations) > 0 || r.Resets != 1 || r.Deaths != nodes-1 {
		t.Errorf("%d resets, %d deaths\n%s", r.Resets, r.Deaths, Explain(s, r))
	}
}
