package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
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
	// The shipped manifest has the agents listen on their node's address, which a forwarded port does not reach.
	listens(t, c, node, "$NODE_IP:9110", "0.0.0.0:9110")
	defer listens(t, c, node, "0.0.0.0:9110", "$NODE_IP:9110")
	pageThroughKubectl(t, plugin, node, c.Names())
}

// listens has the agent of a node started again, with another http.address.
func listens(t *testing.T, c *cluster.Cluster, node, from, to string) {
	t.Helper()
	const config = "fencing-agent-storage"
	text := kubectl(t, c, "-n", cluster.Space, "get", "configmap", config, "-o", "jsonpath={.data.agent\\.yaml}")
	if !strings.Contains(text, from) {
		t.Fatalf("the agents do not listen on %s:\n%s", from, text)
	}
	indented := "    " + strings.ReplaceAll(strings.TrimSpace(strings.ReplaceAll(text, from, to)), "\n", "\n    ")
	apply(t, c, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+config+", namespace: "+cluster.Space+"}\ndata:\n  agent.yaml: |\n"+indented+"\n")
	old := look(t, c).AgentPod(node).UID
	do(t, c.DeleteAgent(t.Context(), node))
	await(t, c, "the agent listens on "+to, func(v *cluster.View) string {
		if p := v.AgentPod(node); p == nil || p.UID == old {
			return "there is no other pod"
		}
		return ""
	}, cluster.AgentsReady(node), cluster.GroupWhole(c.Names()...))
}

// pageThroughKubectl has the page of an agent forwarded, looks at it twice, and ends that as a person does.
func pageThroughKubectl(t *testing.T, plugin func(context.Context, ...string) *exec.Cmd, node string, names []string) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ui := plugin(ctx, "ui", node)
	var complaint strings.Builder
	ui.Stderr = &complaint
	out, err := ui.StdoutPipe()
	do(t, err)
	do(t, ui.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = ui.Wait()
		t.Fatalf("kubectl fence ui: %v\n%s", err, complaint.String())
	}
	page := strings.TrimSpace(line)
	defer func() {
		if t.Failed() {
			_ = ui.Process.Kill()
			_ = ui.Wait()
			t.Logf("kubectl fence ui said %s", complaint.String())
		}
	}()
	first := getPage(ctx, t, page)
	for _, want := range append(names, "FEEDING") {
		if !strings.Contains(first, want) {
			t.Errorf("the page does not say %q:\n%s", want, first)
		}
	}
	for getPage(ctx, t, page) == first { // it shows ages and the time
		if ctx.Err() != nil {
			t.Fatal("the page stands still")
		}
	}
	do(t, ui.Process.Signal(os.Interrupt))
	if err := ui.Wait(); err != nil {
		t.Errorf("kubectl fence ui, interrupted: %v\n%s", err, complaint.String())
	}
	at, err := url.Parse(page)
	do(t, err)
	if conn, err := net.Dial("tcp", at.Host); err == nil {
		t.Errorf("%s is still forwarded", at.Host)
		_ = conn.Close()
	}
}

func getPage(ctx context.Context, t *testing.T, page string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	do(t, err)
	resp, err := http.DefaultClient.Do(req)
	do(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	do(t, err)
	if policy := resp.Header.Get("Content-Security-Policy"); resp.StatusCode != http.StatusOK || !strings.Contains(policy, "default-src 'none'") {
		t.Fatalf("GET %s: %s, policy %q\n%s", page, resp.Status, policy, text)
	}
	return string(text)
}
