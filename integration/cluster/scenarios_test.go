package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

const (
	limit     = 3 * time.Minute // limit of any wait, much longer than anything takes
	daemonSet = "daemonset/fencing-agent-storage"
	socketArg = "--socket=/run/fencing-agent/fencing-agent.sock"
)

// scenarios are ordered so that the first ones tell most.
var scenarios = []struct {
	name string
	do   func(t *testing.T, c *cluster.Cluster)
}{
	{"daemonset_runs", daemonSetRuns},
	{"kubectl_fence", kubectlFence},
	{"rolling_update", rollingUpdate},
	{"bad_image", badImage},
	{"unknown_image", unknownImage},
	{"image_missing", imageMissing},
	{"update_of_new_agents", updateOfNewAgents},
	{"drain", drain},
	{"maintenance", maintenance},
	{"autoscaler_taint", autoscalerTaint},
	{"moved_to_another_group", movedToAnotherGroup},
	{"agent_deleted", agentDeleted},
	{"oom_killed", oomKilled},
	{"kubelet_restarts", kubeletRestarts},
	{"kubelet_gone", kubeletGone},
	{"containerd_killed", containerdKilled},
	{"server_gone", serverGone},
	{"block_device", blockDevice},
	{"disk_full", diskFull},
	{"lun_gone", lunGone},
	{"one_network_cut", oneNetworkCut},
	{"all_networks_cut", allNetworksCut},
	{"equal_split", equalSplit},
	{"power_lost", powerLost},
}

func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			c := whole(t)
			began := time.Now()
			defer after(t, c)
			s.do(t, c)
			t.Logf("%s: %.1f s", s.name, time.Since(began).Seconds())
		})
	}
	if shared != nil {
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
		shared = nil
	}
}

