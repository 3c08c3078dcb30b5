package diskquorum

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Sentence says in an echo block that a boot is condemned: nothing feeds its watchdog any more. It has name and boot in
// it (P6), so that what the slot's next owner or the next boot writes cannot be taken for it, nor a write that lands late.
type Sentence struct {
	Timeout time.Duration // of the watchdog; 0: there is no sentence
	Boot    uint64
	Name    uint64 // NameDigest of the node
}

// NameDigest is how a node is named in a sentence.
func NameDigest(name string) uint64 {
	return netgossip.NameDigest(name)
}

// sentences is what the arbiter has of its own sentence, and has read of others.
type sentences struct {
	condemned bool          // the token has moved on for the last time: nothing is proposed, and no grant is taken (P2)
	heard     []Sentence    // in reads that ended since they were taken
	mine      time.Duration // of this boot, as this node's own block shows it
	counter   uint32        // of the first ping with the sentence in it; 0: none yet
	landed    bool          // a write with it has landed
}

// Condemn makes this node renounce for good what it holds or could ever hold (P2, P5).
func (a *Arbiter) Condemn() {
	if a.judged.condemned {
		return
	}
	a.judged.condemned = true
	a.abort("this node is condemned")
	a.moveToken()
}

// TakeSentences returns the sentences in the echo blocks that were read since the last call. It is valid until then.
func (a *Arbiter) TakeSentences() []Sentence {
	heard := a.judged.heard
	a.judged.heard = a.judged.heard[:0]
	return heard
}

// OwnSentence is what this node's own echo block says of this boot, if an agent before this one has condemned it; else 0.
func (a *Arbiter) OwnSentence() time.Duration { return a.judged.mine }

// SentenceLanded reports whether a block with this node's sentence has landed.
func (a *Arbiter) SentenceLanded() bool { return a.judged.landed }

// hearSentence takes the sentence of a block that was read whole. A node speaks for itself alone: the block is of the boot that
// is condemned, and the slot belongs to a node of that name.
func (a *Arbiter) hearSentence(slot int, rec *Echo) {
	s := rec.Judged
	if s.Timeout == 0 || s.Boot != rec.Boot {
		return
	}
	switch e := &a.table.entries[slot]; {
	case slot == a.slot:
		if s.Boot == a.boot && s.Name == NameDigest(a.roster.Name(a.roster.Self)) {
			a.judged.mine = s.Timeout
		}
	case e.status == slotKnown && NameDigest(e.record().NodeName) == s.Name:
		a.judged.heard = append(a.judged.heard, s)
	}
}

// judge fills in the sentence of a block that is being composed.
func (e *Echo) judge(boot uint64, name string) {
	if e.Sentence > 0 {
		e.Judged = Sentence{Timeout: e.Sentence, Boot: boot, Name: NameDigest(name)}
	}
}

// noteSentence notes which write says it first, and that a write which says it has landed.
func (a *Arbiter) noteSentence(c *Completion) {
	s := &a.judged
	if c.Kind == OpWrite && c.Err == nil && s.counter > 0 && a.echo.lanes[c.Device].wrote-s.counter < pingsKept {
		s.landed = true
	}
}

// Spoke is the boot that a member's echo block is about, the instant after which it was composed, and whether it
// contains a sentence; zero: not known.
func (a *Arbiter) Spoke(member int) (boot uint64, at boottime.Instant, sentenced bool) {
	for slot := range a.echo.peers {
		if p := &a.echo.peers[slot]; p.RosterIndex == member && p.date > at && a.sameList(&p.Echo) { // most are another one's
			boot, at, sentenced = p.Boot, p.date, p.Judged.Timeout > 0
		}
	}
	return boot, at, sentenced
}

// Others is the evidence on the LUN that others live without this node.
type Others struct {
	// Dated is the earliest date of the latest blocks of the nodes that show it; 0: no node shows it.
	Dated boottime.Instant
	Round uint32 // the round of reads that ended last
}

