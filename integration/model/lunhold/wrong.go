package lunhold

import (
	"fmt"
	"math/bits"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// Wrong returns what is wrong in a state, or "".
func (m *Model) Wrong(s *State) string {
	if m.Partial > 0 && s.struck != 0 {
		return fmt.Sprintf("P3: %v struck themselves", s.struck)
	}
	if bad := s.reset &^ m.Exempt; m.Calm && bad != 0 {
		return fmt.Sprintf("P3: %v was reset", bad)
	}
	if s.struck != 0 && s.alive > maxAge {
		return fmt.Sprintf("P6: %v struck themselves, and nobody lives", s.struck)
	}
	for x := range m.Size {
		if n := &s.nodes[x]; m.Steady && n.up && n.perm == 0 && !m.Exempt.Has(x) {
			return fmt.Sprintf("P3: %d starves", x+1)
		}
		if by := m.condemned(s, x); by != "" {
			return fmt.Sprintf("P1: %d runs, and %s says FENCED of it", x+1, by)
		}
		for z := range m.Size {
			if m.beside(s, x, z) {
				return fmt.Sprintf("P2: %d lives, and %d, which is not of its set, has been feeding for too long", z+1, x+1)
			}
		}
		for z := range m.Size {
			if n := &s.nodes[x]; !m.Claims && !m.Old.Has(x) && n.why.lives() && n.unseen[z] > n.lived {
				return fmt.Sprintf("P5: what %d has not seen of %d covers time in which it did not live", x+1, z+1)
			}
		}
	}
	if m.Check != nil {
		return m.Check(s)
	}
	return ""
}

// beside checks P2: x feeds beside z, which has long lived without it.
func (m *Model) beside(s *State, x, z int) bool {
	a, b := &s.nodes[x], &s.nodes[z]
	return a.perm > 0 && !a.stopped && s.apart[x][z] > m.overlap(b.why == granted)
}

// claim reports whether y claims the death of z.
func (m *Model) claim(s *State, y, z int) bool {
	n := &s.nodes[y]
	lives := n.why.lives() && n.perm > 0
	return n.up && y != z && n.unseen[z] >= m.Claim && n.met.Has(z) && (lives || m.MAsProposed) && m.listed(n.lists, search.Of(y, z))
}

// claims reports whether y claims the death of any node.
func (m *Model) claims(s *State, y int) (int, bool) {
	for z := range m.Size {
		if m.claim(s, y, z) {
			return z, true
		}
	}
	return 0, false
}

// condemned says which node may take a running node for dead: a node that lives, because of the claims of a majority,
// or of the whole granted half.
func (m *Model) condemned(s *State, x int) string {
	if !s.nodes[x].up {
		return ""
	}
	for k, l := range m.Lists {
		var claim, alive, half Set
		for y := range m.Size {
			n := &s.nodes[y]
			if n.lists.just(k) && m.claim(s, y, x) || s.claimed[y][x].list.just(k) {
				claim |= search.Of(y)
			}
			if n.up && n.perm > 0 && n.why.lives() && n.lists.just(k) {
				alive |= search.Of(y)
				if n.why == granted {
					half |= search.Of(y)
				}
			}
		}
		switch {
		case 2*claim.Len() > l.Len() && alive != 0:
			return "the majority " + claim.String()
		case half != 0 && half == s.grant && s.grant&^claim == 0:
			return "the granted half " + half.String()
		}
	}
	return ""
}

// Met counts what a search has reached. If it is zero, the search proves nothing.
type Met struct {
	Held    int   // states in which a node holds by H1
	Asked   int   // states in which a node holds by H4
	Lived   int   // one node lives, and another one holds
	Resets  int   // a node was reset by its watchdog
	Claims  int   // a node claims a death
	Proofs  int   // a majority or a granted half claims a death
	Struck  int   // a node strikes itself
	Longest uint8 // the longest time for which one lived while another, outside of its set, fed
}

func (m *Model) note(met *Met, s *State) {
	var living, held bool
	for x := range m.Size {
		n := &s.nodes[x]
		switch {
		case n.perm == 0:
		case n.why.lives():
			living = true
		case n.why == holds:
			held = true
			met.Held++
		case n.why == asks:
			met.Asked++
		}
		if _, ok := m.claims(s, x); ok {
			met.Claims++
		}
		for z := range m.Size {
			if n.perm > 0 && !n.stopped {
				met.Longest = max(met.Longest, s.apart[x][z])
			}
		}
		if !n.up {
			met.Resets++
		}
		if !n.up && m.dead(s, x) {
			met.Proofs++
		}
	}
	if living && held {
		met.Lived++
	}
	if s.struck != 0 {
		met.Struck++
	}
}

// dead reports whether others have claimed the death of a node that is gone. It does not use met, which ends with the
// boot.
func (m *Model) dead(s *State, x int) bool {
	claim := Set(0)
	for y := range m.Size {
		n := &s.nodes[y]
		if n.up && n.perm > 0 && n.why.lives() && n.unseen[x] >= m.Claim && m.listed(n.lists, search.Of(x, y)) {
			claim |= search.Of(y)
		}
	}
	for _, l := range m.Lists {
		if l.Has(x) && 2*(claim&l).Len() >= l.Len() {
			return true
		}
	}
	return false
}

// Kept checks P4: it leaves the network to part alone from here on, and names the node of part that does not live soon,
// although it runs.
func (m *Model) Kept(s State, part Set) string {
	for x := range m.Size {
		if n := &s.nodes[x]; part.Has(x) {
			s.answers[x], n.stopped, n.slow = part, false, false
		} else {
			s.answers[x] = search.Of(x)
		}
	}
	for range maxAge + 2 {
		m.tick(&s, m.Orders[0])
	}
	run, able := m.running(&s, part)
	switch {
	case m.enough(&s, run):
		if len(m.Lists) > 1 { // a change may have to be completed first
			for range 2 * maxAge {
				m.tick(&s, m.Orders[0])
			}
			run, _ = m.running(&s, part)
		}
	case len(m.Lists) > 1:
		return ""
	case able == part && m.Size == 2*part.Len() && (s.grant == 0 || m.done(&s)):
		if first := bits.TrailingZeros8(uint8(part)); !m.propose(&s, first) {
			return fmt.Sprintf("P4: %v cannot be decided for", part)
		}
		for range 2 {
			m.tick(&s, m.Orders[0])
		}
		if run, _ = m.running(&s, part); run != part {
			return "" // a member was reset because of earlier events
		}
	default:
		return ""
	}
	for x := range m.Size {
		if n := &s.nodes[x]; run.Has(x) && (n.perm == 0 || !n.why.lives()) && n.lists&fresh == 0 && !m.removed(n, x) {
			return fmt.Sprintf("P4: %v is together, and %d does not live", part, x+1)
		}
	}
	return ""
}

// enough reports whether a set has a majority of each list that any of its nodes uses.
func (m *Model) enough(s *State, set Set) bool {
	by := lists(0)
	for x := range m.Size {
		if n := &s.nodes[x]; set.Has(x) && n.lists&fresh == 0 {
			by |= n.lists & chain
		}
	}
	return by != 0 && m.quorate(set, by)
}

// running returns the nodes of part that run, and those of them that can use the LUN.
func (m *Model) running(s *State, part Set) (run, able Set) {
	for x := range m.Size {
		if n := &s.nodes[x]; part.Has(x) && n.up {
			run |= search.Of(x)
			if n.usable() != 0 {
				able |= search.Of(x)
			}
		}
	}
	return run, able
}
