package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/cmd/fencectl/doctor"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

func newConfigCommand(env *environment) *cobra.Command {
	return newGroup("config COMMAND", "Work with the agent's configuration",
		"Work with the configuration file of fencing-agent. Its keys are described in docs/configuration.md.",
		newConfigCheckCommand(env), newConfigTimingCommand(env), newConfigExplainCommand(env), newConfigMigrateCommand(env),
	)
}

const configCheckLong = `Check a configuration file as the agent would at its start, without contacting anything.

All problems are listed at once, one a line, with the line of the file, the value found and what is
allowed; the exit code is 1 then. Warnings, which the agent logs as well, and advice, which it does not,
change no exit code.

If the file is good, a table tells what follows from it: quorum, tie-breakers, and the time after which
a lost node counts as fenced if the watchdog driver takes the timeout as configured. With -o yaml or
-o json, it is the effective configuration, every default filled in.

With --here it also looks at this machine as the agent's start does, up to the point before it binds or
opens anything: addresses, ports, sockets, watchdog, the folder of the lists. What is missing is a
warning, since the agent starts without it, unless it would not start; fencectl doctor says more.

FILE may be - for standard input. $NODE_NAME and $NODE_GROUP fill empty keys, as they do for the agent.
Where neither says which node it is, and this machine is no member, the file is checked for each member.

With --namespace and without FILE it checks instead how fencing-controller would fence nodes: the
ConfigMaps of that namespace, which it reads by kubectl. The fence agents' own options are checked by
the ConfigMap fence-agents there, if there is one, or by --agents. Whether an executor would start there
is asked by a dry run of its pod, for which you need the right to create pods.`

const configCheckExample = `  fencectl config check /etc/fencing-agent/agent.yaml
  fencectl config check agent.yaml --node-name node-3
  fencectl config check agent.yaml --node-name node-3 --in-pod
  fencectl config check /etc/fencing-agent/agent.yaml --here
  fencectl config check agent.yaml -o yaml > effective.yaml
  kubectl fence config check -n fencing-controller`

// configCheckOperands requires a file, except with --namespace.
func configCheckOperands(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("namespace") {
		return operands()(cmd, args)
	}
	return operands("FILE")(cmd, args)
}

func newConfigCheckCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "check FILE",
		Short:   "Check a configuration file as the agent would",
		Long:    configCheckLong,
		Example: configCheckExample,
		Args:    configCheckOperands,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	nodeName := cmd.Flags().String("node-name", "", "check as this node, as if $NODE_NAME said so")
	nodeGroup := cmd.Flags().String("node-group", "", "check as a node of this group, as if $NODE_GROUP said so")
	inPod := cmd.Flags().Bool("in-pod", false, "check as in a pod, where the API server is there without a kubeconfig")
	namespace := cmd.Flags().StringP("namespace", "n", "", "check the ConfigMaps by which nodes are fenced, in this namespace")
	agents := cmd.Flags().String("agents", "", "with --namespace: a file that \"fencing-executor metadata\" has written")
	here := cmd.Flags().Bool("here", false, "look at this machine as well, as the agent's start does")
	kube := newKubeFlags(cmd)
	out := newPrinter(cmd, formatYAML)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		getenv := func(key string) string {
			switch {
			case key == config.EnvInCluster && *inPod:
				return "kubernetes.default.svc" // any value says that the API is there
			case key == config.EnvNodeName && *nodeName != "":
				return *nodeName
			case key == config.EnvNodeGroup && *nodeGroup != "":
				return *nodeGroup
			default:
				return env.getenv(key)
			}
		}
		if *namespace != "" && out.format == formatYAML {
			return usagef("invalid argument %q for \"--output\" flag: with --namespace it must be one of table, json", formatYAML)
		}
		if *namespace != "" {
			return checkFenceConfig(cmd.Context(), env, out, kube, *namespace, *agents)
		}
		name, r, err := readConfig(cmd.Context(), env.stdin, args[0], getenv)
		warnOf(env, name, r)
		if err == nil {
			err = checkLUNs(r.Config, formattedFor)
		}
		if err != nil {
			return err
		}
		if *here {
			if err := lookHere(env, r.Config); err != nil {
				return err
			}
		}
		return out.print(env.stdout, r.Config, func(t *table) { configTable(t, name, r) })
	}
	return cmd
}

// lookHere prints which parts the agent would lack on this machine, and fails if the agent would not start.
func lookHere(env *environment, c *config.Config) error {
	var ends []string
	for _, f := range (&doctor.Machine{Config: c}).Parts() {
		text := f.Subject + ": " + f.Found + "; " + f.Do
		switch {
		case f.Level == doctor.OK:
		case f.Ends():
			ends = append(ends, text)
		default:
			env.warn("warning: " + text)
		}
	}
	if len(ends) > 0 {
		return errors.New(strings.Join(ends, "\n"))
	}
	return nil
}

// checkLUNs refuses a configuration with which the agent would not start on this machine. It ignores a device that does
// not exist here, or cannot be read.
func checkLUNs(c *config.Config, formattedFor func(string) (doctor.Format, error)) error {
	for _, device := range c.LUN.Devices {
		f, err := formattedFor(device)
		switch {
		case err != nil:
		case f.Cluster != c.Cluster || f.NodeGroup != c.NodeGroup:
			return fmt.Errorf("the LUN %s is formatted for cluster %q, node group %q, and the agent would belong to cluster %q, node group %q; correct lun.devices, cluster or nodeGroup",
				device, f.Cluster, f.NodeGroup, c.Cluster, c.NodeGroup)
		case f.Slots < len(c.Members.Static):
			return fmt.Errorf("the LUN %s has %d slots for %d members; format it with more --slots", device, f.Slots, len(c.Members.Static))
		}
	}
	for _, f := range (&doctor.Machine{Config: c, FormattedFor: formattedFor}).Set() {
		if f.Ends() {
			return fmt.Errorf("LUN: %s; %s", f.Found, f.Do)
		}
	}
	return nil
}

