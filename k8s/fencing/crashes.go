package fencing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/fencing-agent/fencing-agent/k8s/kdump"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

const (
	addressAnnotation = "fencing-agent.io/address."
	mostDatagram      = 64 // bytes; the rest of a longer datagram is cut off, as it is not a valid message anyway
)

// owners maps addresses to Nodes. An address of two Nodes is left out: either could send in the other's name.
type owners map[netip.Addr]string

func (o owners) add(n *corev1.Node) {
	put := func(text string) {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return
		}
		a = a.Unmap()
		if name, taken := o[a]; taken && name != n.Name {
			o[a] = ""
			return
		}
		o[a] = n.Name
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
			put(a.Address)
		}
	}
	for key, value := range n.Annotations {
		if strings.HasPrefix(key, addressAnnotation) {
			put(value)
		}
	}
}

// Crashes listens to crash kernels.
type Crashes struct {
	Address string // where to listen, as HOST:PORT
	Logger  *slog.Logger
	Now     func() time.Time

	messages *prometheus.CounterVec
	lock     sync.Mutex
	owners   owners
	book     kdump.Book
}

// NewCrashes returns a listener that begins to listen in Start.
func NewCrashes(address string, log *slog.Logger, now func() time.Time, reg prometheus.Registerer) *Crashes {
	c := &Crashes{Address: address, Logger: log, Now: now}
	c.messages = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "fencing_controller", Name: "kdump_messages_total",
		Help: "Messages to the listener for crash kernels, by outcome: heard, unknown (no Node, or two, have the sender's address), malformed."}, []string{"outcome"})
	reg.MustRegister(c.messages)
	return c
}

// NeedLeaderElection is false: each replica listens.
func (c *Crashes) NeedLeaderElection() bool { return false }

// Start listens until the context ends.
func (c *Crashes) Start(ctx context.Context) error {
	conn, err := new(net.ListenConfig).ListenPacket(ctx, "udp", c.Address)
	if err != nil {
		return fmt.Errorf("listen to crash kernels: %w", err)
	}
	return c.Serve(ctx, conn)
}

// Serve is like Start, but uses an existing connection, and closes it.
func (c *Crashes) Serve(ctx context.Context, conn net.PacketConn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	c.Logger.Info("listening for crash kernels", "address", conn.LocalAddr().String())
	b := make([]byte, mostDatagram)
	for {
		n, from, err := conn.ReadFrom(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("listen to crash kernels: %w", err)
		}
		c.take(b[:n], from)
	}
}

// take handles one datagram.
func (c *Crashes) take(b []byte, from net.Addr) {
	outcome := "heard"
	if err := kdump.Parse(b); err != nil {
		outcome = "malformed"
	} else if node := c.hear(from); node == "" {
		outcome = "unknown"
	}
	c.messages.WithLabelValues(outcome).Inc()
	if outcome != "heard" {
		c.Logger.Debug("ignored a message that is not from a crash kernel of a known node", "from", from.String(), "outcome", outcome)
	}
}

func (c *Crashes) hear(from net.Addr) string {
	udp, ok := from.(*net.UDPAddr)
	if !ok {
		return ""
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	node := c.owners[udp.AddrPort().Addr().Unmap().WithZone("")]
	if node != "" {
		c.book.Hear(node, c.Now())
	}
	return node
}

// know replaces the owners of the addresses.
func (c *Crashes) know(o owners) {
	if c == nil {
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.owners = o
}

// judge returns what the node's crash kernel proves.
func (c *Crashes) judge(name string, n nodefence.Node, now time.Time) kdump.Verdict {
	if c == nil || !n.Exists {
		return kdump.Verdict{}
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.book.Judge(name, kdump.Shows{Boot: n.Boot, Heartbeat: n.Heartbeat, Ready: n.Ready}, now)
}
