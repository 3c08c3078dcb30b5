package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/lab"
)

// Options holds what to break, for how long, and where to print.
type Options struct {
	Duration time.Duration // new rounds begin for this long
	Nodes    int           // MinNodes to MaxNodes
	Seed     uint64        // of the schedule; 0: a random one
	Bin      string        // directory with fencing-agent and fencectl
	Replay   bool          // old packets are sent again during all rounds
	Out      io.Writer

	// Rounds, if not 0, is the greatest number of rounds, so that two runs of a seed can have the same faults.
	Rounds int
	// Armed gives the agents the default timing and simulated watchdogs, which reset their nodes.
	Armed bool
	// Busy is the number of endless loops that compete with the agents for the processors.
	Busy int
	// Blink makes the LUN hang for 1 to 6 s every 5 to 15 s.
	Blink bool

	// Boot holds arguments with which this executable calls lab.ExecInBoot and nothing else. With Agent and a socket
	// after it, the executable is an agent with the watchdog behind that socket.
	Boot, Agent []string
}

// The limits of the number of agents: fewer have no majority to lose, and more only need more time.
const (
	MinNodes = 3
	MaxNodes = 9
)

// Validate returns the mistakes of the user.
func (o *Options) Validate() error {
	if o.Nodes < MinNodes || o.Nodes > MaxNodes {
		return fmt.Errorf("soak: %d agents: possible are %d to %d", o.Nodes, MinNodes, MaxNodes)
	}
	return nil
}

// Run breaks a cluster for the time given and reports. It returns nil only if nothing was
// violated.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if err := o.needs(); err != nil {
		return fmt.Errorf("soak: %w", err)
	}
	if o.Seed == 0 {
		o.Seed = uint64(rand.Uint32())
	}
	fmt.Fprintf(o.Out, "soak: %d agents for %v, seed %d\n", o.Nodes, o.Duration, o.Seed)
	if err := lab.InFolder("soak", o.Out, func(dir string) error { return run(ctx, dir, o) }); err != nil {
		fmt.Fprintln(o.Out, "0 passed, 1 failed")
		return fmt.Errorf("soak: %w", err)
	}
	fmt.Fprintln(o.Out, "1 passed, 0 failed")
	return nil
}

// needs returns what is missing to run here.
func (o *Options) needs() error {
	if os.Geteuid() != 0 {
		return errors.New("root is needed, to make network namespaces: run it with sudo")
	}
	if err := lab.Probe(); err != nil {
		return fmt.Errorf("network namespaces cannot be made here: %w", err)
	}
	return lab.HasPrograms(o.Bin)
}