// OthersLive looks for positive evidence that another side lives without this node (P1):
//
//   - E1: a set of at least a quorum, each member of which says that it lives, and counts all of the set and not this node.
//     A hub and two nodes that count only the hub are no such set: those two starve.
//   - E2: the latest grant names others, no later value is accepted, and each of its holders says that it lives by it, with
//     the granted token and exactly the granted view, and is fed by it. The grant alone is the word of a moment: its half may
//     come apart. Nor is it enough to be named: that counts as life for those who hold, and the half may not be won yet.
//
// Each word is dated, and no older than four heartbeats and an I/O. None is of a condemned boot (P5). If any node whose
// word counts sees this node, nothing is shown: contact in one direction is contact. A node that has parted from this one by
// condemning itself is left out: its slot may show for a moment longer what it saw.
func (a *Arbiter) OthersLive(now boottime.Instant, quorum int, parted roster.Set) (o Others) {
	o.Round = a.echo.answered
	fresh := 4*a.echoPace() + a.timing.IOTimeout
	var can roster.Set
	var words [roster.MaxNodes]*testified // by member
	for slot := range a.echo.peers {
		p := &a.echo.peers[slot]
		if p.date == 0 || now.Sub(p.date) > fresh || !p.Settled || !a.sameList(&p.Echo) || p.RosterIndex == a.roster.Self || p.Judged.Timeout > 0 || parted.Has(p.RosterIndex) {
			continue
		}
		if a.seenBy(slot) && !a.view.Has(p.RosterIndex) {
			return Others{Round: o.Round}
		}
		if p.Lives && !p.View.Has(a.roster.Self) {
			can.Add(p.RosterIndex)
			words[p.RosterIndex] = p
		}
	}
	for m := range can.All() {
		if set := words[m].View.And(can); set.Len() >= quorum {
			o.Dated = max(o.Dated, agreeing(set, &words))
		}
	}
	o.Dated = max(o.Dated, a.grantShown(can, &words))
	return o
}

// agreeing is the earliest date of a set of members each of whom counts all of it; 0: not all do.
func agreeing(set roster.Set, words *[roster.MaxNodes]*testified) boottime.Instant {
	first := boottime.Never
	for m := range set.All() {
		if !set.Minus(words[m].View).IsEmpty() {
			return 0
		}
		first = min(first, words[m].date)
	}
	return first
}

// grantShown is the earliest of the dates of the blocks in which the holders of the latest grant say that they live
// by it; 0: not all say so.
func (a *Arbiter) grantShown(can roster.Set, words *[roster.MaxNodes]*testified) boottime.Instant {
	g := a.lease.grant
	if g == nil || a.lease.pending || a.lease.unknown || a.table.holdersDone(g, &a.timing, a.ownWatchdog()) {
		return 0
	}
	var half roster.Set
	for _, h := range g.Holders {
		if int(h.Slot) == a.slot || int(h.Slot) >= len(a.echo.peers) {
			return 0
		}
		p := &a.echo.peers[h.Slot]
		if !can.Has(p.RosterIndex) || words[p.RosterIndex] != p || p.Token != h.Token || !p.Granted || !p.Feeding || p.Holding {
			return 0
		}
		half.Add(p.RosterIndex)
	}
	first := boottime.Never
	for m := range half.All() {
		if words[m].View != half {
			return 0
		}
		first = min(first, words[m].date)
	}
	return first
}

// seenBy reports whether the owner of a slot may see this node, according to the slot.
func (a *Arbiter) seenBy(slot int) bool {
	e := &a.table.entries[slot]
	if e.status != slotKnown {
		return true
	}
	st := &e.record().Statement
	return st.RosterEpoch != a.roster.Epoch || st.RosterDigest != a.roster.Digest || st.Seen.Has(a.roster.Self)
}
