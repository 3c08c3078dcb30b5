package roster

import (
	"iter"
	"math/bits"
)

// Set is a set of roster indices. It is a comparable value: two views are the
// same if and only if the sets are equal with ==, and copying never allocates.
type Set [MaxNodes / 64]uint64

// SetOf returns the set of these indices.
func SetOf(indices ...int) Set {
	var s Set
	for _, i := range indices {
		s.Add(i)
	}
	return s
}

// FullSet returns the set of the indices 0..n-1.
func FullSet(n int) Set {
	var s Set
	for i := range n {
		s.Add(i)
	}
	return s
}

func (s *Set) Add(i int) { s[i/64] |= 1 << (i % 64) }

func (s *Set) Remove(i int) { s[i/64] &^= 1 << (i % 64) }

// Has reports whether i is in the set; an index outside the range never is.
func (s Set) Has(i int) bool { return i >= 0 && i < MaxNodes && s[i/64]&(1<<(i%64)) != 0 }

func (s Set) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

func (s Set) IsEmpty() bool { return s == Set{} }

// Minus returns the members of s that are not in t.
func (s Set) Minus(t Set) Set {
	for i := range s {
		s[i] &^= t[i]
	}
	return s
}

// And returns the members of both s and t.
func (s Set) And(t Set) Set {
	for i := range s {
		s[i] &= t[i]
	}
	return s
}

// Union returns the members of s or t.
func (s Set) Union(t Set) Set {
	for i := range s {
		s[i] |= t[i]
	}
	return s
}

// Intersects reports whether s and t have a common member.
func (s Set) Intersects(t Set) bool {
	for i := range s {
		if s[i]&t[i] != 0 {
			return true
		}
	}
	return false
}

// All yields the members in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for w, word := range s {
			for word != 0 {
				if !yield(w*64 + bits.TrailingZeros64(word)) {
					return
				}
				word &= word - 1
			}
		}
	}
}
