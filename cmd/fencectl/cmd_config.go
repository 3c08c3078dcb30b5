package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

func newConfigCommand(env *environment) *cobra.Command {
	return newGroup("config COMMAND", "Work with the agent's configuration",
		"Work with the configuration file of fencing-agent. Its keys are described in docs/configuration.md.",
		newConfigCheckCommand(env), newConfigTimingCommand(env),
	)
}

func newConfigCheckCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file as the agent would",
		Long: `Check a configuration file as the agent would at its start, without contacting anything.

All problems are listed at once, one a line, with the line of the file, the value found and what is
allowed; the exit code is 1 then. Warnings change no exit code.

If the file is good, a table tells what follows from it: quorum, tie-breakers, and the time after which
a lost node counts as fenced if the watchdog driver takes the timeout as configured. With -o yaml or
-o json, it is the effective configuration, every default filled in.

FILE may be - for standard input. $NODE_NAME and $NODE_GROUP fill empty keys, as they do for the agent.`,
		Example: `  fencectl config check /etc/fencing-agent/agent.yaml
  fencectl config check agent.yaml --node-name node-3
  fencectl config check agent.yaml --node-name node-3 --in-pod
  fencectl config check agent.yaml -o yaml > effective.yaml`,
		Args: operands("FILE"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	nodeName := cmd.Flags().String("node-name", "", "check as this node, as if $NODE_NAME said so")
	nodeGroup := cmd.Flags().String("node-group", "", "check as a node of this group, as if $NODE_GROUP said so")
	inPod := cmd.Flags().Bool("in-pod", false, "check as in a pod, where the API server is there without a kubeconfig")
	out := newPrinter(cmd, formatYAML)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		getenv := func(key string) string {
			switch {
			case key == config.EnvInCluster && *inPod:
				return "kubernetes.default.svc" // any value says that it is there
			case key == config.EnvNodeName && *nodeName != "":
				return *nodeName
			case key == config.EnvNodeGroup && *nodeGroup != "":
				return *nodeGroup
			default:
				return env.getenv(key)
			}
		}
		name, c, warnings, err := readConfig(cmd.Context(), env.stdin, args[0], getenv)
		for _, line := range config.Lines(name, warnings) {
			env.warn("warning: " + line)
		}
		if err != nil {
			return err
		}
		return out.print(env.stdout, c, func(t *table) { configTable(t, name, c, len(warnings)) })
	}
	return cmd
}

// readConfig loads the file, or standard input for "-"; name is what messages call it.
// A terminal or pipe may keep the reader waiting: it is left behind when ctx ends.
func readConfig(ctx context.Context, stdin io.Reader, file string, getenv func(string) string) (string, *config.Config, []config.Problem, error) {
	var name string
	var c *config.Config
	var warnings []config.Problem
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		name, c, warnings, err = loadConfig(stdin, file, getenv)
	}()
	select {
	case <-read:
		return name, c, warnings, err
	case <-ctx.Done():
		return file, nil, nil, fmt.Errorf("read configuration %s: interrupted: %w", file, context.Cause(ctx))
	}
}

func loadConfig(stdin io.Reader, file string, getenv func(string) string) (name string, c *config.Config, warnings []config.Problem, err error) {
	if file != "-" {
		c, warnings, err = config.Load(file, getenv)
		return file, c, warnings, err
	}
	const stdinName = "stdin"
	data, err := io.ReadAll(stdin)
	if err != nil {
		return stdinName, nil, nil, fmt.Errorf("read configuration from stdin: %w", err)
	}
	c, warnings, err = config.Parse(stdinName, data, getenv)
	return stdinName, c, warnings, err
}

// configTable tells what follows from a configuration.
func configTable(t *table, name string, c *config.Config, warnings int) {
	verdict := "ok"
	if warnings > 0 {
		verdict = fmt.Sprintf("ok (warnings: %d)", warnings)
	}
	t.row("file", name+": "+verdict)
	t.row("node", fmt.Sprintf("%s, group %s, cluster %s", c.NodeName, c.NodeGroup, c.Cluster))
	members := c.StaticMembers()
	quorum := int(c.Quorum.Size)
	if quorum == 0 {
		quorum = len(members)/2 + 1
	}
	switch {
	case c.Members.Source == config.SourceStatic:
		t.row("quorum", fmt.Sprintf("%d of %d members; without it: %s", quorum, len(members), c.OnQuorumLoss))
	case c.Quorum.Size > 0:
		t.row("quorum", fmt.Sprintf("%d of the members, which are asked of source %s; without it: %s", quorum, c.Members.Source, c.OnQuorumLoss))
	default:
		t.row("quorum", fmt.Sprintf("more than half of the members, which are asked of source %s; without it: %s", c.Members.Source, c.OnQuorumLoss))
	}
	breakers := c.TieBreakers()
	text := orNone(breakers)
	if c.UsesLease() {
		text += ", by a Lease: exactly one half lives"
	}
	t.row("tie-breakers", text)
	for _, n := range c.SystemNetworks {
		t.row("network "+n.Name, fmt.Sprintf("%s, port %d", n.Where(), n.Port))
	}
	t.row("reachable on", c.Reachability)
	p := c.Params()
	t.row("gossip", fmt.Sprintf("%s profile: probe %v/%v, evidence every %v, valid for %v",
		c.Gossip.Profile, p.ProbeInterval, p.ProbeTimeout, p.EvidenceInterval, p.EvidenceMaxAge))
	if n := len(members); n > 1 {
		t.row("", fmt.Sprintf("memberlist detects a crash after %v on average, %v at worst",
			p.TypicalDetection(n).Round(100*time.Millisecond), p.WorstDetection(n).Round(100*time.Millisecond)))
	}
	w := c.Watchdog.Timeout
	if c.Watchdog.Driver == config.DriverNone {
		t.row("watchdog", "none: decides and reports, never fences")
		return
	}
	t.row("watchdog", fmt.Sprintf("%s, %v, fed every %v", c.Watchdog.Device, w, c.Watchdog.FeedInterval))
	t.row("fenced after", fmt.Sprintf("%v when lost to a majority", c.Budget(w).Majority()))
	if len(breakers) > 0 && len(members)%2 == 0 {
		t.row("", fmt.Sprintf("%v after an equal split, %v of it to decide", c.Budget(w).Tie(), c.ArbitrationBudget()))
	}
}

// orNone lists the breakers in order.
func orNone(breakers []config.Breaker) string {
	if len(breakers) == 0 {
		return "none"
	}
	names := make([]string, len(breakers))
	for i, b := range breakers {
		names[i] = string(b)
	}
	return strings.Join(names, ", then ")
}
