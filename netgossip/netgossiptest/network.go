package netgossiptest

import (
	"math/rand/v2"
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

// Link is the state of one direction between two addresses. The zero Link is perfect.
type Link struct {
	Cut    bool
	Loss   float64       // probability that a packet is lost
	Delay  time.Duration // one way
	Jitter time.Duration // added to Delay, uniform; packets may overtake each other
}

// Traffic counts what an endpoint sent, without the headers of IP and UDP.
type Traffic struct{ Packets, Bytes uint64 }

type direction struct{ from, to netip.Addr }

// Network is one network in memory. Addresses are never shared between networks: make
// one for each SystemNetwork.
type Network struct {
	mu        sync.Mutex
	rand      *rand.Rand
	base      Link
	links     map[direction]Link
	endpoints map[netip.AddrPort]*endpoint
	streams   map[*stream]struct{}
	overflows uint64
	tap       func(Frame)
}

// NewNetwork returns a network without loss and delay; seed decides what gets lost later.
func NewNetwork(seed uint64) *Network {
	return &Network{
		rand:      rand.New(rand.NewPCG(seed, 0)),
		links:     make(map[direction]Link),
		endpoints: make(map[netip.AddrPort]*endpoint),
		streams:   make(map[*stream]struct{}),
	}
}

// Listen opens an endpoint; it has the shape that [Listen] names.
func (n *Network) Listen(at netip.AddrPort) (memberlist.NodeAwareTransport, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.endpoints[at] != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Addr: net.UDPAddrFromAddrPort(at), Err: syscall.EADDRINUSE}
	}
	e := &endpoint{
		network: n,
		at:      at,
		packets: make(chan *memberlist.Packet, queueSize),
		accepts: make(chan net.Conn, 64),
		closed:  make(chan struct{}),
	}
	n.endpoints[at] = e
	return e, nil
}

// SetAll replaces the state of all links that have none of their own.
func (n *Network) SetAll(l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.base = l
	n.breakStreams()
}

// SetLink replaces the state of one direction.
func (n *Network) SetLink(from, to netip.Addr, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[direction{from, to}] = l
	n.breakStreams()
}

// Cut blocks one direction and keeps its loss and delay for when it heals.
func (n *Network) Cut(from, to netip.Addr) { n.setCut(true, direction{from, to}) }

// CutBoth blocks both directions.
func (n *Network) CutBoth(a, b netip.Addr) { n.setCut(true, direction{a, b}, direction{b, a}) }

// Partition blocks every link between addresses of different groups.
func (n *Network) Partition(groups ...[]netip.Addr) {
	var cut []direction
	for i, g := range groups {
		for _, h := range groups[i+1:] {
			for _, a := range g {
				for _, b := range h {
					cut = append(cut, direction{a, b}, direction{b, a})
				}
			}
		}
	}
	n.setCut(true, cut...)
}

// Heal undoes all cuts.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.base.Cut = false
	for d, l := range n.links {
		l.Cut = false
		n.links[d] = l
	}
}

// Sent returns what the endpoint at the address sent since it was opened.
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

func (n *Network) setCut(cut bool, ds ...direction) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range ds {
		l := n.link(d)
		l.Cut = cut
		n.links[d] = l
	}
	n.breakStreams()
}

// link, breakStreams, lose and delay are called with mu held.
func (n *Network) link(d direction) Link {
	if l, ok := n.links[d]; ok {
		return l
	}
	return n.base
}

func (n *Network) breakStreams() {
	for s := range n.streams {
		a, b := s.local.Addr(), s.remote.Addr()
		if n.link(direction{a, b}).Cut || n.link(direction{b, a}).Cut {
			delete(n.streams, s)
			s.Conn.Close()
		}
	}
}

func (n *Network) lose(l Link) bool { return l.Cut || (l.Loss > 0 && n.rand.Float64() < l.Loss) }

func (n *Network) delay(l Link) time.Duration {
	d := l.Delay
	if l.Jitter > 0 {
		d += time.Duration(n.rand.Int64N(int64(l.Jitter)))
	}
	return d
}

// send decides the fate of one packet and delivers it now or after its delay.
func (n *Network) send(e *endpoint, to netip.AddrPort, b []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e.sent.Packets++
	e.sent.Bytes += uint64(len(b))
	if n.tap != nil {
		n.tap(Frame{From: e.at, To: to, Data: append([]byte(nil), b...)})
	}
	l := n.link(direction{e.at.Addr(), to.Addr()})
	if n.lose(l) {
		return
	}
	p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(e.at)}
	if d := n.delay(l); d > 0 {
		time.AfterFunc(d, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.deliver(to, p)
		})
		return
	}
	n.deliver(to, p)
}

// deliver is called with mu held, so that no packet arrives at an endpoint that is shut.
func (n *Network) deliver(to netip.AddrPort, p *memberlist.Packet) {
	e := n.endpoints[to]
	if e == nil {
		return
	}
	p.Timestamp = time.Now()
	select {
	case e.packets <- p:
	default:
		n.overflows++
	}
}

// connect makes one attempt at a stream. wait is how long the handshake takes, or how
// long until the next attempt if no stream came of it.
func (n *Network) connect(e *endpoint, to netip.AddrPort, retry time.Duration) (s *stream, wait time.Duration, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	refuse := func(cause error) (*stream, time.Duration, error) {
		return nil, 0, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: cause}
	}
	if n.endpoints[e.at] != e {
		return refuse(net.ErrClosed)
	}
	there, back := n.link(direction{e.at.Addr(), to.Addr()}), n.link(direction{to.Addr(), e.at.Addr()})
	if n.lose(there) || n.lose(back) {
		return nil, retry, nil
	}
	dst := n.endpoints[to]
	if dst == nil {
		return refuse(syscall.ECONNREFUSED)
	}
	here, far := net.Pipe()
	s = &stream{Conn: here, network: n, local: e.at, remote: to, dialed: true}
	accepted := &stream{Conn: far, network: n, local: to, remote: e.at}
	select {
	case dst.accepts <- accepted:
	default:
		return nil, retry, nil // a full backlog drops the SYN
	}
	n.streams[s], n.streams[accepted] = struct{}{}, struct{}{}
	return s, n.delay(there) + n.delay(back), nil
}
