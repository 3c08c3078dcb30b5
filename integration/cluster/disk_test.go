package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
)

const (
	unsavedNode   = `fencing_agent_unsaved{what="node"}`
	notWritten    = `fencing_agent_history_records_total{result="failed"}`
	nodeFile      = machine.AgentFolder + "/members-node.json"
	maintenanceBy = "fencing-agent.io/disable"
)

// Guard: a full disk does no harm to an agent that runs, nor to one that starts and has its files. The agent obeys its
// Node, keeps its lists, reports what it cannot store, and stores it when there is room. An agent that has no list yet
// does not start without room for one, and says so.
func diskFull(t *testing.T, c *cluster.Cluster) {
	const node = "node-4"
	rest := without(c.Names(), node)
	before := containers(look(t, c), c.Names())
	kept, failed := keptFiles(t, c, node), metric(t, c, node, notWritten)
	do(t, c.FillDisk(t.Context(), node))
	if out, err := c.Run(t.Context(), node, "sh", "-c", "echo something >"+machine.AgentFolder+"/more && cat "+machine.AgentFolder+"/more"); err == nil {
		t.Fatalf("there is room: %q", out)
	}
	kubectl(t, c, "annotate", "node", node, maintenanceBy+"=")
	await(t, c, "the agent obeys its Node, and remembers that in the place of what it has superseded", disarmed(node, true), remembers(t, c, node, true), cluster.Quorum(rest...))
	if _, err := c.Run(t.Context(), node, "rm", nodeFile); err != nil {
		t.Fatal(err)
	}
	do(t, c.FillDisk(t.Context(), node)) // including that space
	kubectl(t, c, "annotate", "node", node, maintenanceBy+"-")
	await(t, c, "it obeys again, and says that it cannot remember that", disarmed(node, false), unsaved(t, c, node, 1), cluster.GroupWhole(c.Names()...))
	hold(t, c, "nothing else is the matter", 8*time.Second, cluster.GroupWhole(c.Names()...), unsaved(t, c, node, 1), cluster.AgentsReady(c.Names()...), unharmed(c.Names(), before), notDead(node, rest...))
	if !c.OwnKernels() { // otherwise the log is on the same disk
		if text := kubectl(t, c, "-n", cluster.Space, "logs", look(t, c).AgentPod(node).Name); !strings.Contains(text, "cannot store what this agent knows about this node's Node") || !strings.Contains(text, "no space left on device") {
			t.Errorf("the log does not say that something cannot be remembered")
		}
	}
	if now := keptFiles(t, c, node); now != kept {
		t.Errorf("the files have changed: before\n%s\nnow\n%s", kept, now)
	}
	if out, _ := c.Run(t.Context(), node, "ls", machine.AgentFolder); strings.Contains(out, ".json.") {
		t.Errorf("half a file is there:\n%s", out)
	}
	if n := metric(t, c, node, notWritten); n != failed {
		t.Errorf("%v records of the history are lost", n-failed)
	}

	do(t, c.DeleteAgent(t.Context(), node))
	if !c.OwnKernels() { // otherwise there is no room for the pod either
		await(t, c, "another agent starts on the full disk", cluster.AgentsReady(node), unsaved(t, c, node, 1), another(node, before[node]))
	}
	hold(t, c, "the others go on", 8*time.Second, cluster.Quorum(rest...), cluster.AgentsReady(rest...), unharmed(rest, before), notDead(node, rest...))
	do(t, c.FreeDisk(t.Context(), node))
	await(t, c, "there is room, and all is stored", cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...), another(node, before[node]), unsaved(t, c, node, 0), remembers(t, c, node, false))
	if !c.OwnKernels() {
		firstStart(t, c, node)
	}
}

// firstStart makes an agent that remembers nothing start on a full disk.
func firstStart(t *testing.T, c *cluster.Cluster, node string) {
	t.Helper()
	rest := without(c.Names(), node)
	before := containers(look(t, c), rest)
	if _, err := c.Run(t.Context(), node, "sh", "-c", "rm "+machine.AgentFolder+"/members*.json"); err != nil {
		t.Fatal(err)
	}
	do(t, c.FillDisk(t.Context(), node))
	do(t, c.DeleteAgent(t.Context(), node))
	await(t, c, "an agent without a list does not start, and says why", func(v *cluster.View) string {
		s := agentOf(v, node)
		if s == nil {
			return "it has no container"
		}
		for _, state := range []core.ContainerState{s.State, s.LastTerminationState} {
			if e := state.Terminated; e != nil && strings.Contains(e.Message, "no space left on device") && strings.Contains(e.Message, "make the folder writable") {
				return ""
			}
		}
		return fmt.Sprintf("%+v", s)
	})
	hold(t, c, "the others go on", 3*time.Second, cluster.Quorum(rest...), cluster.AgentsReady(rest...), unharmed(rest, before), notDead(node, rest...))
	do(t, c.FreeDisk(t.Context(), node))
	await(t, c, "there is room, and it starts", cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...))
}

// keptFiles returns the digests of the files that the agent must not lose.
func keptFiles(t *testing.T, c *cluster.Cluster, node string) string {
	t.Helper()
	out, err := c.Run(t.Context(), node, "sha256sum", machine.AgentFolder+"/members.json", machine.AgentFolder+"/members-terms.json")
	do(t, err)
	return out
}

// unsaved holds when the agent of the node reports this number of files that cannot be stored.
func unsaved(t *testing.T, c *cluster.Cluster, node string, want float64) cluster.Condition {
	return func(*cluster.View) string {
		if n, err := c.Metric(t.Context(), node, unsavedNode); err != nil || n != want {
			return fmt.Sprintf("%s is %v, %v", unsavedNode, n, err)
		}
		return ""
	}
}

// remembers holds when the agent's file about its Node does, or does not, say that it is under maintenance.
func remembers(t *testing.T, c *cluster.Cluster, node string, maintenance bool) cluster.Condition {
	return func(*cluster.View) string {
		if text, err := c.Run(t.Context(), node, "cat", nodeFile); err != nil || strings.Contains(text, maintenanceBy) != maintenance {
			return fmt.Sprintf("what is remembered of the Node is %q, %v", text, err)
		}
		return ""
	}
}

func metric(t *testing.T, c *cluster.Cluster, node, name string) float64 {
	t.Helper()
	n, err := c.Metric(t.Context(), node, name)
	do(t, err)
	return n
}

// disarmed holds while the agent of the node reports that its Node disarms it, or that nothing does.
func disarmed(node string, want bool) cluster.Condition {
	return func(v *cluster.View) string {
		s := v.Agents[node]
		if s == nil || (len(s.GetVerdict().GetDisarmedBy()) > 0) != want {
			return fmt.Sprintf("%s is disarmed by %v: %s", node, s.GetVerdict().GetDisarmedBy(), s.GetVerdict().GetText())
		}
		return ""
	}
}

// another holds when the agent of the node runs in another container.
func another(node, container string) cluster.Condition {
	return func(v *cluster.View) string {
		if now := containers(v, []string{node})[node]; now == container || now == "" {
			return "the agent of " + node + " is in its old container, or in none"
		}
		return ""
	}
}
