package watchdog

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Word is a death that was proven elsewhere, as somebody on this node tells it: its Proof is ProofPower, ProofKdump or ProofOperator.
type Word struct {
	ID   uint64 // of the Answer; Tell sets it
	Node string
	Death
	// Contradicted: that boot was heard after somebody had told its death. The answer is RefusedContradicted.
	Contradicted bool
}

// Answer is what became of a word that was told.
type Answer struct {
	ID    uint64
	Death Death    // that is known now; zero: it was refused
	Err   *Refused // why
}

// told reports whether the proof comes from outside. Agents conclude the others themselves; nobody tells them.
func (p Proof) told() bool { return p == ProofPower || p == ProofKdump || p == ProofOperator }

// Refusal says why a death that was told is not believed. Its strings are the vocabulary of logs and metrics.
type Refusal uint8

const (
	RefusedKind         Refusal = iota + 1 // agents conclude this proof themselves
	RefusedOff                             // this agent is configured to believe nothing that is told
	RefusedMember                          // no member has that name
	RefusedSelf                            // it is this node
	RefusedNoQuorum                        // this node may be the one that is cut off
	RefusedUnknownBoot                     // no boot of the node is known here
	RefusedOtherBoot                       // the latest known boot is another one
	RefusedTwins                           // two machines have that name
	RefusedContradicted                    // that boot has answered after it was called dead
	RefusedSeen                            // this node sees it
	RefusedSeenByOthers                    // a counted member sees it
	RefusedHeard                           // it was heard
	RefusedWrites                          // it writes to the LUN
	RefusedUnanswered                      // a counted member has not answered whether it sees the node
	RefusedBlind                           // this node does not read the LUN, and a counted member does
	RefusedUnread                          // its slot could not be read, or not for long enough
	RefusedRestarts                        // it has said that its agent restarts, and may still be back in time
)

var refusalNames = [...]string{
	RefusedKind: "kind", RefusedOff: "off", RefusedMember: "no_member", RefusedSelf: "self", RefusedNoQuorum: "no_quorum", RefusedUnknownBoot: "unknown_boot",
	RefusedOtherBoot: "other_boot", RefusedTwins: "two_machines", RefusedContradicted: "contradicted", RefusedSeen: "seen",
	RefusedSeenByOthers: "seen_by_others", RefusedHeard: "heard", RefusedWrites: "writes_lun", RefusedUnanswered: "unanswered",
	RefusedBlind: "lun_unread", RefusedUnread: "slot_unread", RefusedRestarts: "restarts",
}

// String is the refusal's name in logs and metrics.
func (r Refusal) String() string { return nameOf(refusalNames[:], r, "none") }

// Refusals lists all of them, for metrics that must exist from the start.
func Refusals() []Refusal { return allOf[Refusal](refusalNames[:]) }

// Refused is why a word is not believed, and what to do.
type Refused struct {
	Why   Refusal
	Node  string
	Boot  uint64 // the latest known one; 0: none is known
	Other string // the member that it is about
}

// Error says it in one line.
func (e *Refused) Error() string {
	switch e.Why {
	case RefusedKind:
		return "only the proofs power, kdump and operator can be told; the agents find all others themselves"
	case RefusedOff:
		return "api.commands is none here: this agent believes no death that is told"
	case RefusedMember:
		return fmt.Sprintf("%q is no member of this group", e.Node)
	case RefusedSelf:
		return fmt.Sprintf("%s is this agent's own node, and it runs: tell the agent of another node", e.Node)
	case RefusedNoQuorum:
		return "this node has no quorum, or has it in an equal split that no grant decides, so others may live without it: tell the agent of a node that has a majority"
	case RefusedUnknownBoot:
		return fmt.Sprintf("this agent has never met %s and knows no boot of it: tell an agent that has run since before %s was lost", e.Node, e.Node)
	case RefusedOtherBoot:
		return fmt.Sprintf("the latest known boot of %s is %016x: look whether that machine is off, then name this boot", e.Node, e.Boot)
	case RefusedTwins:
		return fmt.Sprintf("two machines answer in the name of %s: stop one of them", e.Node)
	case RefusedContradicted:
		return fmt.Sprintf("boot %016x of %s has answered after it was called dead: no such word is believed before another boot of the node answers", e.Boot, e.Node)
	case RefusedSeen:
		return fmt.Sprintf("this node sees %s: it runs", e.Node)
	case RefusedSeenByOthers:
		return fmt.Sprintf("%s sees %s: it runs", e.Other, e.Node)
	case RefusedHeard:
		return fmt.Sprintf("%s was heard a moment ago: it runs, or it was switched off only now; try again in a few seconds", e.Node)
	case RefusedWrites:
		return fmt.Sprintf("%s writes to the LUN: it runs, or it was switched off only now; try again in a few seconds", e.Node)
	case RefusedUnanswered:
		return fmt.Sprintf("%s has not answered whether it sees %s: try again", e.Other, e.Node)
	case RefusedBlind:
		return fmt.Sprintf("this node cannot read the LUN, and %s can: tell the agent of %s", e.Other, e.Other)
	case RefusedUnread:
		return fmt.Sprintf("the slot of %s on the LUN cannot be read, or not for long enough, so nobody knows whether %s writes it: look at it with fencectl lun check, and try again", e.Node, e.Node)
	case RefusedRestarts:
		return fmt.Sprintf("%s has said that its agent restarts, and may be back within timing.restartGrace: it runs, or it was switched off only now; try again after that", e.Node)
	}
	return "refused"
}

