package diskquorum

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Sentence announces in an echo block that a boot is condemned: nothing feeds its watchdog any more. It contains name
// and boot (P6), so that it cannot be confused with blocks of the slot's next owner or of the next boot, even if a
// write lands late.
type Sentence struct {
	Timeout time.Duration // of the watchdog; 0: there is no sentence
	Boot    uint64
	Name    uint64 // NameDigest of the node
}

// NameDigest returns the digest that identifies a node in a sentence.
func NameDigest(name string) uint64 {
	return netgossip.NameDigest(name)
}

// sentences holds the arbiter's own sentence, and the sentences that it has read.
type sentences struct {
	condemned bool          // the token has changed for the last time: nothing is proposed, and no grant is accepted (P2)
	heard     []Sentence    // sentences read since the last TakeSentences
	mine      time.Duration // sentence of this boot in this node's own block
	counter   uint32        // counter of the first ping with the sentence; 0: none yet
	landed    bool          // a write with the sentence has landed
}

// Condemn makes this node renounce its grant for good, and never accept another (P2, P5).
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

// OwnSentence returns the sentence in this node's own echo block if an earlier agent has condemned this boot; otherwise
// 0.
func (a *Arbiter) OwnSentence() time.Duration { return a.judged.mine }

// SentenceLanded reports whether a block with this node's sentence has landed.
func (a *Arbiter) SentenceLanded() bool { return a.judged.landed }

// hearSentence records the sentence of a block that was read as a whole. A node can only announce its own sentence: the
// block must be from the condemned boot, and the slot must belong to a node with that name.
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

// noteSentence records which write has the sentence first, and whether a write with it has landed.
func (a *Arbiter) noteSentence(c *Completion) {
	s := &a.judged
	if c.Kind == OpWrite && c.Err == nil && s.counter > 0 && a.echo.lanes[c.Device].wrote-s.counter < pingsKept {
		s.landed = true
	}
}

// Spoke returns the boot of a member's latest echo block, the instant after which the block was composed, and whether
// it contains a sentence; zero: not known.
func (a *Arbiter) Spoke(member int) (boot uint64, at boottime.Instant, sentenced bool) {
	for slot := range a.echo.peers {
		if p := &a.echo.peers[slot]; p.RosterIndex == member && p.date > at && a.sameList(&p.Echo) { // most slots belong to other members
			boot, at, sentenced = p.Boot, p.date, p.Judged.Timeout > 0
		}
	}
	return boot, at, sentenced
}

// Others holds the evidence on the LUN that others live without this node.
type Others struct {
	// Dated is the earliest date among the latest blocks of the nodes that are the evidence; 0: there is no evidence.
	Dated boottime.Instant
	Round uint32 // the latest completed round of reads
}

// OthersLive looks for positive evidence that another side lives without this node (P1):
//
//   - E1: a set of at least a quorum, in which each member states that it lives, and counts all of the set but not this
//     node. A hub and two nodes that count only the hub are not such a set: those two starve.
//   - E2: the latest grant names others, no later value is accepted, and each of its holders states that it lives by
//     the grant, with the granted token and exactly the granted view, and is fed by it. The grant alone only describes
//     one moment: its half may come apart. It is not enough either that a holder states that it is named: a named node
//     counts as alive for nodes that hold, but its half may not have won yet.
//
// Each block is dated, and no older than four heartbeats and an I/O. Blocks of condemned boots do not count (P5). If
// any node whose block counts sees this node, there is no evidence: contact in one direction is contact. Nodes in
// parted, which have condemned themselves, are left out: their slots may still show for a moment whom they saw.
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

// agreeing returns the earliest date in a set of members that all count the whole set; 0: not all of them do.
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

// grantShown returns the earliest date among the blocks in which the holders of the latest grant state that they live
// by it; 0: not all of them state it.
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
