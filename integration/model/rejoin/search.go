package rejoin

import (
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// Action is one event.
type Action struct {
	what what
	node uint8
	arg  uint8 // round: the order; cut: the graph; posts: the peer that answers
}

type what uint8

const (
	passes   what = iota // a round of time, in one order of the nodes
	cut                  // the network gets other links
	deafens              // a node gets no answers in the next round: its probes are lost
	posts                // an answer is under way for a long time
	arrives              // that answer arrives
	moves                // a node's path to the LUN is lost or comes back
	hangs                // a node writes its slot, and the write hangs
	lands                // that write lands
	starts               // a node boots, or its agent starts again
	proposes             // a grant passes the read of phase 1
	decides              // that grant is decided
)

// String describes the action in words.
func (a Action) String() string {
	n := a.node + 1
	switch a.what {
	case passes:
		return fmt.Sprintf("a round passes, in the order %v", orders[a.arg])
	case cut:
		return fmt.Sprintf("the network is [%s]", Graphs[a.arg].Name)
	case deafens:
		return fmt.Sprintf("%d gets no answers in the next round", n)
	case posts:
		return fmt.Sprintf("%d answers %d, and the answer is late", a.arg+1, n)
	case arrives:
		return "the late answer arrives"
	case moves:
		return fmt.Sprintf("the path of %d to the LUN comes or goes", n)
	case hangs:
		return fmt.Sprintf("%d writes its slot, and the write hangs", n)
	case lands:
		return fmt.Sprintf("the write of %d lands", n)
	case starts:
		return fmt.Sprintf("%d boots, or its agent starts again", n)
	case proposes:
		return fmt.Sprintf("%d puts its half forward", n)
	default:
		return "that is decided"
	}
}

// Graphs lists the graphs that a search tries: the cut by which the first half won, the steps of a heal in pieces, and
// cuts that come after it.
var Graphs = search.Graphs("12 34", "1234", "134 1-2", "1-2 1-3 3-4", "134", "13 24", "1-2 1-3", "234")

// links returns a network of this group.
func links(g uint8) [size]Set { return [size]Set(Graphs[g].Answers[:size]) }

// orders lists all orders of the nodes. The first few are those of a short search.
var orders = permutations()

func permutations() (all [][]int) {
	var extend func(rest []int, done ...int)
	extend = func(rest []int, done ...int) {
		if len(rest) == 0 {
			all = append(all, append([]int(nil), done...))
		}
		for i, x := range rest {
			left := append(append([]int(nil), rest[:i]...), rest[i+1:]...)
			extend(left, append(done, x)...)
		}
	}
	extend([]int{0, 1, 2, 3})
	return all
}

// Model is a group with its rules.
type Model struct {
	Rules
	Orders []uint8 // orders in which the nodes may act
	Shapes []uint8 // graphs of the network
}

// actions calls yield for all actions that may be possible in a state; Apply decides whether they are.
func (m *Model) actions(s *State, yield func(Action)) {
	for _, o := range m.Orders {
		yield(Action{passes, 0, o})
	}
	for _, g := range m.Shapes {
		yield(Action{cut, 0, g})
	}
	yield(Action{arrives, 0, 0})
	yield(Action{decides, 0, 0})
	for x := range uint8(size) {
		for _, w := range []what{deafens, moves, hangs, lands, starts, proposes} {
			yield(Action{w, x, 0})
		}
		if s.left.Late > 0 && !s.posted {
			for y := range uint8(size) {
				yield(Action{posts, x, y})
			}
		}
	}
}

func take(b *uint8) bool {
	if *b == 0 {
		return false
	}
	*b--
	return true
}

// Apply makes an action happen in s, or reports that it cannot.
func (m *Model) Apply(s *State, a Action) (State, bool) {
	t := *s
	if !m.happen(&t, a) {
		return t, false
	}
	t.normalize()
	return t, true
}

func (m *Model) happen(t *State, a Action) bool {
	x := int(a.node)
	n := &t.nodes[x]
	switch a.what {
	case passes:
		m.round(t, orders[a.arg])
	case cut:
		if t.links == links(a.arg) || !take(&t.left.Cuts) {
			return false
		}
		t.links = links(a.arg)
	case deafens:
		if !n.up || t.deaf.Has(x) || !take(&t.left.Late) {
			return false
		}
		t.deaf |= search.Of(x)
	case posts:
		y := int(a.arg)
		if x == y || !n.up || !t.nodes[y].up || !t.links[x].Has(y) || !t.links[y].Has(x) || !take(&t.left.Late) {
			return false
		}
		t.mail, t.from, t.to, t.posted = heard{Statement: t.statement(y)}, uint8(y), uint8(x), true
	case arrives:
		if !t.posted || !t.nodes[t.to].up {
			return false
		}
		t.hear(int(t.to), int(t.from), t.mail)
		t.mail, t.from, t.to, t.posted = heard{}, 0, 0, false
	case moves:
		if !take(&t.left.Paths) {
			return false
		}
		n.path = !n.path
	case hangs:
		if !n.up || !n.path || n.late || !take(&t.left.Hangs) {
			return false
		}
		n.late, n.hung = true, record{n.boot, n.token}
	case lands:
		if !n.late {
			return false
		}
		n.slot, n.still, n.late, n.hung = n.hung, 0, false, record{}
	case starts:
		if !take(&t.left.Starts) {
			return false
		}
		t.start(x)
	case proposes:
		return t.propose(x)
	case decides:
		return t.decide()
	}
	return true
}

// normalize makes states equal that differ only in the numbers of tokens, and in values that no rule reads any more.
func (s *State) normalize() {
	oldest := s.latest
	for x := range size {
		oldest = min(oldest, s.nodes[x].known)
	}
	for k := range s.log[:oldest] {
		if k > 0 {
			s.log[k] = Value{}
		}
	}
	for x := range size {
		n := &s.nodes[x]
		var used uint64
		each := func(f func(*uint8)) {
			f(&n.token)
			f(&n.slot.token)
			f(&n.hung.token)
			for y := range size {
				f(&s.nodes[y].ears[x].token)
			}
			if s.posted && int(s.from) == x {
				f(&s.mail.token)
			}
			for k := range s.log {
				f(&s.log[k].names[x].token)
			}
			f(&s.next.names[x].token)
		}
		each(func(t *uint8) { used |= 1 << *t })
		each(func(t *uint8) {
			if *t != 0 {
				*t = uint8(bits.OnesCount64(used&(1<<*t-1)&^1)) + 1
			}
		})
	}
}

// Wrong returns what is wrong in a state, or "".
func (s *State) Wrong() string {
	for y := range size {
		for x := range y {
			if s.both[pair(x, y)] > overlap {
				return fmt.Sprintf("%d and %d have both been feeding for too long, without a node that both count", x+1, y+1)
			}
		}
	}
	for x := range size {
		if by := s.condemned(x); by != "" {
			return fmt.Sprintf("%d runs, and %s could say FENCED of it", x+1, by)
		}
	}
	return ""
}

// condemned says which nodes may take a running node for dead: those that have not seen it for the time of a claim, if
// they are a majority, or the whole of a half that has been granted for as long.
func (s *State) condemned(x int) string {
	if !s.nodes[x].up {
		return ""
	}
	var claim Set
	for y := range size {
		n := &s.nodes[y]
		if y != x && n.up && n.unseen[x] >= claimed && n.met[x] == s.nodes[x].boot && n.met[x] != 0 {
			claim |= search.Of(y)
		}
	}
	if claim.Len() >= most {
		return "the majority " + claim.String()
	}
	for y := range size {
		if n := &s.nodes[y]; n.up && n.by >= claimed && n.view&^claim == 0 {
			return "the granted half " + n.view.String()
		}
	}
	return ""
}

// Met counts the states that a search must reach. If it does not, it proves nothing.
type Met struct {
	Beside int // a node continues beside a partner that counts a majority
	Joined int // it counts a majority itself a round later
	Ended  int // it has continued, and then starves
	Rival  int // another half is granted after that
	Dead   int // a node is claimed to be dead, and is dead
}

func (m *Met) note(before, s *State) {
	for x := range size {
		a, b := &before.nodes[x], &s.nodes[x]
		if b.feeds == beside {
			m.Beside++
		}
		if a.feeds == beside && b.feeds == majority {
			m.Joined++
		}
		if a.feeds == beside && b.feeds == starves {
			m.Ended++
		}
		if b.feeds == granted && s.latest > 1 {
			m.Rival++
		}
		if !b.up && b.boot > 0 {
			m.Dead++
		}
	}
}

func (m *Met) add(o *Met) {
	m.Beside, m.Joined, m.Ended, m.Rival, m.Dead = m.Beside+o.Beside, m.Joined+o.Joined, m.Ended+o.Ended, m.Rival+o.Rival, m.Dead+o.Dead
}

// Found is the result of a search or a walk.
type Found struct {
	search.Found[State, Action]
	Met Met
}

func (m *Model) search(met *Met) search.Model[State, Action] {
	return search.Model[State, Action]{
		Next:  search.Next(m.actions, m.Apply),
		Wrong: (*State).Wrong, Note: met.note,
	}
}

// Search visits all states that can be reached from root, until one is wrong or more than limit were visited.
func (m *Model) Search(root State, limit int) (f Found) {
	root.normalize()
	f.Found = search.All(m.search(&f.Met), root, limit)
	return f
}

// Walk takes up to length random steps from root; two thirds of them are rounds.
func (m *Model) Walk(root State, length int, rng *rand.Rand) (f Found) {
	root.normalize()
	var can []Action
	pick := func(s *State) []Action {
		can = can[:0]
		kind := rng.IntN(12)
		m.actions(s, func(a Action) {
			switch a.what {
			case passes:
				if kind < 8 {
					can = append(can, a)
				}
			case cut, proposes, decides, arrives:
				if kind == 8 || kind == 9 {
					can = append(can, a)
				}
			default:
				if kind > 9 {
					can = append(can, a)
				}
			}
		})
		return can
	}
	f.Found = search.Walk(m.search(&f.Met), root, length, rng, pick, func(s *State, a Action) (State, bool) {
		t, ok := m.Apply(s, a)
		return t, ok && t != *s
	})
	return f
}
