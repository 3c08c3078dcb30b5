package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	core "k8s.io/api/core/v1"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
)

const (
	pluginResource = "squat.ai/watchdog"
	workers        = "node.deckhouse.io/group=worker"
)

// pluginDaemonSet is a DaemonSet that offers the node's device.
func pluginDaemonSet(device string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: DaemonSet
metadata: {name: device-plugin, namespace: kube-system}
spec:
  selector: {matchLabels: {app: device-plugin}}
  template:
    metadata: {labels: {app: device-plugin}}
    spec:
      hostNetwork: true
      tolerations: [{operator: Exists}]
      containers:
      - name: plugin
        image: %s
        imagePullPolicy: IfNotPresent
        args: [%s, %s]
        securityContext: {privileged: true}
        volumeMounts: [{name: kubelet, mountPath: /var/lib/kubelet/device-plugins}]
      volumes: [{name: kubelet, hostPath: {path: /var/lib/kubelet/device-plugins}}]
`, cluster.PluginImage, pluginResource, device)
}

// Guard: deploy/manifests/device-plugin.yaml runs agents without privileges, with a watchdog that the kubelet gives
// them. If nodes have their own kernels, that watchdog is softdog, and is armed.
func TestDevicePlugin(t *testing.T) {
	t.Run("device_plugin", func(t *testing.T) {
		if inside == nil {
			t.Skipf("set %s=1 as root to run the agents in a real cluster (make test-cluster)", enableEnv)
		}
		c := startForPlugin(t)
		defer func() { do(t, c.Close()) }()
		await(t, c, "without the plugin no node has the resource", func(v *cluster.View) string {
			for _, name := range c.Names() {
				if !lacksResource(v, name) {
					return "the agent of " + name + " does not wait for it"
				}
			}
			return ""
		})
		device := machine.Softdog
		real := kind(t, mustPrograms(t)).OwnKernel()
		if !real {
			device = "/dev/watchdog"
			for _, name := range c.Names() { // a path that exists
				_, err := c.Run(t.Context(), name, "mknod", device, "c", "1", "3")
				do(t, err)
			}
		}
		apply(t, c, pluginDaemonSet(device))
		conditions := []cluster.Condition{cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...)}
		if real {
			conditions = append(conditions, armed(c.Names()))
		}
		await(t, c, "with it the agents run", conditions...)
		for _, name := range c.Names() {
			if s := look(t, c).AgentPod(name).Spec.Containers[0].SecurityContext; s.Privileged == nil || *s.Privileged {
				t.Errorf("the agent of %s is privileged: %+v", name, s)
			}
		}
		out := kubectl(t, c, "-n", cluster.Space, "exec", "daemonset/fencing-agent-worker", "--", "fencectl", "status")
		t.Logf("fencectl status says\n%s", out)
		if real {
			do(t, c.KillKubelet(t.Context(), "node-2"))
			await(t, c, "a kubelet that starts again finds the plugin and the agent", hasResource("node-2"), cluster.AgentsReady(c.Names()...), cluster.GroupWhole(c.Names()...), armed(c.Names()))
		}
	})
}

func mustPrograms(t *testing.T) cluster.Programs {
	t.Helper()
	p, err := cluster.ProgramsIn(root)
	do(t, err)
	return p
}

// startForPlugin returns a cluster to which the manifest was applied.
func startForPlugin(t *testing.T) *cluster.Cluster {
	t.Helper()
	if shared != nil { // the cluster of the other scenarios
		do(t, shared.Close())
		shared = nil
	}
	programs := mustPrograms(t)
	nodes := kind(t, programs)
	c, err := cluster.Start(t.Context(), cluster.Config{Nodes: 3, Programs: programs, Room: inside, Kind: nodes, Plugin: true, Guarded: nodes.OwnKernel(), Say: t.Logf})
	do(t, err)
	text, err := os.ReadFile(filepath.Join(root, "deploy", "manifests", "device-plugin.yaml"))
	manifest := string(text)
	const watchdog = "    watchdog:\n"
	if err == nil && (!strings.Contains(manifest, watchdog) || !strings.Contains(manifest, "image: "+cluster.AgentImage)) {
		err = errors.New("device-plugin.yaml has changed: adapt this test")
	}
	if !nodes.OwnKernel() {
		manifest = strings.Replace(manifest, watchdog, watchdog+"      driver: none\n", 1)
		// A process cannot pass on a capability that it lacks.
		if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0); err == nil && has == 0 {
			t.Log("this host grants CAP_SYS_RESOURCE to nobody: the agents run without it")
			manifest = strings.Replace(manifest, "                - SYS_RESOURCE\n", "", 1)
		}
	}
	if err = errors.Join(err, c.Apply(t.Context(), manifest)); err == nil {
		_, err = c.Plane.Kubectl(t.Context(), "", append(append([]string{"label", "node"}, c.Names()...), workers)...)
	}
	if err != nil {
		t.Fatal(errors.Join(err, c.Close()))
	}
	return c
}

func lacksResource(v *cluster.View, node string) bool {
	for _, p := range v.Pods {
		if p.Namespace != cluster.Space || p.Spec.Affinity == nil {
			continue
		}
		for _, term := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, field := range term.MatchFields {
				if field.Key == "metadata.name" && field.Values[0] == node {
					return waitsFor(p, pluginResource)
				}
			}
		}
	}
	return false
}

func waitsFor(p *core.Pod, resource string) bool {
	for _, condition := range p.Status.Conditions {
		if condition.Type == core.PodScheduled && condition.Status == core.ConditionFalse && strings.Contains(condition.Message, "Insufficient "+resource) {
			return true
		}
	}
	return false
}

func hasResource(node string) cluster.Condition {
	return func(v *cluster.View) string {
		if n := v.Nodes[node]; n == nil || n.Status.Allocatable.Name(pluginResource, "").Value() != 1 {
			return node + " has no " + pluginResource
		}
		return ""
	}
}
