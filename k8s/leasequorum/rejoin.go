package leasequorum

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// When a network heals in pieces, one member of a granted half may see the other half before the rest do. It counts a
// majority, and its token moves on. The other members continue by the grant that they have (K8), as long as that member
// states that it counts a majority that includes them. Their own tokens stay meanwhile, so K3 keeps the grant from
// being replaced by one to others before its time is over; and they renew it. The renewal names a token that has moved
// on, as a grant may (K4): a node that wants to replace the grant finds that this holder is done.

// bridged returns the instant until which the node may feed under the grant by which it fed last, although a member of
// the half has given it up for a majority, and the statement that allows this; zero: it may not.
func (a *Arbiter) bridged() (until boottime.Instant, by string) {
	r := a.cfg.Roster
	if len(a.held.Holders) != a.view.Len() || a.held.Roster != r.Ref() {
		return 0, ""
	}
	until = max(a.heldAt, a.anchor(&a.held)).Add(a.cfg.Timing.Term)
	for _, h := range a.held.Holders {
		i, ok := r.Index(h.Node)
		if !ok || !a.view.Has(i) || i == r.Self && a.token != h.Token {
			return 0, ""
		}
		if i == r.Self {
			continue
		}
		st, at := a.cfg.Evidence.Statement(i)
		switch {
		case st == nil || st.RosterEpoch != r.Epoch || st.RosterDigest != r.Digest:
			return 0, ""
		case a.rejoined(st, &h):
			by = h.Node + ": counts a majority again, and this node"
		case st.Token != h.Token || st.View != a.view:
			return 0, ""
		}
		until = min(until, at.Add(a.cfg.Timing.MaxAge))
	}
	return until, by
}

// bridge sets Won if bridged allows it, by the grant that is held.
func (a *Arbiter) bridge(now boottime.Instant, out *tie.Output, want *Grant) bool {
	until, by := a.bridged()
	if until <= now {
		return false
	}
	*want, a.heldAt = a.held, max(a.heldAt, a.anchor(&a.held))
	out.Split, out.Until, out.Why, out.Relay = tie.Won, until, by, a.relay(want)
	return true
}

// rejoined reports whether a member states, in the boot of the grant, that it counts a majority that includes this
// node.
func (a *Arbiter) rejoined(st *netgossip.Statement, h *Holder) bool {
	return st.Boot == h.Token.Nonce && st.View.Has(a.cfg.Roster.Self) && st.View.Len() >= a.quorum
}
