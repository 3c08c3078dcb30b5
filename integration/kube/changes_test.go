package kube

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

// consumer follows one agent over its socket, as fencectl does.
type consumer struct {
	of     string
	excuse func(*testing.T)

	mu       sync.Mutex
	left     []string      // nodes, in the order of the events
	joined   []string      // nodes, in the order of the events
	verdicts []agentStatus // one for each change of the verdict
}

// listen follows the available nodes and the verdicts of an agent until the test ends.
func (a *agents) listen(t *testing.T, r *realAgent) *consumer {
	t.Helper()
	c := &consumer{of: r.node, excuse: a.excuse}
	socket := filepath.Join(a.work, r.node+".sock")
	a.fencectl(t, func(line []byte) {
		var e struct {
			Type string
			Node struct{ Name string }
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Errorf("%s: event %s: %v", c.of, line, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		switch e.Type {
		case "LEFT":
			c.left = append(c.left, e.Node.Name)
		case "JOIN":
			c.joined = append(c.joined, e.Node.Name)
		}
	}, "watch", "--socket", socket, "-o", "json")
	a.fencectl(t, func(line []byte) {
		var s agentStatus
		if err := json.Unmarshal(line, &s); err != nil {
			t.Errorf("%s: status %s: %v", c.of, line, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.verdicts = append(c.verdicts, s)
	}, "watch", "--status", "--socket", socket, "-o", "json")
	await(t, r.node+" tells its consumer of a verdict", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.verdicts) > 0
	})
	return c
}

// fencectl runs until the test ends; each line of its output is passed to line.
func (a *agents) fencectl(t *testing.T, line func([]byte), args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(a.program), "fencectl"), args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			line(lines.Bytes())
		}
		if err := cmd.Wait(); t.Context().Err() == nil {
			t.Errorf("fencectl %s ended before the test: %v", strings.Join(args, " "), err)
		}
	}()
	t.Cleanup(func() { <-done }) // the test's context has ended by then
}

// calm checks that a consumer received LEFT only for these nodes, and that its agent was never without permission.
func (c *consumer) calm(t *testing.T, gone ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got, want := strings.Join(c.left, " "), strings.Join(gone, " "); got != want {
		c.excuse(t)
		t.Errorf("%s: LEFT %q, want %q", c.of, got, want)
	}
	for _, s := range c.verdicts {
		if s.Verdict.Permission != "PERMISSION_FEED" || s.Watchdog.State != "WATCHDOG_STATE_ARMED" {
			c.excuse(t)
			t.Errorf("%s: %+v", c.of, s)
		}
	}
}

// seen returns the statuses so far.
func (c *consumer) seen() []agentStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.verdicts)
}

// joins returns the nodes that joined.
func (c *consumer) joins() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.joined, " ")
}

// Members come and go only with their Nodes. The others adopt each change together, none of them loses its permission,
// and a node that is removed as planned is disarmed.
func TestMembersComeAndGo(t *testing.T) {
	a := startAgents(t, checkOften)
	var consumers []*consumer
	calm := func(gone ...string) {
		t.Helper()
		for _, c := range consumers {
			c.calm(t, gone...)
		}
	}
	a.settled(t, 3)
	for _, r := range a.group {
		consumers = append(consumers, a.listen(t, r))
	}
	fourth := a.join(t, "")
	fourth.start(t)
	a.settled(t, 4)
	calm()

	patch := func(patch string) {
		t.Helper()
		if err := patchNode(a.admin, fourth.node, patch); err != nil {
			t.Fatal(err)
		}
	}
	disarmed := func(s agentStatus) bool {
		return s.Verdict.Reason == "REASON_MAINTENANCE" && s.Watchdog.State == "WATCHDOG_STATE_DISARMED"
	}
	for _, c := range []struct{ name, begin, end string }{
		{"maintenance", annotate(disable, true), annotate(disable, false)},
		{
			"the autoscaler's taint", `{"spec":{"taints":[{"key":"` + ownnode.RemovalTaint + `","effect":"NoSchedule"}]}}`, `{"spec":{"taints":null}}`,
		},
	} {
		patch(c.begin)
		fourth.shows(t, c.name, disarmed)
		patch(c.end)
		a.settled(t, 4)
		calm()
	}

	patch(`{"metadata":{"labels":{"` + groupLabel + `":null}}}`)
	fourth.shows(t, "that it was removed", disarmed)
	a.settled(t, 3)
	calm(fourth.node)
	patch(`{"metadata":{"labels":{"` + groupLabel + `":"` + a.name + `"}}}`)
	a.settled(t, 4)
	calm(fourth.node)

	if err := a.admin.CoreV1().Nodes().Delete(t.Context(), fourth.node, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	fourth.shows(t, "that its Node was deleted", disarmed)
	a.settled(t, 3)
	calm(fourth.node, fourth.node)
	for _, c := range consumers {
		if got := c.joins(); got != fourth.node+" "+fourth.node {
			t.Errorf("%s: JOIN %q, want %s twice", c.of, got, fourth.node)
		}
	}
}