func await(t *testing.T, c *cluster.Cluster, what string, conditions ...cluster.Condition) {
	t.Helper()
	began := time.Now()
	if err := c.Await(t.Context(), what, limit, conditions...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f s: %s", time.Since(began).Seconds(), what)
}

func hold(t *testing.T, c *cluster.Cluster, what string, during time.Duration, conditions ...cluster.Condition) {
	t.Helper()
	if err := c.Hold(t.Context(), what, during, conditions...); err != nil {
		t.Fatal(err)
	}
	t.Logf("for %v: %s", during, what)
}

func kubectl(t *testing.T, c *cluster.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Plane.Kubectl(t.Context(), "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func apply(t *testing.T, c *cluster.Cluster, manifest string) {
	t.Helper()
	if err := c.Apply(t.Context(), manifest); err != nil {
		t.Fatal(err)
	}
}

func look(t *testing.T, c *cluster.Cluster) *cluster.View {
	t.Helper()
	v, err := c.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// containers returns the containers of the agents.
func containers(v *cluster.View, nodes []string) map[string]string {
	ids := map[string]string{}
	for _, name := range nodes {
		if p := v.AgentPod(name); p != nil && len(p.Status.ContainerStatuses) == 1 {
			ids[name] = p.Status.ContainerStatuses[0].ContainerID
		}
	}
	return ids
}

// unharmed holds while the agents' containers are these.
func unharmed(nodes []string, ids map[string]string) cluster.Condition {
	return func(v *cluster.View) string {
		if v.APIErr != nil {
			return "" // the state is unknown
		}
		for name, id := range containers(v, nodes) {
			if ids[name] != id {
				return "the agent's container on " + name + " is another one"
			}
		}
		return ""
	}
}

// Guard: the shipped manifest runs on a real cluster, and its agents answer as the documents say.
func daemonSetRuns(t *testing.T, c *cluster.Cluster) {
	available(t, c) // a probe of an agent that has just started may have come too early
	v := look(t, c)
	for _, name := range c.Names() {
		p := v.AgentPod(name)
		if !cluster.Ready(p) || p.Status.ContainerStatuses[0].RestartCount != 0 || p.Spec.Containers[0].Image != cluster.AgentImage {
			t.Errorf("%s: %+v", name, p)
		}
	}
	out := kubectl(t, c, "-n", cluster.Space, "exec", daemonSet, "--", "fencectl", "status", "-v")
	t.Logf("kubectl exec: fencectl status says\n%s", out)
	for _, name := range c.Names() {
		if !strings.Contains(out, name) {
			t.Errorf("fencectl status does not name %s", name)
		}
	}
	if boots := boots(v, c.Names()); len(boots) != len(c.Names()) {
		t.Errorf("the agents report %d boots: %v", len(boots), boots)
	}
}

func boots(v *cluster.View, nodes []string) map[string]string {
	seen := map[string]string{}
	for _, name := range nodes {
		if s := v.Agents[name]; s != nil {
			seen[s.GetSelf().GetBootNonce()] = name
		}
	}
	return seen
}

// available waits until all agents have been Ready for minReadySeconds. A DaemonSet replaces those that have not, and
// it replaces them all at once.
func available(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if out := kubectl(t, c, "-n", cluster.Space, "rollout", "status", daemonSet, "--timeout=2m"); !strings.Contains(out, "successfully rolled out") {
		t.Fatal(out)
	}
}

// Guard: an update goes from node to node and never costs quorum.
func rollingUpdate(t *testing.T, c *cluster.Cluster) {
	available(t, c)
	most, lost := 0, map[string]bool{}
	setImage(t, c, cluster.NextImage)
	await(t, c, "all agents are of the other image", func(v *cluster.View) string {
		most = max(most, notReady(v, c.Names()))
		for _, name := range c.Names() {
			if s := v.Agents[name]; s != nil && s.GetVerdict().GetReason() == fencingv1.Reason_REASON_QUORUM_LOST {
				lost[name] = true
			}
		}
		return ""
	}, hasImage(cluster.NextImage, c.Names()...), cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...))
	if most > 1 || len(lost) > 0 {
		t.Errorf("up to %d agents were not ready at once; %v lost quorum", most, lost)
	}
}

// notReady counts the nodes whose agent is missing or not Ready.
func notReady(v *cluster.View, nodes []string) (n int) {
	for _, name := range nodes {
		if !cluster.Ready(v.AgentPod(name)) {
			n++
		}
	}
	return n
}

// Guard: docs/kubernetes.md advises to wait before a change until all agents have been Ready for a while, because
// Kubernetes replaces those that have not all at once. If Kubernetes stops doing that, the advice can go.
func updateOfNewAgents(t *testing.T, c *cluster.Cluster) {
	old := look(t, c)
	for _, name := range c.Names() {
		do(t, c.DeleteAgent(t.Context(), name))
	}
	await(t, c, "all agents are new", func(v *cluster.View) string {
		for _, name := range c.Names() {
			if p := v.AgentPod(name); p == nil || p.UID == old.AgentPod(name).UID {
				return "that of " + name + " is not"
			}
		}
		return ""
	}, cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...))
	next := cluster.NextImage
	if old.AgentPod("node-1").Spec.Containers[0].Image == next {
		next = cluster.AgentImage
	}
	setImage(t, c, next)
	most := 0
	await(t, c, "all are replaced, and nobody was taken for dead", func(v *cluster.View) string {
		most = max(most, notReady(v, c.Names()))
		for _, by := range c.Names() {
			for _, n := range v.Agents[by].GetNodes() {
				if n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED {
					t.Errorf("%s takes %s for dead", by, n.GetName())
				}
			}
		}
		return ""
	}, hasImage(next, c.Names()...), cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...))
	if most < 2 {
		t.Errorf("Kubernetes has replaced them one after the other: correct docs/kubernetes.md")
	}
	t.Logf("%d of %d agents were not ready at once", most, len(c.Names()))
}

func setImage(t *testing.T, c *cluster.Cluster, image string) {
	t.Helper()
	kubectl(t, c, "-n", cluster.Space, "set", "image", daemonSet, "fencing-agent="+image)
}

