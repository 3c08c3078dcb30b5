package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
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

// Guard: kubectl fence asks agents that run in pods, through a real API server and real kubelets: exec and port-forward, too.
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
	addressThroughKubectl(t, plugin, node)
}

// addressThroughKubectl has the page of an agent forwarded, and ends that as a person does. The shipped manifest has the agents listen
// on their node's address, which a forwarded port does not reach: so the page itself is not seen here, and the command warns.
func addressThroughKubectl(t *testing.T, plugin func(context.Context, ...string) *exec.Cmd, node string) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ui := plugin(ctx, "ui", node)
	var complaint strings.Builder
	ui.Stderr = &complaint
	out, err := ui.StdoutPipe()
	do(t, err)
	do(t, ui.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = ui.Process.Signal(os.Interrupt)
	ended := ui.Wait()
	if err != nil || ended != nil || !strings.HasPrefix(line, "http://127.0.0.1:") || !strings.Contains(complaint.String(), "which a forwarded port may not reach") {
		t.Errorf("kubectl fence ui: %q, %v, %v\n%s", line, err, ended, complaint.String())
	}
}
