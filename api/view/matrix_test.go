package view

import (
	"testing"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// A node that answers and is not listed is shown with the reason, and with none when it is listed again.
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
