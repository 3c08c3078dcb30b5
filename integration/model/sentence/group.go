package sentence

import (
	"fmt"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// GroupRules names the parts of P1, P2, P5 and P7 that a search can leave out. The zero value leaves out none.
type GroupRules struct {
	Silence   bool // P1: starving is a sufficient reason
	Moving    bool // P1: a majority of slots changes and none says that it sees this node, whatever else they say
	OneSlot   bool // P1: one slot that shows a majority without this node is enough
	OneRead   bool // P1: one read is enough
	EverTwice bool // P1: the records have changed twice at any time since the last majority
	Unsteady  bool // P1, P7: contact does not matter, before it condemns itself or at that moment
	GrantWord bool // P1: E2 is only the grant
	Undecided bool // P1: a tie that is undecided is enough
	States    bool // P2: a condemned node continues to state which nodes it sees
	Counted   bool // P5: a node that knows the sentence counts the boot
	Evidence  bool // P5: a condemned slot is evidence
}

// GroupBudget contains how often each action may still happen.
type GroupBudget struct{ Cuts, Hangs, Grants, Paths uint8 }

// Group is the model of a group whose nodes may condemn themselves.
type Group struct {
	GroupRules
	Size    int
	Shapes  []search.Graph
	Who     Set // nodes whose writes may hang; 0: all
	Reverse bool
}

// entry is the content of a slot.
type entry struct {
	seq       uint8 // modulo 8
	view      Set
	lives     bool
	condemned bool
}

// member is one node.
type member struct {
	node
	lost   uint8 // ticks since its last majority, up to maxAge+after
	table  [most]entry
	first  [most]uint8 // by slot: the sequence at the first of the consecutive reads
	second [most]uint8 // and at the second one
	moved  [most]uint8 // by slot: how often the record has changed since the last majority, up to 2
	had    bool
	valid  bool // the grant names its present token
	hang   bool // its next write hangs
	late   entry
	hung   bool
}

// GroupState is one state of Group.
type GroupState struct {
	links [most]Set
	nodes [most]member
	slots [most]entry
	grant Set
	GroupBudget
}

// Root is a group that has long been whole.
func (m *Group) Root(b GroupBudget) GroupState {
	return settled(m, GroupState{GroupBudget: b, links: m.Shapes[0].Answers})
}

// next yields everything that can happen except a tick.
func (m *Group) next(s *GroupState, yield func(string, GroupState)) {
	for g := range m.Shapes {
		if t := *s; t.Cuts > 0 && t.links != m.Shapes[g].Answers {
			t.Cuts--
			t.links = m.Shapes[g].Answers
			yield("the network is ["+m.Shapes[g].Name+"]", t)
		}
	}
	for x := range m.Size {
		n := &s.nodes[x]
		if t := *s; t.Hangs > 0 && !n.hang && !n.hung && (m.Who == 0 || m.Who.Has(x)) {
			t.Hangs--
			t.nodes[x].hang = true
			yield(fmt.Sprintf("the next write of %d hangs", x+1), t)
		}
		if t := *s; n.hung {
			t.slots[x], t.nodes[x].hung, t.nodes[x].late = n.late, false, entry{}
			yield(fmt.Sprintf("the write of %d lands", x+1), t)
		}
		if t := *s; t.Grants > 0 && m.grants(&t, x) {
			t.Grants--
			yield(fmt.Sprintf("%d decides for its half", x+1), t)
		}
	}
}

// grants decides for the half of a node if the previous holders are done.
func (m *Group) grants(t *GroupState, x int) bool {
	half := t.nodes[x].view
	if 2*half.Len() != m.Size || t.nodes[x].condemned {
		return false
	}
	for y := range m.Size {
		if n := &t.nodes[y]; half.Has(y) && (n.view != half || n.condemned) || t.grant.Has(y) && n.valid {
			return false
		}
	}
	t.grant = half
	for y := range m.Size {
		t.nodes[y].valid = half.Has(y)
	}
	return true
}

// tick lets each node ask, read, decide and write, and reports the loss of a group that condemns itself.
func (m *Group) tick(t *GroupState) string {
	return each(m.Size, m.Reverse, func(x int) string { return m.act(t, x) })
}

func (t *GroupState) node(x int) *node { return &t.nodes[x].node }

func (m *Group) act(t *GroupState, x int) (wrong string) {
	n := &t.nodes[x]
	outside := m.ask(t, x)
	majority := 2*n.view.Len() > m.Size
	lives := !n.condemned && (majority || n.valid && n.view == t.grant)
	n.had = n.had || lives
	n.pass(lives, outside)
	if n.lost = min(maxAge+after, n.lost+1); majority {
		n.lost, n.moved = 0, [most]uint8{}
	}
	m.read(t, x)
	if !n.condemned && n.had && !lives && m.convinced(t, x) {
		n.condemned, n.valid = true, false
		n.seen, n.view = 0, 0
		if m.States {
			n.seen, n.view = n.reach(x, m.Size, m.Counted)
		}
		if !m.leaves(t) {
			wrong = fmt.Sprintf("%d condemns itself, and leaves nobody who lives", x+1)
		}
	}
	m.write(t, x, lives)
	return wrong
}

// ask takes the answers of the nodes that the network reaches, and reports whether it heard a node that it does not
// count.
func (m *Group) ask(t *GroupState, x int) (outside bool) {
	n := &t.nodes[x]
	before := n.view
	heard := n.hear(x, m.Size, t.links[x], t.node)
	if n.condemned && !m.States {
		return false
	}
	n.seen, n.view = n.reach(x, m.Size, m.Counted)
	if n.view != before {
		n.valid = false
	}
	// A node that has condemned itself is not a contact that comes or goes.
	return n.view != before&^n.knows || heard&^n.view&^n.knows != 0
}

// read reads all slots, and counts the consecutive reads in which E holds.
func (m *Group) read(t *GroupState, x int) {
	n := &t.nodes[x]
	for y := range m.Size {
		if y == x {
			continue
		}
		if t.slots[y].seq != n.table[y].seq {
			n.moved[y] = min(2, n.moved[y]+1)
		}
		if n.table[y] = t.slots[y]; n.table[y].condemned {
			n.knows |= 1 << y
		}
	}
	by := m.evidence(t, x)
	if by == 0 {
		n.rows = 0
		return
	}
	n.rows++
	switch {
	case n.rows == 1:
		for y := range m.Size {
			n.first[y] = n.table[y].seq
		}
	case n.rows == 2 && m.changed(n, by, &n.first):
		for y := range m.Size {
			n.second[y] = n.table[y].seq
		}
	case n.rows == 2:
		n.rows = 1
	case m.changed(n, by, &n.second):
		n.rows = 3
	default:
		n.rows = 2
	}
}

func (m *Group) changed(n *member, by Set, since *[most]uint8) bool {
	for y := range m.Size {
		if by.Has(y) && n.table[y].seq == since[y] {
			return false
		}
	}
	return true
}

// evidence returns the set that shows that it lives without this node; 0: there is none.
func (m *Group) evidence(t *GroupState, x int) Set {
	n := &t.nodes[x]
	ok := Set(0)
	for y := range m.Size {
		if e := &n.table[y]; y != x && (!e.condemned || m.Evidence) && !e.view.Has(x) {
			ok |= 1 << y
		}
	}
	for y := range m.Size {
		in := n.table[y].view & ok
		if m.OneSlot && ok.Has(y) && 2*n.table[y].view.Len() > m.Size {
			return 1 << y
		}
		if m.Moving {
			in = ok
		}
		if 2*in.Len() <= m.Size || !ok.Has(y) {
			continue
		}
		all := true
		for z := range m.Size {
			all = all && (!in.Has(z) || in&^n.table[z].view == 0)
		}
		if all || m.Moving {
			return in
		}
	}
	if t.grant == 0 || t.grant.Has(x) {
		return 0
	}
	if m.GrantWord {
		return t.grant
	}
	for y := range m.Size {
		if e := &n.table[y]; t.grant.Has(y) && (e.view != t.grant || !e.lives || !ok.Has(y)) {
			return 0
		}
	}
	return t.grant
}

// convinced checks P1.
func (m *Group) convinced(t *GroupState, x int) bool {
	n := &t.nodes[x]
	if n.lost < maxAge+after {
		return false
	}
	if n.steady < after && !m.Unsteady {
		return false
	}
	switch {
	case m.Silence:
		return true
	case m.Undecided && 2*n.view.Len() == m.Size:
		return true
	case m.OneRead:
		return n.rows >= 1
	case m.EverTwice:
		by := m.evidence(t, x)
		for y := range m.Size {
			if by.Has(y) && n.moved[y] < 2 {
				return false
			}
		}
		return by != 0
	default:
		return n.rows >= 3
	}
}

// leaves reports whether a majority, or the granted half, lives without the condemned nodes, or did a moment ago.
func (m *Group) leaves(t *GroupState) bool {
	in := living(m.Size, t.node)
	return 2*in.Len() > m.Size || t.grant != 0 && in&t.grant == t.grant
}

func (m *Group) write(t *GroupState, x int, lives bool) {
	n := &t.nodes[x]
	e := entry{seq: (t.slots[x].seq + 1) % 8, view: n.view, lives: lives, condemned: n.condemned}
	switch {
	case n.hung: // only one I/O at a time
	case n.hang:
		n.hang, n.hung, n.late = false, true, e
	default:
		t.slots[x] = e
	}
}

// String describes a state.
func (t *GroupState) String() string {
	out := fmt.Sprintf("grant %b\n", t.grant)
	for x := range t.nodes {
		n := &t.nodes[x]
		out += fmt.Sprintf("%d: view %05b seen %05b condemned %t lost %d steady %d rows %d slot %+v\n", x+1, n.view, n.seen, n.condemned, n.lost, n.steady, n.rows, t.slots[x])
	}
	return out
}
