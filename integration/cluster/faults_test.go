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

// reader is a pod that reads the LUN once.
func reader(name string, privileged bool) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  restartPolicy: Never
  nodeName: node-1
  containers:
  - {name: read, image: "localhost/tool:1", imagePullPolicy: IfNotPresent, args: [read, /lun], securityContext: {privileged: %v}, volumeMounts: [{name: lun, mountPath: /lun}]}
  volumes: [{name: lun, hostPath: {path: /dev/mapper/fence, type: BlockDevice}}]
`, name, cluster.Space, privileged)
}

// Guard: docs/kubernetes.md says that only a privileged container opens the LUN.
func blockDevice(t *testing.T, c *cluster.Cluster) {
	for _, tc := range []struct {
		name       string
		privileged bool
		phase      core.PodPhase
	}{{"reader-privileged", true, core.PodSucceeded}, {"reader-plain", false, core.PodFailed}} {
		apply(t, c, reader(tc.name, tc.privileged))
		await(t, c, tc.name+" has read the LUN, or may not", func(v *cluster.View) string {
			p := v.Pod(cluster.Space, tc.name)
			if p == nil || p.Status.Phase != tc.phase {
				return fmt.Sprintf("%+v", p)
			}
			return ""
		})
		if out := kubectl(t, c, "-n", cluster.Space, "logs", tc.name); !tc.privileged && !strings.Contains(out, "operation not permitted") {
			t.Errorf("a container without privileges: %q", out)
		}
		kubectl(t, c, "-n", cluster.Space, "delete", "pod", tc.name, "--now")
	}
}

// Guard: if one node or all nodes lose the LUN, nothing else is lost.
func lunGone(t *testing.T, c *cluster.Cluster) {
	healthy := func(want bool, nodes ...string) cluster.Condition {
		return func(v *cluster.View) string {
			for _, name := range nodes {
				for _, l := range v.Agents[name].GetLuns() {
					if l.GetHealthy() != want {
						return fmt.Sprintf("the LUN of %s is healthy: %v: %s", name, l.GetHealthy(), l.GetError())
					}
				}
			}
			return ""
		}
	}
	before := containers(look(t, c), c.Names())
	for _, lost := range [][]string{{"node-4"}, c.Names()} {
		for _, step := range []struct {
			verb    string
			healthy bool
		}{{"lose-lun", false}, {"restore-lun", true}} {
			_, err := c.Command(t.Context(), append([]string{step.verb}, lost...))
			do(t, err)
			await(t, c, fmt.Sprintf("after %s %v they say so", step.verb, lost), healthy(step.healthy, lost...), cluster.GroupWhole(c.Names()...))
			if step.healthy {
				continue
			}
			hold(t, c, "everything else goes on", 5*time.Second, cluster.GroupWhole(c.Names()...), cluster.AgentsReady(c.Names()...),
				unharmed(c.Names(), before), healthy(true, slices.DeleteFunc(c.Names(), func(n string) bool { return slices.Contains(lost, n) })...))
		}
	}
}

// Guard: a node that is cut off the network of the API server is NotReady to Kubernetes. The group, which has another
// network, still counts it.
func oneNetworkCut(t *testing.T, c *cluster.Cluster) {
	before := containers(look(t, c), c.Names())
	do(t, c.Cut("node-4", "mgmt"))
	await(t, c, "Kubernetes takes the node for NotReady", cluster.NodeNotReady("node-4"), cluster.GroupWhole(c.Names()...))
	hold(t, c, "all agents count it", 10*time.Second, cluster.GroupWhole(c.Names()...))
	do(t, c.Heal("node-4"))
	await(t, c, "healed", cluster.NodesReady(c.Names()...), unharmed(c.Names(), before))
}

// Guard: a node that is off all networks loses its quorum, and the others keep theirs.
func allNetworksCut(t *testing.T, c *cluster.Cluster) {
	rest := without(c.Names(), "node-4")
	do(t, c.Cut("node-4"))
	await(t, c, "node-4 has no quorum, and knows it", func(v *cluster.View) string {
		s := v.Agents["node-4"]
		if s == nil || s.GetVerdict().GetQuorum() {
			return "node-4 says: " + s.GetVerdict().GetText()
		}
		return ""
	}, cluster.Quorum(rest...), cluster.NodeNotReady("node-4"))
	await(t, c, "the others take it for gone", func(v *cluster.View) string {
		for _, by := range rest {
			if n := v.State(by, "node-4"); n.GetAvailable() {
				return by + " has not left it out"
			}
		}
		return ""
	}, cluster.Quorum(rest...))
	do(t, c.Heal("node-4"))
	await(t, c, "healed: the node and its agent are Ready", cluster.NodesReady(c.Names()...), cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...))
}

// Guard: of two halves, the LUN grants the one that reaches the API server. The other half knows that it has lost.
func equalSplit(t *testing.T, c *cluster.Cluster) {
	near, far := []string{"node-1", "node-2"}, []string{"node-3", "node-4"}
	do(t, c.Split(far...))
	says := func(reason fencingv1.Reason, nodes ...string) cluster.Condition {
		return func(v *cluster.View) string {
			for _, name := range nodes {
				if got := v.Agents[name].GetVerdict(); got.GetReason() != reason {
					return fmt.Sprintf("%s says %s (%s), want %s", name, got.GetReason(), got.GetText(), reason)
				}
			}
			return ""
		}
	}
	await(t, c, "one half has won, the other has lost", says(fencingv1.Reason_REASON_SPLIT_WON, near...), says(fencingv1.Reason_REASON_SPLIT_LOST, far...))
	hold(t, c, "and that does not change", 5*time.Second, cluster.Quorum(near...), says(fencingv1.Reason_REASON_SPLIT_LOST, far...))
	for _, name := range far {
		do(t, c.Heal(name))
	}
	await(t, c, "healed", cluster.NodesReady(c.Names()...), cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...))
}

// Guard: a loss of power is proven by the node's next boot, to every agent.
func powerLost(t *testing.T, c *cluster.Cluster) {
	rest := without(c.Names(), "node-4")
	before := look(t, c)
	boot, container := before.Agents["node-4"].GetSelf().GetBootNonce(), containers(before, []string{"node-4"})["node-4"]
	do(t, c.PowerOff("node-4"))
	await(t, c, "the node is NotReady, and the agents have left it out", cluster.NodeNotReady("node-4"), cluster.Quorum(rest...), func(v *cluster.View) string {
		for _, by := range rest {
			if v.State(by, "node-4").GetAvailable() {
				return by + " has not left it out"
			}
		}
		return ""
	})
	proven := deathsByBoot(t, c, rest)
	do(t, c.Boot(t.Context(), "node-4"))
	await(t, c, "its new boot proves the death of the last, to all others", cluster.Quorum(rest...), func(v *cluster.View) string {
		for name, n := range deathsByBoot(t, c, rest) {
			if n != proven[name]+1 {
				return fmt.Sprintf("%s has seen %d deaths by boot, before that %d", name, n, proven[name])
			}
		}
		if v.Agents["node-4"].GetSelf().GetBootNonce() == boot {
			return "it is the same boot"
		}
		return ""
	})
	await(t, c, "its agent is Ready in a container of this boot", cluster.NodesReady("node-4"), cluster.AgentsReady("node-4"), func(v *cluster.View) string {
		if containers(v, []string{"node-4"})["node-4"] == container {
			return "the pod's status is from before the boot"
		}
		return ""
	}, cluster.GroupWhole(c.Names()...))
}

// deathsByBoot counts the deaths that each of these agents has had proven by a boot. A status contains such a death
// only until the node is back, but the count stays.
func deathsByBoot(t *testing.T, c *cluster.Cluster, nodes []string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, name := range nodes {
		n, err := c.Metric(t.Context(), name, `fencing_agent_deaths_total{proof="boot"}`)
		if err != nil {
			t.Fatal(err)
		}
		counts[name] = int(n)
	}
	return counts
}

// Guard: an agent whose node was moved to another group says what to do, and runs when that was done. This is tested in
// both directions.
func movedToAnotherGroup(t *testing.T, c *cluster.Cluster) {
	rest := without(c.Names(), "node-4")
	const other = "node-role.kubernetes.io/worker"
	list := kubectl(t, c, "-n", cluster.Space, "get", "configmap", "fencing-agent-worker", "-o", "jsonpath={.data.agent\\.yaml}")
	begin, end := strings.Index(list, "  static:\n"), strings.Index(list, "nodeGroup:")
	moved := list[:begin] + "  static: [{name: node-4, addresses: {mgmt: 10.0.0.4, data: 10.1.0.4}}]\n" + list[end:]
	setWorkers(t, c, moved)
	kubectl(t, c, "label", "node", "node-4", cluster.GroupLabel+"-", other+"=")
	saysWhatToDo(t, c, "worker", "storage")
	hold(t, c, "the group that it left has quorum", time.Second, cluster.Quorum(rest...))
	forget(t, c)
	await(t, c, "the agent is Ready in the other group", cluster.AgentsReady("node-4"), cluster.Quorum("node-4"))

	kubectl(t, c, "label", "node", "node-4", other+"-", cluster.GroupLabel+"="+cluster.Group)
	saysWhatToDo(t, c, "storage", "worker")
	forget(t, c)
	await(t, c, "it is back in its group", cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...))
	setWorkers(t, c, list)
}

func setWorkers(t *testing.T, c *cluster.Cluster, config string) {
	t.Helper()
	indented := "    " + strings.ReplaceAll(strings.TrimRight(config, "\n"), "\n", "\n    ")
	apply(t, c, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fencing-agent-worker, namespace: "+cluster.Space+"}\ndata:\n  agent.yaml: |\n"+indented+"\n")
}

// saysWhatToDo waits until the agent of node-4 has ended with the advice that fits.
func saysWhatToDo(t *testing.T, c *cluster.Cluster, group, was string) {
	t.Helper()
	await(t, c, "the agent says what a move from "+was+" to "+group+" needs", func(v *cluster.View) string {
		p := v.AgentPod("node-4")
		if p == nil || p.Labels["fencing-agent.io/group"] != group || len(p.Status.ContainerStatuses) == 0 {
			return "its pod of the other group is not there"
		}
		s := p.Status.ContainerStatuses[0]
		for _, state := range []core.ContainerState{s.State, s.LastTerminationState} {
			if e := state.Terminated; e != nil && strings.Contains(e.Message, fmt.Sprintf("in group %q, and nodeGroup is %q: if this node was moved", was, group)) {
				return ""
			}
		}
		return fmt.Sprintf("it says %+v", s)
	})
}

// forget does what the message and docs/kubernetes.md advise.
func forget(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if _, err := c.Run(t.Context(), "node-4", "rm", "-f", "/var/lib/fencing-agent/members.json", "/var/lib/fencing-agent/members-terms.json"); err != nil {
		t.Fatal(err)
	}
	do(t, c.DeleteAgent(t.Context(), "node-4"))
}
