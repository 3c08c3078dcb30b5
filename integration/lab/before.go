package lab

import (
	"bytes"
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// UseBefore is Use for an agent of an earlier commit. Where that is of before fencectl config migrate, its file gets the
// keys of then: a program that refuses those names that command.
func (a *Agents) UseBefore(node, binary string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("lab: the agent of an earlier commit: %w", err)
	}
	if err := a.Use(node, binary); err != nil || bytes.Contains(program, []byte("fencectl config migrate")) {
		return err
	}
	file := a.cfg.file(node)
	for _, n := range file["systemNetworks"].([]map[string]any) { //nolint:forcetypeassert // made so
		n["interface"] = n["at"]
		delete(n, "at")
	}
	if watchdog, ok := file["watchdog"].(map[string]any); ok && watchdog["timeout"] == "10s" {
		watchdog["feedInterval"] = "2s" // which follows today
	}
	breakers := []string{}
	if file["lun"] != nil {
		breakers = []string{"lun"}
	}
	file["quorum"] = map[string]any{"tieBreakers": breakers}
	text, err := yaml.Marshal(file)
	if err == nil {
		err = os.WriteFile(a.cfg.ConfigPath(node), text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("lab: configuration of node %s: %w", node, err)
	}
	return nil
}

// Upgrade gives a node today's program again, and its file today's keys, as fencectl config migrate does.
func (a *Agents) Upgrade(node string) error {
	path := a.cfg.ConfigPath(node)
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("lab: configuration of node %s: %w", node, err)
	}
	m, err := config.Migrate(text)
	if err == nil {
		err = os.WriteFile(path, m.Text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("lab: configuration of node %s: %w", node, err)
	}
	return a.Use(node, a.binary)
}
