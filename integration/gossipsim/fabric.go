package gossipsim

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
)

const (
	// port is the gossip port of every simulated node.
	port = 7946
	// tick is the resolution of deliveries. With thousands of nodes it turns thousands of wakeups into one; compared
	// with the delays of a network it is negligible.
	tick = 50 * time.Microsecond
)

// Link is the treatment of packets in one direction between two nodes. The zero Link is perfect.
type Link struct {
	Cut       bool
	Loss      float64       // probability that a packet is lost
	Duplicate float64       // probability that a packet arrives twice
	Delay     time.Duration // one way
	Jitter    time.Duration // random part of the delay, uniform, added to Delay: packets can overtake each other
}

// fabric contains all system networks of a simulation; every node has one address on each. Nodes are indices, so that a
// thousand nodes and a partition need only an array, and not a map of a million links.
type fabric struct {
	epoch time.Time
	nets  []*netgossiptest.Network // under the conditions of lans; their locks are taken before mu

	mu     sync.Mutex
	open   bool // false during the boot: packets vanish, dials are refused
	lans   []lan
	hosts  []host
	closed bool
	tapped func(network, from, to int, packet []byte) // called for each packet that gets through; may be nil

	running sync.WaitGroup
}

// lan contains the conditions of one system network. The fabric's mu guards it.
type lan struct {
	fabric  *fabric
	network int
	base    Link
	links   map[[2]int]Link // directions whose link differs from base
	side    []uint8         // by node: nodes on different sides of a partition do not reach each other
	mute    []int           // by node: the number of faults that prevent it from sending
	deaf    []int           // by node: the number of faults that prevent it from receiving
	// There is one source for each sender, so that one node's traffic does not affect another one's losses.
	rng     []*rand.Rand
	traffic []Traffic
}

var _ netgossiptest.Conditions = (*lan)(nil)

// host is a machine, which is the same on all networks.
type host struct {
	down bool
	slow pauses
}

// pauses is Lifeguard's model of a starved node: what it sends and receives waits for blocked, then passes for open,
// and so on. The zero value never pauses.
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

// newFabric starts a fabric that is not open yet. Call it inside the bubble.
func newFabric(networks, nodes int, seed uint64, base Link) *fabric {
	f := &fabric{epoch: time.Now(), lans: make([]lan, networks), hosts: make([]host, nodes)}
	for k := range f.lans {
		l := &f.lans[k]
		*l = lan{
			fabric: f, network: k, base: base, links: map[[2]int]Link{}, side: make([]uint8, nodes), mute: make([]int, nodes), deaf: make([]int, nodes),
			rng: make([]*rand.Rand, nodes), traffic: make([]Traffic, nodes),
		}
		for i := range nodes {
			l.rng[i] = rand.New(rand.NewPCG(seed, uint64(k)<<32|uint64(i)))
		}
		f.nets = append(f.nets, netgossiptest.NewNetworkUnder(l, tick))
	}
	return f
}

// close ends the deliveries; packets under way are lost.
func (f *fabric) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.running.Wait()
}

// addrOf returns the address of a node on a network, and nodeAt is its inverse.
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
	network, _, ok := f.nodeAt(at.Addr())
	if !ok || at.Port() != port {
		return refuse(syscall.EADDRNOTAVAIL)
	}
	return f.nets[network].Listen(at)
}

// change applies a change of conditions and breaks the streams that can no longer continue.
func (f *fabric) change(apply func()) {
	f.mu.Lock()
	apply()
	f.mu.Unlock()
	for _, n := range f.nets {
		n.Recheck()
	}
}

// overflows counts the packets that found their receiver's queue full.
func (f *fabric) overflows() (lost uint64) {
	for _, n := range f.nets {
		lost += n.Overflows()
	}
	return lost
}

// The callers of now, passes and link hold mu.
func (f *fabric) now() time.Duration { return time.Since(f.epoch) }

// passes reports whether any packet passes from one node to another.
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
	d := l.Delay
	if l.Jitter > 0 {
		d += time.Duration(r.Int64N(int64(l.Jitter)))
	}
	return d
}

