package gossip

import (
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// spoken is a statement and the roster whose indices its sets use.
type spoken struct {
	said   *netgossip.Statement
	roster *roster.Roster
	before *spoken // the previous statement; its own before is nil
}

// Urgency is how soon the peers have to get a statement.
type Urgency int

const (
	Whenever Urgency = iota // with the next answers
	Soon                    // peers that count closely are told to ask
	Now                     // all peers are told to ask
	Last                    // all peers are told to ask, while this condemned node still runs
)

// Say makes a statement the one that this node's peers get. Its sets use the indices of the roster by. Of the earlier
// statements only the last one is kept.
func (n *Networks) Say(st *netgossip.Statement, by *roster.Roster, u Urgency) {
	next := &spoken{said: st, roster: by}
	if last := n.said.Load(); last != nil {
		next.before = &spoken{said: last.said, roster: last.roster}
	}
	n.said.Store(next)
	switch u {
	case Now:
		n.Announce()
	case Last: // half of the node's countdown is reserved for the answers
		n.each(func(in *swim.Instance) { in.LastWords(st.Sentence / 2) })
	case Soon:
		n.each((*swim.Instance).Nudge)
	}
}

// Announce tells all peers that there is a new statement.
func (n *Networks) Announce() { n.each((*swim.Instance).Announce) }

// Said is the latest statement, nil before the first one.
func (n *Networks) Said() *netgossip.Statement {
	if s := n.said.Load(); s != nil {
		return s.said
	}
	return nil
}

// statement is this node's statement for its peers, or nil while the loop does not run: an answer with an old statement
// would be fresh evidence of a view and a token that are no longer valid (lease L1, L6). Without a statement no probe
// is answered.
func (n *Networks) statement() *netgossip.Statement {
	if n.cfg.Stalled() {
		return nil
	}
	return n.Said()
}

// sees reports whether a statement of this node lists a node as seen, for an instance that uses another roster
// (swim.Config.Sees).
func (n *Networks) sees(st *netgossip.Statement, node string) bool {
	s := n.said.Load()
	if s != nil && s.said != st {
		s = s.before // the statement was replaced while the reply was being made
	}
	if s == nil || s.said != st {
		return false
	}
	i, ok := s.roster.Index(node)
	return ok && st.Seen.Has(i)
}

// Tell keeps for the peers what this node knows about the LUN. That changes only under a grant, with each heartbeat.
func (n *Networks) Tell(r netgossip.Relay) {
	switch {
	case r == n.relay():
	case r == netgossip.Relay{}:
		n.relayed.Store(nil)
	default:
		n.relayed.Store(&r)
	}
}

// relay is what this node tells its peers about the LUN.
func (n *Networks) relay() netgossip.Relay {
	if r := n.relayed.Load(); r != nil {
		return *r
	}
	return netgossip.Relay{}
}
