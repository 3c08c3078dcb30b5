package sentence

import "hash/maphash"

// Found is what a search found.
type Found[S any] struct {
	Wrong  string
	Way    []string // of actions, from the root
	State  S
	States int
	Cut    bool // the limit of states was reached
}

// Model is what can be searched. Next calls yield for each state that can follow, with the action in words, and with what
// that action did wrong, if anything.
type Model[S comparable] interface {
	Next(s *S, yield func(action string, t S, wrong string))
	Wrong(s *S) string
}

// Search visits all states that can be reached from root, the nearest first, until one is wrong or there are more than limit.
func Search[S comparable](m Model[S], root S, limit int) (f Found[S]) {
	type step struct {
		from   int32
		action string
	}
	type reached struct {
		state S
		id    int32
	}
	seed := maphash.MakeSeed()
	visited := map[uint64]struct{}{maphash.Comparable(seed, root): {}}
	steps := []step{{from: -1}}
	for level := []reached{{root, 0}}; len(level) > 0; {
		var next []reached
		for i := range level {
			m.Next(&level[i].state, func(action string, t S, wrong string) {
				if f.Wrong != "" {
					return
				}
				k := maphash.Comparable(seed, t)
				if _, ok := visited[k]; ok && wrong == "" {
					return
				}
				visited[k] = struct{}{}
				id := int32(len(steps))
				steps = append(steps, step{level[i].id, action})
				if f.Wrong = wrong; wrong == "" {
					f.Wrong = m.Wrong(&t)
				}
				if f.Wrong != "" {
					for at := id; at > 0; at = steps[at].from {
						f.Way = append([]string{steps[at].action}, f.Way...)
					}
					f.State = t
				}
				next = append(next, reached{t, id})
			})
			f.States = len(steps)
			if f.Cut = f.States >= limit; f.Wrong != "" || f.Cut {
				return f
			}
		}
		level = next
	}
	return f
}
