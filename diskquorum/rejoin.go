package diskquorum

import (
	"strings"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// A network that heals in pieces lets one member of a granted half see the others before the rest of the half does.
// That holder counts a majority, so its view changes and it gives up the grant. The other holders would also lose the
// grant, although their partner lives and counts them. So they go on under the grant (L14). This is safe because:
//
//   - The token of such a node does not change, and it goes on writing its slot: it is a holder that is not done, so no
//     other half gets a grant (L5). When it can no longer write, it stops after G, as under any grant (L6).
//   - It counts half of the roster, by fresh evidence. A majority that claims its death contains one of the counted
//     members, which has seen it (L9).
//   - A majority that contains its partner is not another part of the group: both share the partner.
//
// When the partner no longer states that it counts this node, the node renounces (L10).

// rejoined returns the latest instant for which a holder's own statement proves that it counted a majority that
// includes this node, in the boot that the grant names; zero: it never did, or no longer does.
func (a *Arbiter) rejoined(h Holder, view roster.Set) boottime.Instant {
	st, anchor := a.partner(h, view)
	if st == nil || !a.sameRoster(st) || st.Boot != h.Token.Nonce || !st.View.Has(a.roster.Self) || st.View.Len() < a.quorum {
		return 0
	}
	return anchor
}

// bridgedBy names, for people, the nodes by whose majority this node still feeds under the grant; "": there are none.
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
