package lab

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// AgentConfig is the common configuration of the agents of one cluster. The file of each node follows from it, with
// static members, no Kubernetes and no watchdog.
type AgentConfig struct {
	Dir      string // folder for configurations, sockets and caches; its path must be short because of the sockets
	Nodes    []string
	Networks []string

	// Address returns the node's address on the network.
	Address func(node, network string) netip.Addr
	// ByAddress makes each agent find its interface by address, as if no interface had the network's name.
	ByAddress bool
	// LUN returns the node's path to the shared LUN; "" or a nil function: there is none.
	LUN func(node string) string

	HTTP string // address of the HTTP listener; "": off
	// Override replaces keys at the top level of each node's file with those that a test needs.
	Override map[string]any
	// OwnLUN returns settings that are merged into the LUN's section in one node's file; nil: none.
	OwnLUN func(node string) map[string]any
}

// ConfigPath returns the path of the node's configuration file.
func (c *AgentConfig) ConfigPath(node string) string { return filepath.Join(c.Dir, node+".yaml") }

// SocketPath returns the path of the node's gRPC socket.
func (c *AgentConfig) SocketPath(node string) string { return filepath.Join(c.Dir, node+".sock") }

// DisablePath returns the path of the node's disable file.
func (c *AgentConfig) DisablePath(node string) string { return filepath.Join(c.Dir, node+".disable") }

// socketLimit is the greatest length of a path in sockaddr_un, without the closing zero.
const socketLimit = 107

// Write writes the configuration files of all nodes.
func (c *AgentConfig) Write() error {
	for _, node := range c.Nodes {
		if path := c.SocketPath(node); len(path) > socketLimit {
			return fmt.Errorf("lab: socket path %s has %d characters, but must have at most %d: set TMPDIR to a shorter folder",
				path, len(path), socketLimit)
		}
		text, err := yaml.Marshal(c.file(node))
		if err != nil {
			return fmt.Errorf("lab: configuration of node %s: %w", node, err)
		}
		if err := os.WriteFile(c.ConfigPath(node), text, 0o644); err != nil {
			return fmt.Errorf("lab: configuration of node %s: %w", node, err)
		}
	}
	return nil
}

func (c *AgentConfig) file(node string) map[string]any {
	file := map[string]any{
		"cluster":        "demo",
		"nodeName":       node,
		"nodeGroup":      "demo",
		"members":        map[string]any{"source": "static", "static": c.members(), "cacheFile": filepath.Join(c.Dir, node+".members.json")},
		"systemNetworks": c.systemNetworks(node),
		"reachability":   "any",
		"quorum":         map[string]any{"tieBreak": "none"},
		// No device is armed. The timeout still enters the time budget, which an observer uses to judge the agents.
		"watchdog": map[string]any{
			"driver": "none", "timeout": "10s",
			"disableFile": c.DisablePath(node),
		},
		"api":  map[string]any{"socket": c.SocketPath(node)},
		"http": map[string]any{"address": c.HTTP},
	}
	if c.LUN != nil && c.LUN(node) != "" {
		lun := map[string]any{"devices": []string{c.LUN(node)}}
		if c.OwnLUN != nil {
			maps.Copy(lun, c.OwnLUN(node))
		}
		file["lun"] = lun
		file["quorum"] = map[string]any{"tieBreak": "lun"}
	}
	maps.Copy(file, c.Override)
	if w, ok := file["watchdog"].(map[string]any); ok && w["disableFile"] == nil {
		w = maps.Clone(w)
		w["disableFile"], file["watchdog"] = c.DisablePath(node), w
	}
	return file
}

func (c *AgentConfig) members() (out []map[string]any) {
	for _, node := range c.Nodes {
		addresses := map[string]string{}
		for _, network := range c.Networks {
			addresses[network] = c.Address(node, network).String()
		}
		out = append(out, map[string]any{"name": node, "addresses": addresses})
	}
	return out
}

func (c *AgentConfig) systemNetworks(node string) (out []map[string]any) {
	for _, network := range c.Networks {
		at := network
		if c.ByAddress {
			at = c.Address(node, network).String()
		}
		out = append(out, map[string]any{"name": network, "at": at})
	}
	return out
}
