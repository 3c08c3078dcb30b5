package rejoin

import (
	"fmt"
	"strings"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// size is the number of nodes; most is the number that makes a majority.
const (
	size = 4
	most = size/2 + 1
	all  = Set(1<<size - 1)

	maxLog = 4 // instances of the log
)

// Set is a set of nodes.
type Set = search.Set

// Statement is a node's report about itself.
type Statement struct {
	boot, token uint8
	seen, view  Set
	armed       bool
	wrote       uint8 // age of the write that it reports under a grant (L7)
}

// heard is the latest statement of a peer, and its age.
type heard struct {
	Statement
	age uint8
}

// record is the content of a slot.
type record struct{ boot, token uint8 }

// why is the reason for which a node feeds.
type why uint8

const (
	starves  why = iota
	majority     // it counts a majority
	granted      // the latest grant names it
	beside       // the latest grant names it, and its partner counts a majority (L14)
	holds        // a tie is undecided
)

func (w why) String() string {
	return [...]string{"starves", "majority", "granted", "beside", "holds"}[w]
}

// Node is one node. Its memory is lost at a reset.
type Node struct {
	up, armed bool
	boot      uint8
	token     uint8
	view      Set
	feeds     why
	unfed     uint8 // rounds since it had permission
	budget    uint8 // rounds for which it may feed undecided (L8)
	known     uint8 // latest instance that it has read
	anchor    uint8 // age of its last write that landed before a read
	ears      [size]heard
	unseen    [size]uint8 // rounds since it saw the peer
	// Boot of the peer when it was last seen, if the peer was armed; 0: nothing is claimed.
	met [size]uint8
	by  uint8 // rounds for which it has lived by the latest grant

	path  bool // it can reach the LUN
	slot  record
	still uint8 // rounds since the slot was written
	late  bool  // a write hangs, which may land at any later time
	hung  record

	silent bool // its token has moved on because no write has landed for G
	gave   bool // it has renounced, and still feeds beside its partner (without Rules.Keep)
}

// Value is a grant. It contains the tokens of a half.
type Value struct {
	holders Set
	names   [size]record
}

// State is one state of the group. It is copied by assignment.
type State struct {
	nodes  [size]Node
	links  [size]Set // from each node
	latest uint8
	log    [maxLog + 1]Value
	next   Value // the grant under way for the next instance; without holders there is none
	deaf   Set   // nodes that get no answers in the next round
	both   [size * (size - 1) / 2]uint8
	left   Budget

	mail     heard // a late answer
	from, to uint8
	posted   bool
}

// Budget contains how often each action may still happen.
type Budget struct{ Cuts, Paths, Hangs, Late, Starts uint8 }

// pair numbers the pairs of nodes.
func pair(x, y int) int { return y*(y-1)/2 + x }

func (s *State) statement(x int) Statement {
	n := &s.nodes[x]
	st := Statement{boot: n.boot, token: n.token, view: n.view, armed: n.armed, wrote: never}
	for y := range size {
		if y != x && n.ears[y].age < maxAge {
			st.seen |= search.Of(y)
		}
	}
	if n.feeds == granted || n.feeds == beside {
		st.wrote = n.anchor
	}
	return st
}

// counts returns the view: the peers that answered and said that they see this node.
func (s *State) counts(x int) Set {
	v := search.Of(x)
	for y := range size {
		if h := &s.nodes[x].ears[y]; y != x && h.age < maxAge && h.seen.Has(x) {
			v |= search.Of(y)
		}
	}
	return v
}

func (s *State) String() string {
	var b strings.Builder
	for x := range size {
		n := &s.nodes[x]
		if !n.up {
			fmt.Fprintf(&b, "  %d: down, slot %v\n", x+1, n.slot)
			continue
		}
		fmt.Fprintf(&b, "  %d: view %v token %d/%d %v, unfed %d, budget %d, wrote %d, read %d, path %t, late %t, slot %v, unseen %v met %v\n", x+1, n.view,
			n.boot, n.token, n.feeds, n.unfed, n.budget, n.anchor, n.known, n.path, n.late, n.slot, n.unseen, n.met)
	}
	g := &s.log[s.latest]
	fmt.Fprintf(&b, "  links %v, grant %d to %v %v, under way %v\n", s.links, s.latest, g.holders, g.names, s.next.holders)
	return b.String()
}
