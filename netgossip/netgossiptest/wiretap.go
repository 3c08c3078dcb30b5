package netgossiptest

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// Frame is something recorded on the wire: a packet, or everything that one end of a stream has sent.
type Frame struct {
	From, To netip.AddrPort
	Stream   bool // Data was sent on a stream
	Dialed   bool // From opened the stream
	Data     []byte
}

// Tap calls f with every packet when it is sent, even if it is lost, and, when an end of a stream is closed, with
// everything that this end has sent. f must neither block nor call the network; nil ends the tap.
func (n *Network) Tap(f func(Frame)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tap = f
}

// Inject delivers a packet as if it came from an address, regardless of the links: an attacker on the receiver's wire
// can do that.
func (n *Network) Inject(from, to netip.AddrPort, b []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deliver(&delivery{to: to, packet: &memberlist.Packet{Buf: slices.Clone(b), From: net.UDPAddrFromAddrPort(from)}})
}

// InjectStream opens a stream as if it came from an address, regardless of the links.
func (n *Network) InjectStream(from, to netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	dst := n.endpoints[to]
	if dst == nil {
		return nil, fmt.Errorf("inject a stream to %s: %w", to, syscall.ECONNREFUSED)
	}
	here, far := net.Pipe()
	accepted := &stream{Conn: far, network: n, local: to, remote: from}
	select {
	case dst.accepts <- accepted:
		n.streams[accepted] = struct{}{}
		return here, nil
	default:
		here.Close()
		far.Close()
		return nil, fmt.Errorf("inject a stream to %s: %w", to, syscall.EAGAIN)
	}
}

// Write sends when the conditions allow it, and records the sent bytes for a Tap.
func (s *stream) Write(b []byte) (int, error) {
	s.network.mu.Lock()
	wait := s.network.conditions.Write(s.local.Addr(), s.remote.Addr(), len(b))
	s.network.mu.Unlock()
	if wait > 0 {
		time.Sleep(wait)
	}
	n, err := s.Conn.Write(b)
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	if s.network.tap != nil {
		s.sent = append(s.sent, b[:n]...)
	}
	return n, err
}
