package client

import (
	"maps"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// State is the agent's latest state, and whether it may still be used. The maps belong to the follower and change after
// the callback has returned: clone a map to keep it. The messages in them never change.
type State struct {
	// InForce is true if the agent has answered, and has not been silent for Config.Hold. While it is false the sets
	// are out of date: use another source, for instance Kubernetes' view.
	InForce bool
	// Connected is true while there is a stream. Without a stream, sets in force are the last known ones: the
	// replacement of an agent means nothing for other nodes.
	Connected bool
	// Err is the reason why there is no connection; nil while there is one.
	Err error

	// Revision is the revision of the set, by the count of the agent that is, or was, connected.
	Revision uint64
	// Available lists the nodes that GetAll would list, by name.
	Available map[string]*fencingv1.Node
	// Left lists the nodes that were available once and are not now, and when they were LEFT. A node that is removed
	// from the roster disappears within a minute.
	Left map[string]time.Time
}

// Edge is one change of Available.
type Edge struct {
	Type fencingv1.EventType // LEFT or JOIN; JOIN of an available node changes its addresses
	Node *fencingv1.Node
	Time time.Time // wall clock of the agent's decision
	// Missed is true if the change happened while there was no stream, and is derived from the sets before and after.
	Missed bool
}

// Update is one call of the callback: the state, and the edges that lead from the previous call's Available to the
// present one. Edges is empty if only something else has changed.
type Update struct {
	State
	Edges []Edge
}

// change records what happened to one node since the last callback.
type change struct {
	known bool  // the callback's Available has the node
	left  *Edge // it was LEFT; nil if only its addresses changed
	join  *Edge // it is there now
	order uint64
}

// ledger is the agent's current set, and the changes that the callback has not seen yet. It keeps at most one change
// for each node that the callback knows or that is available now, which limits its memory. Its fields are guarded by
// the follower's mutex.
type ledger struct {
	nodes    map[string]*fencingv1.Node
	left     map[string]time.Time
	pending  map[string]*change
	order    uint64
	revision uint64
	answered bool // a set has been received
	dirty    bool // something other than nodes has changed
	recount  bool // left differs from the callback's Left after the pending changes
}

// maxLeft limits Left: it is four times the greatest roster.
const maxLeft = 4096

func newLedger() ledger {
	return ledger{nodes: map[string]*fencingv1.Node{}, left: map[string]time.Time{}, pending: map[string]*change{}}
}

// set records the whole set: the edges are its differences from the previous one. All nodes of the first set are new,
// and none of these edges counts as missed.
func (l *ledger) set(all *fencingv1.AllNodes, revision uint64, now time.Time) {
	there := make(map[string]bool, len(all.GetNodes()))
	for _, n := range all.GetNodes() {
		there[n.GetName()] = true
	}
	for name, n := range l.nodes {
		if !there[name] {
			l.apply(Edge{Type: fencingv1.EventType_LEFT, Node: n, Time: now, Missed: true})
		}
	}
	for _, n := range all.GetNodes() {
		old, known := l.nodes[n.GetName()]
		e := Edge{Type: fencingv1.EventType_JOIN, Node: n, Time: now, Missed: l.answered}
		switch {
		case known && wentSince(old, n):
			l.apply(Edge{Type: fencingv1.EventType_LEFT, Node: old, Time: n.GetPrevDisconnectTime().AsTime(), Missed: true})
			l.apply(e)
		case !known, !maps.Equal(old.GetAddresses(), n.GetAddresses()):
			l.apply(e)
		}
	}
	l.revision, l.answered, l.dirty = revision, true, true
}

// wentSince reports whether a node that is in both sets was LEFT between them: its connections, for instance, may be
// gone. An agent that was restarted does not know earlier LEFTs, so a missing time means nothing.
func wentSince(before, now *fencingv1.Node) bool {
	at := now.GetPrevDisconnectTime()
	return at != nil && (before.GetPrevDisconnectTime() == nil || at.AsTime().After(before.GetPrevDisconnectTime().AsTime()))
}

// event records one event of the stream.
func (l *ledger) event(ev *fencingv1.Event) {
	l.revision++
	l.dirty = true
	if ev.GetNode().GetName() == "" {
		return // not of this protocol
	}
	l.apply(Edge{Type: ev.GetType(), Node: ev.GetNode(), Time: ev.GetTime().AsTime()})
}

// apply changes the current set by e and merges e into the changes that the callback has not seen yet.
func (l *ledger) apply(e Edge) {
	name := e.Node.GetName()
	_, there := l.nodes[name]
	c := l.pending[name]
	switch e.Type {
	case fencingv1.EventType_LEFT:
		if !there {
			return
		}
		delete(l.nodes, name)
		l.leave(name, e.Time)
		if c == nil {
			c = &change{known: true}
		}
		if !c.known { // came and went unseen
			delete(l.pending, name)
			l.recount = true
			return
		}
		c.left, c.join = &e, nil
	case fencingv1.EventType_JOIN:
		l.nodes[name] = e.Node
		delete(l.left, name)
		if c == nil {
			c = &change{known: there}
		}
		c.join = &e
	default:
		return // of a later version
	}
	l.order++
	c.order = l.order
	l.pending[name] = c
}

func (l *ledger) leave(name string, at time.Time) {
	l.left[name] = at
	if len(l.left) <= maxLeft {
		return
	}
	oldest := name
	for n, t := range l.left {
		if t.Before(l.left[oldest]) {
			oldest = n
		}
	}
	delete(l.left, oldest)
	l.recount = true
}

// roster records the agent's list of members. It adds nodes that were LEFT before this follower connected, and removes
// nodes that are no longer members.
func (l *ledger) roster(st *fencingv1.Status) {
	if len(st.GetNodes()) == 0 {
		return // every roster has members
	}
	members := make(map[string]bool, len(st.GetNodes()))
	for _, n := range st.GetNodes() {
		name := n.GetName()
		members[name] = true
		_, there := l.nodes[name]
		_, gone := l.left[name]
		// Without either sign the agent has never met the node, which may be healthy and not have an agent yet.
		met := n.GetLeftReason() != "" || n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED
		if !there && !gone && !n.GetAvailable() && met {
			l.leave(name, n.GetPrevDisconnect().AsTime())
			l.dirty, l.recount = true, true
		}
	}
	for name := range l.left {
		if !members[name] {
			delete(l.left, name)
			l.dirty, l.recount = true, true
		}
	}
}
