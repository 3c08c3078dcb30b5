package cluster_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// user is a person who types the commands of the pages into a shell, in a copy of the repository.
type user struct {
	*cluster.Cluster
	dir   string
	env   []string
	pages map[string][]string // the commands of each page
}

// types runs a command without changes. It fails the test if the command fails.
func (u *user) types(t *testing.T, command string) string {
	t.Helper()
	began := time.Now()
	out, err := u.try(t, command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	t.Logf("%.1f s: %s", time.Since(began).Seconds(), command)
	return out
}

func (u *user) try(t *testing.T, command string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir, cmd.Env = u.dir, u.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// follows types the one command of a page that begins with these words, and replaces some of its words.
func (u *user) follows(t *testing.T, page, beginning string, instead ...string) string {
	t.Helper()
	var found []string
	for _, command := range u.pages[page] {
		if strings.HasPrefix(command, beginning) {
			found = append(found, command)
		}
	}
	if len(found) == 0 {
		t.Fatalf("docs/%s no longer has a command that begins with %q", page, beginning)
	}
	// The comment explains the command to the reader.
	command, _, _ := strings.Cut(found[0], "   #")
	return u.types(t, strings.NewReplacer(instead...).Replace(command))
}

// shows types a command repeatedly until its output contains all these words.
func (u *user) shows(t *testing.T, command string, words ...string) string {
	t.Helper()
	var out string
	missing := func(word string) bool { return !strings.Contains(out, word) }
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		var err error
		if out, err = u.try(t, command); err == nil && !slices.ContainsFunc(words, missing) {
			t.Logf("after %.1f s of waiting %s says\n%s", time.Since(began).Seconds(), command, out)
			return out
		}
		if time.Since(began) > limit {
			t.Fatalf("%s does not say %q within %v (%v):\n%s", command, words, limit, err, out)
		}
		<-tick.C
	}
}

const (
	agentsPage     = "kubernetes.md"
	controllerPage = "controller.md"
)

func newUser(t *testing.T, c *cluster.Cluster) *user {
	t.Helper()
	top, err := filepath.Abs(root)
	do(t, err)
	home := t.TempDir()
	kubeconfig, bin := filepath.Join(home, "kubeconfig"), filepath.Join(top, "bin")
	do(t, c.Plane.Kubeconfig(kubeconfig, c.Plane.URL()))
	do(t, os.Symlink(filepath.Join(top, "deploy"), filepath.Join(home, "deploy")))
	path := strings.Join([]string{filepath.Join(bin, "cluster"), filepath.Join(bin, "tools"), bin, os.Getenv("PATH")}, ":")
	u := &user{c, home, append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+home, "PATH="+path), map[string][]string{}}
	for _, page := range []string{agentsPage, controllerPage} {
		text, err := os.ReadFile(filepath.Join(top, "docs", page))
		do(t, err)
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
			if command, indented := strings.CutPrefix(line, "    "); indented {
				u.pages[page] = append(u.pages[page], strings.TrimSpace(command))
			}
		}
	}
	return u
}

func TestNewUser(t *testing.T) {
	// Guard: the agents' chart installs with helm and passes its test on real nodes, with the steps of
	// docs/kubernetes.md.
	t.Run("helm_install", func(t *testing.T) {
		c := guarded(t, 4)
		defer func() { do(t, c.Close()) }()
		newUser(t, c).installsAgents(t)
	})
	// Guard: the same for the controller's chart: it is installed, queried, upgraded and removed, and nothing of it is
	// left.
	t.Run("helm_controller", func(t *testing.T) {
		c := guarded(t, 2)
		defer func() { do(t, c.Close()) }()
		u := newUser(t, c)
		u.installsController(t)
		u.follows(t, controllerPage, "helm upgrade fencing-controller")
		u.follows(t, controllerPage, "kubectl -n fencing-controller rollout status")
		if out := u.types(t, "kubectl -n fencing-controller logs -l app.kubernetes.io/name=fencing-controller --tail=-1"); strings.Count(out, `"dryRun":false`) != 2 || strings.Contains(out, `"dryRun":true`) {
			t.Errorf("the replicas do not run with what the upgrade has changed:\n%s", out)
		}
		u.removesController(t)
	})
	// Guard: a new user installs both, lets them act, kills a node, and sees with kubectl what happened and why.
	t.Run("new_user", func(t *testing.T) {
		c := guarded(t, 4)
		defer func() { do(t, c.Close()) }()
		newUser(t, c).walks(t)
	})
}

