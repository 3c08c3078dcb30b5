package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// Options say what to run and where to print.
type Options struct {
	Nodes    int    // 2 to MaxNodes
	Scenario string // one of Scenarios; "" is "all"
	Keep     bool   // afterwards leave the agents running until the context ends
	Bin      string // folder with fencing-agent and fencectl
	Out      io.Writer
	Color    bool
	// InProcess, if set, runs the agents in this process and holds the reason. If it is empty, they run in network
	// namespaces.
	InProcess string

	limit time.Duration // shortened by tests; 0: startLimit
}

// MaxNodes is how many agents a demo can have; a person can still read it.
const MaxNodes = 16

// Cluster is what a scenario needs from a cluster, however it is implemented: by [lab.Agents], or by the model in the
// tests.
type Cluster interface {
	observe.Source
	Networks() []string
	Start(node string) error
	Kill(node string) error
	CutNetworks(networks []string, groups ...[]string) error
	Heal() error
	Dropped() (uint64, error)
	SocketPath(node string) string
	Hints(node string) []string
	Describe() string // what is real about it
}

var networks = lab.StageNetworks

var scenarios = []struct {
	name  string
	steps []func(*run, context.Context) error
}{
	{"all", []func(*run, context.Context) error{(*run).allUp, (*run).networkLost, (*run).split, (*run).heal, (*run).kill, (*run).comeBack}},
	{"up", []func(*run, context.Context) error{(*run).allUp}},
	{"network", []func(*run, context.Context) error{(*run).allUp, (*run).networkLost}},
	{"split", []func(*run, context.Context) error{(*run).allUp, (*run).split, (*run).heal}},
	{"kill", []func(*run, context.Context) error{(*run).allUp, (*run).kill, (*run).comeBack}},
}

// Scenarios lists the names that Options.Scenario may have.
func Scenarios() (names []string) {
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

// Validate returns the mistakes of the user.
func (o *Options) Validate() error {
	if o.Nodes < 2 || o.Nodes > MaxNodes {
		return fmt.Errorf("demo: %d nodes: possible are 2 to %d", o.Nodes, MaxNodes)
	}
	if o.Scenario != "" && !slices.Contains(Scenarios(), o.Scenario) {
		return fmt.Errorf("demo: no scenario %q: there are %s", o.Scenario, strings.Join(Scenarios(), ", "))
	}
	return nil
}

// Run runs the scenario and returns nil only if every expectation held.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return lab.InFolder("fencing-demo", o.Out, func(dir string) error {
		stage := lab.Stage{Bin: o.Bin, Nodes: o.Nodes}
		cluster, closeAll, err := o.build(ctx, &stage, dir)
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		return errors.Join(Walk(ctx, cluster, o), closeAll())
	})
}

func (o *Options) build(ctx context.Context, stage *lab.Stage, dir string) (Cluster, func() error, error) {
	if o.InProcess == "" {
		c, err := stage.Build(ctx, dir)
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	}
	lun, err := stage.FormatLUN(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	c, err := newInProcess(dir, lun.Path, stage.Names())
	if err != nil {
		return nil, nil, errors.Join(err, lun.Close())
	}
	return c, func() error { return errors.Join(c.Close(), lun.Close()) }, nil
}

// failedError is an expectation that did not hold, as opposed to a demo that could not run.
type failedError struct{ error }

func (e *failedError) Unwrap() error { return e.error }

// Walk runs the scenario over a cluster whose agents are not started yet. It is the part
// of Run that does not depend on how the cluster is made.
func Walk(ctx context.Context, c Cluster, o Options) error {
	if o.Scenario == "" {
		o.Scenario = "all"
	}
	observer, err := observe.New(c)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer observer.Close()
	stalls := observe.NewStalls()
	defer stalls.Close()
	r := &run{c: c, o: observer, p: &printer{out: o.Out, color: o.Color}, began: time.Now(), limit: cmp.Or(o.limit, startLimit)}
	r.p.line("%d agents, networks %s, a LUN of %d slots", len(c.Nodes()), strings.Join(c.Networks(), " and "), len(c.Nodes()))
	if o.InProcess != "" {
		r.p.line("%s", o.InProcess)
	}
	r.p.line("%s", c.Describe())
	failure := r.steps(ctx, o.Scenario)
	if took := stalls.Since(r.began); failure != nil && took >= standstill {
		// Agents that stall together rightly lose sight of each other.
		failure = fmt.Errorf("%w; the machine was frozen for %s, and all agents with it: run the demo again", failure, seconds(took))
	}
	if failure == nil {
		r.p.line("\nAll %d expectations held, %s in all.", r.p.held, seconds(time.Since(r.began)))
	}
	if o.Keep && ctx.Err() == nil {
		r.keep(ctx)
	}
	return failure
}

func (r *run) steps(ctx context.Context, scenario string) error {
	for _, s := range scenarios {
		if s.name != scenario {
			continue
		}
		for _, step := range s.steps {
			if err := step(r, ctx); err != nil {
				if ctx.Err() != nil {
					return fmt.Errorf("demo: stopped: %w", context.Cause(ctx))
				}
				return &failedError{fmt.Errorf("demo: %w", err)}
			}
		}
	}
	return nil
}

// keep shows how to reach the agents and waits for the end of the context.
func (r *run) keep(ctx context.Context) {
	node := r.c.Nodes()[0]
	socket := r.c.SocketPath(node)
	r.p.line("\nThe agents go on running. Look at them from another terminal:")
	for _, hint := range append([]string{
		"fencectl status --socket " + socket,
		"fencectl watch --socket " + socket,
		"grpcurl -plaintext -unix " + socket + " fencing.v1.Fencing/GetAll",
	}, r.c.Hints(node)...) {
		r.p.line("    %s", hint)
	}
	r.p.line("Sockets of the others: %s", strings.ReplaceAll(socket, node+".sock", "*.sock"))
	r.p.line("Ctrl-C ends the demo.")
	<-ctx.Done()
}
