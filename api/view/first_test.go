package view

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// A node that is FENCED is dead for certain now, also where an agent says as well by when time would prove it.
func TestFencedIsNotDueToDie(t *testing.T) {
	for state, due := range map[fencingv1.NodeState]bool{fencingv1.NodeState_NODE_STATE_UNREACHABLE: true, fencingv1.NodeState_NODE_STATE_FENCED: false} {
		st := &fencingv1.Status{Self: &fencingv1.NodeIdentity{Name: "n1"}, Verdict: &fencingv1.Verdict{Quorum: true}, Nodes: []*fencingv1.NodeStatus{
			{Name: "n1"}, {Name: "n4", State: state, ProvenIn: durationpb.New(45 * time.Second)},
		}}
		found := false
		for _, g := range Missing(st) {
			found = found || strings.Contains(g.Text(), "n4") && strings.Contains(g.Text(), "dead for certain")
		}
		if found != due {
			t.Errorf("%v: due to die %v", state, found)
		}
	}
}
