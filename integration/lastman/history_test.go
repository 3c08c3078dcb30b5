package lastman

import (
	"strings"
	"testing"
)

// found says what finds that history, or another one, without being told.
type found uint8

const (
	byWalk found = iota
	bySearch
	byLongSearch
	byNone // it takes too long
)

// history is what goes wrong without one of the rules.
type history struct {
	name  string
	nodes int
	rules Rules        // that hold but for one,
	leave func(*Rules) // which is left out
	found found
	way   []Action
}

// smaller makes the first half the group, in two decisions that all of it have read.
func smaller(members ...uint8) []Action {
	return way(forward(1, Prepare), beats(members...), forward(1, Force), of(syncs, members...))
}

var histories = []history{
	{
		name: "1: a majority that does not know", nodes: 4, rules: Safe, leave: func(r *Rules) { r.Memory = Forgets },
		way: way(smaller(1, 2), graph(1), beats(1), of(resets, 2), forward(1, Grant), of(syncs, 1),
			of(moves, 2, 3, 4), of(boots, 2, 3, 4)), // and none of them has a path to the LUN
	},
	{
		name: "2: a decision that lands late", found: bySearch, nodes: 4, rules: Gated, leave: func(r *Rules) { r.BondFirst = false },
		way: way(underWay(1, Prepare), underWay(1, Shrink), graph(1), of(resets, 2), of(boots, 2, 3, 4), of(claims, 2, 3, 4), of(decides, 1),
			beats(1), forward(1, Force), beats(1), forward(1, Grant), beats(1)),
	},
	{
		name: "3: a return that is not known everywhere", nodes: 6, rules: Safe, leave: func(r *Rules) { r.OnlyGrants = false },
		way: way(smaller(1, 2, 3), forward(1, Return), beats(1), of(boots, 4, 5, 6), of(claims, 4, 5, 6), graph(1)),
	},
	{
		name: "4: a return without a decision", nodes: 4, rules: Safe, leave: func(r *Rules) { r.ReturnByDecision = false },
		way: way(smaller(1, 2), of(boots, 3, 4), of(frees, 2), beats(2), graph(1), beats(1, 2), forward(1, Grant), beats(1)),
	},
	{
		name: "5: a bond that ends with the token", nodes: 4, rules: Safe, leave: func(r *Rules) { r.Keep = false },
		way: way(forward(1, Prepare), beats(1, 2), underWay(1, Force), graph(1), of(boots, 3, 4), of(claims, 2, 3, 4), beats(2), of(decides, 1),
			beats(1), forward(1, Grant), beats(1)),
	},
	{
		name: "6: the write of the boot before shows the bond", found: byNone, nodes: 4, rules: Gated, leave: func(r *Rules) { r.Memory = AnyRead },
		way: way(forward(1, Prepare), beats(1), of(syncs, 2), of(hangs, 2), of(boots, 3, 4), of(peeks, 3, 4), of(restarts, 2), of(lands, 2),
			forward(1, Force), beats(1), graph(1), of(moves, 2), beats(1), forward(1, Grant), beats(1)),
	},
	{
		name: "7: one is counted that has not read the log", found: byLongSearch, nodes: 4, rules: Gated, leave: func(r *Rules) { r.Uncounted = false },
		way: way(forward(1, Prepare), beats(1, 2), underWay(1, Force), graph(1), of(resets, 2), of(moves, 2), of(boots, 2, 3, 4), of(claims, 3, 4),
			of(decides, 1), beats(1), forward(1, Grant), beats(1)),
	},
	{
		name: "8: one is counted whose disk was replaced", nodes: 4, rules: Safe, leave: func(r *Rules) { r.Uncounted = false }, found: byLongSearch,
		way: way(forward(1, Prepare), beats(1, 2), underWay(1, Force), graph(1), of(replaces, 2), of(moves, 2), of(boots, 2, 3, 4), of(claims, 3, 4),
			of(decides, 1), beats(1), forward(1, Grant), beats(1)),
	},
}

