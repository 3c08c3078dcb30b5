package night

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// Options holds where programs are and where to print the night.
type Options struct {
	Out    io.Writer
	Bin    string   // directory with fencing-agent and fencectl
	Launch []string // arguments of this program, with which it runs an agent in a separate boot
	Armed  []string // arguments of this program, with which it is an agent with a simulated watchdog
}

const (
	victim = "n4"
	page   = lab.StageHTTP
	// patience limits waits without a known duration: agents start, on a machine that may be busy.
	patience = 60 * time.Second
)

var (
	nodes    = []string{"n1", "n2", "n3", victim}
	networks = lab.StageNetworks
)

// night is one run.
type night struct {
	Options
	dir    string
	agents *lab.Agents
	dogs   *lab.Watchdogs
	o      *observe.Observer
	fired  chan string // a node whose watchdog has reset it
	began  time.Time   // of the fault
	steps  int
	wants  int
}

// Run plays the night. It returns an error if a step does not show what it must; then the directory is kept.
func Run(ctx context.Context, o Options) error {
	return lab.InFolder("night", o.Out, func(dir string) (err error) {
		n := &night{Options: o, dir: dir, fired: make(chan string, len(nodes))}
		if n.Bin, err = filepath.Abs(o.Bin); err != nil {
			return err
		}
		stage := lab.Stage{Bin: o.Bin, Nodes: len(nodes), Launch: o.Launch, Override: map[string]any{
			"watchdog":     map[string]any{"driver": "device", "timeout": "20s"},
			"experimental": map[string]any{"feedInterval": "2s"},
		}}
		if n.agents, err = stage.Build(ctx, dir); err != nil {
			return fmt.Errorf("night: %w", err)
		}
		defer func() { err = errors.Join(err, n.agents.Close()) }()
		return n.run(ctx)
	})
}

func (n *night) run(ctx context.Context) (err error) {
	n.dogs, err = n.agents.Watchdogs(func(node string, _ time.Duration) {
		_ = n.agents.Kill(node) // the other nodes see its end
		n.fired <- node
	}, append([]string{"/proc/self/exe"}, n.Armed...)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(n.dogs.Close(), err) }()
	for _, node := range nodes {
		if err := n.agents.Start(node); err != nil {
			return err
		}
	}
	if n.o, err = observe.New(n.agents); err != nil {
		return err
	}
	defer n.o.Close()
	return n.play(ctx)
}

// inBoot runs fencectl in the present boot of a node as a person does, with a terminal of 80 columns and no colors.
func (n *night) inBoot(ctx context.Context, node string, args ...string) (string, error) {
	argv := append(append([]string{}, n.Launch...), filepath.Join(n.dir, node+".boot_id"), filepath.Join(n.Bin, "fencectl"))
	return n.command(exec.CommandContext(ctx, "/proc/self/exe", append(argv, args...)...))
}

func (n *night) command(cmd *exec.Cmd) (string, error) {
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "COLUMNS=80")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out), err
}

// step begins a step.
func (n *night) step(format string, args ...any) {
	n.steps++
	fmt.Fprintf(n.Out, "\n%d  %s\n", n.steps, fmt.Sprintf(format, args...))
}

// shown prints what a person typed and saw, and checks that it contains the required texts.
func (n *night) shown(typed, seen string, wants ...string) error {
	fmt.Fprintf(n.Out, "\n     $ %s\n", typed)
	for line := range strings.Lines(strings.TrimRight(seen, "\n")) {
		fmt.Fprintf(n.Out, "     %s\n", strings.TrimRight(line, "\n"))
	}
	for _, want := range wants {
		if !regexp.MustCompile(want).MatchString(seen) {
			return fmt.Errorf("step %d: %s does not show %q:\n%s", n.steps, typed, want, seen)
		}
		n.wants++
	}
	return nil
}

// on runs a command about a node. typed is what a person types on that node, where the agent's files have their usual
// paths.
func (n *night) on(ctx context.Context, node string, args []string, more []string, wants ...string) (string, error) {
	out, err := n.inBoot(ctx, node, append(append([]string{}, args...), more...)...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	words := make([]string, len(args))
	for i, a := range args {
		if words[i] = a; strings.Contains(a, " ") {
			words[i] = `"` + a + `"`
		}
	}
	return out, n.shown("fencectl "+strings.Join(words, " ")+"   # on "+node, out, wants...)
}

func (n *night) socket(node string) []string { return []string{"--socket", n.agents.SocketPath(node)} }

// get requests a page from the listener of a node, as a person on that node does.
func (n *night) get(ctx context.Context, node, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+page+path, nil)
	if err != nil {
		return "", err
	}
	r, err := n.agents.Lab().HTTPClient(node).Do(req)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return string(text), err
}

// await waits until the condition holds for all.
func (n *night) await(ctx context.Context, what string, c observe.Condition) error {
	if _, err := n.o.Await(ctx, patience, c); err != nil {
		return fmt.Errorf("step %d: %s: %w", n.steps, what, err)
	}
	return nil
}

func (n *night) tell(format string, args ...any) { fmt.Fprintf(n.Out, "   "+format+"\n", args...) }

// everybody holds when all agents are armed, feed and count all nodes.
func everybody() observe.Condition {
	return observe.All(observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, nodes...), observe.Counting(nodes...), observe.LUNReady(nodes...),
		func(v *observe.View) string {
			for _, node := range nodes {
				if !v.Status[node].GetWatchdog().GetArmed() {
					return node + " is not armed"
				}
			}
			return ""
		})
}
