package sentence

import "github.com/fencing-agent/fencing-agent/integration/model/search"

const (
	most   = search.MaxNodes
	maxAge = 1 // D_max, in ticks
	after  = 3 // the waiting time of P1
	recent = 2 // a majority still counts as living for this long after it ceased to live
)

// Set is a set of nodes.
type Set = search.Set

// node is the part of a node that both models have: which nodes it hears and counts, and how long it has lived.
type node struct {
	view, seen Set // from its last statement
	age        [most]uint8
	hears      [most]Set // by peer: the nodes that it sees, according to its last statement
	knows      Set       // nodes whose sentences it knows
	lived      uint8     // ticks since it last lived, up to recent+1
	steady     uint8     // ticks since its view changed or it heard a node outside of the view, up to after
	rows       uint8     // consecutive checks in which the others show that they live without it
	condemned  bool
}

// hear takes the answers of the nodes that the network reaches, and returns these nodes.
func (n *node) hear(x, size int, links Set, peer func(int) *node) (heard Set) {
	for y := range size {
		if y == x {
			continue
		}
		if n.age[y] = min(maxAge+1, n.age[y]+1); !links.Has(y) {
			continue
		}
		p := peer(y)
		n.age[y], n.hears[y] = 0, p.seen
		heard |= 1 << y
		if p.condemned {
			n.knows |= 1 << y
		}
	}
	return heard
}

// reach returns the nodes that a node sees, and those that it counts.
func (n *node) reach(x, size int, counted bool) (seen, view Set) {
	seen, view = 1<<x, 1<<x
	for y := range size {
		if y == x || n.age[y] > maxAge || n.knows.Has(y) && !counted {
			continue
		}
		seen |= 1 << y
		if n.hears[y].Has(x) {
			view |= 1 << y
		}
	}
	return seen, view
}

// pass records a tick: whether the node lived, and whether it heard a node that it does not count.
func (n *node) pass(lives, outside bool) {
	if n.lived = min(recent+1, n.lived+1); lives {
		n.lived = 0
	}
	if n.steady = min(after, n.steady+1); outside {
		n.steady = 0
	}
}

// living returns the nodes that are not condemned and live, or did a moment ago.
func living(size int, peer func(int) *node) (in Set) {
	for y := range size {
		if n := peer(y); !n.condemned && n.lived <= recent {
			in |= 1 << y
		}
	}
	return in
}

// each lets all nodes act, one after the other, and returns what the last of them did wrong.
func each(size int, reverse bool, act func(x int) string) (wrong string) {
	for x := range size {
		if reverse {
			x = size - 1 - x
		}
		if w := act(x); w != "" {
			wrong = w
		}
	}
	return wrong
}

// Model is a model that can be searched. A node's action can be wrong, but not a state.
type Model[S comparable] interface {
	tick(*S) (wrong string)
	// next yields everything that can happen except a tick.
	next(s *S, yield func(action string, t S))
}

// Search visits all states that can be reached from root, until one is wrong or more than limit were visited.
func Search[S comparable](m Model[S], root S, limit int) search.Found[S, string] {
	return search.All(search.Model[S, string]{
		Next: func(s *S, yield func(string, S, string)) {
			t := *s
			wrong := m.tick(&t)
			yield("a tick passes", t, wrong)
			m.next(s, func(action string, t S) { yield(action, t, "") })
		},
		Wrong: func(*S) string { return "" },
	}, root, limit)
}

// settled returns a group that has long been whole.
func settled[S comparable](m Model[S], s S) S {
	for range 8 {
		m.tick(&s)
	}
	return s
}
