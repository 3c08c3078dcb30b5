package sentence

import "fmt"

// The times of Boot, in ticks.
const (
	wide    = 9 // W
	short   = 2 // T, and T_max
	late    = 1 // r: so much later than it should a driver may fire, once in a countdown
	bound   = 2*(short+late) + 1
	patient = short + late + 1 // so long an agent waits that cannot see what the kernel counts down
)

// BootRules are the rules of P2 to P7 that a search may leave out. The zero value has all of them.
type BootRules struct {
	CanFeed    bool  // P2: the feeder is not condemned
	CanDisarm  bool  // P2: a planned stop disarms
	KeepsView  bool  // P2: the condemned goes on stating whom it sees
	Counted    bool  // P5: who knows the sentence counts the boot all the same
	TellsFirst bool  // P2: it is told before the timeout was read back
	NoReadBack bool  // P2: what was asked for is told, whatever the driver made of it
	TellsLong  bool  // P3: a timeout greater than T_max is told, with a bound to match
	NoLook     bool  // P2': a new agent neither looks at the kernel's countdown nor waits
	SoonWait   bool  // P2': it waits from its own start
	Bound      uint8 // P3: another B; 0: as it should be
	FromBegin  bool  // P4: B begins with the read
	NoBoot     bool  // P6: the sentence is a bit, without the boot that it is of
	Carried    bool  // P6: the next agent carries it on in its records, whatever the boot
}

// BootBudget is what may happen how often.
type BootBudget struct {
	Kills, Starts, Blind, Cuts, Hangs, Refusals, Boots, Stops uint8
}

// Boot is the model of one machine and of a node that reads its slot.
type Boot struct{ BootRules }

// stage is how far an agent is.
type stage uint8

const (
	absent  stage = iota
	waits         // P2': with an empty view
	living        // as ever
	decided       // condemned in memory
	lowered       // the timeout was set
	read          // and read back
	told          // it says so
	mute          // condemned, and nothing is told
)

func (s stage) condemned() bool { return s >= decided }

// record is what stands in a slot.
type record struct {
	boot     uint8
	sentence uint8 // T; 0: none
	of       uint8 // the boot that it is of
}

// BootState is one state of Boot.
type BootState struct {
	boot          uint8
	off           bool // the machine is down
	active, open  bool // the watchdog counts down, and a descriptor of it is open
	timeout, left uint8
	late          bool // the countdown has had its delay
	dying         bool // the agent was killed, and hangs in the kernel
	stage         stage
	wait          uint8
	judged        bool // this boot was condemned
	spoken        bool // and it was told

	slot, hung record
	hangs      bool

	link   bool
	met    uint8 // the latest boot that the reader met, +1
	knows  uint8 // the boot whose sentence it knows, +1
	count  uint8 // of B
	fenced uint8 // the boot that it says is dead, +1
	reads  uint8 // a read began so many ticks ago, +1
	BootBudget
}

// Root is a machine that is fed, and a reader that knows it.
func (m *Boot) Root(b BootBudget) BootState {
	return BootState{active: true, open: true, timeout: wide, left: wide, stage: living, slot: record{}, link: true, met: 1, BootBudget: b}
}

// counted reports whether the reader counts the machine, which is what it lives by.
func (m *Boot) counted(s *BootState) bool {
	states := s.stage == living || m.KeepsView && s.stage.condemned()
	return s.link && !s.off && !s.dying && states && (m.Counted || s.knows != s.boot+1)
}

// Wrong says what is wrong with a state.
func (m *Boot) Wrong(s *BootState) string {
	switch {
	case s.fenced != s.boot+1 || s.off:
		return ""
	case !s.judged:
		return "FENCED of a boot that was never condemned"
	default:
		return "FENCED of a boot that runs"
	}
}

