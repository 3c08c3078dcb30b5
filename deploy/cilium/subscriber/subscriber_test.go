package subscriber

import (
	"strings"
	"testing"

	"github.com/cilium/hive/cell"
)

// TestHealthAndMetrics: cilium-agent shows which nodes are out, and why none is. It also shows that another component
// took the hook, so that LEFT has no effect.
func TestHealthAndMetrics(t *testing.T) {
	lb := newBalancer(t, map[string]string{"lb-test-fault-probability": "0"})
	if err := lb.hive.Start(lb.log, t.Context()); err != nil {
		t.Fatal(err)
	}
	const nodes = 10
	lb.addService(t, 0, nodes, false)
	lb.until(t, perService)

	_, health := cell.NewSimpleHealth()
	s := &subscriber{
		log: lb.log, config: defaultConfig, writer: lb.writer, metrics: newMetrics(), own: ownNode,
		selection: newSelection(lb.writer.DefaultSelectBackends, true),
	}
	wantHealth := func(level cell.Level, text string) {
		t.Helper()
		said := health.Status
		if health.Error != nil {
			said += ": " + health.Error.Error()
		}
		if health.Level != level || !strings.Contains(said, text) {
			t.Errorf("health is %s %q, want %s and %q", health.Level, said, level, text)
		}
	}
	update := func(inForce bool, available, left string) {
		s.update(updateOf(inForce, available, left), health)
	}

	update(true, "own n1 n2", "n0") // the hook is the running cell's
	wantHealth(cell.StatusDegraded, "another component")
	update(true, "own n0 n1 n2", "")

	lb.writer.SetSelectBackendsFunc(s.selection.choose)
	update(true, "own n1 n2", "n0")
	wantHealth(cell.StatusOK, "out are n0")
	lb.until(t, perService-1)
	if got := s.metrics.NodesOut.Get(); got != 1 {
		t.Errorf("nodes_out is %v", got)
	}
	for _, tt := range []struct {
		inForce         bool
		available, left string
		mode            mode
		text            string
	}{
		{false, "own n1 n2", "n0", modeNoAnswer, "Kubernetes' view"},
		{true, "n1 n2", "n0", modeNoQuorum, "no quorum"},
		{true, "own n1", "n0 n2 n3", modeTooMany, "3 of 5 nodes"},
		{true, "own n1 n2", "n0", modeAgent, "out are n0"},
	} {
		update(tt.inForce, tt.available, tt.left)
		level := cell.StatusDegraded
		if tt.mode == modeAgent {
			level = cell.StatusOK
		}
		wantHealth(level, tt.text)
		for _, m := range []mode{modeAgent, modeNoAnswer, modeNoQuorum, modeTooMany} {
			if got := s.metrics.Ruling.WithLabelValues(string(m)).Get(); (got == 1) != (m == tt.mode) {
				t.Errorf("in mode %s the metric of %s is %v", tt.mode, m, got)
			}
		}
	}
}
