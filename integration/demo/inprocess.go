package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
)

// RunAgent runs one agent until ctx ends; with ErrKilled as the cause it must end without
// a word to anybody. It opens each SystemNetwork with over(listen), where listen is what
// it would use by itself, and logs to log.
type RunAgent func(ctx context.Context, configPath string, over func(netgossiptest.Listen) netgossiptest.Listen, log io.Writer) error

// InProcess is the lab.Cluster for places without namespaces: agents in this process,
// real sockets on 127.0.0.0/8, packets dropped between socket and memberlist.
type InProcess struct {
	cfg      lab.AgentConfig
	runAgent RunAgent

	mu     sync.Mutex // guards all below
	agents map[string]*inProcessAgent
	part   map[string]map[string]int // network -> node -> part of the present cut
	gone   uint64                    // packets dropped by agents that are no more
}

type inProcessAgent struct {
	dropper *netgossiptest.Dropper
	cancel  context.CancelCauseFunc
	done    chan struct{}
	err     error // valid after done
	killed  bool
}

// ErrKilled is the cause by which the context of a killed agent ends.
var ErrKilled = errors.New("killed")

// NewInProcess writes the configurations; networks are 127.0.1.0/24, 127.0.2.0/24, and so on.
func NewInProcess(cfg lab.AgentConfig, runAgent RunAgent) (*InProcess, error) {
	cfg.ByAddress = true
	cfg.Address = func(node, network string) netip.Addr {
		return netip.AddrFrom4([4]byte{127, 0, byte(slices.Index(cfg.Networks, network) + 1), byte(slices.Index(cfg.Nodes, node) + 1)})
	}
	c := &InProcess{cfg: cfg, runAgent: runAgent, agents: map[string]*inProcessAgent{}, part: map[string]map[string]int{}}
	port, err := freePort(cfg.Address(cfg.Nodes[0], cfg.Networks[0]))
	if err != nil {
		return nil, err
	}
	c.cfg.Port = port
	return c, c.cfg.Write()
}

// freePort is a port that nobody used a moment ago: several demos may run at once.
func freePort(at netip.Addr) (int, error) {
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
	if err != nil {
		return 0, fmt.Errorf("find a free port on %v: %w", at, err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Nodes lists the nodes.
func (c *InProcess) Nodes() []string { return slices.Clone(c.cfg.Nodes) }

// Networks lists the networks.
func (c *InProcess) Networks() []string { return slices.Clone(c.cfg.Networks) }

// Start starts the agent, in the cut that is in force.
func (c *InProcess) Start(node string) error {
	if err := c.Kill(node); err != nil {
		return err
	}
	log, err := os.OpenFile(c.logPath(node), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithCancelCause(context.Background())
	a := &inProcessAgent{dropper: &netgossiptest.Dropper{}, cancel: cancel, done: make(chan struct{})}
	c.agents[node] = a
	c.apply(node)
	go func() {
		defer close(a.done)
		defer log.Close()
		a.err = c.runAgent(ctx, c.cfg.ConfigPath(node), a.dropper.Over, log)
	}()
	return nil
}

func (c *InProcess) logPath(node string) string { return filepath.Join(c.cfg.Dir, node+".log") }

// Kill ends the agent after its last word was made unheard.
func (c *InProcess) Kill(node string) error {
	c.mu.Lock()
	a := c.agents[node]
	if a == nil {
		c.mu.Unlock()
		return nil
	}
	a.killed = true
	a.dropper.Cut(c.peers(node)...)
	c.mu.Unlock()
	a.cancel(ErrKilled)
	<-a.done
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agents[node] == a {
		c.gone += a.dropper.Dropped()
		delete(c.agents, node)
	}
	return nil
}

// Exited says how an agent ended that nobody killed.
func (c *InProcess) Exited(node string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agents[node]
	if a == nil || a.killed {
		return nil
	}
	select {
	case <-a.done:
		return fmt.Errorf("agent on node %s ended: %w; its log is %s", node, a.err, c.logPath(node))
	default:
		return nil
	}
}

// CutNetworks tells every agent's dropper whom not to hear.
func (c *InProcess) CutNetworks(networks []string, groups ...[]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	part := map[string]int{}
	for i, group := range groups {
		for _, node := range group {
			part[node] = i + 1
		}
	}
	for _, network := range networks {
		c.part[network] = part
	}
	for _, node := range c.cfg.Nodes {
		c.apply(node)
	}
	return nil
}

// Heal ends all cuts.
func (c *InProcess) Heal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.part)
	for _, node := range c.cfg.Nodes {
		c.apply(node)
	}
	return nil
}

// apply makes the node's dropper do what part says. c.mu is held.
func (c *InProcess) apply(node string) {
	a := c.agents[node]
	if a == nil || a.killed {
		return
	}
	for _, network := range c.cfg.Networks {
		for _, peer := range c.cfg.Nodes {
			switch address := c.cfg.Address(peer, network); {
			case peer == node:
			case c.part[network][peer] != c.part[network][node]:
				a.dropper.Cut(address)
			default:
				a.dropper.Heal(address)
			}
		}
	}
}

func (c *InProcess) peers(node string) (out []netip.Addr) {
	for _, network := range c.cfg.Networks {
		for _, peer := range c.cfg.Nodes {
			if peer != node {
				out = append(out, c.cfg.Address(peer, network))
			}
		}
	}
	return out
}

// Dropped counts the packets and streams that all droppers refused.
func (c *InProcess) Dropped() (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.gone
	for _, a := range c.agents {
		sum += a.dropper.Dropped()
	}
	return sum, nil
}

// Status connects to the agent's socket.
func (c *InProcess) Status(node string) (*grpc.ClientConn, error) {
	return lab.DialSocket(c.SocketPath(node))
}

// SocketPath is the agent's socket.
func (c *InProcess) SocketPath(node string) string { return c.cfg.SocketPath(node) }

// Describe says what is not real here.
func (c *InProcess) Describe() string {
	return "all agents run in this one process on loopback addresses; packets are dropped between socket and memberlist"
}

// Hints shows the log.
func (c *InProcess) Hints(node string) []string {
	return []string{"tail -f " + c.logPath(node) + "   # its log"}
}

// Close ends all agents.
func (c *InProcess) Close() error {
	for _, node := range c.cfg.Nodes {
		if err := c.Kill(node); err != nil {
			return err
		}
	}
	return nil
}
