package lastman

import "fmt"

// Action is one thing that happens.
type Action struct {
	what what
	node uint8
	arg  uint8 // propose: the kind; cut: the graph
}

type what uint8

const (
	syncs  what = iota // a heartbeat: the slot is written, then the table read
	hangs              // the slot is written, but the write is under way for long
	lands              // and lands
	resets             // by the watchdog, or otherwise
	boots
	restarts // the agent alone, faster than anybody misses it
	replaces // a reset, and the node has another, empty disk of its own
	peeks    // the log is read before the slot is claimed
	claims   // the slot becomes the own one (B3): nothing of a former boot lands afterwards
	propose  // a value is put forward: it passed the read of phase 1
	decides  // it lands: the instance has it
	moves    // the path to the LUN comes or goes
	cut      // the links are others
	frees    // a node returns to N by itself, because it sees all of N
	whats
)

// String says it in the words of the counterexamples.
func (a Action) String() string {
	n := a.node + 1
	switch a.what {
	case syncs:
		return fmt.Sprintf("%d writes its slot and reads the log", n)
	case hangs:
		return fmt.Sprintf("%d writes its slot, and the write hangs", n)
	case lands:
		return fmt.Sprintf("the write of %d lands", n)
	case resets:
		return fmt.Sprintf("%d is reset", n)
	case boots:
		return fmt.Sprintf("%d boots", n)
	case replaces:
		return fmt.Sprintf("%d is reset, and its disk is replaced", n)
	case restarts:
		return fmt.Sprintf("the agent of %d restarts", n)
	case peeks:
		return fmt.Sprintf("%d reads the log", n)
	case claims:
		return fmt.Sprintf("%d claims its slot and reads the log", n)
	case propose:
		return fmt.Sprintf("%d puts forward: %v", n, Kind(a.arg))
	case decides:
		return fmt.Sprintf("what %d put forward lands", n)
	case moves:
		return fmt.Sprintf("the path of %d to the LUN comes or goes", n)
	case cut:
		return fmt.Sprintf("the network is graph %d", a.arg)
	default:
		return fmt.Sprintf("%d counts by N again", n)
	}
}

// Model is a group with its rules and the graphs that its network can have.
type Model struct {
	Rules  Rules
	Graphs [][]Set // each: the parts of the network
	Log    uint8   // instances at most
	Same   [][]int // renumberings under which states are the same
}

// actions calls yield for all that may be possible in a state; Apply knows better.
func (m *Model) actions(s *State, yield func(Action)) {
	for x := range s.n {
		nd := &s.nodes[x]
		for w := syncs; w < whats; w++ {
			if w == cut || !s.thinkable(w, nd) {
				continue
			}
			if w != propose {
				yield(Action{w, x, 0})
				continue
			}
			for k := Grant; k <= Return; k++ {
				yield(Action{w, x, uint8(k)})
			}
		}
	}
	for g := range m.Graphs {
		if s.left.Cuts > 0 {
			yield(Action{cut, 0, uint8(g)})
		}
	}
}

// thinkable sorts out, without a copy of the state, most of what Apply would refuse.
func (s *State) thinkable(w what, nd *Node) bool {
	switch w {
	case syncs, propose:
		return nd.up && nd.path && nd.claimed && !nd.late
	case hangs:
		return s.left.Hangs > 0 && nd.up && nd.path && nd.claimed && !nd.late
	case lands:
		return nd.late
	case resets, restarts:
		return s.left.Resets > 0 && nd.up
	case replaces:
		return s.left.Disks > 0 && nd.up
	case boots:
		return !nd.up
	case peeks, claims:
		return nd.up && nd.path && !nd.claimed
	case decides:
		return nd.prop.instance == s.latest+1
	case moves:
		return s.left.Paths > 0
	default:
		return nd.up && nd.bond != 0
	}
}

// Apply makes a happen in s, or reports that it cannot.
func (m *Model) Apply(s *State, a Action) (State, bool) {
	before := s.views()
	return m.apply(s, &before, a)
}

// apply is Apply for a caller that has the views of s.
func (m *Model) apply(s *State, before *[maxNodes]Set, a Action) (State, bool) {
	t := *s
	if !m.happen(&t, a) {
		return t, false
	}
	for x, v := range t.views() {
		nd := &t.nodes[x]
		if !nd.up || v == before[x] || before[x] == 0 {
			continue
		}
		nd.token = t.fresh(x) // L1: the counted view changed
		if !m.Rules.Keep {
			nd.bond = 0
		}
	}
	t.normalize()
	return t, true
}

