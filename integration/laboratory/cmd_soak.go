package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/integration/soak"
)

func newSoakCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Break a cluster at random for as long as you like",
		Long: `Run a cluster of real agents in network namespaces, on one LUN, break it at
random, round after round, and check all the while what must hold. A seed
replays the schedule of faults, though not their timing.

It needs root. With mkfs.ext4 and fsfreeze the LUN hangs now and then as well.
Nothing outside of the namespaces is touched. The exit code is 0 only if
nothing was violated; otherwise the logs are kept.`,
		Example: `  sudo laboratory soak --duration 30m
  sudo laboratory soak --nodes 7 --seed 3003`,
		Args: noOperands,
	}
	o := soak.Options{Out: env.stdout, Probe: []string{roleProbe}, Boot: []string{roleBoot}, Agent: []string{roleArmed}}
	flags := cmd.Flags()
	flags.DurationVar(&o.Duration, "duration", 30*time.Minute, "how long new rounds begin")
	flags.IntVar(&o.Nodes, "nodes", 6, fmt.Sprintf("number of agents, %d to %d; with an even number there are equal splits", soak.MinNodes, soak.MaxNodes))
	flags.Uint64Var(&o.Seed, "seed", 0, "of the schedule; 0: a random one")
	flags.StringVar(&o.Bin, "bin", "bin", "`folder` with fencing-agent and fencectl")
	flags.BoolVar(&o.Replay, "replay", true, "send old packets again all the while; with an odd seed the agents have a gossip key")
	flags.IntVar(&o.Rounds, "rounds", 0, "end after that many, also before the duration is over; 0: only then")
	flags.BoolVar(&o.Armed, "armed", false, "default timing and simulated watchdogs, which reset their nodes")
	flags.IntVar(&o.Busy, "busy", 0, "endless loops that compete with the agents for the processors")
	flags.BoolVar(&o.Blink, "blink", false, "the LUN hangs for 1 to 6 s every 5 to 15 s")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.Validate(); err != nil {
			return usageError{err}
		}
		return soak.Run(cmd.Context(), o)
	}
	return cmd
}
