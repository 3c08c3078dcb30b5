package lunhold

import "github.com/fencing-agent/fencing-agent/integration/model/search"

// partly reports whether the network is neither whole nor gone.
func (m *Model) partly(s *State) bool {
	whole, none := true, true
	for x := range m.Size {
		whole = whole && s.answers[x] == 1<<m.Size-1
		none = none && s.answers[x] == search.Of(x)
	}
	return !whole && !none
}

// watch records when any node lived last, and the rest of the time in which an outage reaches all nodes. That time is
// over when the network is gone, and starts again when the network has been whole for D_max.
func (m *Model) watch(s *State) {
	if !m.Strikes {
		return
	}
	s.alive = min(s.alive+1, maxAge+1)
	for x := range m.Size {
		if n := &s.nodes[x]; n.up && n.perm > 0 && n.why.lives() {
			s.alive = 0
		}
	}
	switch whole := s.answers == m.Shapes[0].Answers; {
	case m.Partial == 0 || whole && s.lasted < maxAge:
	case whole:
		s.partial = 0
	case m.partly(s):
		s.partial++
	default:
		s.partial = m.Partial
	}
}

// strikes reports whether x, which starves, strikes itself: what it reads has been a reason without interruption, and
// still is one if only records count that are dated at least D_max after the first of them.
func (m *Model) strikes(s *State, x int) bool {
	n := &s.nodes[x]
	if n.why != starves || !n.armed || !n.had {
		n.against = 0
		return false
	}
	if n.against = min(n.against+1, 2*maxAge+1); !m.ground(s, x, m.Dated) && !m.StrikeSilent {
		n.against = 0
	}
	switch {
	case m.StrikeSilent:
		return n.against > 1
	case m.StrikeAtOnce:
		return n.against > 0
	case m.StrikeGrant && n.usable() != 0 && !n.slow && m.lost(s, x) && !s.grant.Has(x):
		return true
	case m.StrikeTold:
		return n.against > maxAge
	case m.StrikeSoon:
		return n.against > maxAge && m.ground(s, x, n.against+1-maxAge)
	default:
		return n.against > maxAge && m.ground(s, x, n.against-maxAge)
	}
}

// ground reports whether the slots show, by dates of these ages, a living majority without x, or a grant to others that
// live.
func (m *Model) ground(s *State, x int, within uint8) bool {
	n := &s.nodes[x]
	return m.isolated(n, x, within) || n.usable() != 0 && !n.slow && m.lost(s, x) && !s.grant.Has(x) && m.shown(s, x, within)
}

func (m *Model) strike(s *State, x int) {
	m.halt(s, x)
	s.struck |= search.Of(x)
}

// shown reports whether all holders of the grant say on the LUN that they live.
func (m *Model) shown(s *State, x int, within uint8) bool {
	for y := range m.Size {
		if l := &s.nodes[x].table[y]; s.grant.Has(y) && (l.date == 0 || uint8(l.date&ageOf) > within || !l.lives) {
			return false
		}
	}
	return true
}
