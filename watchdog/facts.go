package watchdog

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	// factsTurn is how long a statement shows the same facts if it does not have room for all.
	factsTurn = 5 * time.Second
	// sentenceNews is how long a sentence is passed on. After that it is not needed any more: time has proven the
	// death.
	sentenceNews = 2 * time.Minute
	// leastSentence is the shortest timeout that a driver can be set to, so no node announces a shorter one.
	leastSentence = time.Second
)

// facts returns what this node passes on: the sentences that it knows, the reported deaths that it believes, and those
// of both that were contradicted. Facts are states, not events: a node that was away hears them later.
//
// Invariant: a fact is passed on as it was received, never as a conclusion of this node, and never with what is left of
// a countdown (P4). Only nodes that got a sentence from the condemned node itself, or from its block on the LUN, pass
// it on.
//
// If facts take turns, the next ones are shown at the instant again.
func (v *Prover) facts(now boottime.Instant) (facts [netgossip.MaxFacts]netgossip.Fact, again boottime.Instant) {
	again = boottime.Never
	all, urgent := v.told.all[:0], 0
	orders := v.orderFacts(&facts) // at most two, for seconds
	for p := range v.peers {
		if w := &v.peers[p]; w.sentenced != 0 || w.defied != 0 || w.death.Proof.told() {
			if f := v.handsOn(now, p, w); f.Kind != 0 {
				all = append(all, f)
				if f.Kind == netgossip.FactContradicted {
					all[urgent], all[len(all)-1] = f, all[urgent]
					urgent++
				}
			}
		}
		if boot := v.unfiredBoot(p); boot != 0 {
			all = append(all, netgossip.Fact{Kind: netgossip.FactUnfired, Name: netgossip.NameDigest(v.roster.Name(p)), Boot: boot})
		}
	}
	v.told.all = all
	room := len(facts) - orders
	if urgent < len(all) {
		room-- // contradictions stay until another boot answers: they must not keep out all other facts for ever
	}
	rest := facts[orders:]
	shown := v.takeTurns(now, rest[:room], all[:urgent]) // contradictions first: others may act on a death that was withdrawn
	if others := v.takeTurns(now, rest[shown:], all[urgent:]); shown < urgent || others < len(all)-urgent {
		again = boottime.Instant((int64(now)/int64(factsTurn) + 1) * int64(factsTurn))
	}
	return facts, again
}

// takeTurns fills room with facts, and returns their number. If room is too small for all, the facts take turns.
func (v *Prover) takeTurns(now boottime.Instant, room, all []netgossip.Fact) int {
	if len(all) <= len(room) {
		return copy(room, all)
	}
	turn := int64(now)/int64(factsTurn) + int64(v.roster.Self)
	from := int(turn % int64(len(all)) * int64(len(room)) % int64(len(all)))
	for i := range room {
		room[i] = all[(from+i)%len(all)]
	}
	return len(room)
}

// handsOn returns the fact that this node passes on about a peer; kind 0: none.
func (v *Prover) handsOn(now boottime.Instant, p int, w *witness) (f netgossip.Fact) {
	known := v.KnownBoot(p)
	f = netgossip.Fact{Name: netgossip.NameDigest(v.roster.Name(p)), Boot: known}
	switch d := &w.death; {
	case known == 0 || p == v.roster.Self:
		return netgossip.Fact{}
	case w.defied == known && d.Proof != 0 && d.Boot == known && !d.handedOn(): // it has died since, and this node has found that itself
		return netgossip.Fact{}
	case w.defied == known:
		f.Kind = netgossip.FactContradicted
	case d.Proof.told() && d.Boot == known:
		f.Kind = netgossip.FactKind(slices.Index(outside[:], d.Proof)) //nolint:gosec // it is in there
		f.Teller = netgossip.TellerDigest(d.Teller)
	case w.sentenced == known && w.boot == known && w.hearsay == 0 && now.Sub(w.over) < sentenceNews:
		f.Kind, f.Timeout = netgossip.FactSentence, w.term
	default:
		return netgossip.Fact{}
	}
	return f
}

// outside lists the proofs that are reported from outside, by the kind of their facts.
var outside = [...]Proof{netgossip.FactPower: ProofPower, netgossip.FactKdump: ProofKdump, netgossip.FactOperator: ProofOperator}

func proofOf(k netgossip.FactKind) Proof {
	if int(k) >= len(outside) {
		return 0
	}
	return outside[k]
}

// spreads reports whether the statement begins to pass on a death that was reported to this node itself. All peers
// should hear of it at once, but only once: facts that take turns appear repeatedly. Reports from others spread with
// the answers to ordinary questions: if every node that knows of a death announced it, a large group would send a
// million packets.
func (v *Prover) spreads(facts *[netgossip.MaxFacts]netgossip.Fact) (news bool) {
	news = v.spreadsOrder(facts)
	own := netgossip.TellerDigest(v.roster.Name(v.roster.Self))
	for _, f := range facts {
		if proofOf(f.Kind) == 0 || f.Teller != own {
			continue
		}
		if p, member := v.digests[f.Name]; member && v.peers[p].spread != f.Boot {
			v.peers[p].spread, news = f.Boot, true
		}
	}
	return news
}

