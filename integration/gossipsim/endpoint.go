package gossipsim

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// endpoint is one node on one network.
type endpoint struct {
	fabric        *fabric
	network, node int
	packets       chan *memberlist.Packet
	accepts       chan net.Conn
	closed        chan struct{}
	once          sync.Once
}

var _ memberlist.NodeAwareTransport = (*endpoint)(nil)

// FinalAdvertiseAddr returns the endpoint's own address, whatever is asked for.
func (e *endpoint) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return addrOf(e.network, e.node).AsSlice(), port, nil
}

// WriteTo sends a packet and never blocks. What goes to nobody vanishes.
func (e *endpoint) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, fmt.Errorf("write: %w", err)
	}
	select {
	case <-e.closed:
		return time.Time{}, fmt.Errorf("write %s: %w", to, net.ErrClosed)
	default:
	}
	if network, node, ok := e.fabric.nodeAt(to.Addr()); ok && network == e.network && to.Port() == port {
		e.fabric.send(network, e.node, node, b)
	}
	return time.Now(), nil
}

// WriteToAddress sends to the address; the name is of no interest.
func (e *endpoint) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return e.WriteTo(b, a.Addr)
}

// PacketCh yields received packets. It is never closed.
func (e *endpoint) PacketCh() <-chan *memberlist.Packet { return e.packets }

// StreamCh yields accepted streams. It is never closed.
func (e *endpoint) StreamCh() <-chan net.Conn { return e.accepts }

// DialTimeout opens a stream, repeating lost SYNs until the timeout.
func (e *endpoint) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) { return nil, fmt.Errorf("dial %s: %w", addr, err) }
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return fail(err)
	}
	network, node, ok := e.fabric.nodeAt(to.Addr())
	if !ok || network != e.network {
		return fail(net.UnknownNetworkError(addr))
	}
	expired := time.NewTimer(timeout)
	defer expired.Stop()
	for retry := synTimeout; ; retry *= 2 {
		s, wait, err := e.fabric.connect(e, node)
		if err != nil && !errors.Is(err, errNoAnswer) {
			return fail(err)
		}
		if s == nil {
			wait = retry
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
			if s == nil {
				continue
			}
			return s, nil
		case <-expired.C:
			err = os.ErrDeadlineExceeded
		case <-e.closed:
			err = net.ErrClosed
		}
		pause.Stop()
		if s != nil {
			s.Close()
		}
		return fail(err)
	}
}

// DialAddressTimeout is DialTimeout to the address.
func (e *endpoint) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return e.DialTimeout(a.Addr, timeout)
}

// Shutdown frees the address and breaks the endpoint's streams.
func (e *endpoint) Shutdown() error {
	e.once.Do(func() {
		close(e.closed)
		e.fabric.mu.Lock()
		defer e.fabric.mu.Unlock()
		l := &e.fabric.lans[e.network]
		l.endpoints[e.node] = nil
		for s := range l.streams {
			if s.local == e.node || s.remote == e.node {
				delete(l.streams, s)
				s.Conn.Close()
			}
		}
	})
	return nil
}

// stream is one end of a connection; both ends are registered until they are closed.
type stream struct {
	net.Conn
	fabric        *fabric
	network       int
	local, remote int // nodes
}

func (s *stream) LocalAddr() net.Addr  { return s.addr(s.local) }
func (s *stream) RemoteAddr() net.Addr { return s.addr(s.remote) }

func (s *stream) addr(node int) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(addrOf(s.network, node), port))
}

func (s *stream) Write(b []byte) (int, error) {
	if wait := s.fabric.hold(s, len(b)); wait > 0 {
		time.Sleep(wait)
	}
	return s.Conn.Write(b)
}

func (s *stream) Close() error {
	s.fabric.mu.Lock()
	s.abandon()
	s.fabric.mu.Unlock()
	return nil
}

// abandon closes the stream; the fabric's mu is held.
func (s *stream) abandon() {
	delete(s.fabric.lans[s.network].streams, s)
	s.Conn.Close()
}

// delivery is a packet or a stream under way.
type delivery struct {
	at                time.Duration
	seq               uint64 // orders what arrives in the same tick
	network, from, to int
	packet            []byte
	stream            *stream
}

func (d *delivery) before(o *delivery) bool {
	return d.at < o.at || d.at == o.at && d.seq < o.seq
}

// deliveries is a binary heap by time. It is written out because container/heap would
// allocate for each packet.
type deliveries []delivery

func (q *deliveries) push(d delivery) {
	h := append(*q, d)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	*q = h
}

func (q *deliveries) pop() delivery {
	h := *q
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h[last] = delivery{}
	h = h[:last]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*q = h
	return top
}