// Next is all that can happen.
func (m *Boot) Next(s *BootState, yield func(string, BootState, string)) {
	do := func(action string, f func(t *BootState) (wrong string, can bool)) {
		t := *s
		if wrong, can := f(&t); can {
			yield(action, t, wrong)
		}
	}
	take := func(b *uint8, can bool) bool {
		if can = can && *b > 0; can {
			*b--
		}
		return can
	}
	do("a tick passes", func(t *BootState) (string, bool) { return m.tick(t, false) })
	do("a tick passes, and the driver is late", func(t *BootState) (string, bool) { return m.tick(t, true) })
	do("the link comes or goes", func(t *BootState) (string, bool) {
		t.link = !t.link
		return "", take(&t.Cuts, true)
	})
	m.agent(do, take)
	do("the agent is killed", func(t *BootState) (string, bool) {
		can := take(&t.Kills, t.stage != absent && !t.dying)
		m.closed(t)
		t.stage = absent
		return "", can
	})
	do("the agent is killed, and hangs in the kernel", func(t *BootState) (string, bool) {
		can := take(&t.Kills, t.stage != absent && !t.dying && t.open)
		t.dying, t.stage = true, absent
		return "", can
	})
	do("the killed agent is gone", func(t *BootState) (string, bool) {
		can := t.dying
		t.dying = false
		m.closed(t)
		return "", can
	})
	do("an agent starts", func(t *BootState) (string, bool) {
		can := take(&t.Starts, t.stage == absent && !t.off)
		if t.stage = living; t.active && t.timeout <= short && !m.NoLook {
			t.stage = mute
			if t.spoken {
				t.stage = told // it may tell it again
			}
		}
		return "", can
	})
	do("an agent starts that cannot see the countdown", func(t *BootState) (string, bool) {
		can := take(&t.Blind, t.stage == absent && !t.off)
		if t.stage, t.wait = waits, 0; m.NoLook {
			t.stage = living
		}
		return "", can
	})
	do("the machine boots", func(t *BootState) (string, bool) {
		can := take(&t.Boots, t.off)
		t.off, t.boot, t.stage, t.judged, t.spoken = false, t.boot+1, living, false, false
		t.timeout, t.left = 0, 0
		return "", can
	})
	do("the write that hung lands", func(t *BootState) (string, bool) {
		can := t.hangs
		t.slot, t.hangs, t.hung = t.hung, false, record{}
		return "", can
	})
	m.reader(do)
}

// closed is the end of a descriptor without the magic character: the countdown begins again.
func (m *Boot) closed(t *BootState) {
	if t.open {
		t.open, t.left, t.late = false, t.timeout, false
	}
}

func (m *Boot) tick(t *BootState, delay bool) (string, bool) {
	switch {
	case !t.active || t.off:
		if delay {
			return "", false
		}
	case t.left > 1 || delay:
		if t.left > 1 && delay || t.late && delay {
			return "", false
		}
		if t.late = delay; !delay {
			t.left--
		}
	default:
		t.off, t.active, t.open, t.dying, t.stage, t.late = true, false, false, false, absent, false
	}
	if t.stage == waits && (!t.open && !t.dying || m.SoonWait) {
		if t.wait++; t.wait >= patient {
			t.stage, t.wait = living, 0
		}
	}
	if t.reads > 0 && t.reads < bound {
		t.reads++
	}
	if t.count > 0 {
		if t.count--; t.count == 0 {
			t.fenced = t.knows
		}
	}
	return "", true
}

type doer func(string, func(*BootState) (string, bool))

