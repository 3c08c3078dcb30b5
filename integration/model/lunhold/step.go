package lunhold

import "github.com/fencing-agent/fencing-agent/integration/model/search"

// tick lets one tick pass, in which the nodes act in the given order.
func (m *Model) tick(s *State, order []uint8) {
	m.age(s)
	s.lasted, s.struck = min(s.lasted+1, max(m.Dwell, m.Partial)), 0
	m.watch(s)
	for _, x := range order {
		if n := &s.nodes[x]; int(x) < m.Size && n.up && !n.stopped {
			m.act(s, int(x))
		}
	}
	for z := range m.Size {
		for x := range m.Size {
			if c := &s.claimed[x][z]; m.Fresh > 0 && m.claim(s, x, z) {
				*c = claim{m.Fresh, s.nodes[x].lists}
			} else if down(&c.left); c.left == 0 {
				*c = claim{}
			}
			if apart := &s.apart[x][z]; m.alone(s, x, z) {
				*apart = min(*apart+1, m.overlap(true)+1)
			} else {
				*apart = 0
			}
		}
	}
}

// alone reports that z lives, that z does not count x, and that x does not live in a set that has a node in common with
// z's set.
func (m *Model) alone(s *State, x, z int) bool {
	a, b := &s.nodes[x], &s.nodes[z]
	if x == z || !b.up || b.perm == 0 || !b.why.lives() {
		return false
	}
	view := m.counts(s, z)
	return !view.Has(x) && !(a.up && a.why.lives() && m.counts(s, x)&view != 0)
}

func down(v *uint8) {
	if *v > 0 {
		*v--
	}
}

// age makes everything one tick older, and resets each node whose watchdog was not fed in time.
func (m *Model) age(s *State) {
	for x := range m.Size {
		n := &s.nodes[x]
		if n.stuck != 0 {
			n.hung = min(n.hung+1, max(ioTimeout, m.Late+1))
			if m.Late > 0 && n.hung > m.Late {
				m.end(s, x, ended)
			}
		}
		m.ageSlot(n)
		if !n.up {
			continue
		}
		if n.perm == 0 || n.stopped {
			n.unfed = min(n.unfed+1, m.Runs)
		} else {
			n.unfed = 0
		}
		if n.armed && n.unfed >= m.Runs {
			m.halt(s, x)
			if m.Calm {
				s.reset |= search.Of(x)
			}
			continue
		}
		down(&n.perm)
		down(&n.budget)
		down(&n.hold)
		n.anchor = min(n.anchor+1, lifetime)
		n.lived = min(n.lived+1, m.Claim)
		for y := range m.Size {
			if h := &n.ears[y]; h.age > 0 { // 0 means never; an answer of this tick has 1
				if h.age++; h.age > m.hearing() {
					*h = heard{}
				} else if h.age > maxAge {
					h.Word = Word{}
				}
			}
			if down(&n.told[y]); y != x {
				n.unseen[y] = min(n.unseen[y]+1, m.Claim)
			}
		}
	}
}

// hearing returns how long an answer is remembered.
func (m *Model) hearing() uint8 {
	switch {
	case m.SeenShort:
		return maxAge
	case m.SeenLong:
		return m.Dated + maxAge
	default:
		return 2 * maxAge
	}
}

// halt clears the node's memory.
func (m *Model) halt(s *State, x int) {
	n := &s.nodes[x]
	s.nodes[x] = Node{path: n.path, slots: n.slots, late: n.late, gave: s.grant.Has(x), lists: n.lists}
	if n.late.there {
		s.nodes[x].at = n.at
	}
	for y := range m.Size {
		s.nodes[y].met &^= search.Of(x) // claims about the boot that has ended are true
		s.claimed[y][x] = claim{}
	}
	m.disown(s, x)
}

// start boots a node or restarts its agent.
func (m *Model) start(s *State, x int) {
	n := &s.nodes[x]
	armed, unfed, restart := n.armed, n.unfed, n.up
	met := Set(0)
	for y := range m.Size {
		met |= (s.nodes[y].met >> x & 1) << y
	}
	m.halt(s, x)
	n.up, n.anchor, n.lists = true, lifetime, n.lists.again()
	if restart {
		n.armed, n.unfed = armed, unfed
		for y := range m.Size {
			s.nodes[y].met |= (met >> y & 1) << x
		}
	}
}

func (m *Model) seen(s *State, x int, within uint8) (seen Set) {
	for y := range m.Size {
		if a := s.nodes[x].ears[y].age; a > 0 && a <= within || m.byLUN(s, x, y) > 0 {
			seen |= search.Of(y)
		}
	}
	return seen
}

