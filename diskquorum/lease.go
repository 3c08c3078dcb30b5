package diskquorum

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Timing holds the time constants of the lease. The caller computes them from the configuration; docs/lease.md lists
// the minimum of each.
type Timing struct {
	Heartbeat time.Duration // between two writes of this node's slot
	IOTimeout time.Duration // an I/O that takes longer is unknown and takes the node out of arbitration
	MaxAge    time.Duration // D_max of the network evidence
	Grant     time.Duration // G: how long a grant is valid after the start of a landed write of this node
	Arbitrate time.Duration // A: how long a node may go on feeding in an undecided tie
	Expire    time.Duration // T_expire without the holder's W: G + F + margin

	PreferenceDelay time.Duration // head start of a half that reaches the Kubernetes API (L12)
	Stagger         time.Duration // between the proposers of one half (L12)

	// Takeover is the time for which an excluded half does not propose after the holders have renounced, while their
	// slots still move: an agent restart in the living half renounces the grant, and must not hand it to the half that
	// is about to die.
	Takeover time.Duration
}

// fresh returns T_fresh of L5: a member's slot must have changed within this time.
func (t *Timing) fresh() time.Duration { return 2*t.Heartbeat + t.IOTimeout }

// Equal reports whether two grants name the same tokens.
func (g *Grant) Equal(o *Grant) bool {
	if g == nil || o == nil {
		return g == o
	}
	return g.RosterEpoch == o.RosterEpoch && g.RosterDigest == o.RosterDigest && slices.Equal(g.Holders, o.Holders)
}

// token returns the token that a grant names for a slot.
func (g *Grant) token(slot int) (Token, bool) {
	if g == nil {
		return Token{}, false
	}
	for _, h := range g.Holders {
		if int(h.Slot) == slot {
			return h.Token, true
		}
	}
	return Token{}, false
}

// holderDone reports whether a holder of the latest grant can never feed under it again: its node rebooted or renounced
// (the slot shows another token), or its record did not change between two completed reads whose distance is the expiry
// time (L5). Both are final: a token never returns, and an expired holder has passed its own deadline.
//
// The read that ends the interval must be the latest one, and the interval runs from the END of the first read to the
// START of the last: nothing else proves that the holder had so much time to notice (counterexample 6).
func (t *Table) holderDone(h Holder, expiry time.Duration) bool {
	if int(h.Slot) >= len(t.entries) {
		return false
	}
	e := &t.entries[h.Slot]
	if e.status != slotKnown {
		return false
	}
	return h.left(e.record().Statement.Token) || t.start.Sub(e.since) >= expiry
}

// expiry returns T_expire with W, the same for all holders. It is computed from the holders' own records, because the
// configuration of nodes changes one after the other. A holder whose own slot has not changed for long may feed by the
// writes of another holder (L7), but with its own G. A record that shows the granted token was written by the process
// that holds the token, whose G is fixed.
func (t *Table) expiry(g *Grant, tm *Timing, ownWatchdog time.Duration) time.Duration {
	lifetime, w := tm.Grant, ownWatchdog
	for _, h := range g.Holders {
		if int(h.Slot) >= len(t.entries) || t.entries[h.Slot].status != slotKnown {
			continue // holderDone is false
		}
		if rec := t.entries[h.Slot].record(); !h.left(rec.Statement.Token) {
			lifetime, w = max(lifetime, rec.GrantLifetime), max(w, rec.Statement.Guard.Timeout)
		}
	}
	return tm.Expire + lifetime - tm.Grant + w
}

// left reports whether the shown token proves that the holder's node booted again or renounced.
func (h *Holder) left(shown Token) bool {
	return shown.Nonce != h.Token.Nonce || shown.Counter > h.Token.Counter // a smaller counter is from an old record that landed late
}

