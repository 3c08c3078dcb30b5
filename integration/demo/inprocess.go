package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/agent"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
)

// inProcess is the cluster where namespaces are not allowed, as in most containers: agents of this process, on a
// network in memory.
type inProcess struct {
	cfg     lab.AgentConfig
	network *netgossiptest.Network

	mu     sync.Mutex // guards agents
	agents map[string]*inProcessAgent
}

type inProcessAgent struct {
	kill context.CancelCauseFunc
	done chan struct{}
	err  error // valid after done
}

// newInProcess writes the configurations into a folder; the networks are 127.0.1.0/24, 127.0.2.0/24, and so on.
func newInProcess(dir, lun string, nodes []string) (*inProcess, error) {
	c := &inProcess{network: netgossiptest.NewNetwork(1), agents: map[string]*inProcessAgent{}}
	c.cfg = lab.AgentConfig{Dir: dir, Nodes: nodes, Networks: networks, ByAddress: true, LUN: func(string) string { return lun }, Address: func(node, network string) netip.Addr {
		return netip.AddrFrom4([4]byte{127, 0, byte(slices.Index(networks, network) + 1), byte(slices.Index(nodes, node) + 1)})
	}}
	return c, c.cfg.Write()
}

func (c *inProcess) Nodes() []string    { return slices.Clone(c.cfg.Nodes) }
func (c *inProcess) Networks() []string { return slices.Clone(networks) }

func (c *inProcess) Start(node string) error {
	if err := c.Kill(node); err != nil {
		return err
	}
	path := c.cfg.ConfigPath(node)
	cfg, _, err := config.Load(path, os.Getenv)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(c.logPath(node), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	a := &inProcessAgent{kill: cancel, done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agents[node] = a
	go func() {
		defer close(a.done)
		defer log.Close()
		a.err = agent.Run(ctx, agent.Options{Config: cfg, ConfigPath: path, Logger: slog.New(slog.NewJSONHandler(log, nil)), Version: "demo", Listen: c.network.Listen})
	}()
	return nil
}

func (c *inProcess) logPath(node string) string { return filepath.Join(c.cfg.Dir, node+".log") }

// Kill ends an agent without any last message.
func (c *inProcess) Kill(node string) error {
	c.mu.Lock()
	a := c.agents[node]
	delete(c.agents, node)
	c.mu.Unlock()
	if a != nil {
		a.kill(agent.ErrAbandon)
		<-a.done
	}
	return nil
}

// Exited returns the error with which an agent ended, or nil if it runs or was killed.
func (c *inProcess) Exited(node string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agents[node]
	if a == nil {
		return nil
	}
	select {
	case <-a.done:
		return fmt.Errorf("agent on node %s ended: %w; its log is %s", node, a.err, c.logPath(node))
	default:
		return nil
	}
}

// CutNetworks cuts the groups from each other on these networks. The nodes in none of the groups form one more group.
func (c *inProcess) CutNetworks(networks []string, groups ...[]string) error {
	rest := slices.DeleteFunc(c.Nodes(), func(node string) bool {
		return slices.ContainsFunc(groups, func(g []string) bool { return slices.Contains(g, node) })
	})
	for _, network := range networks {
		var parts [][]netip.Addr
		for _, group := range append(slices.Clone(groups), rest) {
			var part []netip.Addr
			for _, node := range group {
				part = append(part, c.cfg.Address(node, network))
			}
			parts = append(parts, part)
		}
		c.network.Partition(parts...)
	}
	return nil
}

func (c *inProcess) Heal() error                   { c.network.Heal(); return nil }
func (c *inProcess) Dropped() (uint64, error)      { return c.network.Lost(), nil }
func (c *inProcess) SocketPath(node string) string { return c.cfg.SocketPath(node) }
func (c *inProcess) Status(node string) (*grpc.ClientConn, error) {
	return lab.DialSocket(c.SocketPath(node))
}
func (c *inProcess) Hints(node string) []string {
	return []string{"tail -f " + c.logPath(node) + "   # its log"}
}

// Describe lists what is not real here.
func (c *inProcess) Describe() string {
	return "all agents run in this one process, on a network in its memory that drops the packets"
}

// Close ends all agents.
func (c *inProcess) Close() error {
	var err error
	for _, node := range c.cfg.Nodes {
		err = errors.Join(err, c.Kill(node))
	}
	return err
}
