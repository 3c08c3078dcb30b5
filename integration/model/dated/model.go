package dated

import (
	"fmt"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// Rules are the words of the rule. Each can be left out.
type Rules struct {
	Twice    bool // a claim begins with the second step after the last one in which x was seen; else with the first
	Anchor   bool // a claim holds until the question that its statement answered; else until the answer
	Receipt  bool // the member's clock is read when the answer is there; else when the question was asked
	Common   bool // one instant is in all claims; else each is due, at some time
	All      bool // all whom x can count claim; else some
	Met      bool // an agent that has just started claims nothing; else what it has not seen is lost
	Evidence bool // the horizon contains D_max
	Settle   bool // an old agent's claim is taken to be later by what its statement may lag; else it is exact
	Granted  bool // the horizon has passed since the reader learnt of the grant
}

// Safe are the rules as the code has them.
var Safe = Rules{Twice: true, Anchor: true, Receipt: true, Common: true, All: true, Met: true, Evidence: true, Settle: true, Granted: true}

// World is what may happen.
type World struct {
	Rules
	Members        int  // 1 or 2, and x lives by any of them
	Quick          bool // messages take no time, and no step is late
	Old            bool // the members state no dates, and are never paused
	Tie            bool // x may live by an older grant
	Pauses, Starts bool
}

// The times, in ticks.
const (
	maxAge   = 2                        // D_max: evidence of that age does not count
	fires    = 1                        // F + W + R: from the last tick with permission to the reset
	lifetime = 2                        // G
	horizon  = maxAge - 1 + fires       // H
	lag      = 1                        // how late the statement of an old agent may be
	late     = 2                        // how long a claim of an old agent counts
	never    = horizon + lag + late + 2 // an age that is no more than long ago
)

const maxMembers = 2

// claim is a statement of a member: whether x is among the seen, or since when it is not.
type claim struct {
	kind  kind
	since uint8 // age of the last moment at which x may have been among the seen, as the member reckons
	newer uint8 // of a claim that the reader knows or will know: how many new statements have followed it, up to other
}

type kind uint8

const (
	silent kind = iota // no statement yet
	sees
	lost
)

// message is a question and then its answer.
type message struct {
	stage uint8 // 0: none, 1: the question is on its way, 2: the answer is
	age   uint8 // of the question
	claim claim // of the answer
}

type member struct {
	met    bool
	heard  uint8   // age of its evidence of x
	shown  [2]bool // x was among the seen in the step before, and in the one before that
	since  uint8   // age of the last moment at which it may have stated to see x
	said   claim   // what it gives out
	next   claim   // the effects of its step that are not carried out yet; silent: there are none
	waits  uint8   // age of next
	step   uint8   // age of its last step
	to     message // from x
	of     message // from the reader
	known  claim   // to the reader; since by the reader's clock
	until  uint8   // age of the instant for which the reader knows it
	proves uint8   // age of x's evidence of it
}

// State is one state of the group.
type State struct {
	down   bool
	unfed  uint8
	m      [maxMembers]member
	grant  uint8 // age of the present grant's decision; never+1: there is none
	learnt uint8 // since when the reader knows it; never+1: it does not
}

func (w *World) root() (s State) {
	s.grant, s.learnt = never+1, never+1
	if !w.Tie {
		s.grant = never
	}
	for i := range w.Members {
		s.m[i] = member{met: true, shown: [2]bool{true, true}, said: claim{kind: sees}, proves: 0}
	}
	return s
}

func older(a *uint8) {
	if *a < never {
		*a++
	}
}

func (w *World) horizon() uint8 {
	if !w.Evidence {
		return fires
	}
	return horizon
}

// feeds reports whether x may feed now.
func (w *World) feeds(s *State) bool {
	for i := range w.Members {
		if s.m[i].proves < maxAge {
			return true
		}
	}
	return w.Tie && (s.grant > never || s.grant < lifetime)
}

// tick lets time pass. ok is false if something must happen before.
func (w *World) tick(s State) (State, bool) {
	for i := range w.Members {
		m := &s.m[i]
		if (w.Quick || w.Old) && (m.next.kind != silent && m.waits >= lag || m.said.kind != silent && m.step >= lag) {
			return s, false
		}
		if !w.Pauses && m.step >= 2 {
			return s, false
		}
		for _, a := range []*uint8{&m.heard, &m.since, &m.said.since, &m.next.since, &m.known.since, &m.until, &m.proves} {
			older(a)
		}
		m.waits, m.step = min(m.waits+1, 2), min(m.step+1, 2)
		for _, q := range []*message{&m.to, &m.of} {
			if q.stage > 0 {
				older(&q.age)
			}
		}
		if m.until > late {
			m.known, m.until = claim{}, 0 // the reader does not use older claims
		}
		if m.to.age >= maxAge {
			m.to = message{}
		}
		if m.of.age > late {
			m.of = message{}
		}
	}
	if s.grant < never {
		s.grant++
	}
	if s.learnt < never {
		s.learnt++
	}
	if s.unfed++; w.feeds(&s) {
		s.unfed = 0
	}
	if s.unfed >= fires && !s.down {
		s.down = true
	}
	if s.down {
		s.unfed = 0
		for i := range w.Members {
			s.m[i].to, s.m[i].proves = message{}, never
		}
	}
	return s, true
}

// step is a member's step: what it states is carried out later.
func (w *World) step(m *member) {
	seen := m.heard < maxAge && m.met
	switch {
	case seen, w.Twice && !w.Old && (m.shown[0] || m.shown[1]):
		m.since = 0
	}
	m.shown = [2]bool{seen, m.shown[0]}
	m.next, m.waits, m.step = claim{kind: lost, since: m.since}, 0, 0
	switch {
	case seen:
		m.next = claim{kind: sees}
	case !m.met && w.Met, m.since == 0, w.Old && m.since < w.horizon()+lag+late:
		m.next = claim{kind: lost, since: 0} // it is not seen, and not claimed yet
		m.next.kind = unsure
	}
}

// other is a number of statements after which the reader's are not compared any more.
const other = 3

// speak carries out the effects of a step. The statement is a new one only if it says anything new.
func (m *member) speak() {
	if m.next != m.said {
		m.known.newer = min(m.known.newer+1, other)
		m.of.claim.newer = min(m.of.claim.newer+1, other)
	}
	m.said, m.next = m.next, claim{}
}

// unsure states that x is neither seen nor claimed.
const unsure kind = lost + 1

// answer is what the reader makes of an answer that is there.
func (w *World) answer(m *member) {
	before := m.known
	same := before.kind == lost && m.of.claim.kind == lost && before.newer == m.of.claim.newer && before.newer < other
	m.known, m.until = m.of.claim, m.of.age
	if !w.Anchor {
		m.until = 0
	}
	if !w.Receipt {
		m.known.since = min(never, m.known.since+m.of.age)
	}
	if w.Old && m.known.kind == lost { // no date: it has missed x for the horizon and late, and lag if it is exact
		m.known.since = w.horizon() + late
		if !w.Settle {
			m.known.since += lag
		}
	}
	if same {
		m.known.since = max(m.known.since, before.since) // the quickest answer dates it best
	}
	m.of = message{}
}

// proven reports whether the claims that the reader knows prove the death, at this moment or at an earlier one.
func (w *World) proven(s *State) bool {
	claims, due, until := 0, uint8(never), uint8(0) // as ages: the latest due, the earliest end
	for i := range w.Members {
		m := &s.m[i]
		if m.known.kind != lost || m.known.since < w.horizon() {
			continue
		}
		if d := m.known.since - w.horizon(); m.known.since >= never || d >= m.until {
			if claims++; m.known.since < never {
				due = min(due, d)
			}
			until = max(until, m.until)
		}
	}
	switch {
	case claims < w.Members && (w.All || claims == 0):
		return false
	case w.Common && due < until:
		return false
	case w.Tie && w.Granted && (s.learnt > never || s.learnt < w.horizon() || s.learnt-w.horizon() < until && s.learnt < never):
		return false
	case w.Tie && s.learnt > never:
		return false // without a grant it is no half
	}
	return true
}

func (w *World) wrong(s *State) string {
	if !s.down && w.proven(s) {
		return "a running node is FENCED"
	}
	return ""
}

// next yields what can follow.
func (w *World) next(s *State, yield func(string, State, string)) {
	if t, ok := w.tick(*s); ok {
		yield("time passes", t, "")
	}
	if w.Tie && s.grant > never {
		t := *s
		t.grant = 0
		yield("a grant is decided", t, "")
	}
	if s.grant <= never && w.Tie && s.learnt > never {
		t := *s
		t.learnt = 0
		yield("the reader learns it", t, "")
	}
	for i := range w.Members {
		w.nextOf(i, s, yield)
	}
}

func (w *World) nextOf(i int, s *State, yield func(string, State, string)) {
	say := func(what string, change func(*State, *member)) {
		t := *s
		change(&t, &t.m[i])
		yield(fmt.Sprintf("%s %d", what, i+1), t, "")
	}
	m := &s.m[i]
	if !s.down {
		say("x is heard by", func(_ *State, m *member) { m.heard, m.met = 0, true })
		switch {
		case m.to.stage == 0 && w.Quick && m.said.kind == sees:
			say("x has the answer of", func(_ *State, m *member) { m.proves = 0 })
		case m.to.stage == 0 && !w.Quick:
			say("x asks", func(_ *State, m *member) { m.to = message{stage: 1} })
		case m.to.stage == 1 && m.said.kind == sees:
			say("x is answered by", func(_ *State, m *member) { m.to.stage = 2 })
		case m.to.stage == 2:
			say("x has the answer of", func(_ *State, m *member) { m.proves, m.to = min(m.proves, m.to.age), message{} })
		}
	}
	if m.next.kind != silent {
		say("new statement of", func(_ *State, m *member) { m.speak() })
	} else {
		say("step of", func(_ *State, m *member) {
			if w.step(m); w.Quick {
				m.speak()
			}
		})
	}
	if w.Starts && m.said.kind != silent && !w.Quick {
		say("the agent starts again of", func(_ *State, m *member) {
			*m = member{heard: never, since: never, step: 1, to: m.to, of: m.of, known: m.known, until: m.until, proves: m.proves}
			m.known.newer, m.of.claim.newer = other, other
			if m.to.stage == 1 {
				m.to = message{}
			}
		})
	}
	switch {
	case m.of.stage == 0 && w.Quick && m.said.kind != silent:
		say("the reader has the answer of", func(_ *State, m *member) {
			m.of = message{claim: m.said}
			w.answer(m)
		})
	case m.of.stage == 0 && !w.Quick:
		say("the reader asks", func(_ *State, m *member) { m.of = message{stage: 1} })
	case m.of.stage == 1 && m.said.kind != silent:
		say("the reader is answered by", func(_ *State, m *member) { m.of.stage, m.of.claim = 2, m.said })
	case m.of.stage == 2:
		say("the reader has the answer of", func(_ *State, m *member) { w.answer(m) })
	}
}

// Search visits every state that can be reached, up to a limit.
func (w *World) Search(limit int) search.Found[State, string] {
	return search.All(search.Model[State, string]{Next: w.next, Wrong: w.wrong}, w.root(), limit)
}

// proof searches for a state in which a death is proven.
func (w *World) proof(limit int) search.Found[State, string] {
	proven := func(s *State) string {
		if w.proven(s) {
			return "proven"
		}
		return ""
	}
	return search.All(search.Model[State, string]{Next: w.next, Wrong: proven}, w.root(), limit)
}
