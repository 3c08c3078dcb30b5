package netgossiptest

import (
	"math/rand/v2"
	"net/netip"
	"syscall"
	"time"
)

// Link is the state of one direction between two addresses. The zero Link is perfect.
type Link struct {
	Cut    bool
	Loss   float64       // probability that a packet is lost
	Delay  time.Duration // one way
	Jitter time.Duration // added to Delay, uniform; packets may overtake each other
}

type direction struct{ from, to netip.Addr }

// links holds the conditions of a Network without other Conditions: one Link for each direction.
type links struct {
	rand *rand.Rand
	base Link
	own  map[direction]Link // those that differ from base
}

var _ Conditions = (*links)(nil)

func newLinks(seed uint64) *links {
	return &links{rand: rand.New(rand.NewPCG(seed, 0)), own: make(map[direction]Link)}
}

func (l *links) of(d direction) Link {
	if own, ok := l.own[d]; ok {
		return own
	}
	return l.base
}

func (l *links) lose(x Link) bool { return x.Cut || (x.Loss > 0 && l.rand.Float64() < x.Loss) }

func (l *links) delay(x Link) time.Duration {
	d := x.Delay
	if x.Jitter > 0 {
		d += time.Duration(l.rand.Int64N(int64(x.Jitter)))
	}
	return d
}

// Packet implements Conditions.
func (l *links) Packet(arrivals []time.Duration, from, to netip.Addr, _ []byte) []time.Duration {
	x := l.of(direction{from, to})
	if l.lose(x) {
		return arrivals
	}
	return append(arrivals, l.delay(x))
}

// Dial implements Conditions. The other side has a stream at once.
func (l *links) Dial(from, to netip.Addr, listening bool) (handshake, accepted time.Duration, err error) {
	there, back := l.of(direction{from, to}), l.of(direction{to, from})
	switch {
	case l.lose(there) || l.lose(back):
		return 0, 0, ErrNoAnswer
	case !listening:
		return 0, 0, syscall.ECONNREFUSED
	}
	return l.delay(there) + l.delay(back), 0, nil
}

// Receives implements Conditions.
func (l *links) Receives(netip.Addr) bool { return true }

// Write implements Conditions.
func (l *links) Write(netip.Addr, netip.Addr, int) time.Duration { return 0 }

// Passes implements Conditions.
func (l *links) Passes(from, to netip.Addr) bool { return !l.of(direction{from, to}).Cut }

// SetAll replaces the state of all links that were not set by SetLink or a cut.
func (n *Network) SetAll(l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links.base = l
	n.breakStreams()
}

// SetLink replaces the state of one direction.
func (n *Network) SetLink(from, to netip.Addr, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links.own[direction{from, to}] = l
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
	n.links.base.Cut = false
	for d, l := range n.links.own {
		l.Cut = false
		n.links.own[d] = l
	}
}

func (n *Network) setCut(cut bool, ds ...direction) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range ds {
		l := n.links.of(d)
		l.Cut = cut
		n.links.own[d] = l
	}
	n.breakStreams()
}