// trial is the time in which a word is checked. It is not believed on the spot: what members said before it was told may be
// from a moment at which they could not know yet.
//
// Invariant: when a word is believed, each counted member has answered a question that was put after the word came, and does
// not see the node; in all of that time nothing of that boot was heard, and its slot on the LUN stood still. So a node that is
// in contact with anybody who counts, or with the LUN, is not called dead.
type trial struct {
	Death
	question                  // since the word came; zero: there is none
	ids      []uint64         // of the words; none: others have handed it on
	again    boottime.Instant // one that others hand on is not tried before
}

// question is one to members that have not answered since, on another network each time.
type question struct {
	since boottime.Instant
	asked boottime.Instant // the latest time; zero: not yet
	turn  int
}

const (
	trialLimit = 15 * time.Second // after that a member that has not answered will not, nor a LUN that is not read
	trialAsk   = 2500 * time.Millisecond
	trialPause = 30 * time.Second
)

// told is what is told from outside, and handed on.
type told struct {
	words []Word
	all   []netgossip.Fact // scratch
}

// Tell takes a death that was proven elsewhere, from somebody who may tell it. The answer is in the Effects of this step or of
// one of those to come.
func (v *Prover) Tell(id uint64, w Word) {
	w.ID = id
	v.told.words = append(v.told.words, w)
}

// followTold takes what was told from outside and handed on by peers, and finds what may be believed.
func (v *Prover) followTold(now boottime.Instant) {
	for i := range v.told.words {
		v.hear(now, &v.told.words[i])
	}
	v.told.words = v.told.words[:0]
	v.takeFacts(now)
	for p := range v.peers {
		w := &v.peers[p]
		if w.trial.since != 0 {
			v.try(now, p, w)
		}
		if w.death.Proof.told() {
			v.showTold(now, p, w)
		}
	}
}

// hear opens the trial of a word that was told on this node, or answers at once.
func (v *Prover) hear(now boottime.Instant, said *Word) {
	p, member := v.roster.Index(said.Node)
	switch {
	case !said.Proof.told():
		v.answer(said.ID, Death{}, &Refused{Why: RefusedKind, Node: said.Node})
		return
	case !v.cfg.Outside:
		v.answer(said.ID, Death{}, &Refused{Why: RefusedOff, Node: said.Node})
		return
	case !member || !v.lists.expected.Has(p):
		v.answer(said.ID, Death{}, &Refused{Why: RefusedMember, Node: said.Node})
		return
	}
	w := &v.peers[p]
	if said.Contradicted {
		v.takeBack(p, w, said.Boot)
		v.answer(said.ID, Death{}, &Refused{Why: RefusedContradicted, Node: said.Node, Boot: said.Boot})
		return
	}
	if w.death.Proof != 0 && w.death.Boot == said.Boot && said.Boot != 0 && v.fenced.Has(p) {
		v.answer(said.ID, w.death, nil) // it is known already
		return
	}
	if err := v.objection(now, p, w, said.Boot); err != nil {
		v.answer(said.ID, Death{}, err)
		return
	}
	if w.trial.since != 0 && w.trial.Boot != said.Boot {
		v.try(now, p, w) // it ends: the latest boot is another one by now
	}
	if len(w.trial.ids) == 0 {
		w.trial = trial{Death: Death{Proof: said.Proof, Boot: said.Boot, Teller: v.roster.Name(v.roster.Self)}, question: question{since: now}}
	}
	w.trial.ids = append(w.trial.ids, said.ID)
}

// takeBack gives up what was told of a boot by its devices, since who has told it has heard that boot.
//
// Invariant: what agents have found themselves stands, and what a person says: nobody's word makes a dead node run. Who pulls the
// plug after the devices were wrong is not contradicted by what they said before, which is said again to each agent that starts.
func (v *Prover) takeBack(p int, w *witness, boot uint64) {
	if w.death.Proof != 0 && w.death.Boot == boot {
		if w.death.Proof.ofDevices() {
			v.defy(p, boot)
		}
		return
	}
	if t := &w.trial; t.since != 0 && t.Boot == boot && t.Proof.ofDevices() {
		v.defy(p, boot)
	}
}

