package gossipsim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

type outcome struct {
	Report *Report
	Error  string
}

// Command describes how to start this program again as the child of [RunProcess]. The child must call [ChildMain].
type Command struct {
	Path string
	Args []string // including argv[0]
}

// Self starts the running program again with different arguments.
func Self(args ...string) Command {
	return Command{Path: "/proc/self/exe", Args: append([]string{os.Args[0]}, args...)}
}

// ChildMain is the whole program of a child: it reads a Config from in, runs it in a bubble and writes the result to
// out. It does not return.
//
// testing/synctest needs a *testing.T, and only package testing makes usable ones. The child is therefore a test binary
// in all but name. testing.Main, which exists for programs that simulate "go test", runs one test. The process ends
// when that test has its result, without cleaning up what is in the bubble.
func ChildMain(in io.Reader, out io.Writer) {
	leave := func(r *Report, err error) {
		o := outcome{Report: r}
		if err != nil {
			o.Error = err.Error()
		}
		if gob.NewEncoder(out).Encode(o) != nil || err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	var cfg Config
	if err := gob.NewDecoder(in).Decode(&cfg); err != nil {
		leave(nil, fmt.Errorf("read the configuration: %w", err))
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1) // the parent is gone
	}()
	// Most of what is allocated is packets, and soon garbage: more memory saves time.
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(3 << 30)
	// Package testing parses its own flags and prints its own output.
	os.Args = os.Args[:1]
	os.Stdout = os.Stderr // see above
	testing.Main(
		func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "simulation", F: func(t *testing.T) {
			synctest.Test(t, func(*testing.T) {
				_, r, err := simulate(cfg)
				leave(r, err)
			})
		}}}, nil, nil)
}

// RunProcess runs a simulation in a separate process, with a separate bubble and memory. The process uses one
// processor, because a bubble runs fastest on one.
func RunProcess(ctx context.Context, c Command, cfg Config) (*Report, error) {
	fail := func(err error) (*Report, error) {
		return nil, fmt.Errorf("simulation of %s, %d nodes, %s: %w", cfg.Scenario, cfg.Nodes, cfg.Set, err)
	}
	cmd := exec.CommandContext(ctx, c.Path, c.Args[1:]...)
	cmd.Args[0] = c.Args[0]
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var words complaint
	cmd.Stderr = &words
	in, err := cmd.StdinPipe()
	if err != nil {
		return fail(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	// The pipe stays open. If it closes, the child knows that this process is gone.
	werr := gob.NewEncoder(in).Encode(cfg)
	err = cmd.Wait()
	var last outcome
	rerr := gob.NewDecoder(&out).Decode(&last)
	switch {
	case ctx.Err() != nil:
		return fail(ctx.Err())
	case last.Error != "":
		return fail(errors.New(last.Error))
	case last.Report == nil:
		return fail(fmt.Errorf("the process ended early: %w: %s", cmp.Or(err, werr, rerr), words.first()))
	}
	last.Report.Wall = time.Since(began)
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		last.Report.PeakRSS = uint64(u.Maxrss) * 1024
	}
	return last.Report, nil
}

// RunAll runs simulations, several at once, and returns their reports in order. It stops at the first error. It calls
// ended after each simulation, from several goroutines.
func RunAll(ctx context.Context, c Command, configs []Config, jobs int, ended func()) ([]*Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reports := make([]*Report, len(configs))
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(1, jobs) {
		workers.Go(func() {
			for i := range next {
				r, err := RunProcess(ctx, c, configs[i])
				if err != nil {
					cancel(err)
					return
				}
				reports[i] = r
				ended()
			}
		})
	}
	for i := range configs {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	workers.Wait()
	return reports, context.Cause(ctx)
}

// complaint keeps the beginning of what is written to it, because a panic prints its reason first.
type complaint struct{ buf bytes.Buffer }

func (t *complaint) Write(b []byte) (int, error) {
	if room := 64<<10 - t.buf.Len(); room > 0 {
		t.buf.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}

// first returns the first line that is not empty.
func (t *complaint) first() string {
	for line := range strings.Lines(t.buf.String()) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return "it said nothing"
}
