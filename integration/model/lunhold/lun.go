package lunhold

import "github.com/fencing-agent/fencing-agent/integration/model/search"

// older makes a mark one tick older. A mark that is too old is equal to none.
func (m *Model) older(k *mark) {
	switch {
	case *k == 0 || *k&foreign != 0:
	case *k&ageOf <= mark(m.Dated):
		*k++
	}
	if *k&foreign == 0 && *k&ageOf > mark(m.Dated) && !m.NewestOnly && *k&unended == 0 {
		*k = 0
	}
}

// ageSlot makes what a node has written and read one tick older. A node that is down also has a slot.
func (m *Model) ageSlot(n *Node) {
	for d := range m.Devices + 1 {
		r := &n.late
		if d < m.Devices {
			r = &n.slots[d]
		}
		m.older(&r.ping)
		m.older(&r.landed)
		for y := range m.Size {
			m.older(&r.echo[y])
		}
	}
	for y := range m.Size {
		m.older(&n.echo[y])
		if m.older(&n.table[y].date); n.table[y].date == 0 {
			n.table[y] = look{}
		}
	}
}

// each calls f for all pings of x and all echoes of them.
func (m *Model) each(s *State, x int, f func(*mark)) {
	n := &s.nodes[x]
	f(&n.late.ping)
	for d := range m.Devices {
		f(&n.slots[d].ping)
	}
	for y := range m.Size {
		p := &s.nodes[y]
		f(&p.echo[x])
		f(&p.late.echo[x])
		for d := range m.Devices {
			f(&p.slots[d].echo[x])
		}
	}
	if !m.NoEcho {
		for y := range m.Size {
			f(&n.table[y].date)
		}
	}
}

// disown marks all pings of x as belonging to another process.
func (m *Model) disown(s *State, x int) {
	m.each(s, x, func(k *mark) {
		if *k != 0 && m.GreaterEqual {
			*k = foreign
		} else {
			*k = 0
		}
	})
	s.nodes[x].table = [maxSize]look{}
}

// read reads the table.
func (m *Model) read(s *State, x int) {
	n := &s.nodes[x]
	for y := range m.Size {
		if y == x {
			continue
		}
		n.table[y] = look{}
		r := m.copyOf(s, y, n.usable())
		if r == nil {
			continue
		}
		date := r.echo[x]
		switch {
		case m.NoEcho:
			date = r.landed
		case date&foreign != 0:
			date = n.slots[0].ping &^ foreign // this is the mistake of GreaterEqual
		}
		if date != 0 {
			n.table[y] = look{r.Word, date}
		}
		if !n.slow || m.SlowMoves {
			n.echo[y] = r.ping
		}
	}
	if s.shown && !n.slow {
		n.knows = true
	}
}

// copyOf returns the record of y that is read on these devices: the newest, by its ping, of the complete copies.
func (m *Model) copyOf(s *State, y int, devices Set) (r *record) {
	for d := range m.Devices {
		c := &s.nodes[y].slots[d]
		if devices.Has(d) && c.there && (r == nil || (r.ping == 0 || c.ping < r.ping && !m.OldestCopy || c.ping > r.ping && m.OldestCopy) && c.ping != 0) {
			r = c
		}
	}
	return r
}

// write composes a record and submits it to each device. Its ping is dated before that.
func (m *Model) write(s *State, x int) {
	n := &s.nodes[x]
	r := record{Word: m.word(s, x), there: true, ping: 1, echo: n.echo}
	if m.NoEcho || m.Old.Has(x) {
		r.ping, r.echo = 0, [maxSize]mark{}
	}
	n.beat, n.said = 0, r.lives
	what, to := n.next, n.usable()
	n.next = lands
	for d := range m.Devices {
		switch {
		case !to.Has(d):
			continue
		case what == hangs && d == int(n.at):
			n.late, n.stuck = r, n.stuck|search.Of(d)
			continue
		case what == lingers && d == int(n.at):
			if n.stuck |= search.Of(d); m.AckTime {
				r.ping |= unended
			}
		default:
			n.anchor = 0
		}
		m.land(s, x, d, r)
	}
}

