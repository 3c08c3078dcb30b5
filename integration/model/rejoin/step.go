package rejoin

// round lets one round of time pass, in which the nodes act in the given order. Each asks all its peers, evaluates what
// it has, writes and reads the LUN, and decides.
func (m *Model) round(s *State, order []int) {
	m.age(s)
	for _, x := range order {
		if s.nodes[x].up {
			m.act(s, x)
		}
	}
	s.deaf = 0
	for y := range size {
		for x := range y {
			a, b := &s.nodes[x], &s.nodes[y]
			if k := &s.both[pair(x, y)]; a.feeds != starves && b.feeds != starves && a.view&b.view == 0 {
				*k = min(*k+1, never)
			} else {
				*k = 0
			}
		}
	}
}

func older(a *uint8) { *a = min(*a+1, never) }

// age makes everything one round older, and resets each node that was not fed in time.
func (m *Model) age(s *State) {
	if older(&s.mail.age); s.mail.age >= maxAge {
		s.posted, s.mail, s.from, s.to = false, heard{}, 0, 0 // it is no longer worth anything
	}
	for x := range size {
		n := &s.nodes[x]
		if n.still = min(n.still+1, expiry); !n.up {
			continue
		}
		for y := range size {
			if older(&n.ears[y].age); n.ears[y].age >= max(maxAge, lifetime) {
				if n.ears[y].age = never; m.Fresh {
					n.ears[y] = heard{Statement{boot: n.ears[y].boot}, never}
				}
			}
			n.unseen[y] = min(n.unseen[y]+1, claimed)
		}
		if n.anchor = min(n.anchor+1, lifetime); n.by > 0 {
			n.by = min(n.by+1, claimed)
		}
		if n.budget > 0 {
			n.budget--
		}
		if n.feeds != starves {
			n.unfed = 0
		} else if n.unfed = min(n.unfed+1, runsOn); n.armed && n.unfed >= runsOn {
			s.reset(x)
		}
	}
}

// reset clears the node's memory.
func (s *State) reset(x int) {
	n := &s.nodes[x]
	s.nodes[x] = Node{boot: n.boot, path: n.path, slot: n.slot, still: n.still, late: n.late, hung: n.hung}
	for y := range size {
		s.nodes[x].ears[y].age = never
	}
}

// start boots a node or restarts its agent.
func (s *State) start(x int) {
	n := &s.nodes[x]
	token, armed, unfed := n.token, n.armed, n.unfed
	if n.up {
		s.reset(x)
		n.armed, n.unfed = armed, unfed
		n.token = max(token, n.slot.token, n.hung.token) + 1
	} else {
		s.reset(x)
		n.boot++
		n.token = 1
	}
	n.up = true
	n.anchor = lifetime
}

// act is one round of a node.
func (m *Model) act(s *State, x int) {
	n := &s.nodes[x]
	for y := range size {
		if y != x && s.nodes[y].up && !s.deaf.Has(x) && s.links[x].Has(y) && s.links[y].Has(x) {
			s.hear(x, y, heard{Statement: s.statement(y)})
		}
	}
	if v := s.counts(x); v != n.view {
		n.view = v
		n.token++ // L1
	}
	switch n.view.Len() {
	case size, most:
		if n.feeds == granted || n.feeds == beside {
			n.token++ // the tie is over
		}
		n.feeds, n.armed, n.budget, n.by, n.gave = majority, true, arbitrate+1, 0, false
		m.io(s, x)
	case size / 2:
		m.io(s, x)
		m.tie(s, x)
	default:
		if m.io(s, x); !m.Exact && n.feeds >= granted && m.under(s, x) == beside {
			n.feeds = beside
			return
		}
		if n.feeds == granted || n.feeds == beside {
			n.token++
		}
		n.feeds, n.by, n.gave = starves, 0, false
	}
	if n.anchor >= lifetime && n.feeds != granted && n.feeds != beside && !n.silent {
		n.token, n.silent = n.token+1, true // L1
	}
}

// hear records what y has reported.
func (s *State) hear(x, y int, h heard) {
	n := &s.nodes[x]
	if n.ears[y].age < h.age {
		return
	}
	n.ears[y] = h
	n.unseen[y] = min(n.unseen[y], h.age)
	if n.met[y] = 0; h.armed {
		n.met[y] = h.boot
	}
}

// io writes the slot and then reads the table.
func (m *Model) io(s *State, x int) {
	n := &s.nodes[x]
	if !n.path || n.late {
		return
	}
	n.slot, n.still = record{n.boot, n.token}, 0
	n.known, n.anchor, n.silent = s.latest, 0, false
}