// takeFacts handles the facts that counted members pass on. They may use another list of members, because facts use
// names. A node that is condemned, or does not know yet whether it is, counts nobody, and so handles no facts.
func (v *Prover) takeFacts(now boottime.Instant) {
	if v.in.Apart {
		return
	}
	for m, st := range v.words(now, v.cfg.MaxAge) {
		for i := 0; i < len(st.Facts) && st.Facts[i].Kind != 0; i++ {
			v.takeFact(now, m, &st.Facts[i])
		}
	}
}

// takeFact checks a fact against this node's own knowledge. It ignores facts that are not about the latest boot that
// this node knows: an old fact about an earlier boot may be repeated at any time.
func (v *Prover) takeFact(now boottime.Instant, m int, f *netgossip.Fact) {
	p, member := v.digests[f.Name]
	if member && f.Kind == netgossip.FactUnfired {
		v.takeUnfired(p, f.Boot)
		return
	}
	if !member || p == v.roster.Self || f.Boot == 0 || !v.lists.expected.Has(p) {
		return
	}
	w := &v.peers[p]
	if f.Boot != v.KnownBoot(p) || w.defied == f.Boot {
		return
	}
	switch f.Kind {
	case netgossip.FactContradicted:
		if w.death.Proof == 0 || w.death.Proof.told() || w.death.Proof == ProofSentence {
			v.defy(p, f.Boot)
		} else {
			w.defied = f.Boot // this node's own proofs stay valid
		}
	case netgossip.FactSentence:
		v.hearsay(now, m, p, f)
	case netgossip.FactOrder: // an order concerns only the node that it names
	default:
		if !v.cfg.Outside || w.trial.since != 0 || w.death.Proof != 0 && w.death.Boot == f.Boot || now < w.trial.again || v.objection(now, p, w, f.Boot) != nil {
			return
		}
		w.trial = trial{Death: Death{Proof: proofOf(f.Kind), Boot: f.Boot, Teller: v.tellerOf(f.Teller)}, question: question{since: now}}
	}
}

// unfiredBoot returns the latest boot of a node (which may be this node) if its watchdog was observed not to fire;
// otherwise 0.
func (v *Prover) unfiredBoot(p int) uint64 {
	switch w := &v.peers[p]; {
	case p == v.roster.Self && v.in.Unfired:
		return v.cfg.Boot
	case p == v.roster.Self || w.fires():
		return 0
	default:
		return w.boot
	}
}

// takeUnfired records a member's report that the watchdog of a boot was observed not to fire. That may be this node's
// own boot, if an earlier agent ran in it. One reporter is enough: the report only prevents a proof. A lying member
// could as well state that it sees that node.
func (v *Prover) takeUnfired(p int, boot uint64) {
	switch {
	case p == v.roster.Self && boot == v.cfg.Boot:
		v.out.Unfired = true
	case p != v.roster.Self && boot != 0 && boot == v.peers[p].boot:
		v.peers[p].unfired = boot
	}
}

// TakenBack reports whether this node, or a member that it counts, now states that a boot of member p has answered
// after it was called dead. This node need not have met that boot. One member's report does not hide another's.
func (v *Prover) TakenBack(now boottime.Instant, p int, boot uint64) bool {
	if boot == 0 || boot == v.peers[p].defied {
		return boot != 0
	}
	name := netgossip.NameDigest(v.roster.Name(p))
	for _, st := range v.words(now, v.cfg.MaxAge) {
		if factOf(st, netgossip.FactContradicted, name, boot) != nil {
			return true
		}
	}
	return false
}

// followSentences records the sentences that were read on the LUN, and finds which condemned nodes are dead.
func (v *Prover) followSentences(now boottime.Instant) {
	if v.slots != nil {
		for _, s := range v.slots.TakeSentences() {
			v.sentencedByLUN(now, &s)
		}
	}
	if v.in.Condemned { // a condemned node claims no deaths
		return
	}
	for p := range v.peers {
		if w := &v.peers[p]; w.sentenced != 0 && p != v.roster.Self {
			v.execute(now, p, w)
		}
	}
}

// execute proves the death of a condemned boot when its time is over, and shows the death while nothing contradicts it.
// A death that others passed on is replaced by one that follows from the node's own sentence.
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
		// P9: the boot lives on. Either two machines run with the same boot nonce, or the watchdog did not do what it
		// announced.
		w.unfired = w.boot
		v.defy(p, w.boot)
		return
	}
	put(&v.fenced, p, w.death.Boot == w.boot && !w.twins && !w.unmet() && !v.seenByCounted(now, p))
	if !v.fenced.Has(p) && w.death.Boot == w.boot && now.Sub(w.death.At) < trialLimit {
		v.askSeers(now, p, w)
	}
}

