package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// followSentences takes the sentences of others that were read or stated, and finds which nodes are dead by them.
func (v *Prover) followSentences(now boottime.Instant) {
	if v.slots != nil {
		for _, s := range v.slots.TakeSentences() {
			v.sentencedByLUN(now, &s)
		}
	}
	if v.in.Condemned { // it claims nobody's death
		return
	}
	for p := range v.peers {
		if w := &v.peers[p]; w.sentenced != 0 && p != v.roster.Self {
			v.execute(now, p, w)
		}
	}
}

// execute proves the death of a condemned boot when its time is over, and shows it while nobody speaks against it. A death that
// was handed on gives way to what the node has told itself.
func (v *Prover) execute(now boottime.Instant, p int, w *witness) {
	if v.denies(p, w) {
		w.sentenced, w.hearsay = 0, 0
		v.defy(p, w.boot)
		return
	}
	if w.sentenced == w.boot && w.defied != w.boot && w.fires() && !w.twins && (w.death.Boot != w.boot || w.death.handedOn() && w.hearsay == 0) {
		if now < w.over {
			v.out.Wake = min(v.out.Wake, w.over)
			v.askSeers(now, p, w)
		} else {
			w.death = Death{Proof: ProofSentence, Boot: w.boot, At: now, Hearsay: w.hearsay > 0}
		}
	}
	if w.death.Proof != ProofSentence {
		return
	}
	if w.death.Hearsay && w.death.Boot == w.boot && (v.merger.Sighted(p) > w.death.At || v.wroteSlot(now, p, &w.death)) {
		v.defy(p, w.boot)
		return
	}
	if spoke, at, _ := v.spoke(p); w.death.Boot == w.boot && (w.lived > w.death.At || spoke == w.boot && at > w.death.At) {
		// P9: it lives on. Either two machines are one boot, or the watchdog did not do what it said.
		w.unfired = w.boot
		v.defy(p, w.boot)
		return
	}
	put(&v.fenced, p, w.death.Boot == w.boot && !w.twins && !w.unmet() && !v.seenByCounted(now, p))
	if !v.fenced.Has(p) && w.death.Boot == w.boot && now.Sub(w.death.At) < trialLimit {
		v.askSeers(now, p, w)
	}
}

// seersLead is how long before its time is over a sentence's seers are asked: long enough for their answers.
const seersLead = 500 * time.Millisecond

// askSeers asks the members for news whose word that they see a condemned node would hold up its FENCED: where samples are taken,
// it is from before the sentence as a rule, and lasts for MaxAge. It makes nothing believed: they are heard like at any other time.
func (v *Prover) askSeers(now boottime.Instant, p int, w *witness) {
	var seers roster.Set
	for m := range v.in.View.Counted.All() {
		st, anchor := v.merger.Statement(m)
		put(&seers, m, m != v.roster.Self && st != nil && st.Seen.Has(p) && max(now, w.over).Sub(anchor) <= v.cfg.MaxAge)
	}
	if !seers.IsEmpty() {
		v.askWhether(now, &w.seers, netgossip.SentenceBound(w.term)-seersLead, seers)
	}
}

// denies reports whether a boot has spoken on the LUN since others have handed its sentence on, and bears none.
func (v *Prover) denies(p int, w *witness) bool {
	if w.hearsay == 0 || w.sentenced != w.boot {
		return false
	}
	boot, at, sentenced := v.spoke(p)
	return boot == w.boot && at > w.hearsay && !sentenced
}

func (v *Prover) spoke(p int) (boot uint64, at boottime.Instant, sentenced bool) {
	if v.slots == nil {
		return 0, 0, false
	}
	return v.slots.Spoke(p)
}

// wroteSlot reports whether a boot that was called dead has written its slot since. A LUN may have no echo blocks, and who goes by
// another list speaks in none that this node can read.
func (v *Prover) wroteSlot(now boottime.Instant, p int, d *Death) bool {
	if v.slots == nil {
		return false
	}
	slot := v.slots.PeerPause(now, v.roster.Name(p), d.At)
	return slot.Moved && slot.Record.Statement.Boot == d.Boot
}

// seenByCounted reports whether a counted member's fresh statement has a peer among the seen: it may have met a later boot.
func (v *Prover) seenByCounted(now boottime.Instant, p int) bool {
	for m := range v.in.View.Counted.All() {
		if m == v.roster.Self {
			continue
		}
		if st, anchor := v.merger.Statement(m); st != nil && now.Sub(anchor) <= v.cfg.MaxAge && st.Seen.Has(p) {
			return true
		}
	}
	return false
}

// barred are the peers whose latest boot is condemned, as far as this node knows: it is neither seen nor counted,
// whatever it says (P5).
func (v *Prover) barred() (set roster.Set) {
	for p := range v.peers {
		if w := &v.peers[p]; w.sentenced != 0 && w.sentenced == w.boot && w.hearsay == 0 {
			set.Add(p)
		}
	}
	return set
}

