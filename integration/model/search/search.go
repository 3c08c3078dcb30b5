// Package search visits the states of a model: all that can be reached, or those of a random walk. The models beside it are
// rules, and what must not be; each searches by this package.
//
// It is a module of its own, since nothing of it runs in a program and nothing of a program runs in it: its tests are run by
// make model KIND=short, and by CI when a file of it has changed.
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

// Model is what can be searched: S is a state, A is what happens.
type Model[S comparable, A any] struct {
	// Next calls yield for each state that can follow, with what leads there, and with what that did wrong, if anything.
	Next func(s *S, yield func(a A, t S, wrong string))
	// Wrong says what must not be in a state, or "".
	Wrong func(s *S) string
	// Note is told of each state that is met for the first time; nil: nobody counts.
	Note func(before, s *S)
	// Level is told after each level, with how many states are in the next one; nil: nobody waits.
	Level func(states, depth, next int)
}

// Next makes a Model's of what may happen and of what knows whether it can.
func Next[S comparable, A any](may func(*S, func(A)), apply func(*S, A) (S, bool)) func(*S, func(A, S, string)) {
	return func(s *S, yield func(A, S, string)) {
		may(s, func(a A) {
			if t, ok := apply(s, a); ok {
				yield(a, t, "")
			}
		})
	}
}

// Found is what a search or a walk found.
type Found[S, A any] struct {
	Wrong  string
	Way    []A // from the root
	State  S
	States int
	Depth  int
	Cut    bool // the limit of states was reached
}

// All visits all states that can be reached from root, the nearest first and in the same order each time, until one is wrong or
// there are more than limit. A way that it finds is a shortest one.
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

// Walk takes up to length steps from root: of what pick says may happen, in a random order, the first that can.
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

// Of is a set of those.
func Of(nodes ...int) (s Set) {
	for _, i := range nodes {
		s |= 1 << i
	}
	return s
}

// Has reports whether a node is in it.
func (s Set) Has(i int) bool { return s>>i&1 == 1 }

// Len is how many are.
func (s Set) Len() int { return bits.OnesCount8(uint8(s)) }

// String counts the nodes from 1, as people do.
func (s Set) String() string {
	var b strings.Builder
	for i := range 8 {
		if s.Has(i) {
			fmt.Fprint(&b, i+1)
		}
	}
	return "{" + b.String() + "}"
}

// Env is a number of the environment, to repeat a seed or to go on for longer.
func Env(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}
