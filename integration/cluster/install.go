package cluster

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// GroupLabel is the label by which the DaemonSets of the manifests find their nodes.
const GroupLabel = "node.deckhouse.io/group"

// Group is the group of the nodes.
const Group = "storage"

// installed is the longest time until the agents are Ready.
const installed = 3 * time.Minute

// Install does what docs/kubernetes.md says: the namespace, the gossip key, the LUN, the label,
// the agents. It returns when all of them are Ready and have found each other.
func (c *Cluster) Install(ctx context.Context) error {
	began := time.Now()
	c.config.Say("initializing the LUN, labelling the nodes, applying %s", filepath.Base(c.config.Manifest))
	if _, err := c.Run(ctx, nodeName(0), c.config.Programs.Fencectl, "lun", "init", lunPath, "--cluster", clusterName, "--node-group", Group, "--slots", strconv.Itoa(max(16, 2*c.config.Nodes))); err != nil {
		return err
	}
	manifest, err := Manifest(c.config.Manifest, c.watchdog())
	if err != nil {
		return err
	}
	if manifest, err = withMembers(manifest, c.Names()); err != nil {
		return err
	}
	if err := c.Apply(ctx, manifest); err != nil {
		return err
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // it never fails (crypto/rand)
	secret := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: fencing-agent-gossip, namespace: %s}\nstringData: {gossip.keys: %q}\n",
		Space, base64.StdEncoding.EncodeToString(key[:])+"\n")
	if err := c.Apply(ctx, secret); err != nil {
		return err
	}
	if _, err := c.Plane.Kubectl(ctx, "", append(append([]string{"label", "node"}, c.Names()...), GroupLabel+"="+Group)...); err != nil {
		return err
	}
	if err := c.Await(ctx, "all agents Running and Ready", installed, AgentsReady(c.Names()...), GroupWhole(c.Names()...)); err != nil {
		return err
	}
	c.config.Say("%d agents Ready after %.1f s", c.config.Nodes, time.Since(began).Seconds())
	return nil
}

// Apply applies a manifest like an operator.
func (c *Cluster) Apply(ctx context.Context, manifest string) error {
	_, err := c.Plane.Kubectl(ctx, manifest, "apply", "--server-side", "--force-conflicts", "-f", "-")
	return err
}

// withMembers replaces the list of the group's members if the manifest lists other nodes.
func withMembers(manifest string, names []string) (string, error) {
	const begin, end = "      static:\n", "    nodeGroup: " + Group + "\n"
	from, to := strings.Index(manifest, begin), strings.Index(manifest, end)
	if from < 0 || to < from {
		return "", fmt.Errorf("no list of members of %s", Group)
	}
	var list strings.Builder
	for i, name := range names {
		fmt.Fprintf(&list, "      - addresses:\n          data: %s\n          mgmt: %s\n        name: %s\n", nodeAddress(1, i), nodeAddress(0, i), name)
	}
	return manifest[:from+len(begin)] + list.String() + manifest[to:], nil
}

var agentImage = regexp.MustCompile(`registry\.example\.com/fencing-agent[@:][^\s"]+`)

// InstallController does what docs/controller.md says, and lets the controller act.
func (c *Cluster) InstallController(ctx context.Context, path string) error {
	return c.installController(ctx, path, "")
}

// InstallNodeFence does what docs/power.md says: the controller with its manifest for NodeFence, and the executor's image.
func (c *Cluster) InstallNodeFence(ctx context.Context, path, nodeFence string) error {
	return c.installController(ctx, path, "nodeFence: {enabled: true, image: "+ExecutorImage+"}", nodeFence)
}

// installController adds a line to the controller's configuration, and applies manifests in addition to the
// controller's.
func (c *Cluster) installController(ctx context.Context, path, config string, more ...string) error {
	began := time.Now()
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	manifest := string(text)
	act := "dryRun: false"
	if config != "" {
		act += "\n    " + config
	}
	for from, to := range map[string]string{"registry.example.com/fencing-controller:CHANGE-ME": ControllerImage, "dryRun: true": act} {
		if !strings.Contains(manifest, from) {
			return fmt.Errorf("%s: no %q", path, from)
		}
		manifest = strings.Replace(manifest, from, to, 1)
	}
	for _, path := range more {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		manifest += "\n---\n" + string(text)
	}
	if err := c.Apply(ctx, manifest); err != nil {
		return err
	}
	if _, err := c.Plane.Kubectl(ctx, "", "-n", ControllerSpace, "rollout", "status", "deployment/fencing-controller", "--timeout=2m"); err != nil {
		return err
	}
	c.config.Say("fencing-controller is available after %.1f s", time.Since(began).Seconds())
	return nil
}

// ControllerSpace is the namespace of fencing-controller.
const ControllerSpace = "fencing-controller"

// Manifest returns the shipped manifest with two changes. The image is named by its tag, because it has no digest
// before it is built. The watchdog is that of the nodes, if they have one.
func Manifest(path, watchdog string) (string, error) {
	bytes, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text := agentImage.ReplaceAllString(string(bytes), AgentImage)
	if !strings.Contains(text, "image: "+AgentImage) {
		return "", fmt.Errorf("%s: no image of an agent", path)
	}
	const device = "      device: /dev/watchdog\n"
	instead := "      driver: none\n"
	if watchdog != "" {
		instead = "      device: " + watchdog + "\n"
	}
	if !strings.Contains(text, device) {
		return "", fmt.Errorf("%s: no %q", path, device)
	}
	return strings.Replace(text, device, instead, 1), nil
}
