package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
)

// fenceRow is the configuration of a node, as its ConfigMaps define it.
type fenceRow struct {
	Node      string   `json:"node"`
	Isolation []string `json:"isolation"`
	Power     []string `json:"powerManagement"` // in the order in which they run
	Recovery  []string `json:"recovery"`
	Refused   bool     `json:"refused"` // because of its problems
}

// checkFenceConfig reads the ConfigMaps of a namespace by kubectl, prints what they define, and reports their problems.
// agents is a file that "fencing-executor metadata" has written; with "", the ConfigMap fence-agents is used instead,
// if it exists.
func checkFenceConfig(ctx context.Context, env *environment, out *printer, kube *kubeFlags, namespace, agents string) error {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Data     map[string]string
		}
	}
	if err := askJSON(ctx, kube.run, &list, "get", "configmaps", "--namespace", namespace, "--output", "json"); err != nil {
		return err
	}
	objects := fenceconfig.Objects{}
	for _, o := range list.Items {
		objects[o.Metadata.Name] = o.Data
	}
	c := fenceconfig.CheckAgents(objects, json.Unmarshal)
	if agents != "" {
		known, err := readAgents(agents)
		if err != nil {
			return err
		}
		c = fenceconfig.Read(objects, known)
	}
	rows := []fenceRow{}
	for _, name := range slices.Sorted(maps.Keys(c.Nodes)) {
		n := c.Nodes[name]
		power, _ := fenceconfig.Steps(n.Power)
		rows = append(rows, fenceRow{name, methodNames(n.Isolation), methodNames(power), methodNames(n.Recovery), n.Broken || c.Broken})
	}
	var bad []string
	for _, p := range c.Problems {
		if p.Warning && !p.Unread {
			env.warn(p.String())
		} else {
			bad = append(bad, p.String())
		}
	}
	if len(rows) > 0 {
		problem, err := executorProblem(ctx, env, kube, namespace)
		if err != nil {
			return err
		}
		if problem != "" {
			bad = append(bad, problem)
		}
	}
	if err := out.print(env.stdout, rows, func(t *table) { fenceTable(t, namespace, rows) }); err != nil {
		return err
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s", strings.Join(bad, "\n"))
	}
	return nil
}

func readAgents(file string) (fenceconfig.Agents, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the agents' metadata: %w", err)
	}
	agents, err := fenceconfig.ReadAgents(string(text), json.Unmarshal)
	if err != nil {
		return nil, fmt.Errorf("read the agents' metadata of %s: %w", file, err)
	}
	return agents, nil
}

func methodNames(methods []fenceconfig.Method) []string {
	out := []string{}
	for _, m := range methods {
		out = append(out, m.Name)
	}
	return out
}

func fenceTable(t *table, namespace string, rows []fenceRow) {
	if len(rows) == 0 {
		t.row("nodes", "none: no ConfigMap of the namespace "+namespace+" begins with fence-config-")
	}
	for _, r := range rows {
		text := "isolation: " + list(r.Isolation) + "; power_management: " + list(r.Power) + "; recovery: " + list(r.Recovery)
		if r.Refused {
			text = "refused, nothing is switched for it; " + text
		}
		t.row(r.Node, text)
	}
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " ")
}
