package gossipsim

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// port is the gossip port of every simulated node.
	port = 7946
	// queueSize bounds the packets that wait at one receiver, as a socket buffer does.
	queueSize = 2048
	// synTimeout is the first retransmission timeout of a lost SYN; it doubles.
	synTimeout = time.Second
	// tick is the grain of deliveries. With thousands of nodes it makes one wakeup of
	// thousands; compared with the delays of a network it is nothing.
	tick = 50 * time.Microsecond
)

// Link is what one direction between two nodes does to packets. The zero Link is perfect.
type Link struct {
	Cut       bool     `json:"cut,omitempty"`
	Loss      float64  `json:"loss,omitempty"`      // probability that a packet is lost
	Duplicate float64  `json:"duplicate,omitempty"` // probability that it arrives twice
	Delay     Duration `json:"delay,omitempty"`     // one way
	Jitter    Duration `json:"jitter,omitempty"`    // added to Delay, uniform: packets overtake each other
}

// fabric is all system networks of a simulation: every node has one address on each.
// Nodes are indices, so that a thousand of them and a partition cost an array, not a map
// of a million links.
type fabric struct {
	epoch time.Time

	mu        sync.Mutex
	open      bool // false during the boot: packets vanish, dials are refused
	lans      []lan
	hosts     []host
	queue     deliveries
	seq       uint64
	armed     map[time.Duration]struct{} // ticks that have a timer
	closed    bool
	overflows uint64

	running sync.WaitGroup
}

// lan is one system network.
type lan struct {
	base      Link
	links     map[[2]int]Link // directions that differ from base
	side      []uint8         // different sides of a partition do not reach each other
	mute      []int           // number of faults that keep the node from sending
	deaf      []int           // number of faults that keep it from receiving
	rng       []*rand.Rand    // by sender, so that one node's traffic does not decide another's losses
	endpoints []*endpoint
	traffic   []Traffic
	addrs     []*net.UDPAddr
	streams   map[*stream]struct{}
}

// host is a machine, the same on all networks.
type host struct {
	down bool
	slow pauses
}

// pauses is Lifeguard's model of a starved node: what it sends and receives waits for
// blocked, then passes for open, and so on. The zero value never pauses.
type pauses struct {
	since         time.Duration
	blocked, open time.Duration
}

// release returns when something that is ready at t gets through.
func (p pauses) release(t time.Duration) time.Duration {
	if p.blocked == 0 || t < p.since {
		return t
	}
	if in := (t - p.since) % (p.blocked + p.open); in < p.blocked {
		return t + p.blocked - in
	}
	return t
}

// newFabric starts a fabric that is not open yet. It must be made inside the bubble.
func newFabric(networks, nodes int, seed uint64, base Link) *fabric {
	f := &fabric{
		epoch: time.Now(),
		lans:  make([]lan, networks),
		hosts: make([]host, nodes),
		armed: make(map[time.Duration]struct{}),
	}
	for k := range f.lans {
		l := &f.lans[k]
		*l = lan{
			base: base, links: map[[2]int]Link{}, side: make([]uint8, nodes), mute: make([]int, nodes), deaf: make([]int, nodes),
			rng: make([]*rand.Rand, nodes), endpoints: make([]*endpoint, nodes), traffic: make([]Traffic, nodes),
			addrs: make([]*net.UDPAddr, nodes), streams: map[*stream]struct{}{},
		}
		for i := range nodes {
			l.rng[i] = rand.New(rand.NewPCG(seed, uint64(k)<<32|uint64(i)))
			l.addrs[i] = net.UDPAddrFromAddrPort(netip.AddrPortFrom(addrOf(k, i), port))
		}
	}
	return f
}

// close ends the deliveries; what is under way is lost.
func (f *fabric) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.running.Wait()
}

// addrOf is the address of a node on a network, and nodeAt its inverse.
func addrOf(network, node int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(network), byte(node / 250), byte(node%250 + 1)})
}

func (f *fabric) nodeAt(a netip.Addr) (network, node int, ok bool) {
	if !a.Is4() {
		return 0, 0, false
	}
	b := a.As4()
	network, node = int(b[1]), int(b[2])*250+int(b[3])-1
	return network, node, b[0] == 10 && b[3] > 0 && network < len(f.lans) && node < len(f.hosts)
}

