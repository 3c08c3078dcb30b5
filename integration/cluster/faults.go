package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
)

// Cut takes a node off some networks, or off all if none is named. The node does not notice: its interfaces keep
// their carrier.
func (c *Cluster) Cut(node string, networks ...string) error { return c.ports(node, networks, nowhere) }

// Split separates these nodes from the others and from the API server, on all networks, without a sign of it. They
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

// PowerOff ends a node like a loss of power. [Cluster.Boot] brings it back.
func (c *Cluster) PowerOff(node string) error {
	m, err := c.node(node)
	if err != nil {
		return err
	}
	c.mu.Lock()
	delete(c.nodes, node)
	c.mu.Unlock()
	return m.Kill()
}

// Crash has the kernel of a node panic, which ends the node. One without a kernel of its own loses its power instead.
// [Cluster.Boot] is its return.
func (c *Cluster) Crash(ctx context.Context, node string) error {
	if !c.config.Kind.OwnKernel() {
		return c.PowerOff(node)
	}
	m, err := c.node(node)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	if _, err := m.Do(ctx, machine.Request{Do: machine.Run, Args: []string{"sh", "-c", "echo c >/proc/sysrq-trigger"}}); ctx.Err() != nil || err == nil {
		return fmt.Errorf("the kernel of %s does not panic: %w", node, cmp.Or(err, errors.New("it goes on")))
	}
	return nil // it has ended, and does not answer
}

// Reset ends a node and boots it again at once, as a watchdog or a person at its console does: its processes are gone,
// and its disk is unchanged.
func (c *Cluster) Reset(ctx context.Context, node string) error {
	if err := c.PowerOff(node); err != nil {
		return err
	}
	return c.Boot(ctx, node)
}

// Freeze stops a node with everything that runs in it, until [Cluster.Thaw]. Clocks continue.
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

// LoseLUN makes every I/O of the node on the LUN fail; the other nodes still see the whole LUN.
func (c *Cluster) LoseLUN(node string) error { return c.lunFault(node, machine.Lose, c.loops.Lose) }

// RestoreLUN ends [Cluster.LoseLUN].
func (c *Cluster) RestoreLUN(node string) error {
	return c.lunFault(node, machine.Restore, c.loops.Restore)
}

// lunFault causes a fault in the node, or on the device of the host.
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

// KillContainerd ends containerd on a node; it is started again after a second. Containers keep running.
func (c *Cluster) KillContainerd(ctx context.Context, node string) error {
	return c.do(ctx, node, machine.Kill, "containerd")
}

// HoldKubelet ends the kubelet of a node for good, until [Cluster.FreeKubelet].
func (c *Cluster) HoldKubelet(ctx context.Context, node string) error {
	return c.do(ctx, node, machine.Hold, "kubelet")
}

// HoldContainerd ends containerd on a node for good, until [Cluster.FreeContainerd]. Containers keep running, and so
// does the kubelet, which reports that the node is not Ready.
func (c *Cluster) HoldContainerd(ctx context.Context, node string) error {
	return c.do(ctx, node, machine.Hold, "containerd")
}

// FreeContainerd ends [Cluster.HoldContainerd].
func (c *Cluster) FreeContainerd(ctx context.Context, node string) error {
	return c.do(ctx, node, machine.Free, "containerd")
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

// LoseImage removes the images of the agents from a node, like one that is new or was cleaned. Running containers
// continue. There is no registry from which the images could be pulled.
func (c *Cluster) LoseImage(ctx context.Context, node string) error {
	if err := c.onImages(ctx, node, "rm", "--sync", AgentImage, NextImage); err != nil {
		return err
	}
	c.mark(c.bare, node, true)
	return nil
}

// RestoreImage ends [Cluster.LoseImage].
func (c *Cluster) RestoreImage(ctx context.Context, node string) error {
	for _, image := range []string{AgentImage, NextImage} {
		if err := c.onImages(ctx, node, "import", c.archive(image)); err != nil {
			return err
		}
	}
	c.mark(c.bare, node, false)
	return nil
}

func (c *Cluster) onImages(ctx context.Context, node string, args ...string) error {
	_, err := c.Run(ctx, node, append([]string{filepath.Join(c.config.Programs.Runtime, "ctr"), "--namespace=k8s.io", "images"}, args...)...)
	return err
}

// fill leaves no free space on the disk of a folder. It allocates without writing.
const fill = `n=0
for size in 4G 512M 64M 8M 1M 64k 4k; do
	while fallocate -l $size $0/full.$$.$n 2>/dev/null; do n=$((n+1)); done
	n=$((n+1))
done`

// FillDisk leaves no byte free on the disk of a node. If the node has its own kernel, that is the disk behind /var/lib.
// Otherwise it is only the disk with the files of its agent, because the rest belongs to the host.
func (c *Cluster) FillDisk(ctx context.Context, node string) error {
	c.mark(c.full, node, true)
	_, err := c.Run(ctx, node, "sh", "-c", fill, c.disk())
	return err
}

// disk returns a folder on the disk that can be filled.
func (c *Cluster) disk() string {
	if c.config.Kind.OwnKernel() {
		return "/var/lib"
	}
	return machine.AgentFolder
}

// FreeDisk ends [Cluster.FillDisk].
func (c *Cluster) FreeDisk(ctx context.Context, node string) error {
	_, err := c.Run(ctx, node, "sh", "-c", "rm -f $0/full.*", c.disk())
	if err == nil {
		c.mark(c.full, node, false)
	}
	return err
}

// exhaust limits the memory of the agent to slightly more than it uses, and charges it with pages that belong to no
// process. The kernel then kills the agent. This works with control groups of both versions.
const exhaust = `for p in /proc/[0-9]*; do
	read -r name <$p/comm 2>/dev/null && [ "$name" = fencing-agent ] && pid=${p#/proc/}
done
while IFS=: read -r n controllers path; do
	case ",$controllers," in
	*,memory,*) group=/sys/fs/cgroup/memory$path limit=memory.limit_in_bytes usage=memory.usage_in_bytes ;;
	,,) [ -e /sys/fs/cgroup$path/memory.max ] && group=/sys/fs/cgroup$path limit=memory.max usage=memory.current ;;
	esac
done </proc/$pid/cgroup
read -r used <$group/$usage
echo $((used + 8388608)) >$group/$limit
sh -c 'echo $$ >'$group'/cgroup.procs; exec dd if=/dev/zero of=/run/exhausted bs=1M count=256' 2>&1
rm -f /run/exhausted`

// ExhaustMemory makes the kernel's OOM killer end the agent on a node.
func (c *Cluster) ExhaustMemory(ctx context.Context, node string) error {
	_, err := c.Run(ctx, node, "sh", "-c", exhaust)
	return err
}

func (c *Cluster) mark(set map[string]bool, node string, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set[node] = is
}

func (c *Cluster) marked(set map[string]bool, node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return set[node]
}

// KillServer ends the API server.
func (c *Cluster) KillServer() error { return c.Plane.KillServer() }

// StartServer starts the API server again.
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
			func() error {
				if !c.marked(c.full, name) {
					return nil
				}
				return c.FreeDisk(ctx, name)
			},
			func() error {
				if !c.marked(c.bare, name) {
					return nil
				}
				return c.RestoreImage(ctx, name)
			},
		} {
			if err := undo(); err != nil {
				return err
			}
		}
	}
	return c.Await(ctx, "everything as at the beginning", limit, NodesReady(c.Names()...), AgentsReady(c.Names()...), GroupWhole(c.Names()...))
}
