package agentsim

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
)

// gate lets goroutines pass unless it is closed. A goroutine that waits at it must not hold a lock:
// in a bubble, waiting for a mutex is not waiting, and time would stand still.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil: open
}

func (g *gate) pass() {
	for {
		g.mu.Lock()
		c := g.closed
		g.mu.Unlock()
		if c == nil {
			return
		}
		<-c
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed != nil
}

var errStopped = errors.New("the process is stopped")

// endpoint is a process's access to one network. While the process is stopped, incoming packets wait and outgoing
// packets are not sent.
type endpoint struct {
	memberlist.NodeAwareTransport
	stop    *gate
	packets chan *memberlist.Packet
	ended   chan struct{}
	once    sync.Once
	dead    atomic.Bool
	slow    time.Duration // Schedule.SlowClose
	quiet   bool          // Schedule.Quiet
}

// listen opens endpoints of a process on the network that owns an address.
func (p *process) listen(at netip.AddrPort) (memberlist.NodeAwareTransport, error) {
	inner, err := p.m.w.networks[at.Addr().As4()[1]].Listen(at)
	if err != nil {
		return nil, err
	}
	e := &endpoint{NodeAwareTransport: inner, slow: p.m.w.s.SlowClose, quiet: p.m.w.s.Quiet, stop: &p.stop, packets: make(chan *memberlist.Packet), ended: make(chan struct{})}
	p.m.w.mu.Lock()
	p.endpoints = append(p.endpoints, e)
	p.m.w.mu.Unlock()
	go e.pump()
	return e, nil
}

func (e *endpoint) pump() {
	for {
		select {
		case packet := <-e.NodeAwareTransport.PacketCh():
			e.stop.pass()
			select {
			case e.packets <- packet:
			case <-e.ended:
				return
			}
		case <-e.ended:
			return
		}
	}
}

func (e *endpoint) PacketCh() <-chan *memberlist.Packet { return e.packets }

func (e *endpoint) WriteTo(b []byte, addr string) (time.Time, error) {
	if e.stop.isShut() || e.dead.Load() {
		return time.Now(), nil // the packet is never sent
	}
	if e.quiet {
		b = withoutNews(b)
	}
	return e.NodeAwareTransport.WriteTo(b, addr)
}

func (e *endpoint) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return e.WriteTo(b, a.Addr)
}

func (e *endpoint) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if e.stop.isShut() || e.dead.Load() {
		return nil, errStopped
	}
	return e.NodeAwareTransport.DialTimeout(addr, timeout)
}

func (e *endpoint) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return e.DialTimeout(a.Addr, timeout)
}

// vanish closes the socket without a message, as when the process vanishes.
func (e *endpoint) vanish() {
	e.dead.Store(true)
	_ = e.Shutdown() // of the simulated network, which cannot fail
}

func (e *endpoint) Shutdown() error {
	if e.slow > 0 && !e.dead.Load() {
		time.Sleep(e.slow)
	}
	e.once.Do(func() { close(e.ended) })
	return e.NodeAwareTransport.Shutdown()
}

// client connects to the process's API socket, which nobody else can reach.
func (p *process) client() *grpc.ClientConn {
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		here, far := net.Pipe()
		return here, p.socket.Hand(ctx, far)
	}
	conn, err := grpc.NewClient("passthrough:///"+p.m.name, grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic("agentsim: client of " + p.m.name + ": " + err.Error())
	}
	return conn
}

func addressOf(network, node int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(network), 0, byte(node + 1)})
}

var _ netgossiptest.Listen = (*process)(nil).listen