func (m *Model) happen(t *State, a Action) bool {
	x := int(a.node)
	nd := &t.nodes[x]
	writes := nd.up && nd.path && nd.claimed && !nd.late
	switch a.what {
	case syncs:
		if !writes {
			return false
		}
		nd.slotToken, nd.slotBond = nd.token, nd.bond
		m.learn(t, x)
	case hangs:
		if !writes || !take(&t.left.Hangs) {
			return false
		}
		nd.late, nd.lateToken, nd.lateBond = true, nd.token, nd.bond
	case lands:
		if !nd.late {
			return false
		}
		nd.slotToken, nd.slotBond, nd.late = nd.lateToken, nd.lateBond, false
	case resets, restarts, replaces:
		return m.end(t, x, a.what)
	case boots:
		if nd.up {
			return false
		}
		m.start(nd, t.fresh(x))
	case peeks, claims:
		return m.take(t, x, a.what)
	case propose:
		return writes && m.propose(t, x, Kind(a.arg))
	case decides:
		return m.decide(t, x)
	case moves:
		nd.path = !nd.path
		return take(&t.left.Paths)
	case cut:
		return m.cut(t, int(a.arg))
	case frees:
		if m.Rules.ReturnByDecision || !nd.up || nd.bond == 0 || !t.seesAll(x) {
			return false
		}
		nd.free, nd.bond = true, 0
	}
	return true
}

func take(b *uint8) bool {
	if *b == 0 {
		return false
	}
	*b--
	return true
}

// end ends what the node has in memory, and what else goes with it.
func (m *Model) end(t *State, x int, w what) bool {
	nd := &t.nodes[x]
	budget := &t.left.Resets
	if w == replaces {
		budget = &t.left.Disks
	}
	if !nd.up || !take(budget) {
		return false
	}
	token, bond := t.fresh(x), nd.bond
	nd.up, nd.claimed, nd.gate, nd.shy, nd.free, nd.token, nd.known, nd.bond = false, false, false, false, false, 0, 0, 0
	switch {
	case m.Rules.Memory != Stored:
	case w == replaces:
		nd.empty = true
	default:
		nd.bond = bond
	}
	if w == restarts {
		m.start(nd, token)
		m.take(t, x, peeks) // nobody misses it meanwhile
	}
	return true
}

func (m *Model) start(nd *Node, token uint8) {
	nd.up, nd.token = true, token
	nd.gate = m.Rules.Memory == Forgets || m.Rules.Memory == Stored && !nd.empty
	nd.shy = m.Rules.Uncounted && !nd.gate
}

// take is the first read of a boot, or the claim of the slot with the read that follows.
func (m *Model) take(t *State, x int, w what) bool {
	nd := &t.nodes[x]
	if !nd.up || !nd.path || nd.claimed || w == peeks && (nd.gate || m.Rules.Memory != AnyRead) {
		return false
	}
	if m.Rules.Memory == AnyRead || m.Rules.Memory == AfterClaim || nd.empty {
		nd.bond = nd.slotBond
		nd.gate, nd.shy, nd.empty = true, false, false
	}
	if w == claims {
		nd.claimed, nd.late = true, false
	}
	m.learn(t, x)
	if w == claims {
		nd.slotToken, nd.slotBond = nd.token, nd.bond
	}
	return true
}

// learn is what x makes of the log that it reads.
func (m *Model) learn(t *State, x int) {
	nd, k := &t.nodes[x], t.latest
	nd.known = k
	d := &t.log[k]
	_, by := t.config(k)
	switch {
	case nd.free:
	case d.Kind == Prepare && nd.bond == k:
	case d.Kind == Prepare && d.Holders.has(x) && d.Tokens[x] == nd.token:
		nd.bond = k
	case by != 0: // who is not among the members is bound as well: it has no part in the group
		nd.bond = by
	case by == 0:
		nd.bond = 0 // what bound it was not followed by its second decision, or the group has returned
	}
}

func (m *Model) decide(t *State, x int) bool {
	p := &t.nodes[x].prop
	if p.instance != t.latest+1 {
		return false
	}
	t.log[t.latest].Tokens = [maxNodes]uint8{} // nobody asks for them again
	t.latest++
	t.log[t.latest] = p.value
	for y := range int(t.n) {
		if t.nodes[y].prop.instance <= t.latest {
			t.nodes[y].prop = proposal{}
		}
	}
	return true
}

func (m *Model) cut(t *State, g int) bool {
	if !take(&t.left.Cuts) {
		return false
	}
	for x := range int(t.n) {
		t.links[x] = setOf(x)
		for _, part := range m.Graphs[g] {
			if part.has(x) {
				t.links[x] |= part
			}
		}
	}
	return true
}

func (s *State) seesAll(x int) bool {
	for y := range int(s.n) {
		if !s.nodes[y].up || !s.links[x].has(y) {
			return false
		}
	}
	return true
}