// ofDevices reports whether a proof is one that devices or a crash kernel give.
func (p Proof) ofDevices() bool { return p == ProofPower || p == ProofKdump }

// retell has words be heard again whose trial ends because the node is renumbered away: they are refused then.
func (v *Prover) retell(n roster.Renumbering) {
	for p, k := range n {
		if t := &v.peers[p].trial; k < 0 {
			for _, id := range t.ids {
				v.Tell(id, Word{Node: v.roster.Name(p), Death: t.Death})
			}
		}
	}
}

func (v *Prover) answer(id uint64, d Death, err *Refused) {
	v.out.Answers = append(v.out.Answers, Answer{id, d, err})
}

// knownBoot is the latest boot of a peer that this node knows of: by its statements or, for a node that was never met, by its
// slot on the LUN.
func (v *Prover) knownBoot(p int) uint64 {
	if w := &v.peers[p]; w.boot != 0 {
		return w.boot
	}
	if v.slots != nil {
		if rec, ok := v.slots.PeerSlot(v.roster.Name(p)); ok {
			return rec.Statement.Boot
		}
	}
	return 0
}

// KnownBoot is the latest boot of a member that this node knows of; 0: none.
func (v *Prover) KnownBoot(p int) uint64 {
	if p == v.roster.Self {
		return v.cfg.Boot
	}
	return v.knownBoot(p)
}

// objection is what this node knows at this moment against a word.
func (v *Prover) objection(now boottime.Instant, p int, w *witness, boot uint64) *Refused {
	known := v.knownBoot(p)
	no := func(why Refusal, other string) *Refused {
		return &Refused{Why: why, Node: v.roster.Name(p), Boot: known, Other: other}
	}
	switch {
	case p == v.roster.Self:
		return no(RefusedSelf, "")
	case !v.in.Sole: // nor has one that is condemned, or waits
		return no(RefusedNoQuorum, "")
	case known == 0:
		return no(RefusedUnknownBoot, "")
	case boot != known || w.unmet():
		return no(RefusedOtherBoot, "")
	case w.twins || w.returned > 0:
		return no(RefusedTwins, "")
	case w.defied == boot:
		return no(RefusedContradicted, "")
	case v.in.View.Seen.Has(p) || v.in.View.Counted.Has(p) || v.in.Heard.Has(p):
		return no(RefusedSeen, "")
	case v.in.Restarting.Has(p):
		return no(RefusedRestarts, "")
	}
	if later := v.wroteAsAnother(now, p, w, boot); later != 0 {
		return &Refused{Why: RefusedOtherBoot, Node: v.roster.Name(p), Boot: later}
	}
	if m, sees := v.whoSees(now, p); sees {
		return no(RefusedSeenByOthers, v.roster.Name(m))
	}
	if heard := v.merger.Sighted(p); heard > 0 && now.Sub(heard) <= v.cfg.MaxAge {
		return no(RefusedHeard, "")
	}
	return nil
}

// wroteAsAnother is another boot that has written the node's slot since the one that was met answered last; 0: none has.
func (v *Prover) wroteAsAnother(now boottime.Instant, p int, w *witness, boot uint64) uint64 {
	if v.slots == nil || w.boot == 0 {
		return 0
	}
	slot := v.slots.PeerPause(now, v.roster.Name(p), w.lived)
	if slot.Moved && slot.Record.State == diskquorum.SlotActive && slot.Record.Statement.Boot != boot {
		return slot.Record.Statement.Boot
	}
	return 0
}

// whoSees is a member whose fresh statement has a peer among those that it sees or counts.
func (v *Prover) whoSees(now boottime.Instant, p int) (member int, sees bool) {
	for m := range v.in.View.Counted.Union(v.in.View.Seen).All() {
		if m == v.roster.Self {
			continue
		}
		if st, anchor := v.merger.Statement(m); st != nil && now.Sub(anchor) <= v.cfg.MaxAge && (st.Seen.Has(p) || st.View.Has(p)) {
			return m, true
		}
	}
	return 0, false
}

// signs are what this node has of that boot from after an instant.
func (v *Prover) signs(now boottime.Instant, p int, w *witness, boot uint64, since boottime.Instant) Refusal {
	if w.boot == boot && w.lived > since || v.merger.Sighted(p) > since {
		return RefusedHeard
	}
	if spoke, at, _ := v.spoke(p); spoke == boot && at > since {
		return RefusedWrites
	}
	if a := v.slots; a != nil && a.PeerPause(now, v.roster.Name(p), since).Moved {
		return RefusedWrites
	}
	return 0
}

