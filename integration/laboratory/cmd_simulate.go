package main

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/integration/gossipsim"
)

// bubbleFlag makes the command a child process that runs one simulation.
const bubbleFlag = "bubble"

// formats lists the values of -o; markdown prints a table for a document.
var formats = []string{"table", "markdown"}

// simulateOptions holds the flags of the command. The first four may have several values; every combination is
// simulated.
type simulateOptions struct {
	nodes     []int
	scenarios []string
	params    []string
	losses    []float64

	base    gossipsim.Config
	policy  string
	trials  int
	jobs    int
	compare bool
	format  string
}

func newSimulateCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Measure the gossip of up to 1000 nodes in virtual time",
		Long: `Run the gossip of a whole group on virtual time and measure how long the nodes
take to see a fault, how often they are wrong, and what they send. The real
memberlist and the agent's own evidence protocol run; only the networks between
them are simulated.

  auto, adr, fast, calm     what the agent does with that profile: memberlist,
                            evidence, and the merge
  lan, adr-raw, deckhouse-* memberlist alone, its members counted, with the
                            parameters of that name
  auto-counting             the agent's memberlist parameters, but its members
                            are counted

Scenarios:
` + scenarioHelp() + `
The same seed gives the same faults at the same times to the same nodes;
packets get lost by chance. Each trial adds one to the seed. --nodes,
--scenario, --params and --loss take lists. All times are virtual, but for the
column WALL.`,
		Example: `  laboratory simulate --nodes 50 --scenario isolate --compare
  laboratory simulate --nodes 300 --networks 2 --scenario split --seed 7 \
      --params adr-raw
  laboratory simulate --nodes 3,10,50 --scenario loss --loss 0.2 \
      --duration 10m -o markdown`,
		Args: noOperands,
	}
	o := simulateOptions{base: gossipsim.DefaultConfig(10)}
	o.flags(cmd)
	bubble := cmd.Flags().Bool(bubbleFlag, false, "")
	_ = cmd.Flags().MarkHidden(bubbleFlag) // it fails only for unknown flags
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *bubble {
			gossipsim.ChildMain(env.stdin, env.stdout)
		}
		configs, err := o.configs()
		if err != nil {
			return err
		}
		return runSimulate(cmd.Context(), env, &o, configs)
	}
	return cmd
}

func scenarioHelp() string {
	var b strings.Builder
	for _, s := range gossipsim.Scenarios() {
		fmt.Fprintf(&b, "  %-12s %s\n", s.Name, s.What)
	}
	return b.String()
}

func (o *simulateOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntSliceVar(&o.nodes, "nodes", []int{10}, fmt.Sprintf("number of nodes, 2 to %d", gossipsim.MaxNodes))
	f.IntVar(&o.base.Networks, "networks", o.base.Networks, fmt.Sprintf("number of system networks, 1 to %d", gossipsim.MaxNetworks))
	f.StringVar(&o.policy, "reachability", "any", "on how many networks a peer must be reachable: any, all, or a number")
	f.StringSliceVar(&o.scenarios, "scenario", []string{"idle"}, "what happens, see above")
	f.StringSliceVar(&o.params, "params", []string{"auto"}, "parameters: "+strings.Join(gossipsim.SetNames(), ", "))
	f.BoolVar(&o.compare, "compare", false, "simulate with "+strings.Join(gossipsim.SetNames()[:gossipsim.Compared], ", "))
	f.StringArrayVar(&o.base.Overrides, "override", nil, "change a parameter of all sets, such as evidenceInterval=500ms; repeatable")
	f.Uint64Var(&o.base.Seed, "seed", o.base.Seed, "decides who is hit when")
	f.IntVar(&o.trials, "trials", 1, "how often to simulate each case, with one seed after the other")
	f.DurationVar(&o.base.Duration, "duration", o.base.Duration, "virtual time after the warm-up")
	f.DurationVar(&o.base.Warmup, "warmup", o.base.Warmup, "virtual time before anything happens")
	f.DurationVar(&o.base.Settle, "settle", 0, "end this long after every node has found out, if that is earlier")
	f.IntVar(&o.base.Parts, "parts", o.base.Parts, "into how many parts a split cuts")
	f.DurationVar(&o.base.Stall, "stall", o.base.Stall, "for how long slow nodes stand still")
	f.DurationVar(&o.base.Every, "every", o.base.Every, "from one fault of a series to the next")
	f.Float64SliceVar(&o.losses, "loss", []float64{0}, "share of packets that get lost, in every scenario")
	f.Float64Var(&o.base.Link.Duplicate, "duplicate", 0, "share of packets that arrive twice")
	f.DurationVar(&o.base.Link.Delay, "delay", o.base.Link.Delay, "time that a packet takes, one way")
	f.DurationVar(&o.base.Link.Jitter, "jitter", o.base.Link.Jitter, "random addition to it, up to this")
	f.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "how many simulations run at once")
	f.StringVarP(&o.format, "output", "o", formats[0], "format of the output: "+strings.Join(formats, ", "))
}

