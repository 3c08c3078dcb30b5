package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/agent"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/integration/demo"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

func newDemoCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a whole cluster on this machine",
		Long: `Run a cluster of real agents on this machine and walk it through its life: all
up, one network lost, an equal split of both networks, the heal, the death and
the return of a node. Each step says what was expected, whether it came true
and how long it took; the exit code is 0 only if everything did.

Each agent is a process in its own network namespace, with two networks over
two bridges, and a file plays the LUN. Partitions are made by nftables. That
takes root or unprivileged user namespaces, and no other program. Where neither
is allowed, and with --in-process, the agents run inside this process on
loopback addresses, and what a partition swallows is dropped above the sockets.

Nothing outside is touched: no interface, no rule, no watchdog of this machine;
all is gone when the demo ends.`,
		Example: `  laboratory demo
  laboratory demo --nodes 6 --scenario split
  laboratory demo --scenario up --keep`,
		Args: noOperands,
	}
	o := demo.Options{Out: env.stdout}
	flags := cmd.Flags()
	flags.IntVar(&o.Nodes, "nodes", 4, fmt.Sprintf("number of agents, 2 to %d", demo.MaxNodes))
	flags.StringVar(&o.Scenario, "scenario", "all", "what to show: "+strings.Join(demo.Scenarios(), ", "))
	flags.BoolVar(&o.Keep, "keep", false, "leave the agents running until Ctrl-C and print how to look at them")
	flags.StringVar(&o.Agent, "agent", "", "the agent's program (default: fencing-agent beside this program)")
	fencectl := flags.String("fencectl", "", "the program that formats the LUN (default: fencectl beside this program)")
	inProcess := flags.Bool("in-process", false, "use no namespaces: run the agents inside this process")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return runDemo(cmd.Context(), env, o, *fencectl, *inProcess)
	}
	return cmd
}

// runDemo runs the demo in the most real way that is allowed: as root, as root of a new
// user namespace, or with the agents in this process.
func runDemo(ctx context.Context, env *environment, o demo.Options, fencectl string, inProcess bool) error {
	if err := o.Validate(); err != nil {
		return usageError{err}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	o.Color = colorful(env)
	mode, reason := lab.None, ""
	if !inProcess {
		if o.Agent, err = findProgram("agent", o.Agent, "fencing-agent", self); err != nil {
			return err
		}
		mode, reason = lab.Supported(ctx, roleProbe)
	}
	if fencectl, err = findProgram("fencectl", fencectl, "fencectl", self); err != nil {
		return err
	}
	o.FormatLUN = formatLUN(fencectl)
	switch mode {
	case lab.Root:
		return demo.Run(ctx, o)
	case lab.UserNamespace:
		code, err := lab.Reexec(os.Args[1:])
		if err == nil && code != exitOK {
			err = errors.New("the demo failed, see above")
		}
		return err
	default:
		if reason != "" {
			o.Reason = "network namespaces are not allowed here: " + reason
		}
		o.InProcess = func(ctx context.Context, path string, over func(netgossiptest.Listen) netgossiptest.Listen, log io.Writer) error {
			return agentInProcess(ctx, env, path, over, log)
		}
		return demo.Run(ctx, o)
	}
}

// agentInProcess does what the program fencing-agent does, but for its sockets.
func agentInProcess(ctx context.Context, env *environment, path string, over func(netgossiptest.Listen) netgossiptest.Listen, log io.Writer) error {
	logger := slog.New(slog.NewJSONHandler(log, nil))
	cfg, warnings, err := config.Load(path, env.getenv)
	for _, line := range config.Lines(path, warnings) {
		logger.Warn("configuration", "warning", line)
	}
	if err != nil {
		return err
	}
	agentCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, demo.ErrKilled) {
			cause = agent.ErrAbandon
		}
		cancel(cause)
	})()
	return agent.Run(agentCtx, agent.Options{
		Config: cfg, ConfigPath: path, Logger: logger, Version: version, Listen: swim.Listener(over(swim.Listen)),
	})
}

// findProgram is a program that a flag names, or else the one that was built together with this.
func findProgram(flag, given, name, self string) (string, error) {
	path := given
	if path == "" {
		path = filepath.Join(filepath.Dir(self), name)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("program %s: %w", path, err)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("program %s: %w: build it with make build, or say with --%s where it is", name, err, flag)
	}
	return path, nil
}

// formatLUN calls "fencectl lun init", so the demo's LUN is made as a user makes one.
func formatLUN(fencectl string) func(ctx context.Context, path, cluster, group string, slots int) error {
	return func(ctx context.Context, path, cluster, group string, slots int) error {
		cmd := exec.CommandContext(ctx, fencectl, "lun", "init", path, "--cluster", cluster, "--node-group", group, "--slots", strconv.Itoa(slots))
		var complaint bytes.Buffer
		cmd.Stdout, cmd.Stderr = io.Discard, &complaint
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(complaint.String()))
		}
		return nil
	}
}

// colorful reports whether a person looks at the output and likes colors.
func colorful(env *environment) bool {
	f, ok := env.stdout.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && env.getenv("NO_COLOR") == ""
}
