package netgossiptest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

type endpoint struct {
	network *Network
	at      netip.AddrPort
	udp     *net.UDPAddr // the same address
	packets chan *memberlist.Packet
	accepts chan net.Conn
	closed  chan struct{}
	once    sync.Once
	sent    Traffic // guarded by network.mu
}

var _ memberlist.NodeAwareTransport = (*endpoint)(nil)

// FinalAdvertiseAddr returns the endpoint's own address and ignores its arguments.
func (e *endpoint) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return e.at.Addr().AsSlice(), int(e.at.Port()), nil
}

// WriteTo sends a packet and never blocks.
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
	e.network.send(e, to, b)
	return time.Now(), nil
}

// WriteToAddress sends to the address; the name is not used.
func (e *endpoint) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return e.WriteTo(b, a.Addr)
}

// PacketCh yields received packets. It is never closed.
func (e *endpoint) PacketCh() <-chan *memberlist.Packet { return e.packets }

// StreamCh yields accepted streams. It is never closed.
func (e *endpoint) StreamCh() <-chan net.Conn { return e.accepts }

// DialTimeout opens a stream, waiting for lost SYNs until the timeout.
func (e *endpoint) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	expired := time.NewTimer(timeout)
	defer expired.Stop()
	for retry := synTimeout; ; retry *= 2 {
		s, wait, err := e.network.connect(e, to, retry)
		if err != nil {
			return nil, err
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
			if s != nil {
				return s, nil
			}
			continue
		case <-expired.C:
			err = os.ErrDeadlineExceeded
		case <-e.closed:
			err = net.ErrClosed
		}
		pause.Stop()
		if s != nil {
			s.Close()
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
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
		n := e.network
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.endpoints, e.at)
		for s := range n.streams {
			if s.local == e.at || s.remote == e.at {
				delete(n.streams, s)
				s.Conn.Close()
			}
		}
	})
	return nil
}

// stream is one end of a connection; both ends are registered until they are closed.
type stream struct {
	net.Conn
	network       *Network
	local, remote netip.AddrPort
	dialed        bool
	sent          []byte // for a Tap, guarded by network.mu
}

func (s *stream) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(s.local) }
func (s *stream) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(s.remote) }

func (s *stream) Close() error {
	s.network.mu.Lock()
	delete(s.network.streams, s)
	if s.network.tap != nil && len(s.sent) > 0 {
		s.network.tap(Frame{From: s.local, To: s.remote, Stream: true, Dialed: s.dialed, Data: s.sent})
		s.sent = nil
	}
	s.network.mu.Unlock()
	return s.Conn.Close()
}
