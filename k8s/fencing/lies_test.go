package fencing

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// Guard: if devices reported a boot as switched off and it was heard after that, a person has to look. When its
// remediation is given up, the NodeFence that records this is not deleted: another one would switch the same plug,
// perhaps another machine's, again and again.
func TestLyingDevicesAreLeftToAPerson(t *testing.T) {
	for _, speaks := range []string{"the Node", "the agents", "the kubelet", "nobody"} {
		s := newStage(t)
		s.configure("begin_by=remediation")
		s.ask("n4", nil)
		for range 60 {
			if s.round(); s.fence() != nil && s.fence().Status.Proof != nil {
				break
			}
		}
		f := s.fence()
		if f == nil || f.Status.Proof == nil || f.Status.Proof.Kind != nodefence.ByPower {
			t.Fatalf("no proof: %+v", f)
		}
		switch speaks {
		case "the Node":
			s.shows("", s.boot())
		case "the kubelet":
			s.node("n4", false, "0", s.now.Add(time.Second))
		case "the agents":
			c, err := s.r.config(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			survey, _, err := s.r.survey(t.Context(), c, []NodeFence{*f})
			if err != nil {
				t.Fatal(err)
			}
			s.r.seen = map[string]seen{"n4": {s.boot(), []string{"n1", "n2"}}}
			m, err := s.r.remediationFacts(t.Context(), s.wish("n4"), c, survey)
			if err != nil || !m.Fence.Lies || m.Fence.Proven {
				t.Errorf("the agents speak: %+v, %v", m.Fence, err)
			}
			continue
		}
		before := len(s.ran)
		s.change("n4", func(m *FencingRemediation) { m.Annotations = map[string]string{timedOutAnnotation: "1"} })
		s.rounds(60)
		stays := s.fence() != nil && s.fence().UID == f.UID && s.fence().DeletionTimestamp == nil
		if want := speaks != "nobody"; stays != want {
			t.Errorf("%s speaks: the NodeFence stays: %v; %+v", speaks, stays, s.fence())
		}
		if speaks != "nobody" && strings.Contains(strings.Join(slices.Clone(s.ran[before:]), " "), "off") {
			t.Errorf("%s speaks: %v ran", speaks, s.ran[before:])
		}
	}
}
