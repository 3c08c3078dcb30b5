package gossipsim

import (
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// excuseTime is the time after a fault for which a LEFT still counts as its consequence.
const excuseTime = 10 * time.Second

// observer records what every node sees and compares it with the truth. It is called from the nodes' goroutines, and by
// memberlist under its node lock.
type observer struct {
	w *world

	mu        sync.Mutex
	up        []bool
	views     []roster.Set // by node: the nodes that it counts
	available []roster.Set // by node: the nodes that it publishes
	began     time.Time    // when the schedule began; zero before that
	act       act
	lefts     []left
	lost      []time.Duration // false losses of quorum
	disturbed int             // LEFTs that a fault explains
	byDoubt   int             // LEFTs by doubt, of any node
}

// act is the event from which detection is measured, with the times since which each node has seen its consequences;
// zero: it does not yet.
type act struct {
	at                 time.Time
	before             []roster.Set
	expected           []roster.Set
	gone               []roster.Set // nodes that this node must report as LEFT
	exact, below, left []time.Time
}

// left is a LEFT that no fault explains.
type left struct {
	at                time.Duration
	observer, subject int
	atSlow, ofSlow    bool // whether the observer, or the node that left, stalls repeatedly
	byDoubt           bool
}

func newObserver(w *world) *observer {
	n := w.cfg.Nodes
	return &observer{w: w, up: make([]bool, n), views: make([]roster.Set, n), available: make([]roster.Set, n)}
}

// setUp records whether a node's program runs.
func (o *observer) setUp(node int, up bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up[node] = up
	if !up {
		o.views[node], o.available[node] = roster.Set{}, roster.Set{}
	}
}

func (o *observer) begin() (complete int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began = time.Now()
	all := roster.FullSet(o.w.cfg.Nodes)
	for _, v := range o.views {
		if v == all {
			complete++
		}
	}
	return complete
}

// changed records the new view of a node, and which of the nodes that are no longer available it lost because of
// doubts.
func (o *observer) changed(node int, view, available, byDoubt roster.Set) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.up[node] {
		return
	}
	oldView, oldAvailable := o.views[node], o.available[node]
	o.views[node], o.available[node] = view, available
	if o.began.IsZero() {
		return
	}
	at := time.Since(o.began)
	for p := range oldAvailable.Minus(available).All() {
		o.leaves(node, p, at, byDoubt.Has(p))
	}
	if oldView.Len() >= o.w.quorum && view.Len() < o.w.quorum && o.shouldHaveQuorum(node, at) {
		o.lost = append(o.lost, at)
	}
	o.follow(node)
}

func (o *observer) leaves(node, peer int, at time.Duration, byDoubt bool) {
	if byDoubt {
		o.byDoubt++
	}
	if o.explained(node, peer, at) {
		o.disturbed++
		return
	}
	o.lefts = append(o.lefts, left{
		at: at, observer: node, subject: peer, atSlow: o.slow(node, at), ofSlow: o.slow(peer, at), byDoubt: byDoubt,
	})
}

// active reports whether the fault lasts or may still have consequences.
func (f *Fault) active(at time.Duration) bool {
	return at >= f.At && (f.For == 0 || at <= f.At+f.For+excuseTime)
}

// explained reports whether faults disturb so many networks between two nodes that they may lose each other.
func (o *observer) explained(a, b int, at time.Duration) bool {
	var mask uint64
	for i := range o.w.faults {
		if f := &o.w.faults[i]; f.active(at) {
			mask |= f.touches(a, b, o.w.cfg.Networks)
		}
	}
	return o.w.cfg.Networks-bits.OnesCount64(mask) < o.w.cfg.needed()
}

func (o *observer) slow(node int, at time.Duration) bool {
	return slices.ContainsFunc(o.w.faults, func(f Fault) bool {
		return f.Kind == Slow && f.active(at) && slices.Contains(f.Nodes, node)
	})
}

func (o *observer) shouldHaveQuorum(node int, at time.Duration) bool {
	reached := 1
	for p := range o.w.cfg.Nodes {
		if p != node && !o.explained(node, p, at) {
			reached++
		}
	}
	return reached >= o.w.quorum && !o.slow(node, at)
}

// measure makes this moment the act: the state of the networks determines the expected view of each node.
func (o *observer) measure() {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.w.fab
	f.mu.Lock()
	defer f.mu.Unlock()
	n := o.w.cfg.Nodes
	o.act = act{
		at: time.Now(), before: slices.Clone(o.views), expected: make([]roster.Set, n), gone: make([]roster.Set, n),
		exact: make([]time.Time, n), below: make([]time.Time, n), left: make([]time.Time, n),
	}
	for i := range n {
		e := &o.act.expected[i]
		e.Add(i)
		for p := range n {
			if p != i && o.up[p] && f.reaches(i, p, o.w.cfg.needed()) {
				e.Add(p)
			}
		}
		o.act.gone[i] = o.available[i].Minus(*e)
		o.follow(i)
	}
}

// follow records the instants since which a node has seen what it should.
func (o *observer) follow(node int) {
	a := &o.act
	if a.at.IsZero() {
		return
	}
	hold := func(since *time.Time, condition bool) {
		switch {
		case !condition:
			*since = time.Time{}
		case since.IsZero():
			*since = time.Now()
		}
	}
	hold(&a.exact[node], o.views[node] == a.expected[node])
	hold(&a.below[node], o.views[node].Len() < o.w.quorum)
	hold(&a.left[node], !o.available[node].Intersects(a.gone[node]))
}

func (o *observer) detections() (exact, below, left Distribution) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := &o.act
	if a.at.IsZero() {
		return
	}
	for i, e := range a.expected {
		if !o.up[i] {
			continue
		}
		if e != a.before[i] {
			exact.add(a.exact[i], a.at)
		}
		switch {
		case e.Len() < o.w.quorum:
			below.add(a.below[i], a.at)
		case !a.gone[i].IsEmpty():
			left.add(a.left[i], a.at)
		}
	}
	return exact, below, left
}

// settled reports whether every node saw the change at least this long ago.
func (o *observer) settled(since time.Duration) bool {
	exact, below, left := o.detections()
	for _, d := range []Distribution{exact, below, left} {
		for _, s := range d.Samples {
			if time.Since(o.act.at) < s+since {
				return false
			}
		}
		if d.Missing > 0 {
			return false
		}
	}
	return exact.Len()+below.Len()+left.Len() > 0
}
