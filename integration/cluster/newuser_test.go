package cluster_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// user is somebody who installs the chart as docs/kubernetes.md says, with helm and kubectl.
type user struct {
	*cluster.Cluster
	bin, root string
	env       []string
}

func (u *user) types(t *testing.T, program string, args ...string) string {
	t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), filepath.Join(u.bin, program), args...)
	cmd.Dir, cmd.Env = u.root, u.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	t.Logf("%.1f s: %s %s", time.Since(began).Seconds(), filepath.Base(program), strings.Join(args, " "))
	return string(out)
}

func (u *user) helm(t *testing.T, args ...string) string { return u.types(t, "tools/helm", args...) }

// Guard: the agents' chart installs with helm and passes its test on real nodes, with what docs/kubernetes.md says.
func TestNewUser(t *testing.T) {
	t.Run("helm_install", func(t *testing.T) {
		c := guarded(t, 4)
		defer func() { do(t, c.Close()) }()
		newUser(t, c).installs(t)
	})
}

func newUser(t *testing.T, c *cluster.Cluster) *user {
	t.Helper()
	top, err := filepath.Abs(root)
	do(t, err)
	home := t.TempDir()
	kubeconfig := filepath.Join(home, "kubeconfig")
	do(t, c.Plane.Kubeconfig(kubeconfig, c.Plane.URL()))
	bin := filepath.Join(top, "bin")
	return &user{c, bin, top, append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+home, "PATH="+filepath.Join(bin, "cluster")+":"+os.Getenv("PATH"))}
}

const agentRelease = "fencing-agent"

func (u *user) installs(t *testing.T) {
	kubectl := func(args ...string) string { return u.types(t, "cluster/kubectl", args...) }
	kubectl("create", "namespace", agentRelease)
	kubectl("label", "namespace", agentRelease, "pod-security.kubernetes.io/enforce=privileged")
	kubectl(append(append([]string{"label", "node"}, u.Names()...), "node.deckhouse.io/group=worker")...)
	u.helm(t, "upgrade", "--install", agentRelease, "deploy/chart", "--namespace", agentRelease, "--values", "deploy/chart/examples/minimal.yaml",
		"--set", "apiServer.host=10.0.0.100")
	kubectl("-n", agentRelease, "rollout", "status", "daemonset/fencing-agent-worker", "--timeout=3m")
	if out := u.helm(t, "test", agentRelease, "--namespace", agentRelease, "--logs"); !strings.Contains(out, "Succeeded") || !strings.Contains(out, "FEEDING") {
		t.Errorf("helm test:\n%s", out)
	}
}
