package netgossiptest

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// queueSize bounds the packets that wait at one receiver. A socket buffer of memberlist's
// size holds some thousand small packets.
const queueSize = 2048

// synTimeout is the first retransmission timeout of a lost SYN; it doubles.
const synTimeout = time.Second

// Listen opens the packet and stream transport of one instance; it has the shape of
// swim.Listener.
type Listen = func(netip.AddrPort) (memberlist.NodeAwareTransport, error)

// Traffic counts what an endpoint sent, without the headers of IP and UDP.
type Traffic struct{ Packets, Bytes uint64 }

// ErrNoAnswer reports that a SYN, or the reply to it, was lost: the SYN is sent again.
var ErrNoAnswer = errors.New("no answer")

// Conditions decide what happens to packets on a Network, instead of its links. They are called with the Network's lock
// held, and must neither block nor call the Network.
type Conditions interface {
	// Packet appends, for each copy of a packet that arrives, how long it takes; none: the packet is lost.
	Packet(arrivals []time.Duration, from, to netip.Addr, b []byte) []time.Duration
	// Receives reports whether there is still a receiver for packets under way.
	Receives(at netip.Addr) bool
	// Dial returns how long the handshake of a stream takes, and after how long the other side has the stream.
	// listening reports whether the other side listens.
	Dial(from, to netip.Addr, listening bool) (handshake, accepted time.Duration, err error)
	// Write returns how long a write of n bytes on a stream is delayed.
	Write(from, to netip.Addr, n int) time.Duration
	// Passes reports whether anything at all gets through in one direction: a stream needs both.
	Passes(from, to netip.Addr) bool
}

// Network is one network in memory. Addresses are never shared between networks: create one Network for each
// SystemNetwork.
type Network struct {
	conditions Conditions
	grain      time.Duration // deliveries are delayed to multiples of it
	epoch      time.Time

	mu        sync.Mutex
	links     *links // the conditions, unless other Conditions were given
	endpoints map[netip.AddrPort]*endpoint
	streams   map[*stream]struct{}
	queue     deliveries
	seq       uint64
	armed     map[time.Duration]struct{} // times that have a timer
	arrivals  []time.Duration
	overflows uint64
	lost      uint64
	tap       func(Frame)
}

// NewNetwork returns a network without loss and delay; seed decides what gets lost later.
func NewNetwork(seed uint64) *Network {
	l := newLinks(seed)
	n := NewNetworkUnder(l, 0)
	n.links = l
	return n
}

// NewNetworkUnder returns a network under conditions that are not those of its links. Deliveries are delayed to a
// multiple of grain: with thousands of nodes this merges thousands of wakeups into one.
func NewNetworkUnder(c Conditions, grain time.Duration) *Network {
	return &Network{
		conditions: c, grain: grain, epoch: time.Now(),
		endpoints: make(map[netip.AddrPort]*endpoint), streams: make(map[*stream]struct{}), armed: make(map[time.Duration]struct{}),
	}
}

// Listen opens an endpoint; it is a [Listen] function.
func (n *Network) Listen(at netip.AddrPort) (memberlist.NodeAwareTransport, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.endpoints[at] != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Addr: net.UDPAddrFromAddrPort(at), Err: syscall.EADDRINUSE}
	}
	e := &endpoint{
		network: n,
		at:      at,
		udp:     net.UDPAddrFromAddrPort(at),
		packets: make(chan *memberlist.Packet, queueSize),
		accepts: make(chan net.Conn, 64),
		closed:  make(chan struct{}),
	}
	n.endpoints[at] = e
	return e, nil
}

// Sent returns the traffic that the endpoint at the address has sent since it was opened.
func (n *Network) Sent(at netip.AddrPort) Traffic {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.endpoints[at]; e != nil {
		return e.sent
	}
	return Traffic{}
}

// Overflows counts packets that were lost to full queues.
func (n *Network) Overflows() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.overflows
}

// Lost counts packets and attempts at a stream that did not get through.
func (n *Network) Lost() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost
}

// Recheck breaks the streams that cannot go on because conditions have changed. Real streams would notice at their
// deadlines, which only takes longer.
func (n *Network) Recheck() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.breakStreams()
}

// breakStreams is called with mu held.
func (n *Network) breakStreams() {
	for s := range n.streams {
		a, b := s.local.Addr(), s.remote.Addr()
		if !n.conditions.Passes(a, b) || !n.conditions.Passes(b, a) {
			delete(n.streams, s)
			s.Conn.Close()
		}
	}
}

// send decides the fate of one packet. It never blocks.
func (n *Network) send(e *endpoint, to netip.AddrPort, b []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e.sent.Packets++
	e.sent.Bytes += uint64(len(b))
	if n.tap != nil {
		n.tap(Frame{From: e.at, To: to, Data: append([]byte(nil), b...)})
	}
	n.arrivals = n.conditions.Packet(n.arrivals[:0], e.at.Addr(), to.Addr(), b)
	if len(n.arrivals) == 0 {
		n.lost++
	}
	for _, after := range n.arrivals {
		n.schedule(after, delivery{to: to, packet: &memberlist.Packet{Buf: append([]byte(nil), b...), From: e.udp}})
	}
}

// connect makes one attempt at a stream. wait is how long the handshake takes, or how long to wait before the next
// attempt if there is no stream.
func (n *Network) connect(e *endpoint, to netip.AddrPort, retry time.Duration) (s *stream, wait time.Duration, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	refuse := func(cause error) (*stream, time.Duration, error) {
		return nil, 0, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: cause}
	}
	if n.endpoints[e.at] != e {
		return refuse(net.ErrClosed)
	}
	dst := n.endpoints[to]
	handshake, accepted, err := n.conditions.Dial(e.at.Addr(), to.Addr(), dst != nil)
	switch {
	case errors.Is(err, ErrNoAnswer):
		n.lost++
		return nil, retry, nil
	case err != nil:
		return refuse(err)
	}
	if accepted <= 0 && len(dst.accepts) == cap(dst.accepts) {
		return nil, retry, nil // a full backlog drops the SYN
	}
	here, far := net.Pipe()
	s = &stream{Conn: here, network: n, local: e.at, remote: to, dialed: true}
	in := &stream{Conn: far, network: n, local: to, remote: e.at}
	n.streams[s], n.streams[in] = struct{}{}, struct{}{}
	n.schedule(accepted, delivery{to: to, stream: in})
	return s, handshake, nil
}