// listen opens the endpoint at an address; it has the shape of swim.Listener.
func (f *fabric) listen(at netip.AddrPort) (memberlist.NodeAwareTransport, error) {
	refuse := func(err error) (memberlist.NodeAwareTransport, error) {
		return nil, &net.OpError{Op: "listen", Net: "udp", Addr: net.UDPAddrFromAddrPort(at), Err: err}
	}
	network, node, ok := f.nodeAt(at.Addr())
	if !ok || at.Port() != port {
		return refuse(syscall.EADDRNOTAVAIL)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lans[network].endpoints[node] != nil {
		return refuse(syscall.EADDRINUSE)
	}
	e := &endpoint{
		fabric: f, network: network, node: node,
		packets: make(chan *memberlist.Packet, queueSize),
		accepts: make(chan net.Conn, 64),
		closed:  make(chan struct{}),
	}
	f.lans[network].endpoints[node] = e
	return e, nil
}

// change applies a change of conditions and breaks the streams that cannot go on. Real
// ones would notice by their deadlines, which only takes longer.
func (f *fabric) change(apply func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	apply()
	for k := range f.lans {
		for s := range f.lans[k].streams {
			if !f.passes(k, s.local, s.remote) || !f.passes(k, s.remote, s.local) {
				delete(f.lans[k].streams, s)
				s.Conn.Close()
			}
		}
	}
}

// now, passes, link and schedule are called with mu held.
func (f *fabric) now() time.Duration { return time.Since(f.epoch) }

// passes reports whether anything at all gets from one node to another.
func (f *fabric) passes(network, from, to int) bool {
	l := &f.lans[network]
	return f.open && l.side[from] == l.side[to] && l.mute[from] == 0 && l.deaf[to] == 0 &&
		!f.hosts[from].down && !f.hosts[to].down && !f.link(network, from, to).Cut
}

func (f *fabric) link(network, from, to int) Link {
	l := &f.lans[network]
	if len(l.links) > 0 {
		if x, ok := l.links[[2]int{from, to}]; ok {
			return x
		}
	}
	return l.base
}

func (l *Link) delay(r *rand.Rand) time.Duration {
	d := time.Duration(l.Delay)
	if l.Jitter > 0 {
		d += time.Duration(r.Int64N(int64(l.Jitter)))
	}
	return d
}

// send decides the fate of a packet. It never blocks.
func (f *fabric) send(network, from, to int, b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &f.lans[network]
	if !f.hosts[from].down && f.open {
		l.traffic[from].packet(b)
	}
	if !f.passes(network, from, to) {
		return
	}
	link, r := f.link(network, from, to), l.rng[from]
	copies := 1
	if link.Duplicate > 0 && r.Float64() < link.Duplicate {
		copies = 2
	}
	for range copies {
		if link.Loss > 0 && r.Float64() < link.Loss {
			continue
		}
		at := f.hosts[from].slow.release(f.now()) + link.delay(r)
		f.schedule(f.hosts[to].slow.release(at), delivery{
			network: network, from: from, to: to, packet: append([]byte(nil), b...),
		})
	}
}

// schedule puts a delivery off to its tick. Each tick that has any gets a timer of its own:
// one timer that is reset to earlier and earlier times would cost the runtime a walk over
// all timers of the bubble each time, and there are tens of thousands.
func (f *fabric) schedule(at time.Duration, d delivery) {
	f.seq++
	d.at, d.seq = (at+tick-1)/tick*tick, f.seq
	f.queue.push(d)
	if _, ok := f.armed[d.at]; !ok {
		f.armed[d.at] = struct{}{}
		time.AfterFunc(d.at-f.now(), f.deliverDue)
	}
}

// deliverDue hands over what is due.
func (f *fabric) deliverDue() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for len(f.queue) > 0 && f.queue[0].at <= now && !f.closed {
		delete(f.armed, f.queue[0].at)
		f.deliver(f.queue.pop())
	}
}

func (f *fabric) deliver(d delivery) {
	e := f.lans[d.network].endpoints[d.to]
	if e == nil || f.hosts[d.to].down {
		return
	}
	if d.stream != nil {
		select {
		case e.accepts <- d.stream:
		default:
			d.stream.abandon()
		}
		return
	}
	p := &memberlist.Packet{Buf: d.packet, From: f.lans[d.network].addrs[d.from], Timestamp: time.Now()}
	select {
	case e.packets <- p:
	default:
		f.overflows++
	}
}

// errNoAnswer says that a SYN or what came back was lost.
var errNoAnswer = errors.New("no answer")

// connect makes one attempt at a stream and says how long the handshake takes.
func (f *fabric) connect(e *endpoint, to int) (*stream, time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &f.lans[e.network]
	switch {
	case l.endpoints[e.node] != e:
		return nil, 0, net.ErrClosed
	case !f.open:
		return nil, 0, syscall.ECONNREFUSED
	}
	l.traffic[e.node].segments(1, 0)
	if !f.passes(e.network, e.node, to) || !f.passes(e.network, to, e.node) {
		return nil, 0, errNoAnswer
	}
	r := l.rng[e.node]
	there, back := f.link(e.network, e.node, to), f.link(e.network, to, e.node)
	if r.Float64() < there.Loss || r.Float64() < back.Loss {
		return nil, 0, errNoAnswer
	}
	if l.endpoints[to] == nil {
		return nil, 0, syscall.ECONNREFUSED
	}
	here, far := net.Pipe()
	s := &stream{Conn: here, fabric: f, network: e.network, local: e.node, remote: to}
	accepted := &stream{Conn: far, fabric: f, network: e.network, local: to, remote: e.node}
	l.streams[s], l.streams[accepted] = struct{}{}, struct{}{}
	l.traffic[e.node].segments(handshake, 0)
	l.traffic[to].segments(handshake, 0)
	rtt := there.delay(r) + back.delay(r)
	at := f.hosts[e.node].slow.release(f.now()) + rtt
	// The kernel of a slow node completes the handshake; its program accepts later.
	f.schedule(f.hosts[to].slow.release(at), delivery{network: e.network, from: e.node, to: to, stream: accepted})
	return s, rtt, nil
}

// hold returns how long a write of n bytes is held up by lost segments and slow hosts,
// and counts it. During the boot nothing is: a table that comes late would find some of those
// it names already suspected.
func (f *fabric) hold(s *stream, n int) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.open {
		return 0
	}
	l := &f.lans[s.network]
	count := (n + segmentSize - 1) / segmentSize
	l.traffic[s.local].segments(count, n)
	l.traffic[s.remote].segments((count+1)/2, 0) // acknowledgements
	now := f.now()
	wait := f.hosts[s.remote].slow.release(f.hosts[s.local].slow.release(now)) - now
	link := f.link(s.network, s.local, s.remote)
	for rto := 200 * time.Millisecond; link.Loss > 0 && wait < 20*time.Second; rto *= 2 {
		lost := false
		for range count {
			lost = lost || l.rng[s.local].Float64() < link.Loss
		}
		if !lost {
			break
		}
		wait, count = wait+rto, 1 // fast retransmit mends all but the last
	}
	return wait
}
