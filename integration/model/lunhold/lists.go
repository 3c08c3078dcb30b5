package lunhold

import (
	"fmt"
	"math/bits"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// lists contains the lists that a node uses: bits 0 to 2 are its chain, the first of which is in force; bits 3 to 5 are
// the list that it has stored and not yet taken up. A fresh node knows of no list in force.
type lists uint8

const (
	maxLists       = 3
	chain    lists = 1<<maxLists - 1
	fresh    lists = 1 << (2 * maxLists)
)

func (l lists) holds(k int) bool { return l>>k&1 == 1 }
func (l lists) offer() int       { return bits.TrailingZeros8(uint8(l>>maxLists&chain | 1<<maxLists)) } // maxLists stands for none
func (l lists) base() int        { return bits.TrailingZeros8(uint8(l & chain)) }
func (l lists) top() int         { return bits.Len8(uint8(l&chain)) - 1 }
func (l lists) one() bool        { return l&chain&(l&chain-1) == 0 && l&chain != 0 && l&fresh == 0 }
func (l lists) just(k int) bool  { return l&(chain|fresh) == 1<<k }

// again returns the lists that a restarted node uses: what it has stored counts as taken up.
func (l lists) again() lists {
	if k := l.offer(); k < maxLists && l&fresh == 0 {
		return l&chain | 1<<k
	}
	return l
}

func (l lists) String() string {
	text := fmt.Sprintf("lists %03b", uint8(l&chain))
	if k := l.offer(); k < maxLists {
		text += fmt.Sprintf(" has %d", k)
	}
	if l&fresh != 0 {
		text += " fresh"
	}
	return text
}

// quorate reports whether a set has a majority of each list.
func (m *Model) quorate(view Set, by lists) bool {
	if by&fresh != 0 {
		return false
	}
	for k, l := range m.Lists {
		if by.holds(k) && 2*(view&l).Len() <= l.Len() {
			return false
		}
	}
	return true
}

// tied reports an equal split, which is a minority while there are several lists.
func (m *Model) tied(view Set, by lists) bool {
	if !by.one() {
		return false
	}
	l := m.Lists[by.base()]
	return 2*(view&l).Len() == l.Len()
}

// listed reports whether a node uses only one list, and that list contains all of a set.
func (m *Model) listed(by lists, set Set) bool {
	return by.one() && set&^m.Lists[by.base()] == 0
}

// removed reports whether the list in force does not contain x.
func (m *Model) removed(n *Node, x int) bool { return n.lists.one() && !m.Lists[n.lists.base()].Has(x) }

// countable returns the nodes of a set that use only lists among mine. Lists before the base are settled.
func (m *Model) countable(s *State, x int, set Set, mine lists) Set {
	for y := range m.Size {
		if y == x || !set.Has(y) {
			continue
		}
		theirs := s.nodes[x].ears[y].lists
		others := theirs & chain &^ mine
		if theirs&fresh == 0 {
			others &^= 1<<mine.base() - 1
		}
		if others != 0 {
			set &^= search.Of(y)
		}
	}
	return set
}

// mayHold and alike check what H1 requires of lists: x uses one list, and the nodes of S reported that they use only
// that one.
func (m *Model) mayHold(mine lists) bool {
	return mine.one() || m.JointHold && mine&fresh == 0
}

func (m *Model) alike(mine, theirs lists) bool {
	switch {
	case m.AnyList:
		return true
	case theirs&fresh != 0:
		return false
	case m.JointHold:
		return theirs&chain&^mine&^(1<<mine.base()-1) == 0
	default:
		return theirs&chain == mine&chain
	}
}

// store stores a list, so that it can be taken up.
func (m *Model) store(n *Node, k int) bool {
	if k <= n.lists.top() || k == n.lists.offer() || n.lists&fresh != 0 {
		return false
	}
	n.lists = n.lists&(chain|fresh) | 1<<(maxLists+k)
	return true
}

// rebase puts a list into force and drops all earlier ones.
func (n *Node) rebase(k int) {
	l := n.lists&chain&^(1<<k-1) | 1<<k
	if o := n.lists.offer(); o < maxLists && o > k {
		l |= 1 << (maxLists + o)
	}
	n.lists = l
}

// follow advances the lists of x as far as its information allows (docs/adr/0009).
func (m *Model) follow(s *State, x int) {
	n := &s.nodes[x]
	if len(m.Lists) == 1 {
		return
	}
	before := n.lists & (chain | fresh)
	peers := m.contact(s, x)
	m.learn(s, x, peers)
	for m.adopt(s, x, peers) || m.takeUp(s, x, peers) || m.settle(s, x, peers) {
	}
	if n.lists&(chain|fresh) == before {
		return
	}
	if !m.NoDoubt {
		n.unseen = [maxSize]uint8{}
	}
	if !m.HoldOver {
		n.hold = 0
	}
}

// learn stores a list that a peer uses: preferably one that is in force, and otherwise one that is taken up.
func (m *Model) learn(s *State, x int, peers Set) {
	n := &s.nodes[x]
	if m.Stays.Has(x) {
		return
	}
	best, forced := -1, false
	for y := range m.Size {
		l := s.nodes[x].ears[y].lists
		if y == x || !peers.Has(y) || l&fresh != 0 {
			continue
		}
		for k := l.base(); k <= l.top(); k++ {
			in := k == l.base()
			if l.holds(k) && k > n.lists.base() && !n.lists.holds(k) && (best < 0 || in && !forced || in == forced && k > best) {
				best, forced = k, in
			}
		}
	}
	if best >= 0 {
		n.lists = n.lists&(chain|fresh) | 1<<(maxLists+best)
	}
}

// adopt drops what is settled: a peer reports that a later list is in force, or the list for which this fresh node
// waits.
func (m *Model) adopt(s *State, x int, peers Set) bool {
	n := &s.nodes[x]
	for y := range m.Size {
		l := n.ears[y].lists
		if k := l.base(); y != x && peers.Has(y) && l&fresh == 0 && (k > n.lists.base() || k == n.lists.base() && n.lists&fresh != 0) &&
			(n.lists.holds(k) || n.lists.offer() == k) {
			n.rebase(k)
			return true
		}
	}
	return false
}

// takeUp adds the stored list to the chain. The first node does so when all counted nodes have the list and x would be
// quorate by both. Others do so because a peer has, unless that costs quorum.
func (m *Model) takeUp(s *State, x int, peers Set) bool {
	n := &s.nodes[x]
	k := n.lists.offer()
	if k == maxLists || n.lists&fresh != 0 {
		return false
	}
	taken, ready := false, n.lists.one()
	for y := range m.Size {
		if y == x || !peers.Has(y) {
			continue
		}
		l := n.ears[y].lists
		taken = taken || l.holds(k) && l&fresh == 0
		if !l.holds(k) && l.offer() != k && m.countable(s, x, search.Of(y), n.lists) != 0 {
			ready = false
		}
	}
	with := n.lists&chain | 1<<k
	after := m.quorate(m.countable(s, x, peers, with), with)
	if !ready && !taken || !after && (!taken || m.quorate(m.countable(s, x, peers, n.lists), n.lists)) {
		return false
	}
	n.lists = with
	return true
}

// settle puts the newest list into force when a majority of each list has taken it up.
func (m *Model) settle(s *State, x int, peers Set) bool {
	n := &s.nodes[x]
	if n.lists.one() || n.lists&fresh != 0 {
		return false
	}
	have, top := search.Of(x), n.lists.top()
	for y := range m.Size {
		if y != x && peers.Has(y) && n.ears[y].lists.holds(top) {
			have |= search.Of(y)
		}
	}
	if !m.quorate(m.countable(s, x, have, n.lists), n.lists) {
		return false
	}
	n.rebase(top)
	return true
}

// join makes nodes that are not on the first list fresh members of a later one.
func (m *Model) join(s *State) {
	for x := range m.Size {
		if m.Lists[0].Has(x) {
			continue
		}
		n := &s.nodes[x]
		for k := range m.Lists {
			if m.Lists[k].Has(x) {
				*n = Node{up: true, path: n.path, anchor: lifetime, lists: fresh | 1<<k}
				break
			}
		}
	}
	for x := range m.Size {
		for y := range m.Size {
			if !m.Lists[0].Has(y) || !m.Lists[0].Has(x) {
				s.nodes[x].ears[y] = heard{}
			}
		}
	}
}