// edits changes values.yaml, as the page asks.
func (u *user) edits(t *testing.T, change func(text string) string) {
	t.Helper()
	path := filepath.Join(u.dir, "values.yaml")
	text, err := os.ReadFile(path)
	do(t, err)
	do(t, os.WriteFile(path, []byte(change(string(text))), 0o600))
}

// edit is what the reader writes into values.yaml. The page says that apiServer.host should be set, and creates the
// key.
const edit = `
apiServer: {host: 10.0.0.100}
gossipKeys: {secretName: fencing-agent-gossip}
`

// installsAgents follows the page from the namespace to helm test.
func (u *user) installsAgents(t *testing.T) {
	t.Helper()
	u.follows(t, agentsPage, "kubectl create namespace")
	u.follows(t, agentsPage, "kubectl label namespace")
	u.follows(t, agentsPage, "head -c 32")
	u.follows(t, agentsPage, "kubectl -n fencing-agent create secret")
	u.follows(t, agentsPage, "kubectl label node", "node-1 node-2 node-3", strings.Join(u.Names(), " "))
	u.follows(t, agentsPage, "cp deploy/chart/examples/minimal.yaml")
	u.edits(t, func(text string) string { return text + edit })
	u.follows(t, agentsPage, "helm upgrade --install fencing-agent")
	u.rolled(t)
	u.follows(t, agentsPage, "kubectl -n fencing-agent exec daemonset/fencing-agent-worker")
	if out := u.follows(t, agentsPage, "helm test fencing-agent"); !strings.Contains(out, "Succeeded") || !strings.Contains(out, "FEEDING") {
		t.Errorf("helm test:\n%s", out)
	}
}

// rolled waits for a rollout. If it does not end, it logs the agents' status with the page's command.
func (u *user) rolled(t *testing.T) {
	t.Helper()
	defer func() {
		if t.Failed() {
			text, err := u.Plane.Kubectl(context.Background(), "", "-n", cluster.Space, "logs", "-l", "app.kubernetes.io/name=fencing-agent", "--prefix", "--tail=5")
			t.Logf("the agents say (%v)\n%s", err, text)
		}
	}()
	u.follows(t, agentsPage, "kubectl -n fencing-agent rollout status", "rollout status", "rollout status --timeout=4m")
}

// installsController follows the controller's page up to helm test.
func (u *user) installsController(t *testing.T) {
	t.Helper()
	u.follows(t, controllerPage, "kubectl create namespace")
	u.follows(t, controllerPage, "kubectl label namespace")
	u.follows(t, controllerPage, "helm upgrade --install fencing-controller")
	u.follows(t, controllerPage, "kubectl -n fencing-controller rollout status")
	if out := u.follows(t, controllerPage, "helm test fencing-controller"); !strings.Contains(out, "Succeeded") {
		t.Errorf("helm test:\n%s", out)
	}
}

func (u *user) removesController(t *testing.T) {
	t.Helper()
	u.follows(t, controllerPage, "helm uninstall fencing-controller")
	for _, kind := range []string{"clusterrole,clusterrolebinding", "validatingadmissionpolicy,validatingadmissionpolicybinding", "role,rolebinding -A", "deployment,configmap,serviceaccount,networkpolicy,pdb -A"} {
		if out := u.types(t, "kubectl get "+kind+" -l app.kubernetes.io/name=fencing-controller -o name"); out != "" && !strings.Contains(out, "No resources") {
			t.Errorf("left after helm uninstall: %s", out)
		}
	}
}

