package lunhold

import (
	"fmt"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

// Action is one event.
type Action struct {
	what what
	node uint8
	// arg depends on the action. passes: the order; cut: the graph; ends: how; moves, hang and linger: the device;
	// offers and tells: the list.
	arg uint8
}

type what uint8

const (
	passes   what = iota // a tick passes, and the nodes act in one of the orders
	cut                  // the network gets other links
	moves                // a node's path to the LUN is lost or comes back
	hang                 // the next write hangs
	linger               // the next write lands and is not acknowledged
	ends                 // an I/O ends
	stops                // an agent is stopped or continued (SIGSTOP, SIGCONT)
	crashes              // a node loses power
	boots                // a node boots
	restarts             // a node's agent starts again
	slows                // a node's reads become slow or fast again
	proposes             // a half is granted
	offers               // a node stores a list
	tells                // all running nodes store a list
)

// Model is a group with its rules.
type Model struct {
	Rules
	Times
	Size    int
	Lists   []Set               // lists of members, by epoch; the first is in force at the start
	Devices int                 // number of the LUN's devices
	Reach   []Set               // the devices that each node reaches; nil: all
	Stays   Set                 // nodes that do not store the lists of which they hear
	Orders  [][]uint8           // orders in which the nodes may act
	Shapes  []search.Graph      // graphs of the network
	Who     map[what]Set        // nodes to which an action may happen; if missing, all
	Dwell   uint8               // a network lasts for at least this many ticks
	Partial uint8               // an outage reaches all nodes within this many ticks, and ends for all at once; 0: no limit
	Strikes bool                // onFence: reboot
	Calm    bool                // no node may be reset (P3)
	Steady  bool                // no node may starve either
	Exempt  Set                 // nodes to which Calm and Steady do not apply
	Plain   Set                 // nodes that count only by the networks, if the LUN is one (N)
	Old     Set                 // nodes that run a version without these rules, and claim as that version does
	Check   func(*State) string // checks a further condition
	Claims  bool                // P5 is not checked: P1 shows what a claim is worth
}

// Say describes an action in words.
func (m *Model) Say(a Action) string {
	n := a.node + 1
	switch a.what {
	case passes:
		if len(m.Orders) > 1 {
			return fmt.Sprintf("a tick passes, in the order %v", m.Orders[a.arg])
		}
		return "a tick passes"
	case cut:
		return fmt.Sprintf("the network is [%s]", m.Shapes[a.arg].Name)
	case moves:
		return fmt.Sprintf("the path of %d to device %d of the LUN comes or goes", n, a.arg+1)
	case hang:
		return fmt.Sprintf("the next write of %d hangs on device %d", n, a.arg+1)
	case linger:
		return fmt.Sprintf("the next write of %d lands, and is not acknowledged", n)
	case ends:
		return fmt.Sprintf("the I/O of %d ends: %s", n, [...]string{"it is there", "lost", "torn"}[a.arg])
	case stops:
		return fmt.Sprintf("the agent of %d is stopped, or goes on", n)
	case crashes:
		return fmt.Sprintf("%d loses power", n)
	case boots:
		return fmt.Sprintf("%d boots", n)
	case restarts:
		return fmt.Sprintf("the agent of %d starts again", n)
	case slows:
		return fmt.Sprintf("the reads of %d begin or cease to be slow", n)
	case offers:
		return fmt.Sprintf("%d stores the list %v", n, m.Lists[a.arg])
	case tells:
		return fmt.Sprintf("all store the list %v", m.Lists[a.arg])
	default:
		return fmt.Sprintf("%d decides for its half", n)
	}
}

// actions calls yield for all actions that may be possible in a state; Apply decides whether they are.
func (m *Model) actions(s *State, yield func(Action)) {
	for o := range m.Orders {
		yield(Action{passes, 0, uint8(o)})
	}
	if s.left.Cuts > 0 {
		for g := range m.Shapes {
			yield(Action{cut, 0, uint8(g)})
		}
	}
	last := proposes
	if s.left.Offers > 0 {
		last = offers
	}
	for x := range uint8(m.Size) {
		for how := range torn + 1 {
			yield(Action{ends, x, how})
		}
		for w := moves; w <= last; w++ {
			if who, some := m.Who[w]; w == ends || some && !who.Has(int(x)) {
				continue
			}
			for arg := range m.args(w) {
				yield(Action{w, x, uint8(arg)})
			}
		}
	}
	for k := range m.Lists {
		if s.left.Offers == 0 {
			break
		}
		yield(Action{tells, 0, uint8(k)})
	}
}

// args returns the number of variants of an action.
func (m *Model) args(w what) int {
	switch w {
	case moves, hang, linger:
		return m.Devices
	case offers:
		return len(m.Lists)
	default:
		return 1
	}
}

func take(b *uint8, can bool) bool {
	if *b == 0 || !can {
		return false
	}
	if *b != always {
		*b--
	}
	return true
}

// Apply makes an action happen in s, or reports that it cannot.
func (m *Model) Apply(s *State, a Action) (State, bool) {
	t := *s
	ok := m.happen(&t, a)
	return t, ok
}

func (m *Model) happen(t *State, a Action) bool {
	x := int(a.node)
	n := &t.nodes[x]
	runs := n.up && !n.stopped
	writes := runs && n.usable().Has(int(a.arg)) && n.next == lands
	switch a.what {
	case passes:
		if m.Partial > 0 && t.partial >= m.Partial && m.partly(t) {
			return false
		}
		m.tick(t, m.Orders[a.arg])
	case cut:
		if !take(&t.left.Cuts, t.answers != m.Shapes[a.arg].Answers && t.lasted >= m.Dwell) {
			return false
		}
		t.answers, t.lasted = m.Shapes[a.arg].Answers, 0
	case moves:
		if !take(&t.left.Paths, true) {
			return false
		}
		n.path ^= search.Of(int(a.arg))
	case hang:
		if !take(&t.left.Hangs, writes && !n.late.there) {
			return false
		}
		n.next, n.at = hangs, a.arg
	case linger:
		if !take(&t.left.Acks, writes && !n.late.there) {
			return false
		}
		n.next, n.at = lingers, a.arg
	case ends:
		return m.end(t, x, a.arg)
	case stops:
		if n.stopped {
			n.stopped = false
			return true
		}
		if !take(&t.left.Stops, runs) {
			return false
		}
		n.stopped = true
	case crashes:
		if !take(&t.left.Crashes, n.up) {
			return false
		}
		m.halt(t, x)
	case boots:
		if !take(&t.left.Boots, !n.up) {
			return false
		}
		m.start(t, x)
	case restarts:
		if !take(&t.left.Restarts, runs && n.stuck == 0) {
			return false
		}
		m.start(t, x)
	case slows:
		if !n.slow && !take(&t.left.Slow, runs) {
			return false
		}
		n.slow = !n.slow
	case offers:
		return take(&t.left.Offers, runs && m.store(n, int(a.arg)))
	case tells:
		if t.left.Offers == 0 {
			return false
		}
		some := false
		for y := range m.Size {
			if p := &t.nodes[y]; p.up && !p.stopped {
				some = m.store(p, int(a.arg)) || some
			}
		}
		return take(&t.left.Offers, some)
	default:
		return take(&t.left.Grants, m.propose(t, x))
	}
	return true
}
