package diskquorum

import (
	"strings"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// A network that heals in pieces lets one member of a granted half see the others before the rest of the half
// does. That holder counts a majority, so its view changes and it gives up the grant. The rest would lose the grant
// with it, although their partner lives and counts them. So they go on under the grant (L14). What that relies on:
//
//   - The token of such a node stands, and it goes on writing its slot: it is a holder that is not done, so no
//     other half is granted (L5). When it can write no more it stops after G, as under any grant (L6).
//   - It counts half of the roster, by fresh evidence. A majority that claims its death has one of these
//     among its members, which has seen it (L9).
//   - A majority with its partner in it is no other part: they share the partner.
//
// When the partner no longer says so the node renounces (L10), as it would have at first.

// rejoined is the latest instant for which it is proven, first hand, that a holder counted a majority with this
// node in it, in the boot that the grant names; zero: it never did, or no longer does.
func (a *Arbiter) rejoined(h Holder, view roster.Set) boottime.Instant {
	st, anchor := a.partner(h, view)
	if st == nil || !a.sameRoster(st) || st.Boot != h.Token.Nonce || !st.View.Has(a.roster.Self) || st.View.Len() < a.quorum {
		return 0
	}
	return anchor
}

// bridgedBy names those by whose majority this node still feeds under the grant, for people; "": nobody.
func (a *Arbiter) bridgedBy() string {
	var names []string
	for _, h := range a.lease.grant.Holders {
		if int(h.Slot) != a.slot && a.memberEvidence(h, a.view).IsZero() {
			names = append(names, a.table.entries[h.Slot].record().NodeName)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, ", ") + ": counts a majority again, and this node"
}
