package hookdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Event is what programs are run for. Its strings are their first argument.
type Event string

// The events.
const (
	Fenced    Event = "fenced"    // what that boot had may be taken over
	Withdrawn Event = "withdrawn" // it was called dead, and is not: stop, and look
)

// Death is what programs are told, in this order.
type Death struct {
	Event Event  `json:"event"`
	Node  string `json:"node"`
	Boot  string `json:"boot"`  // nonce of the boot that has ended
	Proof string `json:"proof"` // such as sentence or time
}

// Config is what a Runner needs.
type Config struct {
	Dir     string        // absolute
	Timeout time.Duration // of one program
	// Say takes a line about what was run; calls come one at a time.
	Say func(line string)
}

// grace is what a program has between SIGTERM and SIGKILL.
const grace = 5 * time.Second

// maxOutput is how much of what a program says is kept.
const maxOutput = 4 << 10

// Runner runs programs.
type Runner struct {
	cfg  Config
	ctx  context.Context // ended by Close
	stop context.CancelCauseFunc
	work sync.WaitGroup

	mu      sync.Mutex
	queues  map[string][]Death                 // by node; one that is there has a goroutine
	ends    map[string]context.CancelCauseFunc // by node: ends what runs for a death of it
	running map[string]Death                   // by node: what that is
	closed  bool

	saying sync.Mutex
}

// Open checks the directory, and starts nothing.
func Open(cfg Config) (*Runner, error) {
	info, err := os.Stat(cfg.Dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("hooks: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("hooks: %s is no directory", cfg.Dir)
	}
	if who := changeable(info); who != "" {
		return nil, fmt.Errorf("hooks: %s can be changed by %s, who could have anything run: chown root and chmod go-w it", cfg.Dir, who)
	}
	r := &Runner{cfg: cfg, queues: map[string][]Death{}, ends: map[string]context.CancelCauseFunc{}, running: map[string]Death{}}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	return r, nil
}

// errWithdrawn ends programs that run for a death that is none.
var errWithdrawn = errors.New("the death is withdrawn")

// Tell has the programs run for a death. It does not wait for them. A withdrawal ends what runs for the death that it
// takes back, and keeps the rest of it from being started: that node runs.
func (r *Runner) Tell(d Death) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if of := r.running[d.Node]; d.Event == Withdrawn && of.Event == Fenced && of.Boot == d.Boot {
		r.ends[d.Node](errWithdrawn)
	}
	queue, busy := r.queues[d.Node]
	r.queues[d.Node] = append(queue, d)
	if !busy {
		r.work.Go(func() { r.serve(d.Node) })
	}
}

// errStopped is the end of the runner.
var errStopped = errors.New("this program was asked to stop")

// Close ends the programs that run, starts no more, and returns when all have ended.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop(errStopped)
	r.work.Wait()
}

// serve runs what is queued for a node, and ends with the last of it.
func (r *Runner) serve(node string) {
	for {
		r.mu.Lock()
		queue := r.queues[node]
		if len(queue) == 0 || r.closed {
			delete(r.queues, node)
			r.mu.Unlock()
			return
		}
		d := queue[0]
		r.queues[node] = queue[1:]
		ctx, end := context.WithCancelCause(r.ctx)
		r.running[node], r.ends[node] = d, end
		if d.Event == Fenced && slices.ContainsFunc(queue[1:], func(o Death) bool { return o.Event == Withdrawn && o.Boot == d.Boot }) {
			end(errWithdrawn)
		}
		r.mu.Unlock()
		r.runAll(ctx, d)
		r.mu.Lock()
		delete(r.running, node)
		delete(r.ends, node)
		r.mu.Unlock()
		end(nil)
	}
}

func (r *Runner) runAll(ctx context.Context, d Death) {
	programs, err := r.programs()
	if err != nil {
		r.say("%v: nothing is run for %s %s", err, d.Event, d.Node)
		return
	}
	if len(programs) == 0 {
		r.say("%s %s (boot %s, proof %s): no programs in %s", d.Event, d.Node, d.Boot, d.Proof, r.cfg.Dir)
	}
	for _, path := range programs {
		if ctx.Err() != nil {
			r.say("%s is not run for %s %s: %v", filepath.Base(path), d.Event, d.Node, context.Cause(ctx))
			return
		}
		r.run(ctx, path, d)
	}
}

// name is that of a program: run-parts has the same rule, so that backups of editors and packages do not run.
var name = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*(\.(sh|py|pl|rb))?$`)

// programs lists what is run, in the order of their names.
func (r *Runner) programs() (paths []string, err error) {
	entries, err := os.ReadDir(r.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(r.cfg.Dir, e.Name())
		info, err := os.Stat(path) // of what a link leads to
		switch {
		case !name.MatchString(e.Name()), errors.Is(err, fs.ErrNotExist):
		case err != nil:
			r.say("%v", err)
		case !info.Mode().IsRegular():
		case info.Mode()&0o111 == 0:
			r.say("%s is not executable: it is not run; chmod +x it, or take it away", path)
		default:
			if who := changeable(info); who != "" {
				r.say("%s can be changed by %s: it is not run; chown root and chmod go-w it", path, who)
				continue
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// run runs one program to its end.
func (r *Runner) run(of context.Context, path string, d Death) {
	ctx, cancel := context.WithTimeout(of, r.cfg.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, string(d.Event), d.Node, d.Boot, d.Proof)
	cmd.Dir = "/"
	out := &tail{limit: maxOutput}
	cmd.Stdout, cmd.Stderr = out, out
	ended := group(cmd)
	began := time.Now()
	err := cmd.Run()
	ended()
	what := fmt.Sprintf("%s %s %s %s %s", filepath.Base(path), d.Event, d.Node, d.Boot, d.Proof)
	took := time.Since(began).Round(10 * time.Millisecond)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		what = fmt.Sprintf("%s: ended after %v, it took too long", what, r.cfg.Timeout)
	case ctx.Err() != nil:
		what += fmt.Sprintf(": ended: %v", context.Cause(ctx))
	case err != nil:
		what = fmt.Sprintf("%s: %v after %v", what, err, took)
	default:
		what = fmt.Sprintf("%s: done in %v", what, took)
	}
	if text := out.String(); text != "" {
		what += ": it says: " + text
	}
	r.say("%s", what)
}

func (r *Runner) say(format string, args ...any) {
	r.saying.Lock()
	defer r.saying.Unlock()
	r.cfg.Say(fmt.Sprintf(format, args...))
}

// tail keeps the end of what is written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	text  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - t.limit; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// String is one line of it.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(t.text), "?")), " ")
}
