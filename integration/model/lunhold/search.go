package lunhold

import (
	"math/rand/v2"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// Found is the result of a search or a walk.
type Found struct {
	search.Found[State, Action]
	Met Met
}

func (m *Model) search(met *Met) search.Model[State, Action] {
	return search.Model[State, Action]{
		Next:  search.Next(m.actions, m.Apply),
		Wrong: m.Wrong, Note: func(_, s *State) { m.note(met, s) },
	}
}

// Search visits all states that can be reached from root, until one is wrong or more than limit were visited. It calls
// tell after each level.
func (m *Model) Search(root State, limit int, tell func(states, depth, next int)) (f Found) {
	model := m.search(&f.Met)
	model.Level = tell
	f.Found = search.All(model, root, limit)
	return f
}

// Walk takes up to length random steps from root; two thirds of them are ticks.
func (m *Model) Walk(root State, length int, rng *rand.Rand) (f Found) {
	var can []Action
	pick := func(s *State) []Action {
		can = can[:0]
		ticks := rng.IntN(3) > 0
		m.actions(s, func(a Action) {
			if ticks == (a.what == passes) {
				can = append(can, a)
			}
		})
		return can
	}
	f.Found = search.Walk(m.search(&f.Met), root, length, rng, pick, m.Apply)
	return f
}

// Root is a group that has long been whole. The nodes in without have no path to the LUN.
func (m *Model) Root(left Budget, without Set) State {
	var s State
	clique := Set(1<<m.Size - 1)
	for x := range maxSize {
		s.answers[x] = search.Of(x)
	}
	for x := range m.Size {
		s.answers[x] = clique
		n := &s.nodes[x]
		*n = Node{up: true, armed: true, had: true, why: majority, perm: maxAge, anchor: lifetime, lists: 1}
		if !without.Has(x) {
			n.path = 1<<m.Devices - 1
			if m.Reach != nil {
				n.path = m.Reach[x]
			}
		}
		for y := range m.Size {
			if y != x {
				n.ears[y] = heard{Word{lists: 1, seen: clique, lately: clique, lives: true, armed: true}, 1}
			}
		}
	}
	m.join(&s)
	for range 3 * m.Beat {
		m.tick(&s, m.Orders[0])
	}
	for x := range m.Size {
		if n := &s.nodes[x]; n.why.lives() {
			n.lived = m.Claim
		}
	}
	s.reset, s.left, s.lasted = 0, left, m.Dwell
	return s
}