// holdersDone reports whether every holder of g is done. If there is no grant yet, the result is true.
func (t *Table) holdersDone(g *Grant, tm *Timing, ownWatchdog time.Duration) bool {
	if g == nil {
		return true
	}
	expiry := t.expiry(g, tm, ownWatchdog)
	for _, h := range g.Holders {
		if !t.holderDone(h, expiry) {
			return false
		}
	}
	return true
}

// showsHolder reports whether the latest read shows a holder of g that may still feed under it. A read in which the
// holder's slot is unknown does not count.
func (t *Table) showsHolder(g *Grant, tm *Timing, ownWatchdog time.Duration) bool {
	expiry := t.expiry(g, tm, ownWatchdog)
	return slices.ContainsFunc(g.Holders, func(h Holder) bool {
		return int(h.Slot) < len(t.entries) && t.entries[h.Slot].status == slotKnown && !t.holderDone(h, expiry)
	})
}

// half is this node's half of a tie, in the form that the proposer needs.
type half struct {
	view    roster.Set // roster indices, self included
	slots   []int      // the members' slots, ascending; nil if some member has none
	epoch   uint64
	digest  uint64
	tokens  []Token // by slots
	settled bool    // every member has freshly shown its present token and the view, twice
	near    bool    // or only once, and nothing else is missing
	why     string  // what is missing, for people
}

// assess returns the half for view, from the latest read and the network's evidence (L3, L5).
func (a *Arbiter) assess(view roster.Set) half {
	h := half{view: view, epoch: a.roster.Epoch, digest: a.roster.Digest, settled: true, near: true}
	for slot := range a.table.entries {
		e := &a.table.entries[slot]
		if e.status != slotKnown || e.record().State == SlotFree {
			continue
		}
		idx, ok := a.member(slot)
		if !ok || !view.Has(idx) {
			continue
		}
		h.slots = append(h.slots, slot)
		h.tokens = append(h.tokens, e.record().Statement.Token)
		if why := a.unsettled(slot, idx, view); why != "" {
			h.near = false
			h.settled, h.why = false, why
		} else if a.table.entries[slot].beats < 2 {
			h.settled, h.why = false, a.table.entries[slot].record().NodeName+": its slot showed this view only once"
		}
	}
	if len(h.slots) != view.Len() {
		h.near = false
		h.settled, h.why = false, "a member of this half has no slot"
	}
	return h
}

// unsettled returns why one member cannot be part of a grant, apart from a missing second heartbeat with this view; "":
// it can.
func (a *Arbiter) unsettled(slot, idx int, view roster.Set) string {
	e := &a.table.entries[slot]
	rec := e.record()
	st := &rec.Statement
	present := a.token
	if idx != a.roster.Self {
		gossip, _ := a.evidence.Statement(idx)
		if gossip == nil {
			return rec.NodeName + ": nothing heard of it"
		}
		present = gossip.Token
	}
	switch {
	case rec.State != SlotActive:
		return rec.NodeName + ": its slot is not active"
	case !a.sameRoster(st):
		return rec.NodeName + ": its roster differs" // L3
	case present.IsZero() || st.Token != present:
		return rec.NodeName + ": its slot does not show its present token yet"
	case st.View != view:
		return rec.NodeName + ": its slot shows another view"
	}
	if at, ok := e.arrived(); !ok || a.table.start.Sub(at) > a.fresh() {
		return rec.NodeName + ": its slot does not move"
	}
	return ""
}

// member returns the roster index of the node that a slot belongs to. Usually it is the index of the slot, see
// chooseSlot.
func (a *Arbiter) member(slot int) (idx int, ok bool) {
	name := a.table.entries[slot].record().NodeName
	if slot < a.roster.Size() && a.roster.Name(slot) == name {
		return slot, true
	}
	return a.roster.Index(name)
}

func (a *Arbiter) sameRoster(st *netgossip.Statement) bool {
	return st.RosterEpoch == a.roster.Epoch && st.RosterDigest == a.roster.Digest
}