func (m *Model) word(s *State, x int) Word {
	n := &s.nodes[x]
	w := Word{lists: n.lists, seen: m.seen(s, x, maxAge), lately: m.lately(s, x), lives: n.why.lives() && n.perm > 0, armed: n.armed, gave: n.gave, knows: n.knows}
	if m.holdsToo() && !m.Plain.Has(x) {
		for y := range m.Size {
			if w.seen.Has(y) {
				n.told[y] = m.Dated + 1
			}
		}
	}
	return w
}

// holdsToo reports whether nodes hold although the LUN counts as a network.
func (m *Model) holdsToo() bool { return m.Network && !m.NoHold }

// lately returns the nodes of which x is not known to have lost sight. A node that was told that x sees it may count x
// for as long as that report counts.
func (m *Model) lately(s *State, x int) Set {
	seen := m.seen(s, x, m.hearing())
	for y := range m.Size {
		if s.nodes[x].told[y] > 0 {
			seen |= search.Of(y)
		}
	}
	return seen
}

// contact returns the nodes that answered and said that they see this node.
func (m *Model) contact(s *State, x int) Set {
	v := search.Of(x)
	for y := range m.Size {
		n := &s.nodes[x]
		if h := &n.ears[y]; h.age > 0 && h.age <= maxAge && h.seen.Has(x) || m.byLUN(s, x, y) > 0 && !m.Plain.Has(y) && (n.table[y].seen.Has(x) || m.OneWay) {
			v |= search.Of(y)
		}
	}
	return v
}

// counts returns the view: the nodes in contact that use only lists that this node uses.
func (m *Model) counts(s *State, x int) Set {
	v := m.contact(s, x)
	if len(m.Lists) > 1 {
		v = m.countable(s, x, v, s.nodes[x].lists)
	}
	return v
}

// act is one step of a node.
func (m *Model) act(s *State, x int) {
	n := &s.nodes[x]
	gap, lived := n.perm == 0, n.why.lives()
	for y := range m.Size {
		if p := &s.nodes[y]; y != x && s.answers[x].Has(y) && p.up && !p.stopped {
			n.ears[y], n.unseen[y] = heard{m.word(s, y), 1}, 0
			if n.met &^= search.Of(y); p.armed {
				n.met |= search.Of(y)
			}
		}
	}
	if n.usable() != 0 {
		m.read(s, x)
	}
	for y := range m.Size {
		if m.byLUN(s, x, y) > 0 && !m.Unsighted {
			n.unseen[y] = 0
		}
	}
	m.follow(s, x)
	m.decide(s, x)
	if m.Strikes && m.strikes(s, x) {
		m.strike(s, x)
		return
	}
	lives := n.why.lives()
	if !lives || gap {
		n.lived = 0
	}
	switch {
	case m.NoM1, m.Old.Has(x):
	case m.MAsProposed && (lived || !lives):
	case m.MAsProposed, !lives, gap && !m.NoM2:
		n.unseen = [maxSize]uint8{}
	}
	if n.beat++; n.usable() != 0 && (n.beat >= m.Beat || lives != n.said && !m.NoM3) {
		m.write(s, x)
	}
	n.beat = min(n.beat, m.Beat)
}

// decide determines whether x may feed, for which reason, and until when.
func (m *Model) decide(s *State, x int) {
	n := &s.nodes[x]
	view := m.counts(s, x)
	if s.grant.Has(x) && (view != s.grant || m.broken(s, x)) {
		n.gave = true // L1, L10
	}
	n.why, n.perm = starves, 0
	if m.removed(n, x) {
		n.armed = false
		return
	}
	if m.quorate(view, n.lists) {
		n.why, n.perm, n.hold = majority, m.evidence(s, x, view), 0
		n.armed, n.had, n.budget = true, true, m.Tie+1
		return
	}
	tie := m.tied(view, n.lists)
	if tie && n.knows && s.grant == view && !n.gave && n.anchor < lifetime {
		n.why, n.perm, n.hold = granted, min(m.evidenceOf(s, x, view, view.Len()), lifetime-n.anchor), 0
		n.armed, n.had = true, true
		return
	}
	lost := m.lost(s, x)
	able := n.armed && n.had && !m.NoHold && !m.Old.Has(x)
	if able {
		n.hold = max(n.hold, m.cover(s, x))
	}
	if (lost || m.isolated(n, x, m.Dated+1)) && !m.NoH3 {
		n.hold = 0
		return
	}
	if tie && n.budget > 0 && !lost {
		n.why, n.perm = ties, n.budget
	}
	if n.hold > n.perm {
		n.why, n.perm = holds, n.hold
	}
	if able && !m.NoBridge && m.inOrder(n) && n.budget > n.perm {
		n.why, n.perm = asks, n.budget
	}
}

