package kube

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

const (
	// steadyEnv names the variable with the length of the long measurement of a settled group, such as 1h.
	steadyEnv = "FENCING_STEADY"
	// defaultCheck is the default of experimental.checkInterval.
	defaultCheck = 5 * time.Minute
	// kubeletPause is the interval at which a kubelet writes the status of a Node that does not change.
	kubeletPause = 5 * time.Minute
	// probePause is the time between two checks of the server by the kubernetes tie-breaker, while no tie is near.
	probePause = time.Minute
	// shortestWatch is the shortest time after which a server ends a watch by itself.
	shortestWatch = 30 * time.Minute
)

// traffic counts the requests of each node's agent by kind: verb and object, or path.
type traffic map[string]map[string]int

func (c traffic) add(node, what string) {
	if c[node] == nil {
		c[node] = map[string]int{}
	}
	c[node][what]++
}

// since returns the requests in c that are not in before.
func (c traffic) since(before traffic) traffic {
	out := traffic{}
	for node, counts := range c {
		for what, n := range counts {
			for range n - before[node][what] {
				out.add(node, what)
			}
		}
	}
	return out
}

func (c traffic) String() string {
	var lines []string
	for _, node := range slices.Sorted(maps.Keys(c)) {
		line := node + ":"
		for _, what := range slices.Sorted(maps.Keys(c[node])) {
			line += fmt.Sprintf(" %d %s,", c[node][what], what)
		}
		lines = append(lines, strings.TrimSuffix(line, ","))
	}
	return strings.Join(lines, "\n")
}

// describe returns the kind of a request, as far as it matters for its cost.
func describe(r controlplane.Request) string {
	what := strings.TrimSpace(r.Verb + " " + r.Object.Resource)
	switch {
	case r.Object.Resource == "":
		what += r.URI
	case r.Object.Resource != "nodes":
	case r.Verb == "list" && strings.Contains(r.URI, "fieldSelector="):
		what = "list own node"
	case r.Verb == "list" && strings.Contains(r.URI, "resourceVersion=0"):
		what += " from the cache"
	case r.Verb == "list":
		what += " exactly"
	case r.Verb == "watch" && strings.Contains(r.URI, "fieldSelector="):
		what = "watch own node"
	}
	return what
}

// requests counts all requests of the agents that the server has ever received.
func (a *agents) requests(t *testing.T) traffic {
	t.Helper()
	all, err := a.plane.Requests(func(r controlplane.Request) bool { return a.member(r.User.Node()) })
	if err != nil {
		t.Fatal(err)
	}
	count := traffic{}
	for _, r := range all {
		count.add(r.User.Node(), describe(r))
		// A server that another test has just restarted denies requests whose roles it has not yet read.
		if r.Response.Code == http.StatusForbidden && r.Object.Resource != "" && r.Received.After(a.began) {
			t.Errorf("the role of the manifests forbids what the agent asks for: %v", r)
		}
	}
	return count
}

// steady watches the traffic and the verdicts of a settled group for a while. Each agent keeps one watch, reads the
// Nodes once in an interval, from the server's cache, and requests nothing else, whatever the kubelets write meanwhile.
func (a *agents) steady(t *testing.T, duration time.Duration) {
	await(t, "every agent watches its Node", func() bool {
		count := a.requests(t)
		return !slices.ContainsFunc(a.group, func(r *realAgent) bool { return count[r.node]["watch own node"] == 0 })
	})
	before, verdicts := a.requests(t), a.verdicts(t)
	began := time.Now()
	kubelet, look := time.NewTicker(min(kubeletPause, duration/2)), time.NewTicker(min(time.Second, duration/10))
	defer kubelet.Stop()
	defer look.Stop()
	for time.Since(began) < duration && !t.Failed() {
		select {
		case <-kubelet.C:
			a.heartbeat(t)
		case <-look.C:
			a.compare(t, verdicts)
		}
	}
	after := a.requests(t)
	took := time.Since(began)
	t.Logf("until it was settled:\n%v", before)
	more := after.since(before)
	t.Logf("in %v after that:\n%v", took.Round(time.Second), more)
	for _, r := range a.group {
		a.bound(t, r.node, before[r.node], more[r.node], took)
	}
	for _, r := range a.group {
		a.tells(t, r)
	}
}

