package diskquorum

import (
	"cmp"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Hearing is what the echo blocks of the others say, as far as this node can date it.
type Hearing struct {
	// Vacant is until when a node that does not live may go on, because most of the list says that it does not live
	// either, and misses each node that does not say so (H1, H2); 0: that does not hold.
	Vacant boottime.Instant
	// Isolated says that a majority lives and does not count this node (H3). It holds for one moment only.
	Isolated bool
	// Others says that, by fresh echo blocks, somebody lives and does not count this node. It holds for one moment only.
	Others bool
	// Ground is the latest instant for which this is so by the records alone that are dated then or later: a majority
	// lives and has not seen this node for long, or all that the latest grant names live by it and this node is none
	// of them (H6); 0: neither is so.
	Ground boottime.Instant
}

// Hear judges the echo blocks. lately are the members that anybody may still count because this node has seen them,
// dated is how long a dated word counts (D_lun), and quorum is how many make a majority. The node must use exactly
// the one list that its sets refer to, and so must each node whose block counts.
//
// Why others cannot call a node dead while this node holds: S is most of the list, and so is, or contains with this
// half's complement, every set that claims a death; they share a node that said, within D_lun, that it did not live.
// A node that does not live claims nothing, and begins its claims again (M1).
//
// Why nobody lives beside it for long: let z live, by counting most of the list. z is not in S. The nodes that it
// counts, and those of S that miss it, are both most of the list, so they share a node; and a node that z counts has
// seen z lately (H2).
func (a *Arbiter) Hear(now boottime.Instant, lately roster.Set, quorum int, dated time.Duration) (h Hearing) {
	var c cover
	n := a.roster.Size()
	isolating, fresh := 0, 4*a.echoPace()+a.timing.IOTimeout
	var missed []boottime.Instant
	c.add(a.roster.Self, now, &lately)
	for slot := range a.echo.peers {
		p := &a.echo.peers[slot]
		if p.date == 0 || now >= p.date.Add(dated) || !p.Settled || !a.sameList(&p.Echo) || p.RosterIndex == a.roster.Self || p.Judged.Timeout > 0 {
			continue
		}
		switch {
		case !p.Lives:
			c.add(p.RosterIndex, p.date, &p.Lately)
		case now.Sub(p.date) <= fresh && !p.View.Has(a.roster.Self):
			if isolating++; !p.Lately.Has(a.roster.Self) {
				missed = append(missed, p.date)
			}
		}
	}
	h.Isolated, h.Others = isolating >= quorum, isolating > 0
	if len(missed) >= quorum {
		slices.Sort(missed)
		h.Ground = missed[len(missed)-quorum]
	}
	h.Ground = max(h.Ground, a.outvoted(now, fresh))
	if date, ok := c.latest(n); ok {
		h.Vacant = date.Add(dated)
	}
	return h
}

// outvoted is the earliest of the dates of the blocks in which the holders of the latest grant say that they are fed
// by it; 0: they do not all say so, or the grant names this node, maybe by a token that it has given up.
func (a *Arbiter) outvoted(now boottime.Instant, fresh time.Duration) boottime.Instant {
	g := a.lease.grant
	if g == nil || a.table.holdersDone(g, &a.timing, a.ownWatchdog()) {
		return 0
	}
	first := now
	for _, h := range g.Holders {
		if int(h.Slot) == a.slot || int(h.Slot) >= len(a.echo.peers) {
			return 0
		}
		p := &a.echo.peers[h.Slot]
		if p.date == 0 || now.Sub(p.date) > fresh || !p.Lives || !p.Feeding || p.Holding || p.Token != h.Token {
			return 0
		}
		first = min(first, p.date)
	}
	return first
}

func (a *Arbiter) sameList(e *Echo) bool {
	return e.RosterEpoch == a.roster.Epoch && e.RosterDigest == a.roster.Digest && e.RosterSize == a.roster.Size() && e.RosterIndex < e.RosterSize
}

// cover looks for the set S of H1 and H2 whose earliest date is the latest. One more member makes no condition
// harder, so S is all those whose date is not earlier than some instant.
type cover struct {
	words   [MaxSlots + 1]word
	n       int
	members roster.Set // whose words these are
}

type word struct {
	member int
	date   boottime.Instant
	lately *roster.Set
}

// add notes a member that does not live. The latest statement counts, whichever slot it is in.
func (c *cover) add(member int, date boottime.Instant, lately *roster.Set) {
	if c.members.Has(member) {
		for i := range c.n {
			if w := &c.words[i]; w.member == member && date > w.date {
				*w = word{member, date, lately}
			}
		}
		return
	}
	if c.n < len(c.words) {
		c.words[c.n] = word{member, date, lately}
		c.n++
		c.members.Add(member)
	}
}

// latest is the earliest date of the best S; ok is false where there is none.
func (c *cover) latest(n int) (date boottime.Instant, ok bool) {
	words := c.words[:c.n]
	if n > len(c.words) || 2*len(words) <= n {
		return 0, false // most of the list cannot tell, or does not say that it does not live
	}
	slices.SortFunc(words, func(a, b word) int { return cmp.Compare(b.date, a.date) })
	var in roster.Set
	z, missed := 0, 0 // H2 is so of each member before z, and so many of S miss z
	for k := range words {
		w := &words[k]
		in.Add(w.member)
		missed += missing(words[k:k+1], z)
		for 2*in.Len() > n && (in.Has(z) || 2*missed > n) {
			for z++; z < n && in.Has(z); z++ {
			}
			if z == n {
				return w.date, true
			}
			missed = missing(words[:k+1], z)
		}
	}
	return 0, false
}

// missing is how many of these miss a node. H2: of a node outside of S they are most of the list.
func missing(words []word, node int) (n int) {
	for i := range words {
		if !words[i].lately.Has(node) {
			n++
		}
	}
	return n
}
