package agentsim

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Guard: the inquiry, in whole agents. Each of twelve nodes on two networks asks few random samples, and no node
// announces news. Its statements from most nodes are therefore older than claims may be. One node is cut off, and all
// others still prove its death by time, within seconds of the earliest moment. Without the inquiry only some of them
// did.
func TestSampledGroupProvesByTime(t *testing.T) {
	const nodes = 12
	var others []int
	for i := 1; i < nodes; i++ {
		others = append(others, i)
	}
	s := group(nodes, func(s *Schedule) { s.LUN, s.Reboot, s.Quiet, s.MaxAge = false, time.Hour, true, longAge }, split([]int{0}, others))
	due := s.timing().dead + watchdog.ProofDelay
	s.End = healthyFor + due + 15*time.Second
	r := run(t, s)
	first, last := said(t, r, "FENCED "+nodeName(0)), saidLast(t, r, "FENCED "+nodeName(0))
	t.Logf("FENCED after %v to %v, due after %v, %d deaths", first, last, due, r.Deaths)
	if missed := 4 * time.Second; last > missed+s.timing().dead+watchdog.ProofDelay {
		t.Errorf("FENCED after %v to %v: claims are not dated, or nobody asks for them", first, last)
	}
	if len(r.Violations) > 0 || r.Resets != 1 || r.Deaths != nodes-1 {
		t.Errorf("%d resets, %d deaths\n%s", r.Resets, r.Deaths, Explain(s, r))
	}
}
