package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// fencePlugin makes command lines of kubectl fence, with a kubeconfig of its own and the kubectl that was built with the API server.
func fencePlugin(t *testing.T, c *cluster.Cluster) func(ctx context.Context, args ...string) *exec.Cmd {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	do(t, c.Plane.Kubeconfig(kubeconfig, c.Plane.URL()))
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	do(t, err)
	return func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, filepath.Join(bin, "kubectl-fence"), append(args, "--kubectl", filepath.Join(bin, "cluster", "kubectl"))...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		return cmd
	}
}

// Guard: kubectl fence asks agents that run in pods, through a real API server and real kubelets: through exec, and their page, too.
func kubectlFence(t *testing.T, c *cluster.Cluster) {
	available(t, c)
	plugin, node := fencePlugin(t, c), c.Names()[1]
	fence := func(args ...string) string {
		t.Helper()
		began := time.Now()
		out, err := plugin(t.Context(), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl fence %v: %v\n%s", args, err, out)
		}
		t.Logf("%.1f s: kubectl fence %s\n%s", time.Since(began).Seconds(), strings.Join(args, " "), out)
		return string(out)
	}
	names := func(what, text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q", what, want)
			}
		}
	}
	names("status NODE", fence("status", node, "--verbose", "--check"), c.Names()...)
	names("status --all", fence("status", "--all", "--check"), append(c.Names(), "4 of 4, 3 needed")...)
	var lines []struct{ Node, Error string }
	do(t, json.Unmarshal([]byte(fence("status", "--all", "-o", "json")), &lines))
	if len(lines) != len(c.Names()) {
		t.Errorf("status --all has %d agents: %+v", len(lines), lines)
	}
	names("events", fence("events", node), node)
	names("explain", fence("explain", node), node+", boot ", "Ready True", "by nobody", "no replica is there")
	pageThroughKubectl(t, plugin, node)
}

// pageThroughKubectl has the page of an agent shown, and ends that as a person does. The shipped manifest has the agents listen on
// their node's address, which a forwarded port does not reach: so each connection goes through kubectl exec.
func pageThroughKubectl(t *testing.T, plugin func(context.Context, ...string) *exec.Cmd, node string) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ui := plugin(ctx, "ui", node)
	var complaint strings.Builder
	ui.Stderr = &complaint
	out, err := ui.StdoutPipe()
	do(t, err)
	do(t, ui.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		began := time.Now()
		seePage(ctx, t, strings.TrimSpace(line), node)
		t.Logf("%.1f s: the page and an event of it", time.Since(began).Seconds())
	}
	_ = ui.Process.Signal(os.Interrupt)
	if ended := ui.Wait(); err != nil || ended != nil || complaint.Len() > 0 {
		t.Errorf("kubectl fence ui: %q, %v, %v\n%s", line, err, ended, complaint.String())
	}
}

// seePage gets the page, and the first event that follows it, while the stream goes on.
func seePage(ctx context.Context, t *testing.T, url, node string) {
	t.Helper()
	get := func(path string) *http.Response {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
		do(t, err)
		p, err := http.DefaultClient.Do(q)
		do(t, err)
		t.Cleanup(func() { _ = p.Body.Close() })
		if policy := p.Header.Get("Content-Security-Policy"); p.StatusCode != http.StatusOK || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s%s: %s, policy %q", url, path, p.Status, policy)
		}
		return p
	}
	text, err := io.ReadAll(get("").Body)
	if err != nil || !strings.Contains(string(text), node) {
		t.Errorf("the page: %v\n%s", err, text)
	}
	event, err := bufio.NewReader(get("live").Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(event, "data: ") {
		t.Errorf("the first event: %q, %v", event, err)
	}
}
