package sentence

import "fmt"

const (
	grace = 4 // LUNGrace, in ticks: the slowest notices its loss, and its statement is known
	slow  = 3 // so long a node takes at most to notice that it has lost the LUN
)

// LossRules are the words of E3 that a search may leave out. The zero value has all of them.
type LossRules struct {
	OwnLoss bool // to have lost the LUN is enough, no matter who else has it
	Hub     bool // peers in contact that have the LUN are enough, whether they count each other or not
	NoGrace bool // nobody waits for those who have not noticed the same outage yet
	OneWord bool // one look is enough
	Counted bool // P2, P5: the condemned states whom it sees, and is counted
}

// LossBudget is what may happen how often.
type LossBudget struct{ Cuts, Paths, Outages uint8 }

// Loss is the model of a group in which a node needs network and LUN (lun.mode: and), and condemns itself when it alone has
// lost the LUN and is in contact with a majority that has it.
type Loss struct {
	LossRules
	Size   int
	Shapes []Graph
}

// holder is one node.
type holder struct {
	view, seen Set // as it stated last
	has, lives bool
	age        [most]uint8
	sees       [most]Set // what each peer stated last: whom it sees,
	counts     [most]Set // and counts
	say, feed  Set       // peers that state that they have the LUN, and that they live
	knows      Set       // whose sentence it knows
	blind      uint8     // ticks since it cannot use the LUN
	own        bool      // that is, or was, its own path's fault
	missing    uint8     // ticks in which a quorum in contact had the LUN and it had not
	lived      uint8     // ticks since it lived, up to recent+1
	steady     uint8
	rows       uint8
	condemned  bool
}

// LossState is one state of Loss.
type LossState struct {
	links [most]Set
	lost  Set // whose path to the LUN is lost
	gone  bool
	nodes [most]holder
	LossBudget
}

// Root is a group that is whole and has long been so.
func (m *Loss) Root(b LossBudget) LossState {
	s := LossState{LossBudget: b, links: m.Shapes[0].Links}
	for range 8 {
		m.tick(&s)
	}
	return s
}

// Wrong finds nothing: what can be wrong is what a node does.
func (m *Loss) Wrong(*LossState) string { return "" }

// Next is all that can happen.
func (m *Loss) Next(s *LossState, yield func(string, LossState, string)) {
	t := *s
	wrong := m.tick(&t)
	yield("a tick passes", t, wrong)
	for g := range m.Shapes {
		if t := *s; t.Cuts > 0 && t.links != m.Shapes[g].Links {
			t.Cuts--
			t.links = m.Shapes[g].Links
			yield("the network is ["+m.Shapes[g].Name+"]", t, "")
		}
	}
	for x := range m.Size {
		if t := *s; t.Paths > 0 {
			t.Paths--
			t.lost ^= 1 << x
			yield(fmt.Sprintf("the path of %d comes or goes", x+1), t, "")
		}
	}
	if t := *s; t.Outages > 0 {
		t.Outages--
		t.gone = !t.gone
		yield("the LUN comes or goes", t, "")
	}
}

func (m *Loss) tick(t *LossState) (wrong string) {
	for x := range m.Size {
		if w := m.act(t, x); w != "" {
			wrong = w
		}
	}
	return wrong
}

func (m *Loss) act(t *LossState, x int) (wrong string) {
	n := &t.nodes[x]
	outside := m.hear(t, x)
	if n.blind = min(slow+1, n.blind+1); !t.gone && !t.lost.Has(x) {
		n.blind = 0
	}
	n.own = n.blind > 0 && (n.own || t.lost.Has(x))
	n.has = n.blind <= uint8(x%slow)+1 // some notice later than others
	peers := n.view & n.say &^ (1 << x)
	if n.missing = min(grace, n.missing+1); n.has || 2*peers.Len() <= m.Size && !m.OwnLoss {
		n.missing = 0
	}
	starves := n.missing >= grace || n.missing > 0 && m.NoGrace
	n.lives = 2*n.view.Len() > m.Size && !starves && !n.condemned
	if n.lived = min(recent+1, n.lived+1); n.lives {
		n.lived = 0
	}
	if n.steady = min(after, n.steady+1); outside {
		n.steady = 0
	}
	if n.rows = min(3, n.rows+1); !starves || !m.shown(n, x) {
		n.rows = 0
	}
	need := uint8(3)
	if m.OneWord {
		need = 1
	}
	if !n.condemned && n.rows >= need && (n.steady >= after || m.OneWord) {
		n.condemned = true
		if !m.Counted {
			n.seen, n.view = 0, 0
		}
		switch {
		case !n.own:
			wrong = fmt.Sprintf("%d condemns itself, and the LUN is gone for all", x+1)
		case !m.leaves(t):
			wrong = fmt.Sprintf("%d condemns itself, and leaves nobody who lives", x+1)
		}
	}
	return wrong
}

// hear takes what those say whom the network reaches, and reports whether its own side is another one.
func (m *Loss) hear(t *LossState, x int) (changed bool) {
	n := &t.nodes[x]
	before := n.view
	seen, view := Set(1<<x), Set(1<<x)
	for y := range m.Size {
		if y == x {
			continue
		}
		if n.age[y] = min(maxAge+1, n.age[y]+1); t.links[x].Has(y) {
			p := &t.nodes[y]
			n.age[y], n.sees[y], n.counts[y] = 0, p.seen, p.view
			n.say, n.feed = n.say&^(1<<y), n.feed&^(1<<y)
			if p.has {
				n.say |= 1 << y
			}
			if p.lives {
				n.feed |= 1 << y
			}
			if p.condemned {
				n.knows |= 1 << y
			}
		}
		if n.age[y] > maxAge || n.knows.Has(y) && !m.Counted {
			continue
		}
		if seen |= 1 << y; n.sees[y].Has(x) {
			view |= 1 << y
		}
	}
	if n.condemned && !m.Counted {
		return false
	}
	n.seen, n.view = seen, view
	return view != before&^n.knows
}

// shown reports whether a majority in contact says that it lives and has the LUN, each of it counting all of it.
func (m *Loss) shown(n *holder, x int) bool {
	if m.OwnLoss || m.Hub {
		return true
	}
	ok := n.view & n.say & n.feed &^ n.knows &^ (1 << x)
	for y := range m.Size {
		in := n.counts[y] & ok
		if !ok.Has(y) || 2*in.Len() <= m.Size {
			continue
		}
		all := true
		for z := range m.Size {
			all = all && (!in.Has(z) || in&^n.counts[z] == 0 && n.age[z] == 0)
		}
		if all {
			return true
		}
	}
	return false
}

// leaves reports whether a majority lives without the condemned, or did a moment ago.
func (m *Loss) leaves(t *LossState) bool {
	in := Set(0)
	for y := range m.Size {
		if n := &t.nodes[y]; !n.condemned && n.lived <= recent {
			in |= 1 << y
		}
	}
	return 2*in.Len() > m.Size
}

// String shows a state.
func (s *LossState) String() string {
	out := fmt.Sprintf("lost %05b, LUN gone %t\n", s.lost, s.gone)
	for x := range s.nodes {
		n := &s.nodes[x]
		out += fmt.Sprintf("%d: view %05b has %t lives %t missing %d steady %d rows %d condemned %t\n", x+1, n.view, n.has, n.lives, n.missing, n.steady, n.rows, n.condemned)
	}
	return out
}