// try goes on with a trial.
func (v *Prover) try(now boottime.Instant, p int, w *witness) {
	t := &w.trial
	if w.death.Proof != 0 && w.death.Boot == t.Boot && v.fenced.Has(p) {
		v.end(now, w, w.death, nil)
		return
	}
	if !v.lists.expected.Has(p) {
		v.end(now, w, Death{}, &Refused{Why: RefusedMember, Node: v.roster.Name(p)})
		return
	}
	err := v.objection(now, p, w, t.Boot)
	if err == nil {
		if why := v.signs(now, p, w, t.Boot, t.since); why != 0 {
			err = &Refused{Why: why, Node: v.roster.Name(p), Boot: t.Boot}
		}
	}
	if err != nil {
		v.end(now, w, Death{}, err)
		return
	}
	silent := v.silent(v.in.View.Counted, t.since)
	over := now.Sub(t.since) >= trialLimit
	verdict, why := v.askSlot(now, p, t)
	switch {
	case !silent.IsEmpty() && over:
		for m := range silent.All() {
			v.end(now, w, Death{}, &Refused{Why: RefusedUnanswered, Node: v.roster.Name(p), Boot: t.Boot, Other: v.roster.Name(m)})
			return
		}
	case !silent.IsEmpty():
		v.askWhether(now, &t.question, inquiryDelay, silent)
	case verdict == slotRefuses && over:
		v.end(now, w, Death{}, &why)
		return
	case verdict == slotAgrees || verdict == slotSilent && over:
		w.death = t.Death
		w.death.At = now
		v.fenced.Add(p)
		v.end(now, w, w.death, nil)
		return
	}
	if !over {
		v.out.Wake = min(v.out.Wake, t.since.Add(trialLimit))
	}
}

// end closes a trial.
func (v *Prover) end(now boottime.Instant, w *witness, d Death, err *Refused) {
	for _, id := range w.trial.ids {
		v.answer(id, d, err)
	}
	w.trial = trial{again: now.Add(trialPause)}
}

// silent are those of the members who have not answered a question from after an instant.
func (v *Prover) silent(members roster.Set, since boottime.Instant) (set roster.Set) {
	for m := range members.All() {
		_, anchor := v.merger.Statement(m)
		put(&set, m, m != v.roster.Self && anchor <= since)
	}
	return set
}

// askWhether asks for the statements of members, as an inquiry does, for the first time after so long.
func (v *Prover) askWhether(now boottime.Instant, q *question, after time.Duration, members roster.Set) {
	next := q.since.Add(after)
	if q.asked != 0 {
		next = q.asked.Add(trialAsk)
	}
	if now < next {
		v.out.Wake = min(v.out.Wake, next)
		return
	}
	v.askToo(now, members, q.turn)
	q.asked = now
	q.turn++
	v.out.Wake = min(v.out.Wake, now.Add(trialAsk))
}

// askToo asks for statements beside those that another question of this step wants.
func (v *Prover) askToo(now boottime.Instant, members roster.Set, turn int) {
	ways := v.merger.Ways(now, members, turn)
	for k := range v.out.Ask {
		ways[k] = ways[k].Union(v.out.Ask[k])
	}
	v.out.Ask = ways
}

// showTold keeps a death that was told among the fenced, unless something speaks against it now.
//
// Invariant: a boot that was told dead and lives on is an alarm; its death is withdrawn, and until another boot answers nothing
// is believed that is told of that node (P9).
func (v *Prover) showTold(now boottime.Instant, p int, w *witness) {
	d := &w.death
	if known := v.knownBoot(p); d.Boot != known {
		v.fenced.Remove(p) // it is back
		return
	}
	spoke, at, _ := v.spoke(p)
	if w.boot == d.Boot && w.lived > d.At || v.merger.Sighted(p) > d.At || spoke == d.Boot && at > d.At || v.wroteSlot(now, p, d) {
		v.defy(p, d.Boot)
		return
	}
	put(&v.fenced, p, !w.twins && !w.unmet() && !v.in.View.Seen.Has(p) && !v.in.Heard.Has(p) && !v.seenByCounted(now, p))
}

// defy takes the death of a boot back that lives on, for good.
func (v *Prover) defy(p int, boot uint64) {
	w := &v.peers[p]
	w.defied = boot // a trial of it ends by that, see objection: who has told it is answered
	if w.death.Boot == boot {
		w.death, w.sequence = Death{}, 0
		v.fenced.Remove(p)
	}
}

func digestsOf(r *roster.Roster) map[uint64]int {
	m := make(map[uint64]int, r.Size())
	for p := range r.Members {
		m[netgossip.NameDigest(r.Name(p))] = p
	}
	return m
}

// tellerOf names the member that a short digest stands for.
func (v *Prover) tellerOf(digest uint32) string {
	i := slices.IndexFunc(v.roster.Members, func(m roster.Member) bool { return netgossip.TellerDigest(m.Name) == digest })
	if digest == 0 || i < 0 {
		return ""
	}
	return v.roster.Name(i)
}