// bound compares the traffic of one agent with what the documentation promises.
func (a *agents) bound(t *testing.T, node string, before, more map[string]int, took time.Duration) {
	t.Helper()
	// A check comes no earlier than four fifths of an interval after the last one. On a busy machine there are fewer
	// checks, and never more.
	looks := int(took/(a.check*4/5)) + 1
	least := int(took/(a.check*6/5)) / 2
	if n := more["list nodes from the cache"]; n > looks || n < least {
		t.Errorf("%s: %d looks at the Nodes in %v, want %d to %d", node, n, took, least, looks)
	}
	if n := before["list own node"]; n != 1 {
		t.Errorf("%s: asked %d times for its Node at the start, want once", node, n)
	}
	if n, most := more["watch own node"], int(took/shortestWatch); n > most {
		t.Errorf("%s: %d more watches, want %d at most, since the server ends none before %v", node, n, most, shortestWatch)
	}
	if n, most := more["get/readyz"], int(took/(probePause*9/10))+1; n > most {
		t.Errorf("%s: asked %d times whether the server is there in %v, want %d at most", node, n, took, most)
	}
	for what, n := range more {
		switch {
		case what == "list nodes from the cache", what == "watch own node", what == "get/readyz":
		// It belongs to the start, and is a little late.
		case what == "create events" && n == 1 && before[what] == 0:
		default:
			t.Errorf("%s: %d times %s in steady state", node, n, what)
		}
	}
}

// heartbeat writes the status of all Nodes, as their kubelets do.
func (a *agents) heartbeat(t *testing.T) {
	t.Helper()
	for _, r := range a.group {
		status := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
		if _, err := a.admin.CoreV1().Nodes().Patch(t.Context(), r.node, types.StrategicMergePatchType, []byte(status), meta.PatchOptions{}, "status"); err != nil {
			t.Error(err)
		}
	}
}

// tells compares the agent's own metric with the requests that the server received.
func (a *agents) tells(t *testing.T, r *realAgent) {
	t.Helper()
	var own, server map[string]int
	defer func() {
		if t.Failed() {
			t.Logf("%s counts %v, the server %v", r.node, own, server)
		}
	}()
	await(t, r.node+" counts the same requests as the server", func() bool {
		own, server = r.counted(t), map[string]int{}
		all, err := a.plane.Requests(func(q controlplane.Request) bool { return q.User.Node() == r.node && q.Object.Resource != "" })
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range all {
			server[q.Verb+" "+q.Object.Resource]++
		}
		return maps.Equal(own, server)
	})
}

// counted returns the agent's own counts of its requests, by verb and resource.
func (r *realAgent) counted(t *testing.T) map[string]int {
	t.Helper()
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Get(r.http + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	count := map[string]int{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), "fencing_agent_kube_requests_total{")
		if !ok {
			continue
		}
		var value float64
		label := map[string]string{}
		labels, rest, _ := strings.Cut(labels, "} ")
		if _, err := fmt.Sscan(rest, &value); err != nil {
			t.Fatal(err)
		}
		for pair := range strings.SplitSeq(labels, ",") {
			k, v, _ := strings.Cut(pair, "=")
			label[k] = strings.Trim(v, `"`)
		}
		count[label["verb"]+" "+label["resource"]] += int(value)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return count
}

// This is the long measurement of a group with the defaults.
func TestAgentsInSteadyState(t *testing.T) {
	text := os.Getenv(steadyEnv)
	if text == "" {
		t.Skip("this takes an hour: run make test-kube KIND=hour")
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	a := startAgents(t, defaultCheck)
	a.settled(t, 3)
	a.steady(t, duration)
}