// settles waits until everything is as at the beginning. If that does not happen, it logs the output of the kubelets.
func (u *user) settles(t *testing.T) {
	t.Helper()
	err := u.Settle(t.Context(), limit)
	if err == nil {
		return
	}
	for _, name := range u.Names() {
		files, _ := filepath.Glob(filepath.Join(u.Dir(), name, "*.log"))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			t.Logf("%s ends with\n%s", file, text[max(0, len(text)-2000):])
		}
	}
	t.Fatalf("%v\n%s", err, u.types(t, "kubectl describe nodes"))
}

// walks follows both pages from the first step to the last, with a database on the nodes.
func (u *user) walks(t *testing.T) {
	u.installsAgents(t)
	u.edits(t, func(text string) string {
		return strings.Replace(text, "driver: none", "driver: device\n    timeout: 10s", 1)
	})
	u.follows(t, agentsPage, "helm upgrade fencing-agent")
	u.rolled(t)
	await(t, u.Cluster, "all agents know that all are guarded", cluster.AgentsReady(u.Names()...), armed(u.Names()))
	u.installsController(t)
	do(t, u.AddVolume(t.Context(), volumeName, "default", "data-db-0"))
	apply(t, u.Cluster, database)
	await(t, u.Cluster, "the database runs", databaseRuns)
	home := look(t, u.Cluster).Pod("default", "db-0").Spec.NodeName

	// A node that runs nothing important dies, and the controller reports what it would do.
	spare := without(u.Names(), home)[0]
	do(t, u.PowerOff(spare))
	for _, command := range u.pages[controllerPage] {
		if strings.HasPrefix(command, "kubectl get events --field-selector involvedObject.name=node-4") {
			u.shows(t, strings.Replace(command, "node-4", spare, 1), "DryRun", "would set node.kubernetes.io/out-of-service=fenced-", "named by")
		}
	}
	u.follows(t, controllerPage, "kubectl -n fencing-controller logs")
	if out := u.types(t, "kubectl fence explain "+spare); !strings.Contains(out, "would_act") || !strings.Contains(out, "none: no pod is taken off") {
		t.Errorf("explain:\n%s", out)
	}
	u.settles(t)

	// From here on the controller acts.
	u.follows(t, controllerPage, "helm upgrade fencing-controller")
	u.follows(t, controllerPage, "kubectl -n fencing-controller rollout status")
	await(t, u.Cluster, "all are guarded, and the database runs", databaseRuns, cluster.NodesReady(u.Names()...), armed(u.Names()))
	pod := look(t, u.Cluster).Pod("default", "db-0")
	victim, cut := pod.Spec.NodeName, time.Now()
	do(t, u.Cut(victim))
	u.shows(t, "kubectl get node "+victim, "NotReady")
	u.shows(t, "kubectl fence explain "+victim, "by nobody: nothing is done until")
	await(t, u.Cluster, "the database runs on another node", databaseRuns, func(v *cluster.View) string {
		if p := v.Pod("default", "db-0"); p == nil || p.UID == pod.UID || p.Spec.NodeName == victim {
			return fmt.Sprintf("db-0 is that of %s", victim)
		}
		return ""
	})
	t.Logf("the database runs on another node %.1f s after the cut", time.Since(cut).Seconds())
	u.shows(t, "kubectl fence explain "+victim, "proof time, this boot", "pods are taken off", "released", "BarrierSet", "NodeReleased", "deleted default/db-0")
	u.shows(t, "kubectl describe node "+victim, "BarrierSet", "PodDeleted", "NodeReleased", "node.kubernetes.io/out-of-service=fenced-")

	// The node comes back.
	u.settles(t)
	u.shows(t, "kubectl fence explain "+victim, "Ready True", "none: no pod is taken off", "by nobody", "watching", "nobody calls this boot dead")
	u.removesController(t)
	u.types(t, "helm uninstall fencing-agent --namespace fencing-agent --wait")
	u.shows(t, "kubectl -n fencing-agent get pods -l app.kubernetes.io/name=fencing-agent", "No resources found")
}
