package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// MaxNodes limits a lab, because cuts are stored as pairs of nodes.
const MaxNodes = 32

// Config describes a lab.
type Config struct {
	Nodes    []string // 1 to MaxNodes, each named like a Kubernetes node
	Networks []string // 1 to 4; also the interface names inside the nodes
	Dir      string   // for the nodes' logs; created if it is missing, never removed

	// StopGrace is the time that Close gives processes to end after SIGTERM; 0 means 3 s.
	StopGrace time.Duration
}

// Lab is a running set of namespaces and networks.
type Lab struct {
	cfg   Config
	hub   *namespace
	nodes map[string]*namespace
	undo  []func() // called in reverse order by Close

	mu        sync.Mutex // guards all fields below and serialises changes of the networks
	closed    bool
	barriers  map[pair]barrier
	loss      map[string]float64
	processes []*Process

	closeOnce sync.Once
}

var (
	nodeName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)
	networkName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,14}$`) // 15 characters fit into an interface name
)

func (c Config) validate() error {
	if n := len(c.Nodes); n < 1 || n > MaxNodes {
		return fmt.Errorf("lab: %d nodes are not possible: use 1 to %d", n, MaxNodes)
	}
	if n := len(c.Networks); n < 1 || n > 4 {
		return fmt.Errorf("lab: %d networks are not possible: use 1 to 4", n)
	}
	for i, n := range c.Nodes {
		if !nodeName.MatchString(n) || slices.Contains(c.Nodes[:i], n) {
			return fmt.Errorf("lab: node %q: give each node a different name of a-z, 0-9, '-' and '.'", n)
		}
	}
	for i, n := range c.Networks {
		if !networkName.MatchString(n) || n == "lo" || slices.Contains(c.Networks[:i], n) {
			return fmt.Errorf("lab: network %q: give each network a different interface name (a-z, 0-9, '-', at most 15 characters, not lo)", n)
		}
	}
	if c.Dir == "" {
		return errors.New("lab: Dir is empty: name a folder for the nodes' logs")
	}
	return nil
}

// New creates the namespaces and networks, with all interfaces up.
func New(cfg Config) (*Lab, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.StopGrace == 0 {
		cfg.StopGrace = 3 * time.Second
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("lab: folder %s: %w", cfg.Dir, err)
	}
	cfg.Dir = dir
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	l := &Lab{cfg: cfg, nodes: map[string]*namespace{}, barriers: map[pair]barrier{}, loss: map[string]float64{}}
	if err := l.build(); err != nil {
		return nil, errors.Join(fmt.Errorf("lab: %w", err), l.Close())
	}
	return l, nil
}

// Nodes lists the node names in the order given.
func (l *Lab) Nodes() []string { return slices.Clone(l.cfg.Nodes) }

// Networks lists the network names in the order given.
func (l *Lab) Networks() []string { return slices.Clone(l.cfg.Networks) }

// Dir returns the folder of the nodes' logs.
func (l *Lab) Dir() string { return l.cfg.Dir }

// subnetBits is the length of a network's prefix: network i (from 0) is 10.77.<i+1>.0/24.
const subnetBits = 24

// Address returns the node's address on the network, which follows from their positions; the zero Addr for unknown
// names.
func (l *Lab) Address(node, network string) netip.Addr {
	i, j := slices.Index(l.cfg.Networks, network), slices.Index(l.cfg.Nodes, node)
	if i < 0 || j < 0 {
		return netip.Addr{}
	}
	return netip.AddrFrom4([4]byte{10, 77, byte(i + 1), byte(j + 1)})
}

func (l *Lab) namespace(node string) (*namespace, error) {
	ns, ok := l.nodes[node]
	if !ok {
		return nil, fmt.Errorf("lab: there is no node %q: the nodes are %s", node, strings.Join(l.cfg.Nodes, ", "))
	}
	return ns, nil
}

// errClosed is returned by every method of a closed lab.
var errClosed = errors.New("lab is closed")

// Do runs f in the node's namespace, on a separate goroutine. Goroutines that f starts are not in the namespace;
// sockets stay where they were opened.
func (l *Lab) Do(node string, f func() error) error {
	ns, err := l.namespace(node)
	if err != nil {
		return err
	}
	if l.isClosed() {
		return errClosed
	}
	return ns.do(f)
}

func (l *Lab) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Dial connects from inside the node. The address must be an IP literal with a port, because name resolution would
// leave the namespace.
func (l *Lab) Dial(ctx context.Context, node, network, address string) (net.Conn, error) {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("lab: dial %s: give an IP address and a port", address)
	}
	var conn net.Conn
	err := l.Do(node, func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// HTTPClient returns a client whose connections start inside the node, for example for http://127.0.0.1:9110/metrics of
// that node's agent. It keeps no idle connections.
func (l *Lab) HTTPClient(node string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return l.Dial(ctx, node, network, address)
		},
	}}
}

// Close stops all processes, takes the lab down, and waits for that. A second call does nothing.
func (l *Lab) Close() error {
	l.closeOnce.Do(func() {
		l.mu.Lock()
		l.closed = true
		processes := slices.Clone(l.processes)
		l.mu.Unlock()
		stopAll(processes, l.cfg.StopGrace)
		for _, undo := range slices.Backward(l.undo) {
			undo()
		}
	})
	return nil
}
