package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// Options say what to run and where to tell it.
type Options struct {
	Nodes    int    // 2 to MaxNodes
	Scenario string // one of Scenarios; "" is "all"
	Keep     bool   // afterwards leave the agents running until the context ends
	Out      io.Writer
	Color    bool

	Agent string // path of the fencing-agent binary; not used with InProcess
	// FormatLUN writes the LUN format for this cluster and group to the file.
	FormatLUN func(ctx context.Context, path, cluster, group string, slots int) error
	// InProcess, if set, runs an agent inside this process; Reason says why.
	InProcess RunAgent
	Reason    string

	limit time.Duration // shortened by tests; 0: startLimit
}

// MaxNodes is how many agents a demo can have; a person can still read it.
const MaxNodes = 16

const (
	clusterName = "demo"
	groupName   = "demo"
	lunSize     = 16 << 20
)

// networks are the SystemNetworks of the demo.
var networks = []string{"mgmt", "data"}

// scenarios are the steps that each name stands for.
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

// Validate reports what the caller's user got wrong.
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
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	if o.FormatLUN == nil || o.Out == nil || (o.Agent == "" && o.InProcess == nil) {
		return errors.New("demo: Out, FormatLUN and one of Agent and InProcess must be set")
	}
	dir, err := os.MkdirTemp("", "fencing-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	lun, err := lab.NewLUNFile(dir, lunSize)
	if err != nil {
		return errors.Join(fmt.Errorf("demo: %w", err), os.RemoveAll(dir))
	}
	defer func() {
		var failed *failedError
		if errors.As(err, &failed) {
			fmt.Fprintf(o.Out, "\nLogs and configurations are kept in %s\n", dir)
			return
		}
		err = errors.Join(err, lun.Close(), os.RemoveAll(dir))
	}()
	if err := o.FormatLUN(ctx, lun.Path, clusterName, groupName, o.Nodes); err != nil {
		return fmt.Errorf("demo: format LUN: %w", err)
	}
	cluster, err := o.build(dir, lun.Path)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	return Walk(ctx, cluster, lun.Path, o)
}

// failedError is an expectation that did not hold, as opposed to a demo that could not run.
type failedError struct{ error }

func (e *failedError) Unwrap() error { return e.error }

func (o *Options) build(dir, lun string) (lab.Cluster, error) {
	var names []string
	for i := range o.Nodes {
		names = append(names, fmt.Sprintf("n%d", i+1))
	}
	cfg := lab.AgentConfig{
		Dir: dir, Cluster: clusterName, Group: groupName, Nodes: names, Networks: networks,
		LUN: func(string) string { return lun },
	}
	if o.InProcess != nil {
		return NewInProcess(cfg, o.InProcess)
	}
	l, err := lab.New(lab.Config{Nodes: names, Networks: networks, Dir: dir})
	if err != nil {
		return nil, err
	}
	cfg.HTTP = "127.0.0.1:9110" // each node has a loopback interface of its own
	agents, err := lab.NewAgents(l, o.Agent, cfg)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return agents, nil
}

// Walk runs the scenario over a cluster whose agents are not started yet. It is the part
// of Run that does not depend on how the cluster is made.
func Walk(ctx context.Context, c lab.Cluster, lun string, o Options) error {
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
	r.p.line("%d agents, networks %s, a LUN of %d slots in %s", len(c.Nodes()), strings.Join(c.Networks(), " and "), len(c.Nodes()), filepath.Base(lun))
	r.p.line("%s", c.Describe())
	if o.Reason != "" {
		r.p.line("(%s)", o.Reason)
	}
	failure := r.steps(ctx, o.Scenario)
	if took := stalls.Since(r.began); failure != nil && took >= standstill {
		// Agents that stand still together rightly lose sight of each other.
		failure = fmt.Errorf("%w; the machine stood still for %s, and all agents with it: run the demo again", failure, seconds(took))
	}
	if failure == nil {
		r.p.line("\nAll %d expectations held, %s in all.", r.p.held, seconds(time.Since(r.began)))
	}
	if o.Keep && ctx.Err() == nil {
		r.keep(ctx, lun)
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

// keep shows the ways in and waits for the end of the context.
func (r *run) keep(ctx context.Context, lun string) {
	node := r.c.Nodes()[0]
	socket := r.c.SocketPath(node)
	r.p.line("\nThe agents go on running. Look at them from another terminal:")
	for _, hint := range append([]string{
		"fencectl status --socket " + socket,
		"fencectl watch --socket " + socket,
		"fencectl lun inspect " + lun,
		"grpcurl -plaintext -unix " + socket + " fencing.v1.Fencing/GetAll",
	}, r.c.Hints(node)...) {
		r.p.line("    %s", hint)
	}
	r.p.line("Sockets of the others: %s", strings.ReplaceAll(socket, node+".sock", "*.sock"))
	r.p.line("Ctrl-C ends the demo.")
	<-ctx.Done()
}