func hasImage(image string, nodes ...string) cluster.Condition {
	return func(v *cluster.View) string {
		for _, name := range nodes {
			if p := v.AgentPod(name); p == nil || p.Spec.Containers[0].Image != image {
				return "the agent on " + name + " is not of " + image
			}
		}
		return ""
	}
}

// Guard: a rollout of an image that does not run stops at the first node.
func badImage(t *testing.T, c *cluster.Cluster) {
	available(t, c)
	before := look(t, c).AgentPod("node-1").Spec.Containers[0].Image
	setImage(t, c, cluster.BrokenImage)
	broken := func(v *cluster.View) (nodes []string) {
		for _, name := range c.Names() {
			if p := v.AgentPod(name); p == nil || p.Spec.Containers[0].Image == cluster.BrokenImage {
				nodes = append(nodes, name)
			}
		}
		return nodes
	}
	await(t, c, "the first agent ends again and again", func(v *cluster.View) string {
		for _, name := range broken(v) {
			if p := v.AgentPod(name); p != nil && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount > 0 {
				return ""
			}
		}
		return "none has been started twice"
	})
	rest := without(c.Names(), broken(look(t, c))[0])
	hold(t, c, "the others are left alone and have quorum", 20*time.Second, cluster.AgentsReady(rest...), hasImage(before, rest...), cluster.Quorum(rest...))
	kubectl(t, c, "-n", cluster.Space, "rollout", "undo", daemonSet)
	await(t, c, "undone", hasImage(before, c.Names()...), cluster.AgentsReady(c.Names()...))
}

const workload = `apiVersion: apps/v1
kind: Deployment
metadata: {name: work, namespace: default}
spec:
  replicas: 4
  selector: {matchLabels: {app: work}}
  template:
    metadata: {labels: {app: work}}
    spec:
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: work}}}]
      containers: [{name: work, image: "localhost/tool:1", imagePullPolicy: IfNotPresent, args: [work]}]
`

// workOn returns the pods of the workload that run on a node.
func workOn(v *cluster.View, node string) (pods []*core.Pod) {
	for _, p := range v.Pods {
		if p.Labels["app"] == "work" && (p.Spec.NodeName == node || node == "") && cluster.Ready(p) && p.DeletionTimestamp == nil {
			pods = append(pods, p)
		}
	}
	return pods
}

func workRuns(without string) cluster.Condition {
	return func(v *cluster.View) string {
		if n := len(workOn(v, "")); n != 4 {
			return fmt.Sprintf("%d of 4 pods of the workload run", n)
		}
		if without != "" && len(workOn(v, without)) > 0 {
			return "the workload runs on " + without
		}
		return ""
	}
}

// Guard: a drain removes everything from a node except its agent, which stays in the group.
func drain(t *testing.T, c *cluster.Cluster) {
	apply(t, c, workload)
	await(t, c, "a workload runs, with addresses of the pods' network", workRuns(""))
	before := containers(look(t, c), c.Names())
	kubectl(t, c, "drain", "node-2", "--ignore-daemonsets", "--timeout=60s")
	await(t, c, "it runs elsewhere", workRuns("node-2"))
	hold(t, c, "the agent of the drained node is left alone", 3*time.Second, cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...), unharmed(c.Names(), before))
	kubectl(t, c, "uncordon", "node-2")
	kubectl(t, c, "-n", "default", "delete", "deployment", "work", "--cascade=foreground", "--wait=true")
}

// Guard: the agent learns of the annotation and of its removal through the API server.
func maintenance(t *testing.T, c *cluster.Cluster) {
	const annotation = "node-manager.deckhouse.io/fencing-disable"
	disarms(t, c, annotation, "annotate", annotation+"=")
}

// Guard: it also learns of the taint of a node that is to be removed, and that must not be reset meanwhile.
func autoscalerTaint(t *testing.T, c *cluster.Cluster) {
	const taint = "ToBeDeletedByClusterAutoscaler"
	disarms(t, c, taint, "taint", taint+"=1764100000:NoSchedule")
}