// parted are the members that have condemned themselves, also those that have not told it yet: they are armed and count nobody,
// not even themselves.
func (v *Prover) parted() roster.Set {
	set := v.barred()
	for p := range v.lists.expected.Minus(v.in.View.Counted).All() {
		st, _ := v.merger.Statement(p)
		if st != nil && st.Guard.Armed && st.View.IsEmpty() && st.RosterDigest == v.roster.Digest && st.RosterEpoch == v.roster.Epoch {
			set.Add(p)
		}
	}
	return set
}

// sentencedByLUN takes the sentence of an echo block.
func (v *Prover) sentencedByLUN(now boottime.Instant, s *diskquorum.Sentence) {
	for p := range v.peers {
		if v.peers[p].boot == s.Boot && diskquorum.NameDigest(v.roster.Name(p)) == s.Name {
			v.firstHand(now, p, s.Boot, s.Timeout)
		}
	}
}

// sentence begins the time of a boot that is condemned. It is told by that boot itself, which this node has met, and no later
// one; it begins when it has been read, by this node's clock (P4). What is longer than a sentence may be is none (P3).
// A boot that has outlived one is not believed again (P9).
func (v *Prover) sentence(now boottime.Instant, p int, boot uint64, timeout time.Duration) {
	w := &v.peers[p]
	if p == v.roster.Self || boot == 0 || boot != w.boot || boot == w.sentenced || boot == w.defied || boot == w.unfired || timeout <= 0 || timeout > netgossip.MaxSentence {
		return
	}
	w.sentenced, w.over, w.term, w.seers = boot, now.Add(netgossip.SentenceBound(timeout)), timeout, question{since: now}
}

// SentenceState is what is known of a condemned boot.
type SentenceState struct {
	Boot    uint64
	Timeout time.Duration // of its watchdog, as it tells; 0: it tells nothing
	Age     time.Duration // since this node knows of it
	Left    time.Duration // until it has ended for certain; 0: it has
}

// sentenceOf tells of another node whose latest boot is condemned; nil: it is not, as far as is known.
func (v *Prover) sentenceOf(now boottime.Instant, p int) *SentenceState {
	w := &v.peers[p]
	if w.sentenced == 0 || w.sentenced != w.boot || w.unmet() {
		return nil
	}
	bound, left := netgossip.SentenceBound(w.term), w.over.Sub(now)
	return &SentenceState{Boot: w.boot, Timeout: w.term, Age: bound - left, Left: max(0, left)}
}

// rumour is a sentence that one member has handed on, until a second one says the same.
type rumour struct {
	Death   // At is when it was told
	timeout time.Duration
}

// hearsay takes a sentence that member m hands on (P4). Its time begins now, by this node's clock. The node has not told it
// itself, so this one goes on seeing and counting it if it answers, and does not believe it of a node that somebody sees. There are no
// sentences without a LUN: who has none believes none.
//
// Invariant: two different members say the same, each from what the node itself has told it. So one that lies has nobody called
// dead. All others read a sentence where they have a LUN; who hears of it from one alone waits for the proof by time.
func (v *Prover) hearsay(now boottime.Instant, m, p int, f *netgossip.Fact) {
	w := &v.peers[p]
	if !v.cfg.Hold || f.Boot == w.sentenced || f.Timeout < leastSentence || v.in.View.Seen.Has(p) || v.in.View.Counted.Has(p) || v.in.Heard.Has(p) {
		return
	}
	if _, sees := v.whoSees(now, p); sees {
		return
	}
	teller := v.roster.Name(m)
	if r := &w.rumour; r.Boot != f.Boot || r.timeout != f.Timeout || r.Teller == teller || now.Sub(r.At) > sentenceNews {
		*r = rumour{Death{Proof: ProofSentence, Boot: f.Boot, At: now, Teller: teller}, f.Timeout}
		return
	}
	if v.sentence(now, p, f.Boot, f.Timeout); w.sentenced == f.Boot {
		w.hearsay = now
	}
}

// firstHand takes a sentence that the node tells itself, whatever others have said of it before.
func (v *Prover) firstHand(now boottime.Instant, p int, boot uint64, timeout time.Duration) {
	if w := &v.peers[p]; w.hearsay > 0 && w.sentenced == boot && timeout > 0 && timeout <= netgossip.MaxSentence {
		w.sentenced, w.hearsay = 0, 0 // it counts from now
	}
	v.sentence(now, p, boot, timeout)
}

// ownWord takes what the latest boot says of itself. If it answers and tells no sentence, then it has none, whatever others have
// handed on.
func (v *Prover) ownWord(now boottime.Instant, p int, st *netgossip.Statement) {
	w := &v.peers[p]
	if st.Sentence == 0 && w.hearsay > 0 && w.sentenced == st.Boot && w.lived > w.hearsay {
		w.sentenced, w.hearsay = 0, 0
		v.defy(p, st.Boot)
		return
	}
	v.firstHand(now, p, st.Boot, st.Sentence)
}