// agent is what the agent may do by itself.
func (m *Boot) agent(do doer, take func(*uint8, bool) bool) {
	harm := func(t *BootState, what string) string {
		if t.spoken {
			return what + " after it was told"
		}
		return ""
	}
	do("it feeds", func(t *BootState) (string, bool) {
		fit := t.stage == living || m.CanFeed && t.stage.condemned()
		can := fit && t.open && !t.dying && m.counted(t)
		wrong := harm(t, "fed")
		t.left, t.late = t.timeout, false
		return wrong, can
	})
	do("it arms", func(t *BootState) (string, bool) {
		can := t.stage == living && !t.open && !t.dying && m.counted(t)
		wrong := harm(t, "armed")
		t.active, t.open, t.timeout, t.left, t.late = true, true, wide, wide, false
		return wrong, can
	})
	do("a planned stop disarms", func(t *BootState) (string, bool) {
		fit := t.stage == living || m.CanDisarm && t.stage.condemned()
		can := take(&t.Stops, fit && t.open && m.counted(t))
		wrong := harm(t, "disarmed")
		t.active, t.open, t.stage = false, false, absent
		return wrong, can
	})
	do("it condemns itself", func(t *BootState) (string, bool) {
		can := t.stage == living && t.open && !t.link
		t.stage, t.judged = decided, true
		if can && m.TellsFirst {
			m.tell(t, short)
		}
		return "", can
	})
	set := func(t *BootState, to uint8) bool {
		can := t.stage == decided
		t.stage, t.timeout = lowered, to
		t.left, t.late = to, false
		return can
	}
	do("it sets the timeout", func(t *BootState) (string, bool) { return "", set(t, short) })
	do("it sets the timeout, which is refused", func(t *BootState) (string, bool) { return "", take(&t.Refusals, set(t, t.timeout)) })
	do("it reads the timeout back", func(t *BootState) (string, bool) {
		can := t.stage == lowered
		if t.stage = read; t.timeout > short && !m.NoReadBack && !m.TellsLong {
			t.stage = mute
		}
		return "", can
	})
	do("it tells", func(t *BootState) (string, bool) {
		can := t.stage == read
		t.stage = told
		m.tell(t, m.says(t))
		return "", can
	})
	do("it tells, and the write hangs", func(t *BootState) (string, bool) {
		can := take(&t.Hangs, t.stage == read && !t.hangs)
		t.stage, t.spoken = told, true
		t.hung, t.hangs = m.record(t, m.says(t)), true
		return "", can
	})
	do("it writes", func(t *BootState) (string, bool) {
		can := t.stage == living || t.stage == told
		was := t.slot
		t.slot = m.record(t, 0)
		switch {
		case t.stage == told:
			t.slot = m.record(t, m.says(t))
		case m.Carried && was.sentence > 0:
			t.slot = m.record(t, was.sentence)
		}
		return "", can
	})
}

func (m *Boot) says(t *BootState) uint8 {
	if m.TellsLong {
		return t.timeout
	}
	return short
}

func (m *Boot) record(t *BootState, sentence uint8) record {
	r := record{boot: t.boot, sentence: sentence}
	if sentence > 0 {
		r.of = t.boot
	}
	return r
}

func (m *Boot) tell(t *BootState, sentence uint8) {
	t.slot, t.spoken = m.record(t, sentence), true
}

// reader is what the reader may do.
func (m *Boot) reader(do doer) {
	do("the reader hears a statement", func(t *BootState) (string, bool) {
		can := t.link && !t.off && t.stage != absent && !t.dying
		if can && t.met != t.boot+1 {
			t.met = t.boot + 1
		}
		if can && t.stage == told {
			m.learn(t, t.boot, short, 0)
		}
		return "", can
	})
	do("the reader begins a read", func(t *BootState) (string, bool) {
		can := t.reads == 0
		t.reads = 1
		return "", can
	})
	do("the reader ends a read", func(t *BootState) (string, bool) {
		can := t.reads > 0
		age := t.reads - 1
		if t.reads = 0; can && t.slot.sentence > 0 {
			of := t.slot.of
			if m.NoBoot {
				of = t.met - 1
			}
			m.learn(t, of, t.slot.sentence, age)
		}
		return "", can
	})
}

// learn takes a sentence. A boot that was not met, or that another one has followed, is no matter.
func (m *Boot) learn(t *BootState, boot, timeout, age uint8) {
	if t.met != boot+1 || t.knows == boot+1 {
		return
	}
	b := uint8(bound)
	if m.Bound > 0 {
		b = m.Bound
	}
	if timeout > short {
		b = 2*(timeout+late) + 1
	}
	if m.FromBegin {
		b = max(1, b-min(b, age))
	}
	t.knows, t.count = boot+1, b
}

// String shows a state.
func (s *BootState) String() string { return fmt.Sprintf("%+v", *s) }
