package lab

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
)

// Agents runs one process of the agent's binary in each node of a Lab.
type Agents struct {
	lab    *Lab
	cfg    AgentConfig
	binary string
	boots  *boots // nil: the agents run in the boot of the host

	launcher []string   // for agents with a simulated watchdog
	dogs     *Watchdogs // nil: the agents have no watchdogs

	mu        sync.Mutex // guards all fields below
	processes map[string]*Process
	killed    map[string]bool   // ended by Kill or Stop, which is no failure of the agent
	programs  map[string]string // for nodes that run another program than binary
}

// NewAgents writes the configurations and starts nothing. It uses the lab's nodes, networks and addresses. Close also
// closes the lab.
func NewAgents(l *Lab, binary string, cfg AgentConfig) (*Agents, error) {
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("lab: agent's program: %w", err)
	}
	cfg.Nodes, cfg.Networks, cfg.Address = l.Nodes(), l.Networks(), l.Address
	if err := cfg.Write(); err != nil {
		return nil, err
	}
	return &Agents{lab: l, cfg: cfg, binary: binary, processes: map[string]*Process{}, killed: map[string]bool{}, programs: map[string]string{}}, nil
}

// Use makes a node run another program from its next start on, for example another version of the agent; empty: the
// same program as the others. The node's agent must not be running.
func (a *Agents) Use(node, binary string) error {
	if _, err := os.Stat(cmp.Or(binary, a.binary)); err != nil {
		return fmt.Errorf("lab: agent's program: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.programs[node] = binary
	delete(a.processes, node)
	return nil
}

// Lab returns the lab in which the agents run, for links, losses and one-way cuts.
func (a *Agents) Lab() *Lab { return a.lab }

// Nodes lists the nodes.
func (a *Agents) Nodes() []string { return a.lab.Nodes() }

// Networks lists the networks.
func (a *Agents) Networks() []string { return a.lab.Networks() }

// Process returns the agent's process on the node, or nil before its first start.
func (a *Agents) Process(node string) *Process {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.processes[node]
}

// Start starts or restarts the agent.
func (a *Agents) Start(node string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.killed, node)
	if p := a.processes[node]; p != nil {
		return p.Restart()
	}
	argv := []string{cmp.Or(a.programs[node], a.binary), "--config", a.cfg.ConfigPath(node)}
	if a.dogs != nil {
		argv = append(append(slices.Clone(a.launcher), a.dogs.Path(node)), argv[1:]...)
	}
	if a.boots != nil {
		argv = a.boots.argv(node, argv)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = a.cfg.Dir
	p, err := a.lab.StartProcess(node, cmd)
	if err != nil {
		return err
	}
	a.processes[node] = p
	return nil
}

// Kill sends SIGKILL and waits until the process has ended.
func (a *Agents) Kill(node string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.processes[node]
	if p == nil {
		return fmt.Errorf("lab: kill agent on node %s: it was never started", node)
	}
	a.killed[node] = true
	return p.Kill()
}

// stopLimit limits a planned stop. A majority has to learn of the stop, which a cut can prevent, and a process cannot
// end before its I/O on a LUN that hangs.
const stopLimit = 30 * time.Second

// Stop stops the agent as planned (SIGTERM) and waits for its end. It returns an error unless the exit is clean.
func (a *Agents) Stop(node string) error {
	a.mu.Lock()
	p := a.processes[node]
	a.killed[node] = true
	a.mu.Unlock()
	if p == nil {
		return fmt.Errorf("lab: stop agent on node %s: it was never started", node)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		return fmt.Errorf("lab: stop agent on node %s: %w\n%s", node, err, lastLines(a.lab.LogPath(node), 5))
	}
	return nil
}

// Reboot looks like a reset to the others: the agent is killed and starts again in another boot of the kernel. Call
// Boots before.
func (a *Agents) Reboot(node string) error {
	if a.boots == nil {
		return errors.New("lab: reboot: the agents run in the boot of this machine: call Boots before the first Start")
	}
	if err := a.Kill(node); err != nil {
		return err
	}
	if err := a.boots.renew(node); err != nil {
		return err
	}
	return a.Start(node)
}

// Boots gives every node a separate boot, see ExecInBoot. Call it before the first Start. launcher is a program that
// calls ExecInBoot; the arguments of ExecInBoot are added to the arguments given here.
func (a *Agents) Boots(launcher ...string) error {
	a.boots = &boots{dir: a.cfg.Dir, launcher: launcher}
	for _, node := range a.Nodes() {
		if err := a.boots.renew(node); err != nil {
			return err
		}
	}
	return nil
}

// DisablePath returns the path of the node's disable file.
func (a *Agents) DisablePath(node string) string { return a.cfg.DisablePath(node) }

// Exited returns the error with which an agent ended, or nil if it runs or was ended by Kill or Stop.
func (a *Agents) Exited(node string) error {
	a.mu.Lock()
	p, killed := a.processes[node], a.killed[node]
	a.mu.Unlock()
	if p == nil || killed {
		return nil
	}
	select {
	case <-p.Done():
	default:
		return nil
	}
	p.mu.Lock()
	err := p.err
	p.mu.Unlock()
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("agent on node %s ended: %w\n%s", node, err, lastLines(a.lab.LogPath(node), 5))
}

// lastLines returns the end of a log for an error message, indented.
func lastLines(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return "    (it logged nothing)"
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	var out strings.Builder
	for _, line := range lines[max(0, len(lines)-n):] {
		fmt.Fprintf(&out, "    %s\n", line)
	}
	return strings.TrimRight(out.String(), "\n")
}

// CutNetworks cuts the networks with nftables.
func (a *Agents) CutNetworks(networks []string, groups ...[]string) error {
	return a.lab.CutNetworks(networks, groups...)
}

// Heal ends all cuts.
func (a *Agents) Heal() error {
	return a.lab.Heal()
}

// Dropped counts the packets that nftables dropped.
func (a *Agents) Dropped() (uint64, error) { return a.lab.Dropped() }

// Status connects to the agent's socket.
func (a *Agents) Status(node string) (*grpc.ClientConn, error) { return DialSocket(a.SocketPath(node)) }

// SocketPath returns the path of the agent's socket, which can be reached from outside the node.
func (a *Agents) SocketPath(node string) string { return a.cfg.SocketPath(node) }

// Describe says which parts of the cluster are real.
func (a *Agents) Describe() string {
	return "each agent is a process in its own network namespace; nftables drops the packets"
}

// Hints returns commands with which one can look into a node.
func (a *Agents) Hints(node string) []string {
	hints := []string{"tail -f " + a.lab.LogPath(node) + "   # its log"}
	p := a.Process(node)
	if p == nil {
		return hints
	}
	enter := "nsenter --net --target "
	if InUserNamespace() {
		enter = "nsenter --user --preserve-credentials --net --target "
	}
	return append(hints, fmt.Sprintf("%s%d curl -s %s/metrics   # its metrics, from inside", enter, p.PID(), a.cfg.HTTP))
}

// Close stops the agents and takes the lab down.
func (a *Agents) Close() error { return a.lab.Close() }