// disarms uses a verb of kubectl to set something on node-3, and removes it again.
func disarms(t *testing.T, c *cluster.Cluster, what, verb, set string) {
	t.Helper()
	before := containers(look(t, c), c.Names())
	says := func(want bool) cluster.Condition {
		return func(v *cluster.View) string {
			by := v.Agents["node-3"].GetVerdict().GetDisarmedBy()
			if slices.ContainsFunc(by, func(s string) bool { return strings.Contains(s, what) }) != want {
				return fmt.Sprintf("disarmed by %v: %s", by, v.Agents["node-3"].GetVerdict().GetText())
			}
			return ""
		}
	}
	kubectl(t, c, verb, "node", "node-3", set)
	await(t, c, "node-3 is disarmed by "+what, says(true), cluster.Quorum(without(c.Names(), "node-3")...))
	kubectl(t, c, verb, "node", "node-3", what+"-")
	await(t, c, "and is no longer disarmed", says(false), cluster.GroupWhole(c.Names()...), unharmed(c.Names(), before))
}

// Guard: when the pod of an agent is deleted, the next one runs before any agent takes its node for dead.
func agentDeleted(t *testing.T, c *cluster.Cluster) {
	old := look(t, c).AgentPod("node-2").UID
	do(t, c.DeleteAgent(t.Context(), "node-2"))
	rest := without(c.Names(), "node-2")
	await(t, c, "another pod is Ready", func(v *cluster.View) string {
		for _, by := range rest {
			if n := v.State(by, "node-2"); n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED {
				t.Errorf("%s takes node-2 for dead", by)
			}
		}
		if p := v.AgentPod("node-2"); p == nil || p.UID == old {
			return "there is no new pod"
		}
		return ""
	}, cluster.Quorum(rest...), cluster.AgentsReady("node-2"), cluster.GroupWhole(c.Names()...))
}

// Guard: containers survive a restart of their kubelet, and the agent is not affected.
func kubeletRestarts(t *testing.T, c *cluster.Cluster) {
	before := containers(look(t, c), c.Names())
	do(t, c.KillKubelet(t.Context(), "node-3"))
	// This is longer than the controller manager waits for a kubelet, so the kubelet must be back.
	hold(t, c, "the agents keep running, and no node is NotReady", 13*time.Second, cluster.NodesReady(c.Names()...), cluster.GroupWhole(c.Names()...), unharmed(c.Names(), before))
}

// Guard: a node without a kubelet is NotReady but alive, and nobody fences it.
func kubeletGone(t *testing.T, c *cluster.Cluster) {
	before := containers(look(t, c), c.Names())
	do(t, c.HoldKubelet(t.Context(), "node-3"))
	await(t, c, "the node is NotReady", cluster.NodeNotReady("node-3"), cluster.GroupWhole(c.Names()...))
	hold(t, c, "all agents count it", 5*time.Second, cluster.GroupWhole(c.Names()...), unharmed(c.Names(), before))
}

// Guard: the same holds for containerd, whose containers continue under their shims.
func containerdKilled(t *testing.T, c *cluster.Cluster) {
	before := containers(look(t, c), c.Names())
	do(t, c.KillContainerd(t.Context(), "node-3"))
	hold(t, c, "the agents keep running", 10*time.Second, cluster.GroupWhole(c.Names()...), unharmed(c.Names(), before))
}

// Guard: the group decides without the API server as it did before.
func serverGone(t *testing.T, c *cluster.Cluster) {
	before := containers(look(t, c), c.Names())
	do(t, c.KillServer())
	hold(t, c, "all agents keep their quorum without the API server", 20*time.Second, cluster.GroupWhole(c.Names()...))
	do(t, c.StartServer(t.Context()))
	await(t, c, "it is back", cluster.NodesReady(c.Names()...), unharmed(c.Names(), before))
}
