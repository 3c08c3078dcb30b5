package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// verb is an action of an operator on a running cluster.
type verb struct {
	arguments string
	node      bool // the first argument must be a node
	does      string
	do        func(ctx context.Context, c *Cluster, args []string) (string, error)
}

// fault returns a verb that takes one node and has no output.
func fault(does string, do func(ctx context.Context, c *Cluster, node string) error) verb {
	return verb{"NODE", true, does, func(ctx context.Context, c *Cluster, args []string) (string, error) { return "", do(ctx, c, args[0]) }}
}

// each returns a verb that takes one or more nodes and has no output.
func each(does string, do func(c *Cluster, node string) error) verb {
	return verb{"NODE...", true, does, func(_ context.Context, c *Cluster, args []string) (string, error) {
		var errs []error
		for _, n := range args {
			errs = append(errs, do(c, n))
		}
		return "", errors.Join(errs...)
	}}
}

var verbs = map[string]verb{
	"status": {"", false, "nodes, agents, and what they report about each other", func(ctx context.Context, c *Cluster, _ []string) (string, error) { return c.table(ctx) }},
	"cut": {"NODE [NETWORK...]", true, "silently cuts it off some networks, or off all", func(_ context.Context, c *Cluster, args []string) (string, error) {
		return "", c.Cut(args[0], args[1:]...)
	}},
	"split": {"NODE...", true, "separates these nodes from the others and from the API server", func(_ context.Context, c *Cluster, args []string) (string, error) {
		return "", c.Split(args...)
	}},
	"heal": {"NODE [NETWORK...]", true, "ends a cut, or its part in a split", func(_ context.Context, c *Cluster, args []string) (string, error) {
		return "", c.Heal(args[0], args[1:]...)
	}},
	"power-off":       fault("loss of power", func(_ context.Context, c *Cluster, n string) error { return c.PowerOff(n) }),
	"boot":            fault("power is back", func(ctx context.Context, c *Cluster, n string) error { return c.Boot(ctx, n) }),
	"reset":           fault("ends, and boots again at once", func(ctx context.Context, c *Cluster, n string) error { return c.Reset(ctx, n) }),
	"freeze":          fault("everything in it stops; clocks go on", func(_ context.Context, c *Cluster, n string) error { return c.Freeze(n) }),
	"thaw":            fault("ends freeze", func(_ context.Context, c *Cluster, n string) error { return c.Thaw(n) }),
	"lose-lun":        each("all I/O on the LUN fails; name all nodes for a LUN that is gone", (*Cluster).LoseLUN),
	"restore-lun":     each("the LUN is back", (*Cluster).RestoreLUN),
	"kill-kubelet":    fault("ends, and is started again after a second", func(ctx context.Context, c *Cluster, n string) error { return c.KillKubelet(ctx, n) }),
	"hold-kubelet":    fault("ends, and is not started again", func(ctx context.Context, c *Cluster, n string) error { return c.HoldKubelet(ctx, n) }),
	"free-kubelet":    fault("ends hold-kubelet", func(ctx context.Context, c *Cluster, n string) error { return c.FreeKubelet(ctx, n) }),
	"kill-containerd": fault("ends, and is started again after a second", func(ctx context.Context, c *Cluster, n string) error { return c.KillContainerd(ctx, n) }),
	"lose-image":      fault("the image of its agent is gone, and there is no registry", func(ctx context.Context, c *Cluster, n string) error { return c.LoseImage(ctx, n) }),
	"restore-image":   fault("ends lose-image", func(ctx context.Context, c *Cluster, n string) error { return c.RestoreImage(ctx, n) }),
	"fill-disk":       fault("its disk is full; in nodes of namespaces, the disk of its agent", func(ctx context.Context, c *Cluster, n string) error { return c.FillDisk(ctx, n) }),
	"free-disk":       fault("ends fill-disk", func(ctx context.Context, c *Cluster, n string) error { return c.FreeDisk(ctx, n) }),
	"exhaust-memory":  fault("the kernel's OOM killer ends its agent", func(ctx context.Context, c *Cluster, n string) error { return c.ExhaustMemory(ctx, n) }),
	"delete-agent":    fault("its pod", func(ctx context.Context, c *Cluster, n string) error { return c.DeleteAgent(ctx, n) }),
	"kill-server":     {"", false, "the API server", func(_ context.Context, c *Cluster, _ []string) (string, error) { return "", c.KillServer() }},
	"start-server":    {"", false, "the API server is back", func(ctx context.Context, c *Cluster, _ []string) (string, error) { return "", c.StartServer(ctx) }},
	"settle": {"", false, "ends all faults, and waits for all nodes and agents", func(ctx context.Context, c *Cluster, _ []string) (string, error) {
		return "", c.Settle(ctx, readyLimit)
	}},
	"run": {"NODE COMMAND...", true, "runs a command in the node, beside its kubelet", func(ctx context.Context, c *Cluster, args []string) (string, error) {
		if len(args) < 2 {
			return "", errors.New("run: give a command")
		}
		return c.Run(ctx, args[0], args[1:]...)
	}},
}

