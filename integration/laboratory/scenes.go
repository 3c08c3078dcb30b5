package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fencing-agent/fencing-agent/integration/demo"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/night"
	"github.com/fencing-agent/fencing-agent/integration/soak"
)

// binFlag names the directory with the programs of all scenes.
func binFlag(cmd *cobra.Command, bin *string) {
	cmd.Flags().StringVar(bin, "bin", "bin", "`folder` with fencing-agent and fencectl")
}

// inNamespaces plays a scene as root, or as root of a user namespace; in that case the program runs in the namespace
// from the start. If neither is allowed, it plays a substitute and prints the reason.
func inNamespaces(ctx context.Context, scene func(context.Context) error, otherwise func(context.Context, error) error) error {
	err := lab.Probe()
	if err == nil {
		return scene(ctx)
	}
	if !lab.InUserNamespace() && lab.CanReexec() == nil {
		return lab.Reexec()
	}
	return otherwise(ctx, fmt.Errorf("network namespaces are not allowed here: %w", err))
}

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
takes root or unprivileged user namespaces. Where neither is allowed, as in
most containers, the agents run in this one process, on a network in memory.

Nothing outside is touched: no interface, no rule, no watchdog of this machine;
all is gone when the demo ends.`,
		Example: `  laboratory demo
  laboratory demo --nodes 6 --scenario split
  laboratory demo --scenario up --keep`,
		Args: noOperands,
	}
	o := demo.Options{Out: env.stdout, Color: colorful(env)}
	flags := cmd.Flags()
	flags.IntVar(&o.Nodes, "nodes", 4, fmt.Sprintf("number of agents, 2 to %d", demo.MaxNodes))
	flags.StringVar(&o.Scenario, "scenario", "all", "what to show: "+strings.Join(demo.Scenarios(), ", "))
	flags.BoolVar(&o.Keep, "keep", false, "leave the agents running until Ctrl-C and print how to look at them")
	var inProcess bool
	flags.BoolVar(&inProcess, "in-process", false, "use no namespaces: run the agents inside this process")
	binFlag(cmd, &o.Bin)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.Validate(); err != nil {
			return usageError{err}
		}
		scene := func(ctx context.Context) error { return demo.Run(ctx, o) }
		if inProcess {
			o.InProcess = "(no namespaces are used, as --in-process says)"
			return scene(cmd.Context())
		}
		return inNamespaces(cmd.Context(), scene, func(ctx context.Context, why error) error {
			o.InProcess = fmt.Sprintf("(%v)", why)
			return scene(ctx)
		})
	}
	return cmd
}

// colorful reports whether the output is a terminal and colors are wanted.
func colorful(env *environment) bool {
	f, ok := env.stdout.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && env.getenv("NO_COLOR") == ""
}

func newNightCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "night",
		Short: "Play a night on call through",
		Long: `Run a cluster of four real agents in network namespaces, with simulated
watchdogs, and play a night through: a page, the status, the page in the
browser, a reset, the history after it, maintenance, and a death that a person
confirms. Each step shows what to type and what is
seen; the exit code is 0 only if each showed what it must.

It takes root or unprivileged user namespaces. Nothing outside is touched.`,
		Example: `  laboratory night`,
		Args:    noOperands,
	}
	o := night.Options{Out: env.stdout, Launch: []string{roleBoot}, Armed: []string{roleArmed}}
	binFlag(cmd, &o.Bin)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return inNamespaces(cmd.Context(), func(ctx context.Context) error { return night.Run(ctx, o) },
			func(_ context.Context, why error) error { return why })
	}
	return cmd
}

func newSoakCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Break a cluster at random for as long as you like",
		Long: `Run a cluster of real agents in network namespaces, on one LUN, break it at
random, round after round, and check all the while what must hold. A seed
replays the schedule of faults, though not their timing.

It needs root. With /dev/fuse the LUN hangs now and then as well.
Nothing outside of the namespaces is touched. The exit code is 0 only if
nothing was violated; otherwise the logs are kept.`,
		Example: `  sudo laboratory soak --duration 30m
  sudo laboratory soak --nodes 7 --seed 3003`,
		Args: noOperands,
	}
	o := soak.Options{Out: env.stdout, Boot: []string{roleBoot}, Agent: []string{roleArmed}}
	flags := cmd.Flags()
	flags.DurationVar(&o.Duration, "duration", 30*time.Minute, "how long new rounds begin")
	flags.IntVar(&o.Nodes, "nodes", 6, fmt.Sprintf("number of agents, %d to %d; with an even number there are equal splits", soak.MinNodes, soak.MaxNodes))
	flags.Uint64Var(&o.Seed, "seed", 0, "of the schedule; 0: a random one")
	flags.BoolVar(&o.Replay, "replay", true, "send old packets again all the while; with an odd seed the agents have a gossip key")
	flags.IntVar(&o.Rounds, "rounds", 0, "end after that many, also before the duration is over; 0: only then")
	flags.BoolVar(&o.Armed, "armed", false, "default timing and simulated watchdogs, which reset their nodes")
	flags.IntVar(&o.Busy, "busy", 0, "endless loops that compete with the agents for the processors")
	flags.BoolVar(&o.Blink, "blink", false, "the LUN hangs for 1 to 6 s every 5 to 15 s")
	binFlag(cmd, &o.Bin)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.Validate(); err != nil {
			return usageError{err}
		}
		return soak.Run(cmd.Context(), o)
	}
	return cmd
}