// tell makes a history happen, as far as the rules let it, and says when two parts live.
func tell(m *Model, s State, as []Action) (told string, torn bool) {
	var b strings.Builder
	for _, a := range as {
		t, ok := m.Apply(&s, a)
		if !ok {
			b.WriteString("(cannot be: " + a.String() + ")\n")
			continue
		}
		s = t
		b.WriteString(a.String() + "\n")
		if _, _, torn := s.Torn(&m.Rules); torn {
			return b.String() + s.String(), true
		}
	}
	return b.String() + s.String(), false
}

// Guard: none of the rules can be left out, and with all of them nothing of this happens.
func TestHistories(t *testing.T) {
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			without := h.rules
			h.leave(&without)
			if told, torn := tell(group(h.nodes, without), won(h.nodes, plenty), h.way); !torn {
				t.Errorf("without the rule it should end with two parts that live:\n%s", told)
			}
			for _, r := range []Rules{Safe, Gated} {
				if told, torn := tell(group(h.nodes, r), won(h.nodes, plenty), h.way); torn {
					t.Errorf("two parts live with all rules (%v):\n%s", r.Memory, told)
				}
			}
		})
	}
}

// who lives, by the views of those that do.
func who(m *Model, s *State) Set {
	v := s.views()
	var live Set
	for x := range int(s.n) {
		if s.lives(x, &v, &m.Rules) {
			live |= setOf(x)
		}
	}
	return live
}

// What it is for, and what it costs.
func TestWhoLives(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules Rules
		root  State
		way   []Action
		want  Set
	}{
		{"a half of a half goes on", Safe, won(4, plenty), way(smaller(1, 2), of(resets, 2), beats(1), forward(1, Grant), of(syncs, 1)), setOf(0)},
		{"without shrinking it does not", Safe, won(4, plenty), way(of(resets, 2), beats(1)), 0},
		{"and it is the group", Safe, won(4, plenty), way(smaller(1, 2), of(resets, 2), beats(1), forward(1, Grant), of(syncs, 1), smaller(1)), setOf(0)},
		{"all come back", Safe, won(4, plenty), way(smaller(1, 2), of(resets, 2), beats(1), forward(1, Grant), of(syncs, 1),
			of(boots, 2, 3, 4), of(claims, 2, 3, 4), beats(1), forward(1, Return), of(syncs, 1, 2, 3, 4)), full(4)},
		{"a half whose shrinking was broken off returns", Safe, won(4, plenty), way(forward(1, Prepare), beats(1, 2), of(resets, 2), of(boots, 3, 4), of(claims, 3, 4),
			beats(1), forward(1, Return), beats(1, 3, 4)), setOf(0, 2, 3)},
		{"members that are all gone are not waited for", Safe, won(6, plenty), way(smaller(1, 2, 3), of(resets, 1, 2, 3), of(boots, 4, 5, 6), of(claims, 4, 5, 6),
			beats(4), forward(4, Return), beats(4, 5, 6), forward(4, Grant), beats(4, 5, 6)), setOf(3, 4, 5)},
		{"a group without bonds boots without its LUN", Safe, healthy(4, plenty), way(of(moves, 1, 2, 3, 4), of(resets, 1, 2, 3, 4), of(boots, 1, 2, 3, 4)), full(4)},
		{"not so if the LUN is its memory", Gated, healthy(4, plenty), way(of(moves, 1, 2, 3, 4), of(resets, 1, 2, 3, 4), of(boots, 1, 2, 3, 4)), 0},
		{"one that is bound is missing without its LUN", Safe, won(4, plenty), way(smaller(1, 2), of(resets, 1, 2), of(moves, 1, 2, 3, 4), of(boots, 1, 2, 3, 4)), 0},
		{"one with another disk lives when it has read the log", Safe, healthy(4, plenty), way(of(replaces, 1), of(boots, 1), of(claims, 1)), full(4)},
		{"and not before", Safe, healthy(4, plenty), way(of(replaces, 1), of(boots, 1)), setOf(1, 2, 3)},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := group(int(c.root.n), c.rules)
			m.Log = maxLog
			s := c.root
			for _, a := range c.way {
				next, ok := m.Apply(&s, a)
				if !ok {
					t.Fatalf("cannot be: %v\n%v", a, &s)
				}
				s = next
			}
			if got := who(m, &s); got != c.want {
				t.Errorf("%v live, want %v\n%v", got, c.want, &s)
			}
		})
	}
}
