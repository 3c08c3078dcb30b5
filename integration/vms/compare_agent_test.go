package vms

import (
	"fmt"
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// agentByDefault uses only the default profile. A node counts as active if it was not reset; the others have been told
// when they know that the losers are dead.
var agentByDefault = &contender{
	name:   "fencing-agent, timing default",
	faults: withCuts(silent, networksCut, halfCutOff),
	voice:  agentVoice,
	crew:   func(*contender) (crew, error) { return agentsOn(nodes, map[string]any{"timing": "default"}), nil },
	ready:  agentsWell,
	end:    knownDead,
	told:   agentsTold,
}

// knownDead waits until one half was reset and the other half knows that it is dead.
func knownDead(s *story, at time.Time) []outcome {
	s.eventually(at.Add(endLimit), "somebody is reset", func() string {
		for _, node := range nodes {
			if _, ok := s.resetAt(node, at); ok {
				return ""
			}
		}
		return "nobody was"
	})
	lost, won := first, second
	for _, node := range second {
		if _, ok := s.resetAt(node, at); ok {
			lost, won = second, first
		}
	}
	reset := s.all(lost, at, "one half is reset", s.resetAt)
	v := s.await(endLimit, fmt.Sprintf("%v know that %v are dead", won, lost), won, calledDead(won, lost, s.boots))
	told := time.Since(at)
	for _, o := range won {
		for _, node := range lost {
			s.logf("%s: %s is dead, %s", o, node, seenBy(v, o, node).GetDeath().GetProof())
		}
	}
	s.spared(won, at)
	return []outcome{{reset: reset, idle: reset, active: max(reset, told)}}
}

// calledDead holds when all observers know that these incarnations of the nodes have ended, either by time, which makes
// them FENCED, or by their next boot. For a node that was reset earlier, the observers may still report the older
// death, which does not count.
func calledDead(observers, of []string, boots map[string]string) observe.Condition {
	return func(v *observe.View) string {
		for _, o := range observers {
			if v.Status[o] == nil {
				return o + " does not answer"
			}
			for _, node := range of {
				if d := seenBy(v, o, node).GetDeath(); d == nil || d.GetBootNonce() != boots[node] {
					return fmt.Sprintf("%s knows of no death of %s", o, node)
				}
			}
		}
		return ""
	}
}

func TestCalledDead(t *testing.T) {
	view := func(boot string) *observe.View {
		n4 := &fencingv1.NodeStatus{Name: "n4"}
		if boot != "" {
			n4.Death = &fencingv1.Death{Proof: fencingv1.Proof_PROOF_BOOT, BootNonce: boot}
		}
		return &observe.View{Status: map[string]*fencingv1.Status{"n1": {Nodes: []*fencingv1.NodeStatus{n4}}}}
	}
	dead := calledDead([]string{"n1"}, []string{"n4"}, map[string]string{"n4": "b"})
	for boot, want := range map[string]bool{"": false, "a": false, "b": true} {
		if missing := dead(view(boot)); (missing == "") != want {
			t.Errorf("death of incarnation %q: %q", boot, missing)
		}
	}
	if dead(&observe.View{}) == "" {
		t.Error("an observer that does not answer is said to know")
	}
}