// Verbs returns a list of the verbs for the help.
func Verbs() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(verbs)) {
		fmt.Fprintf(table, "  %s %s\t%s\n", name, verbs[name].arguments, verbs[name].does)
	}
	_ = table.Flush() // it writes into memory
	return text.String()
}

// Command executes a command, and returns its output.
func (c *Cluster) Command(ctx context.Context, words []string) (string, error) {
	if len(words) == 0 {
		return "", errors.New("no command")
	}
	v, ok := verbs[words[0]]
	if !ok {
		return "", fmt.Errorf("unknown command %q; there are:\n%s", words[0], Verbs())
	}
	if v.node && len(words) < 2 {
		return "", fmt.Errorf("usage: %s %s", words[0], v.arguments)
	}
	return v.do(ctx, c, words[1:])
}

// Serve executes the commands that arrive over connections, one on each. Each word of a command ends with a zero byte,
// and the command with a line feed. Serve returns when the listener is closed.
func (c *Cluster) Serve(ctx context.Context, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil {
				return
			}
			out, err := c.Command(ctx, strings.Split(strings.TrimSuffix(line, "\n"), "\x00"))
			if err != nil {
				fmt.Fprintf(conn, "!%s%v\n", out, err)
				return
			}
			fmt.Fprintf(conn, " %s", out)
		}()
	}
}

// Ask passes a command to the cluster behind the socket, and returns its output.
func Ask(socket string, words []string) (string, error) {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s\n", strings.Join(words, "\x00")); err != nil {
		return "", err
	}
	var answer strings.Builder
	if _, err := bufio.NewReader(conn).WriteTo(&answer); err != nil {
		return "", err
	}
	text, failed := strings.CutPrefix(answer.String(), "!")
	if failed {
		return "", errors.New(strings.TrimSpace(text))
	}
	return strings.TrimPrefix(text, " "), nil
}

// brief fits a text into a cell of a table: in one line, and without the middle if it is long.
func brief(text string) string {
	const most = 100
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) <= most {
		return string(line)
	}
	return string(line[:most/2]) + " ... " + string(line[len(line)-most/2:])
}

// table formats what Look returns for the terminal.
func (c *Cluster) table(ctx context.Context) (string, error) {
	v, err := c.Look(ctx)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	if v.APIErr != nil {
		fmt.Fprintf(&text, "the API server does not answer: %v\n", v.APIErr)
	}
	out := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "NODE\tREADY\tAGENT'S POD\tVERDICT\tSAYS OF THE OTHERS")
	for _, name := range c.Names() {
		ready, pod, verdict, says := fmt.Sprint(nodeReady(v.Nodes[name])), brief(describe(v.AgentPod(name))), "no answer", ""
		if v.APIErr != nil {
			ready, pod = "?", "?"
		}
		if s := v.Agents[name]; s != nil {
			verdict = s.GetVerdict().GetText()
			for _, n := range s.GetNodes() {
				if n.GetName() != name && !n.GetCounted() {
					says += fmt.Sprintf("%s %s ", n.GetName(), strings.TrimPrefix(n.GetState().String(), "NODE_STATE_"))
				}
			}
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", name, ready, pod, verdict, says)
	}
	_ = out.Flush() // it writes into memory
	return text.String(), nil
}