// tie decides in an equal split.
func (m *Model) tie(s *State, x int) {
	n := &s.nodes[x]
	lived := n.feeds == granted || n.feeds == beside
	n.feeds = starves
	if w := m.under(s, x); w != starves {
		if n.feeds, n.armed, n.by = w, true, max(n.by, 1); w == beside && !m.Keep && !n.gave {
			n.gave, n.token = true, n.token+1
			s.write(x)
		}
		return
	}
	n.by, n.gave = 0, false
	if lived || s.broken(x) {
		n.token++
		s.write(x)
	}
	if n.budget > 0 && !s.lost(x) {
		n.feeds = holds
	}
}

// write makes the present token visible at once.
func (s *State) write(x int) {
	if n := &s.nodes[x]; n.path && !n.late {
		n.slot = record{n.boot, n.token}
	}
}

// under returns why x feeds under the latest grant (L6, L14), if it does.
func (m *Model) under(s *State, x int) why {
	n := &s.nodes[x]
	g := &s.log[n.known]
	switch {
	case !g.holders.Has(x), n.view != g.holders && (m.Exact || n.view&^g.holders != 0):
		return starves
	case g.names[x] != record{n.boot, n.token} && !n.gave:
		return starves
	}
	anchor, w := n.anchor, granted
	for y := range size {
		if !g.holders.Has(y) || y == x {
			continue
		}
		h := &n.ears[y]
		switch {
		case h.age < lifetime && h.boot == g.names[y].boot && h.token == g.names[y].token && h.view == g.holders:
			if h.wrote < never {
				anchor = min(anchor, h.wrote+h.age) // L7
			}
		case m.Bridge && m.vouches(h, &g.names[y], x):
			w = beside
		default:
			return starves
		}
	}
	if anchor >= lifetime && (m.Writes || w != beside) {
		return starves
	}
	return w
}

// vouches reports whether a partner says that it counts a majority that contains x.
func (m *Model) vouches(h *heard, named *record, x int) bool {
	return (h.age < lifetime || !m.Fresh) && (h.boot == named.boot || !m.Boot) && (h.view.Has(x) || !m.Mutual) && (h.view.Len() >= most || !m.Most)
}

// broken reports whether a grant names x and another holder has given it up (L10).
func (s *State) broken(x int) bool {
	n := &s.nodes[x]
	g := &s.log[n.known]
	if !g.holders.Has(x) || g.names[x] != (record{n.boot, n.token}) {
		return false
	}
	for y := range size {
		h := &n.ears[y]
		if y != x && g.holders.Has(y) && (left(s.nodes[y].slot, g.names[y]) || h.age < maxAge && left(record{h.boot, h.token}, g.names[y])) {
			return true
		}
	}
	return false
}

// lost reports whether x has read a grant to others that are not done.
func (s *State) lost(x int) bool {
	n := &s.nodes[x]
	return s.latest > 0 && n.anchor == 0 && !s.done() && s.log[s.latest].names[x] != record{n.boot, n.token}
}

func left(shown, named record) bool {
	return shown.boot != named.boot || shown.token > named.token
}

// done reports whether all holders of the latest grant are gone, or have renounced, or their grant has expired,
// according to their slots (L5).
func (s *State) done() bool {
	for y := range size {
		if n, g := &s.nodes[y], &s.log[s.latest]; g.holders.Has(y) && !left(n.slot, g.names[y]) && n.still < expiry {
			return false
		}
	}
	return true
}

// propose is the read of phase 1 of x. If it succeeds, a grant to its half is under way.
func (s *State) propose(x int) bool {
	n := &s.nodes[x]
	if !n.up || !n.path || n.late || n.anchor != 0 || n.view.Len() != size/2 || s.next.holders != 0 || s.latest == maxLog || !s.done() {
		return false
	}
	v := Value{holders: n.view}
	for y := range size {
		if !n.view.Has(y) {
			continue
		}
		token := record{n.boot, n.token}
		if y != x {
			token = record{n.ears[y].boot, n.ears[y].token}
		}
		// The slot must contain that token from an earlier write, and with it the view of that token.
		if p := &s.nodes[y]; p.slot != token || p.still > 1 || n.ears[y].view != n.view && y != x {
			return false
		}
		v.names[y] = token
	}
	s.next = v
	return true
}

// decide makes the grant under way the latest decision.
func (s *State) decide() bool {
	if s.next.holders == 0 {
		return false
	}
	s.latest++
	s.log[s.latest], s.next = s.next, Value{}
	for x := range size {
		s.nodes[x].by = 0
	}
	return true
}
