package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/lab"
)

func main() { os.Exit(start(os.Args[1:])) }

// start is the program, or one of its children.
func start(args []string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	if len(args) > 0 {
		switch args[0] {
		case roleBoot:
			return fail(lab.ExecInBoot(args[1:]))
		case roleProbe:
			if err := lab.ProbeMain(os.Stdout); err != nil {
				return fail(err)
			}
			return 0
		}
	}
	s, err := parse(args)
	if err != nil {
		return 2 // flag has said why
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := needs(ctx, s.bin); err != nil {
		return fail(err)
	}
	if err := ownMounts(); err != nil {
		return fail(err)
	}
	fmt.Fprintf(s.out, "soak: %d agents for %v, seed %d\n", s.nodes, s.duration, s.seed)
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(s.out, "0 passed, 1 failed")
		return fail(err)
	}
	fmt.Fprintln(s.out, "1 passed, 0 failed")
	return 0
}

func parse(args []string) (settings, error) {
	s := settings{out: os.Stdout}
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.DurationVar(&s.duration, "duration", 30*time.Minute, "how long new rounds begin")
	flags.IntVar(&s.nodes, "nodes", 6, "number of agents, 3 to 9; with an even number there are equal splits")
	flags.Uint64Var(&s.seed, "seed", 0, "of the schedule; 0: a random one")
	flags.StringVar(&s.bin, "bin", "bin", "`folder` with fencing-agent and fencectl")
	flags.BoolVar(&s.replay, "replay", true, "send old packets again all the while; with an odd seed the agents have a gossip key")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.nodes < 3 || s.nodes > 9 || flags.NArg() > 0 {
		err := errors.New("3 to 9 agents are possible, and no further arguments")
		fmt.Fprintln(os.Stderr, "soak:", err)
		return s, err
	}
	bin, err := filepath.Abs(s.bin)
	if err != nil {
		return s, err
	}
	s.bin = bin
	if s.seed == 0 {
		s.seed = uint64(rand.Uint32())
	}
	return s, nil
}
