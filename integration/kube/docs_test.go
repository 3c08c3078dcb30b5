package kube

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

// instead says what is run in place of a command of the documentation, which is given by its beginning. If nothing is
// run, a reason says why. If the program exists, the command is run without changes.
var instead = []struct{ command, run, program, reason string }{
	{"systemctl ", "", "", "it changes this machine"},
	{"helm test", "", "", "there is no kubelet"},
	{"helm upgrade", "kubectl apply --server-side -f deploy/manifests/minimal.yaml", "helm", "there is no Helm; this is its engine's work, which the page offers as well"},
	{"kubectl -n fencing-agent rollout", "", "", "there is no controller of DaemonSets"},
	{"kubectl -n fencing-agent exec", "", "", "there is no kubelet"},
	{"kubectl fence ", "", "", "there is no agent here"},
	{"fencectl status", "", "", "there is no agent here"},
}

func (r *reader) has(program string) bool {
	if program == "" {
		return false
	}
	if fileExists(filepath.Join(r.dir, "bin", program)) {
		return true
	}
	_, err := exec.LookPath(program)
	return err == nil
}

// commands returns the lines of shell in a page.
func commands(page string) []string {
	var all []string
	for line := range strings.Lines(page) {
		text, indented := strings.CutPrefix(line, "    ")
		// The comment explains the command to the reader.
		text, _, _ = strings.Cut(strings.TrimSpace(text), "   #")
		name, _, _ := strings.Cut(text, " ")
		switch name {
		case "kubectl", "fencectl", "helm", "install", "systemctl", "head", "cp":
			if indented {
				all = append(all, strings.TrimSpace(text))
			}
		}
	}
	return all
}

// reader is a person who types the commands of docs/kubernetes.md into a shell, in the folder of the repository, with a
// new cluster.
type reader struct {
	dir string
	env []string
}

func newReader(t *testing.T, p *controlplane.ControlPlane, binary string) *reader {
	t.Helper()
	programs, err := filepath.Abs(or(os.Getenv(programsEnv), "../../bin"))
	if err != nil {
		t.Fatal(err)
	}
	deploy, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{dir: t.TempDir()}
	bin := filepath.Join(r.dir, "bin")
	kubeconfig := filepath.Join(r.dir, "kubeconfig")
	if err := p.WriteKubeconfig(kubeconfig, p.URL(), p.Admin().BearerToken); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"kubectl": binary, "fencectl": filepath.Join(programs, "fencectl")}
	if helm := filepath.Join(programs, "tools", "helm"); fileExists(helm) { // make test-kube builds it
		links["helm"] = helm
	}
	for link, target := range links {
		if err := os.Symlink(target, filepath.Join(bin, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(deploy, filepath.Join(r.dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	r.env = append(os.Environ(), "HOME="+r.dir, "KUBECONFIG="+kubeconfig, "PATH="+bin+":"+os.Getenv("PATH"))
	return r
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func (r *reader) types(ctx context.Context, command string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Every command of docs/kubernetes.md works, in the order of the page.
func TestCommandsOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := kubetest()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// The test needs a separate control plane, in which the namespace does not exist yet.
	p, err := controlplane.Start(ctx, controlplane.Config{Binary: binary, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	admin := client(t, p.Admin())
	for _, name := range []string{"node-1", "node-2", "node-3", "n1"} {
		newNode(t, admin, plainNode(name))
	}
	r := newReader(t, p, binary)
	// An agent in this mode creates these objects by itself.
	prepare := map[string]func() error{"kubectl -n fencing-agent get lease": func() error {
		_, err := admin.CoordinationV1().Leases(deployedSpace).Create(t.Context(), lease(groupLease), meta.CreateOptions{})
		return err
	}}
	ran, replaced := 0, 0
	for _, command := range commands(string(page)) {
		for begin, do := range prepare {
			if strings.HasPrefix(command, begin) {
				if err := do(); err != nil {
					t.Fatal(err)
				}
			}
		}
		run := strings.ReplaceAll(command, " /etc/", " root/etc/")
		for _, x := range instead {
			if strings.HasPrefix(command, x.command) && !r.has(x.program) {
				run = x.run
				replaced++
				t.Logf("%s: not run, %s", command, x.reason)
			}
		}
		if run == "" {
			continue
		}
		out, err := r.types(ctx, run)
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
		ran++
	}
	if want := 18; ran < want || replaced == 0 {
		t.Errorf("%d commands were run and %d replaced: are they found in the page?", ran, replaced)
	}
	r.outcome(ctx, t)
}

// outcome checks what the commands were meant to achieve.
func (r *reader) outcome(ctx context.Context, t *testing.T) {
	t.Helper()
	for command, want := range map[string]string{
		"kubectl get nodes -l node.deckhouse.io/group=worker -o name":                                                      "node/node-1\nnode/node-2\nnode/node-3\n",
		"kubectl get node n1 -o jsonpath={.metadata.annotations}":                                                          "",
		"kubectl -n fencing-agent get secret fencing-agent-gossip -o jsonpath={.data.gossip\\\\.keys} | base64 -d | wc -l": "1\n",
		"kubectl -n fencing-agent get daemonset -o name":                                                                   "daemonset.apps/fencing-agent-worker\n",
	} {
		out, err := r.types(ctx, command)
		if err != nil || strings.TrimLeft(out, " ") != want {
			t.Errorf("%s: %q, error %v, want %q", command, out, err, want)
		}
	}
	for _, name := range []string{"modules-load.d", "modprobe.d", "udev/rules.d", "systemd/system.conf.d", "multipath/conf.d"} {
		files, err := os.ReadDir(filepath.Join(r.dir, "root/etc", name))
		if err != nil || len(files) != 1 {
			t.Error(fmt.Errorf("%s: %d files, error %w", name, len(files), err))
		}
	}
}
