package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// agentOf returns the state of the agent's container on a node, or nil.
func agentOf(v *cluster.View, node string) *core.ContainerStatus {
	if p := v.AgentPod(node); p != nil && len(p.Status.ContainerStatuses) == 1 {
		return &p.Status.ContainerStatuses[0]
	}
	return nil
}

func waitsForImage(s *core.ContainerStatus) bool {
	return s != nil && s.State.Waiting != nil && slices.Contains([]string{"ErrImagePull", "ImagePullBackOff"}, s.State.Waiting.Reason)
}

// notDead holds while none of these agents takes the node for dead.
func notDead(of string, by ...string) cluster.Condition {
	return func(v *cluster.View) string {
		for _, name := range by {
			if v.State(name, of).GetState() == fencingv1.NodeState_NODE_STATE_FENCED {
				return name + " takes " + of + " for dead"
			}
		}
		return ""
	}
}

// Guard: docs/kubernetes.md says that a node on which the agent's image is missing is a node without an agent. It has
// no other effect.
func imageMissing(t *testing.T, c *cluster.Cluster) {
	const node = "node-2"
	rest := without(c.Names(), node)
	before := containers(look(t, c), c.Names())
	do(t, c.LoseImage(t.Context(), node))
	hold(t, c, "the running agent is not affected", 3*time.Second, cluster.GroupWhole(c.Names()...), unharmed(c.Names(), before))
	do(t, c.DeleteAgent(t.Context(), node))
	await(t, c, "its next pod waits for an image", func(v *cluster.View) string {
		s := agentOf(v, node)
		if !waitsForImage(s) {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	}, cluster.Quorum(rest...))
	hold(t, c, "the others have quorum, and nobody takes the node for dead", 15*time.Second, cluster.Quorum(rest...), cluster.AgentsReady(rest...),
		cluster.NodesReady(c.Names()...), notDead(node, rest...), unharmed(rest, before))
	do(t, c.RestoreImage(t.Context(), node))
	await(t, c, "the image is back, and the agent with it", cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...))
}

// Guard: the same holds for an image that no node has: the rollout stops at the first node.
func unknownImage(t *testing.T, c *cluster.Cluster) {
	available(t, c)
	before := look(t, c).AgentPod("node-1").Spec.Containers[0].Image
	const unknown = "registry.example.com/fencing-agent:unknown"
	setImage(t, c, unknown)
	var first string
	await(t, c, "the first agent waits for its image", func(v *cluster.View) string {
		for _, name := range c.Names() {
			if s := agentOf(v, name); waitsForImage(s) && s.Image == unknown {
				first = name
				return ""
			}
		}
		return "none does"
	})
	rest := without(c.Names(), first)
	hold(t, c, "the others are left alone and have quorum", 20*time.Second, cluster.AgentsReady(rest...), hasImage(before, rest...), cluster.Quorum(rest...), notDead(first, rest...))
	kubectl(t, c, "-n", cluster.Space, "rollout", "undo", daemonSet)
	await(t, c, "undone", hasImage(before, c.Names()...), cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...))
}

// Guard: the kernel kills an agent for lack of memory like any other program. Its kubelet starts it again before any
// agent takes its node for dead.
func oomKilled(t *testing.T, c *cluster.Cluster) {
	const node = "node-3"
	rest := without(c.Names(), node)
	s := agentOf(look(t, c), node)
	do(t, c.ExhaustMemory(t.Context(), node))
	await(t, c, "the OOM killer has ended the agent, and it is Ready again", func(v *cluster.View) string {
		if missing := notDead(node, rest...)(v); missing != "" {
			t.Error(missing)
		}
		now := agentOf(v, node)
		if now == nil || now.RestartCount != s.RestartCount+1 || now.LastTerminationState.Terminated == nil {
			return fmt.Sprintf("%+v", now)
		}
		if why := now.LastTerminationState.Terminated.Reason; why != "OOMKilled" {
			t.Fatalf("the reason of the agent's end is %q: %+v", why, now.LastTerminationState.Terminated)
		}
		return ""
	}, cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...))
}
