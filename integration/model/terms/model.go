package terms

import "fmt"

// MaxNodes limits a group, because a state is a comparable value.
const MaxNodes = 4

// Rules contains the guards in force. Each can be left out to see its purpose.
type Rules struct {
	Majority  bool // T1: a node needs confirmations by a majority, including itself; without: by half
	Unanimous bool // T2: all members of a half must agree; without: one, with others on its medium
	Stranger  bool // replaces T1: only a node that has heard other terms in this process stands back
	Forgets   bool // T3: with new terms a node begins without any confirmation
	First     bool // T3: the terms are in the file before they are announced or used
	Slots     bool // T4: a confirmation counts if the speaker's slot contains it on the listener's medium
	Storage   bool // T3: another storage device means another beginning, whatever its name
}

// All contains the rules of docs/lease.md.
var All = Rules{Majority: true, Unanimous: true, Forgets: true, First: true, Slots: true, Storage: true}

// World is the group and its media.
type World struct {
	Nodes  int
	Clones bool // both media have the same name
	Rules  Rules
}

type medium uint8

const (
	none medium = iota
	first
	second
)

// node is a node of the group. Sets have a bit for each node.
type node struct {
	up    bool
	uses  medium // of the running process, or the last one
	told  bool   // it announces its terms and uses them
	heard uint8  // nodes that have confirmed its terms

	file  medium // the terms in the file
	words uint8  // and the nodes that had confirmed them

	strangers bool // this process has heard other terms
	// An answer is under way to this process: it contains what the other node used when it answered.
	asked [MaxNodes]medium
	wrote [MaxNodes]bool // and the other node's slot contains the same
}

type state [MaxNodes]node

// name returns the name of a medium that nodes announce.
func (w *World) name(m medium) medium {
	if w.Clones && m != none {
		return first
	}
	return m
}

// known returns what a node can know of a medium by itself: everything, if storage devices have names.
func (w *World) known(m medium) medium {
	if w.Rules.Storage {
		return m
	}
	return w.name(m)
}

func (w *World) everybody() uint8 { return 1<<w.Nodes - 1 }

// agreed reports whether a node would take part in the arbitration of an equal split.
func (w *World) agreed(s *state, i int) bool {
	n := &s[i]
	switch {
	case !n.up || !n.told:
		return false
	case w.Rules.Stranger:
		return !n.strangers
	case w.Rules.Majority:
		return 2*count(n.heard|1<<i) > w.Nodes
	default:
		return 2*count(n.heard|1<<i) >= w.Nodes
	}
}

func count(set uint8) (n int) {
	for ; set != 0; set &= set - 1 {
		n++
	}
	return n
}

// winners returns two disjoint halves, each of which agrees on a medium that the other does not use.
func (w *World) winners(s *state) (a, b uint8, both bool) {
	for half := uint8(1); half < w.everybody(); half++ {
		other := w.everybody() &^ half
		if 2*count(half) != w.Nodes || half > other {
			continue
		}
		if m, ok := w.united(s, half); ok {
			if o, ok := w.united(s, other); ok && m != o {
				return half, other, true
			}
		}
	}
	return 0, 0, false
}

func (w *World) united(s *state, half uint8) (m medium, ok bool) {
	agree := 0
	for i := range w.Nodes {
		if half&(1<<i) == 0 {
			continue
		}
		if n := &s[i]; !n.up || !n.told || m != none && n.uses != m {
			return none, false
		}
		m = s[i].uses
		if w.agreed(s, i) {
			agree++
		}
	}
	return m, agree == count(half) || !w.Rules.Unanimous && agree > 0
}

// step is one possible event.
type step struct {
	what string
	ends bool // it ends a process
	next state
}

// steps lists all events that can happen next.
func (w *World) steps(s *state) []step {
	var out []step
	ends := false
	add := func(next state, format string, args ...any) {
		if next != *s {
			out = append(out, step{fmt.Sprintf(format, args...), ends, next})
		}
	}
	for i := range w.Nodes {
		ends = s[i].up
		for _, m := range []medium{first, second} {
			next := *s
			w.start(&next[i], m)
			add(next, "n%d starts on medium %d", i+1, m)
		}
		n := &s[i]
		if !n.up {
			next := *s
			next[i] = node{uses: n.uses}
			add(next, "n%d loses its file", i+1)
			continue
		}
		next := *s
		next[i] = node{uses: n.uses, file: n.file, words: n.words}
		add(next, "n%d is killed", i+1)
		ends = false
		if w.known(n.file) != w.known(n.uses) || !n.told {
			next = *s
			w.settle(&next[i])
			add(next, "n%d has its terms on file", i+1)
		} else {
			next = *s
			next[i].words = n.heard
			add(next, "n%d has on file whom it heard", i+1)
		}
		for j := range w.Nodes {
			if j == i {
				continue
			}
			if s[j].up && s[j].told {
				next = *s
				next[i].asked[j], next[i].wrote[j] = s[j].uses, s[j].uses == n.uses
				add(next, "n%d answers n%d", j+1, i+1)
			}
			if n.asked[j] != none {
				next = *s
				w.hear(&next[i], j)
				add(next, "n%d hears n%d", i+1, j+1)
			}
		}
	}
	return out
}

// start starts a new process of a node, whatever ended the previous one.
func (w *World) start(n *node, m medium) {
	fresh := node{up: true, uses: m, file: n.file, words: n.words}
	same := w.known(n.file) == w.known(m)
	switch {
	case same:
		fresh.told, fresh.heard = true, n.words
	case !w.Rules.First:
		fresh.told = true // the file is written after that
	}
	if !w.Rules.Forgets {
		fresh.heard = n.words
	}
	*n = fresh
}

// settle completes the write that puts the present terms into the file.
func (w *World) settle(n *node) {
	n.file, n.told = n.uses, true
	if w.Rules.Forgets {
		n.words = 0
	}
}

// hear is the arrival of an answer.
func (w *World) hear(n *node, j int) {
	m, wrote := n.asked[j], n.wrote[j]
	n.asked[j], n.wrote[j] = none, false
	switch {
	case w.name(m) != w.name(n.uses):
		n.strangers = true
	case !n.told: // it has no terms yet that could be confirmed
	case w.Rules.Slots && !wrote:
	default:
		n.heard |= 1 << j
	}
}