// grant returns the value that the half would propose.
func (h *half) grant() *Grant {
	g := &Grant{RosterEpoch: h.epoch, RosterDigest: h.digest, Holders: make([]Holder, len(h.slots))}
	for i, s := range h.slots {
		g.Holders[i] = Holder{Slot: uint8(s), Token: h.tokens[i]}
	}
	return g
}

// rivalUnaware names a node outside the view whose slot moves and still counts a member of the view. That node has not
// noticed the split; a decision now would only lengthen the time in which both halves feed. The slot of a node that is
// dead or has no LUN does not move, so such a node delays nothing. A change is dated by the last read that did not show
// it yet. While all members are in view, that read may be old; so the wait for a node that has died since stays short
// enough for a slow LUN. On such a LUN, the slot of a running node is seen to change within two rounds: one of that
// node's I/O and one of this node's.
func (a *Arbiter) rivalUnaware(view roster.Set) string {
	for slot := range a.table.entries {
		e := &a.table.entries[slot]
		if e.status != slotKnown || e.record().State != SlotActive {
			continue
		}
		idx, ok := a.member(slot)
		if !ok || view.Has(idx) || !a.sameRoster(&e.record().Statement) {
			continue // its view uses the indices of another roster
		}
		if e.after != 0 && a.table.start.Sub(e.after) <= max(a.timing.fresh(), 2*a.pace.round()) && e.record().Statement.View.Intersects(view) {
			return e.record().NodeName
		}
	}
	return ""
}

// holdersMove reports whether some holder of g that has not rebooted since still writes its slot.
func (a *Arbiter) holdersMove(g *Grant) bool {
	for _, h := range g.Holders {
		if int(h.Slot) >= len(a.table.entries) {
			continue
		}
		e := &a.table.entries[h.Slot]
		at, moved := e.arrived()
		if e.status == slotKnown && moved && e.record().Statement.Boot == h.Token.Nonce && a.table.start.Sub(at) <= a.fresh() {
			return true
		}
	}
	return false
}

// feedUntil returns the instant until which this node may feed under g, or zero (L6): the latest decision must name its
// present token, its view must be exactly the granted set, and both its own landed write and the others' evidence must
// be younger than G.
func (a *Arbiter) feedUntil(g *Grant, view roster.Set) boottime.Instant {
	anchor := max(a.anchor, a.relayed)
	if g == nil || a.slot < 0 || a.token.IsZero() || anchor.IsZero() {
		return 0
	}
	if named, ok := g.token(a.slot); !ok || named != a.token {
		return 0
	}
	if len(g.Holders) != view.Len() {
		return 0
	}
	until := anchor.Add(a.timing.Grant)
	for _, h := range g.Holders {
		if int(h.Slot) == a.slot {
			continue
		}
		at := max(a.memberEvidence(h, view), a.rejoined(h, view))
		if at.IsZero() {
			return 0
		}
		until = min(until, at.Add(a.timing.Grant))
	}
	return until
}

// memberEvidence returns the latest instant for which a holder's own gossip proves that it had the named token and the
// granted view; zero: this was never proven, or has ended. The holder's slot proves no such instant: a write may land
// long after it was composed.
func (a *Arbiter) memberEvidence(h Holder, view roster.Set) boottime.Instant {
	st, anchor := a.partner(h, view)
	if st == nil || !a.sameRoster(st) || st.Token != h.Token || st.View != view {
		return 0
	}
	return anchor
}

// partner returns the latest statement of the holder of a slot, if it is in the view, and the instant for which it is
// proven. The owner of the slot is known from the last usable read: a later read in which the slot is unknown does not
// renew the grant, but need not end it.
func (a *Arbiter) partner(h Holder, view roster.Set) (*netgossip.Statement, boottime.Instant) {
	if int(h.Slot) >= len(a.table.entries) {
		return nil, 0
	}
	idx, ok := a.member(int(h.Slot))
	if !ok || !view.Has(idx) {
		return nil, 0
	}
	return a.evidence.Statement(idx)
}
