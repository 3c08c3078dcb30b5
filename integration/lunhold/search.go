package lunhold

import (
	"hash/maphash"
	"math/rand/v2"
)

// Found is what a search or a walk found.
type Found struct {
	Wrong  string
	Way    []Action
	State  State
	States int
	Depth  int
	Cut    bool // the limit of states was reached
	Met    Met
}

// Search visits all states that can be reached from root, the nearest first and in the same order each time, until one is
// wrong or there are more than limit. It calls tell after each level.
func (m *Model) Search(root State, limit int, tell func(*Found, int)) Found {
	type step struct {
		from int32
		by   Action
	}
	type reached struct {
		State
		id int32
	}
	seed := maphash.MakeSeed()
	visited := map[uint64]struct{}{maphash.Comparable(seed, root): {}}
	steps := []step{{from: -1}}
	level := []reached{{root, 0}}
	var f Found
	for ; len(level) > 0; f.Depth++ {
		var next []reached
		for i := range level {
			m.actions(&level[i].State, func(a Action) {
				if f.Wrong != "" {
					return
				}
				t, ok := m.Apply(&level[i].State, a)
				if !ok {
					return
				}
				k := maphash.Comparable(seed, t)
				if _, ok := visited[k]; ok {
					return
				}
				visited[k] = struct{}{}
				id := int32(len(steps))
				steps = append(steps, step{level[i].id, a})
				m.note(&f.Met, &t)
				if f.Wrong = m.Wrong(&t); f.Wrong != "" {
					for at := id; at > 0; at = steps[at].from {
						f.Way = append([]Action{steps[at].by}, f.Way...)
					}
					f.State = t
					return
				}
				next = append(next, reached{t, id})
			})
			if f.States = len(steps); f.Wrong != "" {
				return f
			}
			if f.States >= limit {
				f.Cut = true
				return f
			}
		}
		if level = next; tell != nil {
			tell(&f, len(level))
		}
	}
	return f
}

// Walk takes up to length random steps from root, two of three of them ticks.
func (m *Model) Walk(root State, length int, rng *rand.Rand) Found {
	var f Found
	s := root
	var can []Action
	for range length {
		can = can[:0]
		ticks := rng.IntN(3) > 0
		m.actions(&s, func(a Action) {
			if ticks == (a.what == passes) {
				can = append(can, a)
			}
		})
		for _, i := range rng.Perm(len(can)) {
			t, ok := m.Apply(&s, can[i])
			if !ok {
				continue
			}
			s = t
			m.note(&f.Met, &s)
			f.Way = append(f.Way, can[i])
			f.States++
			break
		}
		if f.Wrong = m.Wrong(&s); f.Wrong != "" {
			f.State = s
			break
		}
	}
	return f
}

// Root is a group that is whole and has long been so. The nodes of without have no path to the LUN.
func (m *Model) Root(left Budget, without Set) State {
	var s State
	clique := Set(1<<m.Size - 1)
	for x := range maxSize {
		s.answers[x] = setOf(x)
	}
	for x := range m.Size {
		s.answers[x] = clique
		n := &s.nodes[x]
		*n = Node{up: true, armed: true, had: true, why: majority, perm: maxAge, anchor: lifetime, lists: 1}
		if !without.has(x) {
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
