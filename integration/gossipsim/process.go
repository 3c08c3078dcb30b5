package gossipsim

import (
	"bytes"
	"context"
	"encoding/json"
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

// line is one line from the child to the parent; one field is set.
type line struct {
	Progress *Progress `json:"progress,omitempty"`
	Report   *Report   `json:"report,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Command is how to start this program again as the child of [RunProcess]: the child
// must call [ChildMain].
type Command struct {
	Path string
	Args []string // including argv[0]
}

// Self starts the running program again with other arguments.
func Self(args ...string) Command {
	return Command{Path: "/proc/self/exe", Args: append([]string{os.Args[0]}, args...)}
}

// ChildMain is the whole program of a child: it reads a Config from in, runs it in a
// bubble and writes lines of JSON to out. It does not return.
//
// testing/synctest needs a *testing.T, and only package testing makes usable ones. So the
// child is a test binary in all but name: testing.Main, which is kept for programs that
// simulate "go test", runs one test, and the process ends when that has its result,
// without tearing down what is in the bubble.
func ChildMain(in io.Reader, out io.Writer) {
	var cfg Config
	decoder := json.NewDecoder(in)
	err := decoder.Decode(&cfg)
	encoder := json.NewEncoder(out)
	leave := func(l line) {
		if encoder.Encode(l) != nil || l.Error != "" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err != nil {
		leave(line{Error: fmt.Sprintf("read the configuration: %v", err)})
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1) // the parent is gone
	}()
	// Most of what is allocated is a packet and dead at once: memory buys time.
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(3 << 30)
	os.Args = os.Args[:1] // package testing parses flags of its own
	os.Stdout = os.Stderr // and prints its own words
	testing.Main(
		func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "simulation", F: func(t *testing.T) {
			synctest.Test(t, func(*testing.T) {
				_, r, err := simulate(cfg, func(p Progress) { _ = encoder.Encode(line{Progress: &p}) })
				if err != nil {
					leave(line{Error: err.Error()})
				}
				leave(line{Report: r})
			})
		}}}, nil, nil)
}

// RunProcess runs a simulation in a process of its own: its bubble, its memory, one
// processor, on which a bubble runs fastest. progress may be nil; it is called from here.
func RunProcess(ctx context.Context, c Command, cfg Config, progress func(Progress)) (*Report, error) {
	fail := func(err error) (*Report, error) {
		return nil, fmt.Errorf("simulation of %s, %d nodes, %s: %w", cfg.Scenario, cfg.Nodes, cfg.Set, err)
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		return fail(err)
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
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	_, werr := in.Write(text) // the pipe stays open: its end tells the child that we are gone
	last, rerr := follow(out, progress)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return fail(ctx.Err())
	case last.Error != "":
		return fail(errors.New(last.Error))
	case last.Report == nil:
		return fail(fmt.Errorf("the process ended early: %w: %s", errors.Join(err, werr, rerr), words.first()))
	}
	last.Report.Wall = Duration(time.Since(began))
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		last.Report.PeakRSS = uint64(u.Maxrss) * 1024
	}
	return last.Report, nil
}

// follow reads the child's lines until the end and returns the last that is no progress.
func follow(r io.Reader, progress func(Progress)) (last line, err error) {
	for decoder := json.NewDecoder(r); ; {
		var l line
		if err := decoder.Decode(&l); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return last, err
		}
		if l.Progress == nil {
			last = l
		} else if progress != nil {
			progress(*l.Progress)
		}
	}
}

// RunAll runs simulations, several at once, and returns their reports in order. It ends
// with the first that fails. progress may be nil; it is called from several goroutines.
func RunAll(ctx context.Context, c Command, configs []Config, jobs int, progress func(i int, p Progress)) ([]*Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reports := make([]*Report, len(configs))
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(1, jobs) {
		workers.Go(func() {
			for i := range next {
				r, err := RunProcess(ctx, c, configs[i], func(p Progress) {
					if progress != nil {
						progress(i, p)
					}
				})
				if err != nil {
					cancel(err)
					return
				}
				reports[i] = r
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

// complaint keeps the beginning of what is written to it: that is where a panic says why.
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
