package leasequorum

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// A member of a granted half that sees the other half again, in a network that heals in pieces, counts a
// majority, and its token moves on. Those who do not see as much yet go on by the grant that they have (K8),
// for as long as that member says that it counts a majority, and them. Their own token stands meanwhile, so
// K3 keeps the grant from being replaced by one to others before its time is over; and they renew it. That
// names a token which has moved on, as a grant may (K4): a node that asks for it finds that it is done with.

// bridged is until when the node may feed under the grant by which it fed last, though a member of the half has
// given it up for a majority, and by whose word; zero: not at all.
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

// bridge makes it Won if that is so, by the grant that is held.
func (a *Arbiter) bridge(now boottime.Instant, out *tie.Output, want *Grant) bool {
	until, by := a.bridged()
	if until <= now {
		return false
	}
	*want, a.heldAt = a.held, max(a.heldAt, a.anchor(&a.held))
	out.Split, out.Until, out.Why, out.Relay = tie.Won, until, by, a.relay(want)
	return true
}

// rejoined reports whether a member says that it counts a majority with this node in it, in the boot of the grant.
func (a *Arbiter) rejoined(st *netgossip.Statement, h *Holder) bool {
	return st.Boot == h.Token.Nonce && st.View.Has(a.cfg.Roster.Self) && st.View.Len() >= a.quorum
}