func (m *Model) land(s *State, x, d int, r record) {
	if m.NoEcho {
		r.landed = 1
	}
	s.nodes[x].slots[d] = r
	if r.knows {
		s.shown = true
	}
}

// These are the ways in which a late write ends.
const (
	ended uint8 = iota // it lands
	gone               // it is lost
	torn               // it lands in part
)

// end ends the I/O of x or of its predecessor.
func (m *Model) end(s *State, x int, how uint8) bool {
	n := &s.nodes[x]
	switch {
	case !n.late.there && n.stuck == 0, !n.late.there && how != ended:
		return false
	case !n.late.there: // it is acknowledged
		m.each(s, x, func(k *mark) {
			if *k&unended != 0 {
				*k = 1
			}
		})
	case how == ended:
		m.land(s, x, int(n.at), n.late)
	case how == torn:
		n.slots[n.at] = record{}
	}
	n.late, n.stuck, n.hung, n.at = record{}, 0, 0, 0
	return true
}

// cover returns how long x may feed by H1 and H2, with the set S that allows the longest time.
func (m *Model) cover(s *State, x int) uint8 {
	n := &s.nodes[x]
	var left [maxSize]uint8
	var seen [maxSize]Set
	var can Set
	if !m.mayHold(n.lists) {
		return 0
	}
	left[x], seen[x] = m.Dated, m.lately(s, x)
	for y := range m.Size {
		if y == x {
			continue
		}
		if left[y], seen[y] = m.vacant(n, y); left[y] > 0 && !m.Old.Has(y) {
			can |= search.Of(y)
		}
	}
	best := uint8(0)
	for others := can; ; others = (others - 1) & can {
		if in := others | search.Of(x); m.most(in, n.lists) && m.missed(n.lists, in, &seen) {
			first, last := m.Dated, uint8(0)
			for y := range m.Size {
				if in.Has(y) {
					first, last = min(first, left[y]), max(last, left[y])
				}
			}
			if m.NewestOnly && others != 0 {
				first = m.newest(&left, others)
			}
			best = max(best, first)
		}
		if others == 0 {
			return best
		}
	}
}

// newest is the mistake of NewestOnly: old dates of S count as long as one of its dates is new.
func (m *Model) newest(left *[maxSize]uint8, in Set) (last uint8) {
	for y := range m.Size {
		if in.Has(y) {
			last = max(last, left[y])
		}
	}
	return last - 1
}

// vacant returns for how long a peer is known not to live, by the newest information about it.
func (m *Model) vacant(n *Node, y int) (left uint8, seen Set) {
	h, l := &n.ears[y], &n.table[y]
	byLUN, byNet := uint8(0), uint8(0)
	if age := uint8(l.date & ageOf); l.date != 0 && age <= m.Dated && m.alike(n.lists, l.lists) {
		byLUN = m.Dated + 1 - age
	}
	if m.NetInS && h.age > 0 && h.age <= maxAge && m.alike(n.lists, h.lists) {
		byNet = maxAge + 1 - h.age
	}
	if m.NewestOnly && l.date != 0 {
		byLUN++ // 1 is a date that is too old, and still counts
	}
	switch {
	case byNet > 0 && (byLUN == 0 || mark(h.age) <= l.date&ageOf):
		if h.lives {
			return 0, 0
		}
		if byLUN > 0 && !l.lives {
			byNet = max(byNet, byLUN)
		}
		return byNet, h.lately
	case byLUN > 0 && !l.lives:
		return byLUN, l.lately
	}
	return 0, 0
}

// missed checks H2: of the nodes in S, most of the list do not see a node outside of S.
func (m *Model) missed(by lists, in Set, seen *[maxSize]Set) bool {
	if m.NoH2 {
		return true
	}
	for z := range m.Size {
		if in.Has(z) {
			continue
		}
		without := Set(0)
		for y := range m.Size {
			if in.Has(y) && !seen[y].Has(z) {
				without |= search.Of(y)
			}
		}
		if !m.most(without, by) {
			return false
		}
	}
	return true
}
