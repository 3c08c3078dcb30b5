package cluster_test

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
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

// Guard: kubectl fence asks agents that run in pods, through a real API server and real kubelets: through exec, also with something
// to read, and their page, too.
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
	keptByTheAgent(t, c, node, fence, names)
	pageThroughKubectl(t, plugin, node)
}

// leak writes lines of 200 octets to the log of the agent's container, the words last, and ends that.
const leak = `for p in /proc/[0-9]*; do
	read -r name <$p/comm 2>/dev/null && [ "$name" = fencing-agent ] && pid=${p#/proc/}
done
{ yes "$(printf %200s)" | head -n $1; echo "$0"; } >/proc/$pid/fd/2 && kill -9 $pid`

// keptByTheAgent reads the file beside the agent, and fetches the archive that its pod makes, with the logs of two containers. The
// key in them is the group's, which that pod alone can know.
func keptByTheAgent(t *testing.T, c *cluster.Cluster, node string, fence func(...string) string, names func(string, string, ...string)) {
	t.Helper()
	pod, key := look(t, c).AgentPod(node).Name, gossipKey(t, c)
	lines := "30000"
	if c.OwnKernels() {
		lines = "100" // a megabyte for kubectl exec to hand in does not get through there
	}
	_, err := c.Run(t.Context(), node, "sh", "-c", leak, "leaked "+key, lines)
	do(t, err)
	await(t, c, "the agent has ended, and another one has its log", func(v *cluster.View) string {
		if p := v.AgentPod(node); p == nil || len(p.Status.ContainerStatuses) != 1 || p.Status.ContainerStatuses[0].RestartCount == 0 {
			return "no container was started again"
		}
		return ""
	}, cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...))
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
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	names("bundle", fence("bundle", file, node), file+": of "+node+", ")
	bundle := unpack(t, file)
	names("the bundle's status", bundle["status.json"], node)
	names("its history", bundle["history.txt"], began...)
	names("its configuration", bundle["config.yaml"], "keyFile: ")
	for _, which := range []string{"--previous=true", "--previous=false"} {
		names("its log", bundle["agent.log"], kubectl(t, c, "-n", cluster.Space, "logs", pod, "--limit-bytes=200", which))
	}
	names("its log", bundle["agent.log"], "leaked [key]\n")
	names("what it has not", bundle["missing.txt"], "kernel.log: ")
	t.Logf("not in the bundle:\n%sby its doctor:\n%s\nwatchdogs: %s", bundle["missing.txt"], bundle["doctor.json"], bundle["watchdogs.json"])
	for _, name := range []string{"doctor.json", "watchdogs.json", "kernel.txt"} {
		if bundle[name] == "" {
			t.Errorf("the bundle has no %s: %s", name, bundle["missing.txt"])
		}
	}
	for name, text := range bundle {
		if strings.Contains(text, key) {
			t.Errorf("the group's key is in %s", name)
		}
	}
}

// gossipKey is the one key of the group, as its Secret has it.
func gossipKey(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(kubectl(t, c, "-n", cluster.Space, "get", "secret", "fencing-agent-gossip", "-o", `jsonpath={.data.gossip\.keys}`))
	do(t, err)
	key := strings.TrimSpace(string(text))
	if len(key) != base64.StdEncoding.EncodedLen(32) {
		t.Fatalf("the group's key has %d octets", len(key))
	}
	return key
}

// unpack reads an archive of kubectl fence bundle.
func unpack(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	do(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	do(t, err)
	files := map[string]string{}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		do(t, err)
		text, err := io.ReadAll(archive)
		do(t, err)
		files[strings.TrimPrefix(h.Name, "fencing-agent/")] = string(text)
		t.Logf("the bundle's %s: %d octets", h.Name, len(text))
	}
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