// nodes returns the nodes at two addresses of this network.
func (l *lan) nodes(a, b netip.Addr) (from, to int, ok bool) {
	i, from, ok1 := l.fabric.nodeAt(a)
	k, to, ok2 := l.fabric.nodeAt(b)
	return from, to, ok1 && ok2 && i == l.network && k == l.network
}

// Packet implements netgossiptest.Conditions.
func (l *lan) Packet(arrivals []time.Duration, a, b netip.Addr, packet []byte) []time.Duration {
	f := l.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	from, to, ok := l.nodes(a, b)
	if !ok {
		return arrivals
	}
	if !f.hosts[from].down && f.open {
		l.traffic[from].packet(packet)
	}
	if !f.passes(l.network, from, to) {
		return arrivals
	}
	if f.tapped != nil {
		f.tapped(l.network, from, to, packet)
	}
	link, r, now := f.link(l.network, from, to), l.rng[from], f.now()
	copies := 1
	if link.Duplicate > 0 && r.Float64() < link.Duplicate {
		copies = 2
	}
	for range copies {
		if link.Loss > 0 && r.Float64() < link.Loss {
			continue
		}
		at := f.hosts[from].slow.release(now) + link.delay(r)
		arrivals = append(arrivals, f.hosts[to].slow.release(at)-now)
	}
	return arrivals
}

// Receives implements netgossiptest.Conditions.
func (l *lan) Receives(at netip.Addr) bool {
	l.fabric.mu.Lock()
	defer l.fabric.mu.Unlock()
	_, node, ok := l.fabric.nodeAt(at)
	return ok && !l.fabric.closed && !l.fabric.hosts[node].down
}

// Passes implements netgossiptest.Conditions.
func (l *lan) Passes(a, b netip.Addr) bool {
	l.fabric.mu.Lock()
	defer l.fabric.mu.Unlock()
	from, to, ok := l.nodes(a, b)
	return ok && l.fabric.passes(l.network, from, to)
}

// Dial implements netgossiptest.Conditions.
func (l *lan) Dial(a, b netip.Addr, listening bool) (handshakes, accepted time.Duration, err error) {
	f := l.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	from, to, ok := l.nodes(a, b)
	if !ok {
		return 0, 0, net.UnknownNetworkError(b.String())
	}
	if !f.open {
		return 0, 0, syscall.ECONNREFUSED
	}
	l.traffic[from].segments(1, 0)
	if !f.passes(l.network, from, to) || !f.passes(l.network, to, from) {
		return 0, 0, netgossiptest.ErrNoAnswer
	}
	r, there, back := l.rng[from], f.link(l.network, from, to), f.link(l.network, to, from)
	if r.Float64() < there.Loss || r.Float64() < back.Loss {
		return 0, 0, netgossiptest.ErrNoAnswer
	}
	if !listening {
		return 0, 0, syscall.ECONNREFUSED
	}
	l.traffic[from].segments(handshake, 0)
	l.traffic[to].segments(handshake, 0)
	rtt, now := there.delay(r)+back.delay(r), f.now()
	// The kernel of a slow node completes the handshake at once; its program accepts the stream later.
	return rtt, f.hosts[to].slow.release(f.hosts[from].slow.release(now)+rtt) - now, nil
}

// Write implements netgossiptest.Conditions: lost segments and slow hosts delay a write. The write is counted. During
// the boot nothing is delayed: a table that arrives late would find some of its nodes already suspected.
func (l *lan) Write(a, b netip.Addr, n int) time.Duration {
	f := l.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	local, remote, ok := l.nodes(a, b)
	if !ok || !f.open {
		return 0
	}
	count := (n + segmentSize - 1) / segmentSize
	l.traffic[local].segments(count, n)
	l.traffic[remote].segments((count+1)/2, 0) // the acknowledgements
	now := f.now()
	wait := f.hosts[remote].slow.release(f.hosts[local].slow.release(now)) - now
	link := f.link(l.network, local, remote)
	for rto := 200 * time.Millisecond; link.Loss > 0 && wait < 20*time.Second; rto *= 2 {
		lost := false
		for range count {
			lost = lost || l.rng[local].Float64() < link.Loss
		}
		if !lost {
			break
		}
		// Fast retransmit repairs all but the last one.
		wait, count = wait+rto, 1
	}
	return wait
}