// inOrder reports whether the path of a node to the LUN works. An I/O under way counts as working until its timeout.
func (m *Model) inOrder(n *Node) bool {
	if n.hung < ioTimeout && !m.Prompt {
		return n.path != 0
	}
	return n.usable() != 0
}

// evidence returns how long a majority of each list will still be counted.
func (m *Model) evidence(s *State, x int, view Set) uint8 {
	left := uint8(always)
	for k, l := range m.Lists {
		if s.nodes[x].lists.holds(k) {
			left = min(left, m.evidenceOf(s, x, view&l, l.Len()/2+1))
		}
	}
	return left
}

// byLUN returns how long a peer counts as seen because of its record, if that counts.
func (m *Model) byLUN(s *State, x, y int) uint8 {
	if age := uint8(s.nodes[x].table[y].date & ageOf); m.Network && !m.Plain.Has(x) && age > 0 && age <= m.Dated {
		return m.Dated + 1 - age
	}
	return 0
}

// evident returns how long a counted peer will still be counted.
func (m *Model) evident(s *State, x, y int) (left uint8) {
	n := &s.nodes[x]
	if h := &n.ears[y]; h.age > 0 && h.age <= maxAge && h.seen.Has(x) {
		left = maxAge + 1 - h.age
	}
	if !m.Plain.Has(y) && (n.table[y].seen.Has(x) || m.OneWay) {
		left = max(left, m.byLUN(s, x, y))
	}
	return left
}

// evidenceOf returns how long this many nodes of a set will still be counted.
func (m *Model) evidenceOf(s *State, x int, of Set, need int) uint8 {
	for left := max(maxAge, m.Dated); left > 0; left-- {
		enough := 0
		for y := range m.Size {
			if of.Has(y) && (y == x || m.evident(s, x, y) >= left) {
				enough++
			}
		}
		if enough >= need {
			return left
		}
	}
	return 0
}

// broken reports whether another holder says that it has given up the grant.
func (m *Model) broken(s *State, x int) bool {
	for y := range m.Size {
		if h := &s.nodes[x].ears[y]; y != x && s.grant.Has(y) && h.age > 0 && h.gave {
			return true
		}
	}
	return false
}

// lost reports whether x has read a latest grant to others that are not done.
func (m *Model) lost(s *State, x int) bool {
	n := &s.nodes[x]
	return n.knows && s.grant != 0 && !(s.grant.Has(x) && !n.gave) && !m.done(s)
}

// done reports that all holders of the grant are gone or have renounced.
func (m *Model) done(s *State) bool {
	for y := range m.Size {
		if s.grant.Has(y) && !s.nodes[y].gave {
			return false
		}
	}
	return true
}

// isolated reports whether the slots show a living majority without x, of a list that x uses, by dates of these ages.
func (m *Model) isolated(n *Node, x int, within uint8) bool {
	without := Set(0)
	for y := range m.Size {
		if l := &n.table[y]; y != x && l.date != 0 && uint8(l.date&ageOf) <= within && l.lives && !l.seen.Has(x) {
			without |= search.Of(y)
		}
	}
	for k, l := range m.Lists {
		if n.lists.holds(k) && 2*(without&l).Len() > l.Len() {
			return true
		}
	}
	return false
}

// propose is a ballot of x that decides for its half. The check is weaker than L5 requires.
func (m *Model) propose(s *State, x int) bool {
	n := &s.nodes[x]
	view := m.counts(s, x)
	if !n.up || n.stopped || n.usable() == 0 || m.Size != 2*view.Len() || s.grant != 0 && !m.done(s) {
		return false
	}
	for y := range m.Size {
		p := &s.nodes[y]
		if view.Has(y) && (!p.up || p.usable() == 0 || m.counts(s, y) != view) {
			return false
		}
	}
	for y := range m.Size {
		p := &s.nodes[y]
		p.knows, p.late.knows = false, false
		for d := range m.Devices {
			p.slots[d].knows = false
		}
		for z := range m.Size {
			s.nodes[y].ears[z].gave = s.nodes[y].ears[z].gave && !view.Has(z)
		}
		if view.Has(y) {
			s.nodes[y].gave = false
		}
	}
	s.grant, s.shown, n.knows = view, false, true
	return true
}
