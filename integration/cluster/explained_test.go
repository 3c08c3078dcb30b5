package cluster_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// explained checks what a person is told while the node is still away. Output about earlier runs does not count.
func (r *recovery) explained(t *testing.T, node, proof string, since time.Time) {
	t.Helper()
	plugin := fencePlugin(t, r.Cluster)
	explain := func(more ...string) ([]byte, error) {
		return plugin(t.Context(), append([]string{"explain", node}, more...)...).CombinedOutput()
	}
	out, err := explain()
	t.Logf("kubectl fence explain says\n%s", out)
	for _, want := range []string{"proof " + proof + ", this boot", "pods are taken off", "its pods are gone"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("kubectl fence explain (%v) does not say %q", err, want)
		}
	}
	type event struct {
		At   time.Time
		What string
	}
	var e struct{ Happened []event }
	if out, err = explain("-o", "json"); err == nil {
		err = json.Unmarshal(out, &e)
	}
	for _, want := range []string{"BarrierSet", "NodeReleased"} {
		if !slices.ContainsFunc(e.Happened, func(v event) bool { return v.What == want && v.At.After(since) }) {
			t.Errorf("kubectl fence explain (%v) has no Event %s after the fault:\n%s", err, want, out)
		}
	}
}
