package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
)

// Cut takes a node off some networks, or off all if none is named, without a word to it: its
// interfaces keep their carrier.
func (c *Cluster) Cut(node string, networks ...string) error { return c.ports(node, networks, nowhere) }

// Split parts these nodes from the others and from the API server, on all networks, as silently. They
// reach each other.
func (c *Cluster) Split(nodes ...string) error {
	for _, node := range nodes {
		if err := c.ports(node, nil, apart); err != nil {
			return err
		}
	}
	return nil
}

// Heal ends [Cluster.Cut] and [Cluster.Split].
func (c *Cluster) Heal(node string, networks ...string) error {
	return c.ports(node, networks, together)
}

func (c *Cluster) ports(node string, networks []string, to place) error {
	i, err := c.index(node)
	if err != nil {
		return err
	}
	if len(networks) == 0 {
		networks = Networks
	}
	for _, name := range networks {
		n := slices.Index(Networks, name)
		if n < 0 {
			return fmt.Errorf("there is no network %s", name)
		}
		if err := c.network.set(n, i, to); err != nil {
			return err
		}
	}
	return nil
}

// PowerOff ends a node as a loss of power does. [Cluster.Boot] is its return.
func (c *Cluster) PowerOff(node string) error {
	c.mu.Lock()
	m := c.nodes[node]
	delete(c.nodes, node)
	c.mu.Unlock()
	if m == nil {
		return fmt.Errorf("%s has no power", node)
	}
	return m.Kill()
}

// Freeze stops a node with all that runs in it, until [Cluster.Thaw]. Clocks go on.
func (c *Cluster) Freeze(node string) error {
	m, err := c.node(node)
	if err != nil {
		return err
	}
	return m.Freeze()
}

// Thaw ends [Cluster.Freeze].
func (c *Cluster) Thaw(node string) error {
	m, err := c.node(node)
	if err != nil {
		return err
	}
	return m.Thaw()
}

// LoseLUN has every I/O of the node on the LUN fail; the other nodes see all of it.
func (c *Cluster) LoseLUN(node string) error { return c.lunFault(node, machine.Lose, c.loops.Lose) }

// RestoreLUN ends [Cluster.LoseLUN].
func (c *Cluster) RestoreLUN(node string) error {
	return c.lunFault(node, machine.Restore, c.loops.Restore)
}

// lunFault does it in the node, or on the device of the host.
func (c *Cluster) lunFault(node, what string, outside func(i int) error) error {
	i, err := c.index(node)
	if err != nil {
		return err
	}
	if c.config.Kind.OwnKernel() {
		ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
		defer cancel()
		return c.do(ctx, node, what, "lun")
	}
	return outside(i)
}

// KillKubelet ends the kubelet of a node; it is started again after a second.
func (c *Cluster) KillKubelet(ctx context.Context, node string) error {
	return c.do(ctx, node, machine.Kill, "kubelet")
}

// KillContainerd ends containerd on a node; it is started again after a second. Containers go on.
func (c *Cluster) KillContainerd(ctx context.Context, node string) error {
	return c.do(ctx, node, machine.Kill, "containerd")
}

// HoldKubelet ends the kubelet of a node for good, until [Cluster.FreeKubelet].
func (c *Cluster) HoldKubelet(ctx context.Context, node string) error {
	return c.do(ctx, node, machine.Hold, "kubelet")
}

// FreeKubelet ends [Cluster.HoldKubelet].
func (c *Cluster) FreeKubelet(ctx context.Context, node string) error {
	return c.do(ctx, node, machine.Free, "kubelet")
}

func (c *Cluster) do(ctx context.Context, node, what, program string) error {
	m, err := c.node(node)
	if err != nil {
		return err
	}
	_, err = m.Do(ctx, machine.Request{Do: what, Program: program})
	return err
}

// DeleteAgent deletes the pod of the agent on a node.
func (c *Cluster) DeleteAgent(ctx context.Context, node string) error {
	v, err := c.Look(ctx)
	if err != nil {
		return err
	}
	pod := v.AgentPod(node)
	if pod == nil {
		return fmt.Errorf("%s has no agent", node)
	}
	return c.Client.CoreV1().Pods(Space).Delete(ctx, pod.Name, meta.DeleteOptions{})
}

// KillServer ends the API server.
func (c *Cluster) KillServer() error { return c.Plane.KillServer() }

// StartServer starts it again.
func (c *Cluster) StartServer(ctx context.Context) error { return c.Plane.StartServer(ctx) }

// Settle ends all faults, and returns when all nodes and agents are as at the beginning.
func (c *Cluster) Settle(ctx context.Context, limit time.Duration) error {
	if err := c.StartServer(ctx); err != nil {
		return err
	}
	for _, name := range c.Names() {
		if _, err := c.node(name); err != nil {
			if err := c.Boot(ctx, name); err != nil {
				return err
			}
		}
		for _, undo := range []func() error{
			func() error { return c.Thaw(name) },
			func() error { return c.Heal(name) },
			func() error { return c.RestoreLUN(name) },
			func() error { return c.FreeKubelet(ctx, name) },
		} {
			if err := undo(); err != nil {
				return err
			}
		}
	}
	return c.Await(ctx, "everything as at the beginning", limit, NodesReady(c.Names()...), AgentsReady(c.Names()...), GroupWhole(c.Names()...))
}