// warnOf prints what is allowed but may be wrong.
func warnOf(env *environment, name string, r *config.Reviewed) {
	for _, line := range config.Lines(name, r.Warnings) {
		env.warn("warning: " + line)
	}
	for _, line := range config.Lines(name, r.Advice) {
		env.warn("advice: " + line)
	}
}

// readConfig loads the file, or standard input for "-". The returned name is the file's name in messages. A terminal or
// pipe may keep the reader waiting: when ctx ends, readConfig returns without waiting for it.
func readConfig(ctx context.Context, stdin io.Reader, file string, getenv func(string) string) (string, *config.Reviewed, error) {
	var name string
	var r *config.Reviewed
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		var text []byte
		if name, text, err = readInput(stdin, file); err == nil {
			r, err = config.Review(name, text, getenv)
		}
	}()
	select {
	case <-read:
		if r == nil {
			r = new(config.Reviewed)
		}
		return name, r, err
	case <-ctx.Done():
		return file, new(config.Reviewed), fmt.Errorf("read configuration %s: interrupted: %w", file, context.Cause(ctx))
	}
}

// readInput reads a file, or standard input for "-".
func readInput(stdin io.Reader, file string) (name string, text []byte, err error) {
	if file != "-" {
		text, err = config.Read(file)
		return file, text, err
	}
	if text, err = io.ReadAll(stdin); err != nil {
		err = fmt.Errorf("read configuration from stdin: %w", err)
	}
	return "stdin", text, err
}

// configTable shows what a configuration means.
func configTable(t *table, name string, r *config.Reviewed) {
	c := r.Config
	t.row("file", name+": "+verdictOn(r))
	node := c.NodeName
	if node == "" {
		node = fmt.Sprintf("each of %s: this machine is none of them (--node-name checks as one)", strings.Join(r.Nodes, ", "))
	}
	t.row("node", fmt.Sprintf("%s, group %s, cluster %s", node, c.NodeGroup, c.Cluster))
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
	t.row("tie-breakers", c.TieBreakText())
	for _, n := range c.SystemNetworks {
		t.row("network "+n.Name, fmt.Sprintf("%s, port %d", n.At.Where(), n.Port))
	}
	t.row("reachable on", c.Reachability)
	p := c.Params()
	t.row("gossip", fmt.Sprintf("timing %s: probe %v/%v, evidence every %v, valid for %v",
		c.Timing, p.ProbeInterval, p.ProbeTimeout, p.EvidenceInterval, p.EvidenceMaxAge))
	if n := len(members); n > 1 {
		t.row("", fmt.Sprintf("memberlist detects a crash after %v on average, %v at worst",
			p.TypicalDetection(n).Round(100*time.Millisecond), p.WorstDetection(n).Round(100*time.Millisecond)))
	}
	timeRows(t, c, len(members))
}

// timeRows shows how long a node that is lost may run on, and when others may act on that. A dry run shows what it would be.
func timeRows(t *table, c *config.Config, members int) {
	w, fires, dead := c.LatestReset(), "", "dead after"
	if w > c.Watchdog.Timeout {
		fires = fmt.Sprintf(" (this driver fires within %v)", w)
	}
	if c.Watchdog.Driver == config.DriverNone {
		dead = "would be dead after"
		t.row("watchdog", fmt.Sprintf("none: decides and reports, and resets nothing; with one of %v:", c.Watchdog.Timeout))
	} else {
		t.row("watchdog", fmt.Sprintf("%s, %v%s, fed every %v", c.Watchdog.Device, c.Watchdog.Timeout, fires, c.Watchdog.FeedInterval))
	}
	if c.OnQuorumLoss != config.LossFence {
		t.row(dead, fmt.Sprintf("never: without quorum a node lives on (onQuorumLoss: %s), and nobody may take over from it", c.OnQuorumLoss))
		return
	}
	b := c.Budget(w)
	t.row(dead, fmt.Sprintf("%v when lost to a majority", b.Majority()))
	if len(c.TieBreakers()) > 0 && members%2 == 0 {
		t.row("", fmt.Sprintf("%v after an equal split, %v of it to decide", b.Tie(), c.ArbitrationBudget()))
	}
	fenced, proven := "FENCED after", (b.Horizon() + watchdog.ProofDelay).Round(100*time.Millisecond)
	if c.Watchdog.Driver == config.DriverNone {
		fenced = "would be FENCED after"
	}
	if told := c.Announced(); told > 0 {
		t.row(fenced, fmt.Sprintf("%v, if it is cut off and tells the others by the LUN", told.Round(100*time.Millisecond)))
		t.row("", fmt.Sprintf("%v otherwise, as after a crash, from when the others miss the node", proven))
		return
	}
	t.row(fenced, fmt.Sprintf("%v, cut off or crashed, from when the others miss the node", proven))
}

// verdictOn counts warnings and advice that are not in the table.
func verdictOn(r *config.Reviewed) string {
	var more []string
	for _, n := range []struct {
		what  string
		count int
	}{{"warnings", len(r.Warnings)}, {"advice", len(r.Advice)}} {
		if n.count > 0 {
			more = append(more, fmt.Sprintf("%s: %d", n.what, n.count))
		}
	}
	if len(more) == 0 {
		return "ok"
	}
	return "ok (" + strings.Join(more, ", ") + ")"
}
