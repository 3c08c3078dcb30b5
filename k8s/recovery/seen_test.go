package recovery

import (
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
)

// Guard (two writers): a boot that is proven dead and that agents see run gets no barrier, and loses none of its pods.
// After a while it is in dispute for good, as after a renewed Lease. If the agents stop seeing it before that, the
// recovery continues.
func TestABootThatAgentsSee(t *testing.T) {
	seen := belief.Verdict{Seen: []string{"n1", "n2"}, Missing: "the agents of n1, n2 see this boot run"}
	s := tell(t, Settings{})
	proven := s.verdict
	s.verdict = seen
	if got := writes(s.run(seenLong - time.Second)); got != "" || !strings.Contains(s.m.State().Text, "n1, n2") {
		t.Errorf("%s, %+v", got, s.m.State())
	}
	s.m.Poke()
	s.verdict = proven
	if got := writes(s.run(15 * time.Second)); !strings.HasPrefix(got, "TAINT(fenced-"+bootA) {
		t.Errorf("they do not see it any more: %s, %+v", got, s.m.State())
	}
	s = tell(t, Settings{})
	s.verdict = seen
	if got := writes(s.run(seenLong + 15*time.Second)); got != "NOTE("+bootA+")" {
		t.Errorf("%s, %+v", got, s.m.State())
	}
	s.verdict = proven
	if got := writes(s.run(5 * time.Minute)); got != "" || s.m.State().Phase != InDispute {
		t.Errorf("after the dispute: %s, %+v", got, s.m.State())
	}
	// If the barrier is already set, deletions stop at once.
	s = tell(t, Settings{})
	s.run(800 * time.Millisecond)
	s.verdict = seen
	s.m.Poke()
	if got := writes(s.run(time.Minute)); strings.Contains(got, "DELETE") {
		t.Errorf("%s", got)
	}
}
