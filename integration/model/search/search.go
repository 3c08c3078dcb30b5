// Package search visits the states of a model: all states that can be reached, or those of a random walk. The models
// beside it consist of rules and of conditions that must hold; each uses this package to search.
//
// It is a separate module, because no program uses it and it uses no program. Its tests are run by make model
// KIND=short, and by CI when one of its files has changed.
package search

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
)

// Model describes what can be searched: S is a state, and A is an action.
type Model[S comparable, A any] struct {
	// Next calls yield for each state that can follow, with the action that leads there, and with what that action did
	// wrong, if anything.
	Next func(s *S, yield func(a A, t S, wrong string))
	// Wrong returns what is wrong in a state, or "".
	Wrong func(s *S) string
	// Note is called for each state that is reached for the first time; it may be nil.
	Note func(before, s *S)
	// Level is called after each level with the number of states in the next one; it may be nil.
	Level func(states, depth, next int)
}

// Next builds a Model's Next from may, which lists what may happen, and apply, which decides whether it can.
func Next[S comparable, A any](may func(*S, func(A)), apply func(*S, A) (S, bool)) func(*S, func(A, S, string)) {
	return func(s *S, yield func(A, S, string)) {
		may(s, func(a A) {
			if t, ok := apply(s, a); ok {
				yield(a, t, "")
			}
		})
	}
}

// Found is the result of a search or a walk.
type Found[S, A any] struct {
	Wrong  string
	Way    []A // from the root
	State  S
	States int
	Depth  int
	Cut    bool // the limit of states was reached
}

// All visits all states that can be reached from root, the nearest first and in the same order each time, until one is
// wrong or more than limit were visited. The history that it returns is a shortest one.
func All[S comparable, A any](m Model[S, A], root S, limit int) (f Found[S, A]) {
	type step struct {
		from int32
		by   A
	}
	type reached struct {
		state S
		id    int32
	}
	seed := maphash.MakeSeed()
	visited := map[uint64]struct{}{maphash.Comparable(seed, root): {}}
	steps := []step{{from: -1}}
	level := []reached{{root, 0}}
	for ; len(level) > 0; f.Depth++ {
		var next []reached
		for i := range level {
			m.Next(&level[i].state, func(a A, t S, wrong string) {
				if f.Wrong != "" {
					return
				}
				k := maphash.Comparable(seed, t)
				if _, ok := visited[k]; ok && wrong == "" {
					return
				}
				visited[k] = struct{}{}
				id := int32(len(steps))
				steps = append(steps, step{level[i].id, a})
				if m.Note != nil {
					m.Note(&level[i].state, &t)
				}
				if f.Wrong = wrong; wrong == "" {
					f.Wrong = m.Wrong(&t)
				}
				if f.Wrong != "" {
					for at := id; at > 0; at = steps[at].from {
						f.Way = append([]A{steps[at].by}, f.Way...)
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
		if level = next; m.Level != nil {
			m.Level(f.States, f.Depth, len(level))
		}
	}
	return f
}

// Walk takes up to length steps from root. Each step is the first possible action in a random order of those that pick
// returns.
func Walk[S comparable, A any](m Model[S, A], root S, length int, rng *rand.Rand, pick func(*S) []A, apply func(*S, A) (S, bool)) (f Found[S, A]) {
	s := root
	for range length {
		can := pick(&s)
		for _, i := range rng.Perm(len(can)) {
			t, ok := apply(&s, can[i])
			if !ok {
				continue
			}
			if m.Note != nil {
				m.Note(&s, &t)
			}
			s = t
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

// Set is a set of nodes, bit i for node i.
type Set uint8

// Of returns the set of these nodes.
func Of(nodes ...int) (s Set) {
	for _, i := range nodes {
		s |= 1 << i
	}
	return s
}

// Has reports whether the set contains a node.
func (s Set) Has(i int) bool { return s>>i&1 == 1 }

// Len returns the size of the set.
func (s Set) Len() int { return bits.OnesCount8(uint8(s)) }

// String lists the nodes, counted from 1.
func (s Set) String() string {
	var b strings.Builder
	for i := range 8 {
		if s.Has(i) {
			fmt.Fprint(&b, i+1)
		}
	}
	return "{" + b.String() + "}"
}

// Env returns a number from the environment, for example to repeat a seed or to search for longer.
func Env(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}
