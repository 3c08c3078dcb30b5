package diskquorum

import (
	"cmp"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Hearing is the result of the others' echo blocks, as far as this node can date them.
type Hearing struct {
	// Vacant is the instant until which a node that does not live may go on feeding: most members of the list state
	// that they do not live either, and these members miss every node that does not state it (H1, H2); 0: that is not
	// so.
	Vacant boottime.Instant
	// Isolated is true if a majority lives and does not count this node (H3). It describes one moment only.
	Isolated bool
	// Others is true if, by fresh echo blocks, some node lives and does not count this node. It describes one moment
	// only.
	Others bool
	// Ground is the latest instant for which one of two grounds is proven by records that are all dated at that instant
	// or later (H6). Either a majority lives and has not seen this node for long, or all holders of the latest grant
	// live by it and this node is not one of them. 0: neither is proven.
	Ground boottime.Instant
}

// Hear evaluates the echo blocks. lately holds the members that other nodes may still count because this node has seen
// them. dated is how long a dated block counts (D_lun), and quorum is the number of members that make a majority. The
// node must use only the list that its sets refer to, and so must each node whose block counts.
//
// Why others cannot call this node dead while it holds: S is most of the list. Every set that can prove a death shares
// a node with S, and that node has stated, within D_lun, that it does not live. A node that does not live makes no
// claims, and later starts them again (M1).
//
// Why no other node lives at the same time for long: suppose that z lives, because it counts most of the list. z is not
// in S. The nodes that z counts are most of the list, and so are the nodes of S that miss z. So both sets share a node;
// but a node that z counts has seen z lately, which contradicts H2.
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

// outvoted returns the earliest date among the blocks in which the holders of the latest grant state that they are fed
// by it; 0: not all of them state it, or the grant names this node, maybe by a token that it has given up.
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

// cover looks for the set S of H1 and H2 whose earliest date is the latest possible. Adding a member does not make any
// condition harder, so S contains all members whose date is not earlier than some instant.
type cover struct {
	words   [MaxSlots + 1]word
	n       int
	members roster.Set // the members that these words are from
}

type word struct {
	member int
	date   boottime.Instant
	lately *roster.Set
}

// add records a member that does not live. Its latest statement counts, no matter in which slot.
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

// latest returns the earliest date of the best S; ok is false if there is no such set.
func (c *cover) latest(n int) (date boottime.Instant, ok bool) {
	words := c.words[:c.n]
	if n > len(c.words) || 2*len(words) <= n {
		return 0, false // most members have no usable block, or do not state that they do not live
	}
	slices.SortFunc(words, func(a, b word) int { return cmp.Compare(b.date, a.date) })
	var in roster.Set
	z, missed := 0, 0 // H2 is true of each member before z; missed members of S miss z
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

// missing returns how many of the words are from members that miss a node. H2: for a node outside of S this must be
// most of the list.
func missing(words []word, node int) (n int) {
	for i := range words {
		if !words[i].lately.Has(node) {
			n++
		}
	}
	return n
}
