package cluster_test

import (
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

// fencePlugin returns a function that makes command lines of kubectl fence, with a separate kubeconfig and the kubectl
// that was built with the API server.
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

// Guard: kubectl fence queries agents that run in pods, with exec through a real API server and real kubelets.
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
	names("explain", fence("explain", node), node+", boot ", "Ready True", "by nobody", "no replica is there")
	keptByTheAgent(t, node, fence, names)
}

// keptByTheAgent reads the file that the agent has stored.
func keptByTheAgent(t *testing.T, node string, fence func(...string) string, names func(string, string, ...string)) {
	t.Helper()
	var boots []struct {
		Number  int
		Present bool
		Records []struct{ Text string }
	}
	do(t, json.Unmarshal([]byte(fence("history", node, "--boot", "0", "-o", "json")), &boots))
	if len(boots) != 1 || !boots[0].Present || boots[0].Number != 0 || len(boots[0].Records) == 0 {
		t.Errorf("history --boot 0 is not the present boot: %+v", boots)
	}
	began := []string{"boot 0 (", "goes on\n", "the agent started, version ", "feed (network_quorum), quorum: "}
	names("history", fence("history", node, "--boot", "0"), began...)
}
