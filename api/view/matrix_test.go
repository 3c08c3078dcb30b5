package view

import (
	"strings"
	"testing"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// A node that answers and is not listed is shown with the reason. When it is listed again, it is shown without one.
func TestWhyANodeThatAnswersIsNotListed(t *testing.T) {
	for _, c := range []struct {
		reason    string
		available bool
		want      string
	}{
		{"flapping", false, "FLAPPING"},
		{"doubted", false, "DOUBTED"},
		{"unreachable", false, "reachable"},
		{"flapping", true, "reachable"},
		{"doubted", true, "reachable"},
	} {
		n := &fencingv1.NodeStatus{Name: "n2", State: fencingv1.NodeState_NODE_STATE_REACHABLE, Reachable: true, Available: c.available, LeftReason: c.reason}
		if got := State(&fencingv1.Status{}, n); got.Text != c.want {
			t.Errorf("%s, available %v: %q, want %q", c.reason, c.available, got.Text, c.want)
		}
	}
}

// The summary names a node that is hidden from consumers because it flaps, as the table and the metric do.
func TestTheSummaryNamesANodeThatFlaps(t *testing.T) {
	n := &fencingv1.NodeStatus{
		Name: "n4", State: fencingv1.NodeState_NODE_STATE_REACHABLE, Reachable: true, Counted: true, SameRoster: true, SeesThisNode: true,
	}
	for _, available := range []bool{true, false} {
		n.Available, n.LeftReason = available, "flapping"
		said := Missing(&fencingv1.Status{Self: &fencingv1.NodeIdentity{Name: "n1"}, Nodes: []*fencingv1.NodeStatus{{Name: "n1"}, n}})
		if named := len(said) == 1 && strings.Contains(said[0].Text(), "n4: FLAPPING"); named == available {
			t.Errorf("available %v: %+v", available, said)
		}
	}
}
