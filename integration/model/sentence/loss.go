package sentence

import (
	"fmt"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

const (
	grace = 4 // LUNGrace, in ticks: until then the slowest node has noticed its loss, and the others have its statement
	slow  = 3 // the longest time until a node notices that it has lost the LUN
)

// LossRules names the parts of E3 that a search can leave out. The zero value leaves out none.
type LossRules struct {
	OwnLoss bool // losing the LUN is a sufficient reason, whichever other nodes have it
	Hub     bool // peers in contact that have the LUN are enough, even if they do not count each other
	NoGrace bool // a node does not wait for those that have not yet noticed the same outage
	OneWord bool // one check is enough
	Counted bool // P2, P5: a condemned node states which nodes it sees, and is counted
}

// LossBudget contains how often each action may still happen.
type LossBudget struct{ Cuts, Paths, Outages uint8 }

// Loss is the model of a group in which a node needs network and LUN (lun.mode: and). A node condemns itself when it
// alone has lost the LUN and is in contact with a majority that has the LUN.
type Loss struct {
	LossRules
	Size   int
	Shapes []search.Graph
}

// holder is one node.
type holder struct {
	node
	has, lives bool
	counts     [most]Set // by peer: the nodes that it counts, according to its last statement
	say, feed  Set       // peers that state that they have the LUN, and that they live
	blind      uint8     // ticks for which it has been unable to use the LUN
	own        bool      // the cause is, or was, its own path
	missing    uint8     // ticks in which a quorum in contact had the LUN and this node did not
}

// LossState is one state of Loss.
type LossState struct {
	links [most]Set
	lost  Set // nodes whose paths to the LUN are lost
	gone  bool
	nodes [most]holder
	LossBudget
}

// Root is a group that has long been whole.
func (m *Loss) Root(b LossBudget) LossState {
	return settled(m, LossState{LossBudget: b, links: m.Shapes[0].Answers})
}

// next yields everything that can happen except a tick.
func (m *Loss) next(s *LossState, yield func(string, LossState)) {
	for g := range m.Shapes {
		if t := *s; t.Cuts > 0 && t.links != m.Shapes[g].Answers {
			t.Cuts--
			t.links = m.Shapes[g].Answers
			yield("the network is ["+m.Shapes[g].Name+"]", t)
		}
	}
	for x := range m.Size {
		if t := *s; t.Paths > 0 {
			t.Paths--
			t.lost ^= 1 << x
			yield(fmt.Sprintf("the path of %d comes or goes", x+1), t)
		}
	}
	if t := *s; t.Outages > 0 {
		t.Outages--
		t.gone = !t.gone
		yield("the LUN comes or goes", t)
	}
}

func (m *Loss) tick(t *LossState) string {
	return each(m.Size, false, func(x int) string { return m.act(t, x) })
}

func (t *LossState) node(x int) *node { return &t.nodes[x].node }

func (m *Loss) act(t *LossState, x int) (wrong string) {
	n := &t.nodes[x]
	outside := m.hear(t, x)
	if n.blind = min(slow+1, n.blind+1); !t.gone && !t.lost.Has(x) {
		n.blind = 0
	}
	n.own = n.blind > 0 && (n.own || t.lost.Has(x))
	n.has = n.blind <= uint8(x%slow)+1 // some nodes notice later than others
	peers := n.view & n.say &^ (1 << x)
	if n.missing = min(grace, n.missing+1); n.has || 2*peers.Len() <= m.Size && !m.OwnLoss {
		n.missing = 0
	}
	starves := n.missing >= grace || n.missing > 0 && m.NoGrace
	n.lives = 2*n.view.Len() > m.Size && !starves && !n.condemned
	n.pass(n.lives, outside)
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
		case 2*living(m.Size, t.node).Len() <= m.Size:
			wrong = fmt.Sprintf("%d condemns itself, and leaves nobody who lives", x+1)
		}
	}
	return wrong
}

// hear takes the reports of the nodes that the network reaches, and reports whether the node's own side has changed.
func (m *Loss) hear(t *LossState, x int) (changed bool) {
	n := &t.nodes[x]
	before := n.view
	heard := n.node.hear(x, m.Size, t.links[x], t.node)
	for y := range m.Size {
		if !heard.Has(y) {
			continue
		}
		p := &t.nodes[y]
		n.counts[y] = p.view
		n.say, n.feed = n.say&^(1<<y), n.feed&^(1<<y)
		if p.has {
			n.say |= 1 << y
		}
		if p.lives {
			n.feed |= 1 << y
		}
	}
	if n.condemned && !m.Counted {
		return false
	}
	n.seen, n.view = n.reach(x, m.Size, m.Counted)
	return n.view != before&^n.knows
}

// shown reports whether a majority in contact says that it lives and has the LUN, and all its nodes count each other.
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

// String describes a state.
func (t *LossState) String() string {
	out := fmt.Sprintf("lost %05b, LUN gone %t\n", t.lost, t.gone)
	for x := range t.nodes {
		n := &t.nodes[x]
		out += fmt.Sprintf("%d: view %05b has %t lives %t missing %d steady %d rows %d condemned %t\n", x+1, n.view, n.has, n.lives, n.missing, n.steady, n.rows, n.condemned)
	}
	return out
}