// configs lists the simulations to run. The trials of a case follow each other.
func (o *simulateOptions) configs() ([]gossipsim.Config, error) {
	if k, err := strconv.Atoi(o.policy); err == nil && k > 0 {
		o.base.AtLeast = k
	} else if o.policy != "any" && o.policy != "all" {
		return nil, usagef("--reachability must be any, all or a number of networks, not %q", o.policy)
	}
	if !slices.Contains(formats, o.format) {
		return nil, usagef("--output must be one of %s, not %q", strings.Join(formats, ", "), o.format)
	}
	if o.trials < 1 || o.trials > 10_000 {
		return nil, usagef("--trials must be 1 to 10000, not %d", o.trials)
	}
	if o.jobs < 1 {
		return nil, usagef("--jobs: at least 1 is needed, not %d", o.jobs)
	}
	if o.compare {
		o.params = gossipsim.SetNames()[:gossipsim.Compared]
	}
	var configs []gossipsim.Config
	for c := range o.cases() {
		if err := c.Validate(); err != nil {
			return nil, usagef("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		for range o.trials {
			configs = append(configs, c)
			c.Seed++
		}
	}
	return configs, nil
}

// cases yields every combination of the flags' values, in an order that keeps comparable cases together.
func (o *simulateOptions) cases() iter.Seq[gossipsim.Config] {
	c := o.base
	c.All = o.policy == "all"
	return func(yield func(gossipsim.Config) bool) {
		for _, c.Scenario = range o.scenarios {
			for _, c.Link.Loss = range o.losses {
				for _, c.Nodes = range o.nodes {
					for _, c.Set = range o.params {
						if !yield(c) {
							return
						}
					}
				}
			}
		}
	}
}

// runSimulate runs all simulations and prints one result for each case.
func runSimulate(ctx context.Context, env *environment, o *simulateOptions, configs []gossipsim.Config) error {
	var mu sync.Mutex
	ended, told := 0, time.Now()
	reports, err := gossipsim.RunAll(ctx, gossipsim.Self("simulate", "--"+bubbleFlag), configs, o.jobs, func() {
		mu.Lock()
		defer mu.Unlock()
		if ended++; time.Since(told) > 5*time.Second {
			told = time.Now()
			env.warn(fmt.Sprintf("%d of %d simulations done", ended, len(configs)))
		}
	})
	if err != nil {
		return err
	}
	var cases []*gossipsim.Report
	for trials := range slices.Chunk(reports, o.trials) {
		for _, r := range trials[1:] {
			trials[0].Merge(r)
		}
		cases = append(cases, trials[0])
	}
	for _, r := range cases {
		if r.Complete < r.Config.Nodes {
			env.warn(fmt.Sprintf("warning: %s, %d nodes, %s: at the beginning only %d nodes reached all others",
				r.Config.Scenario, r.Config.Nodes, r.Config.Set, r.Complete))
		}
		if r.Overflows > 0 {
			env.warn(fmt.Sprintf("warning: %s, %d nodes, %s: %d packets were lost because a receiver's queue was full",
				r.Config.Scenario, r.Config.Nodes, r.Config.Set, r.Overflows))
		}
	}
	if err := printResult(env.stdout, o.format, cases); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	return nil
}
