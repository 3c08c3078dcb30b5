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
	mostDatagram      = 64 // bytes; what is longer is cut off, and is none of the messages anyway
)

// owners are Nodes by their addresses. An address that two Nodes have is nobody's: either might send in the other's name.
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
	Address string // where, as HOST:PORT
	Logger  *slog.Logger
	Now     func() time.Time

	messages *prometheus.CounterVec
	lock     sync.Mutex
	owners   owners
	book     kdump.Book
}

// NewCrashes makes one that listens when it is started.
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

// Serve is Start with a connection that exists already; Serve closes the connection.
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

// take looks at one datagram.
func (c *Crashes) take(b []byte, from net.Addr) {
	outcome := "heard"
	if err := kdump.Parse(b); err != nil {
		outcome = "malformed"
	} else if node := c.hear(from); node == "" {
		outcome = "unknown"
	}
	c.messages.WithLabelValues(outcome).Inc()
	if outcome != "heard" {
		c.Logger.Debug("a message to the listener for crash kernels was not used", "from", from.String(), "outcome", outcome)
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

// know takes over whose addresses are whose.
func (c *Crashes) know(o owners) {
	if c == nil {
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.owners = o
}

// judge says what is known of a node's crash kernel.
func (c *Crashes) judge(name string, n nodefence.Node, now time.Time) kdump.Verdict {
	if c == nil || !n.Exists {
		return kdump.Verdict{}
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.book.Judge(name, kdump.Shows{Boot: n.Boot, Heartbeat: n.Heartbeat, Ready: n.Ready}, now)
}