// seersLead is how long before the end of a sentence's time the members that still see the node are asked: long enough
// for their answers.
const seersLead = 500 * time.Millisecond

// askSeers asks the members whose statements say that they see a condemned node for new statements, because the old
// ones delay its FENCED. If samples are taken, such a statement is usually from before the sentence, and is valid for
// MaxAge. The answers are handled like all others.
func (v *Prover) askSeers(now boottime.Instant, p int, w *witness) {
	var seers roster.Set
	for m, st := range v.words(max(now, w.over), v.cfg.MaxAge) {
		put(&seers, m, st.Seen.Has(p))
	}
	if !seers.IsEmpty() {
		v.askWhether(now, &w.seers, netgossip.SentenceBound(w.term)-seersLead, seers)
	}
}

// denies reports whether a boot has written an echo block without a sentence to the LUN after others passed its
// sentence on.
func (v *Prover) denies(p int, w *witness) bool {
	if w.hearsay == 0 || w.sentenced != w.boot {
		return false
	}
	boot, at, sentenced := v.spoke(p)
	return boot == w.boot && at > w.hearsay && !sentenced
}

func (v *Prover) sentencedByLUN(now boottime.Instant, s *diskquorum.Sentence) {
	for p := range v.peers {
		if v.peers[p].boot == s.Boot && diskquorum.NameDigest(v.roster.Name(p)) == s.Name {
			v.firstHand(now, p, s.Boot, s.Timeout)
		}
	}
}

// sentence begins the time of a condemned boot, which must be the latest one that this node has met. The time begins
// when the sentence has been read, by this node's clock (P4). A timeout that is too long is not accepted as a sentence
// (P3). A sentence of a boot that has outlived a sentence is not believed (P9).
func (v *Prover) sentence(now boottime.Instant, p int, boot uint64, timeout time.Duration) {
	w := &v.peers[p]
	if p == v.roster.Self || boot == 0 || boot != w.boot || boot == w.sentenced || boot == w.defied || boot == w.unfired || timeout <= 0 || timeout > netgossip.MaxSentence {
		return
	}
	w.sentenced, w.over, w.term, w.seers = boot, now.Add(netgossip.SentenceBound(timeout)), timeout, question{since: now}
}

// SentenceState holds what is known of a condemned boot.
type SentenceState struct {
	Boot    uint64
	Timeout time.Duration // of its watchdog, as the node announced it; 0: not announced
	Age     time.Duration // how long this node has known of it
	Left    time.Duration // until the boot has ended for certain; 0: it has ended
}

// sentenceOf returns the sentence of another node whose latest boot is condemned; nil: no sentence is known.
func (v *Prover) sentenceOf(now boottime.Instant, p int) *SentenceState {
	w := &v.peers[p]
	if w.sentenced == 0 || w.sentenced != w.boot || w.unmet() {
		return nil
	}
	bound, left := netgossip.SentenceBound(w.term), w.over.Sub(now)
	return &SentenceState{Boot: w.boot, Timeout: w.term, Age: bound - left, Left: max(0, left)}
}

// rumour is a sentence that only one member has passed on so far.
type rumour struct {
	Death   // Death.At is when the rumour was received
	timeout time.Duration
}

// hearsay records a sentence that member m passes on (P4). Its time begins now, by this node's clock. The condemned
// node has not announced it to this node itself. So this node goes on seeing and counting the condemned node if that
// node answers, and does not believe the sentence if a member sees that node. There are no sentences without a LUN: a
// node without a LUN believes none.
//
// Invariant: two different members must pass on the same sentence, and each must have it from the condemned node
// itself. So one lying member cannot cause a node to be called dead. Most nodes read the sentence on the LUN anyway; a
// node that hears of it from one member alone waits for the proof by time.
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

// firstHand records a sentence from the node itself, no matter what others have passed on before.
func (v *Prover) firstHand(now boottime.Instant, p int, boot uint64, timeout time.Duration) {
	if w := &v.peers[p]; w.hearsay > 0 && w.sentenced == boot && timeout > 0 && timeout <= netgossip.MaxSentence {
		w.sentenced, w.hearsay = 0, 0 // its time begins again, now
	}
	v.sentence(now, p, boot, timeout)
}

// ownWord records what the latest boot states about itself. If it answers without a sentence, it is not condemned, no
// matter what others have passed on.
func (v *Prover) ownWord(now boottime.Instant, p int, st *netgossip.Statement) {
	w := &v.peers[p]
	if st.Sentence == 0 && w.hearsay > 0 && w.sentenced == st.Boot && w.lived > w.hearsay {
		w.sentenced, w.hearsay = 0, 0
		v.defy(p, st.Boot)
		return
	}
	v.firstHand(now, p, st.Boot, st.Sentence)
}
