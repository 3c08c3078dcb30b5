package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Word is what somebody on this node says about one boot of another node: that it is dead, with the Proof ProofPower,
// ProofKdump or ProofOperator; or that it has to end, which is an order and has no proof.
type Word struct {
	ID   uint64 // of the Answer; Tell and Order set it
	Node string
	Death
	// Contradicted says that the boot was heard after somebody had reported its death. The answer is
	// RefusedContradicted.
	Contradicted bool
}

// trial is the period in which a word is checked. The word is not believed at once: what members said before may be
// from a time when they could not know yet.
//
// Invariant: when a word is believed, each counted member has answered a question that was asked after the word came,
// and does not see the node. In all that time nothing of that boot was heard, and its slot on the LUN did not change.
// So a node that is in contact with a counted member, or with the LUN, is not called dead.
type trial struct {
	Death
	question                  // its since is when the word came; zero: there is no trial
	ids      []uint64         // of the words; none: others have passed it on
	again    boottime.Instant // before this, a word that others pass on is not tried
}

const (
	trialLimit = 15 * time.Second // a member that has not answered by then will not, nor will a LUN be read that was not
	trialAsk   = 2500 * time.Millisecond
	trialPause = 30 * time.Second
)

type told struct {
	words []Word
	all   []netgossip.Fact // scratch
}

// Tell takes a death that was proven elsewhere, from a caller that may report it. The answer is in the Effects of this
// step or of a later one.
func (v *Prover) Tell(id uint64, w Word) {
	w.ID = id
	v.told.words = append(v.told.words, w)
}

func (v *Prover) hearWords(now boottime.Instant) {
	for i := range v.told.words {
		v.hear(now, &v.told.words[i])
	}
	v.told.words = v.told.words[:0]
}

// followTrials finds which reports, direct or passed on, may be believed now, and which are still believed.
func (v *Prover) followTrials(now boottime.Instant) {
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

// hear opens the trial of a word that was given on this node, or answers at once.
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
		v.try(now, p, w) // it ends: the latest boot is now another one
	}
	if len(w.trial.ids) == 0 {
		w.trial = trial{Death: Death{Proof: said.Proof, Boot: said.Boot, Teller: v.roster.Name(v.roster.Self)}, question: question{since: now}}
	}
	w.trial.ids = append(w.trial.ids, said.ID)
}

// takeBack withdraws what devices have said about a boot, since the reporter has heard that boot.
//
// Invariant: what agents have found themselves stays valid, and so does what a person says: no report makes a dead
// node run. If a person pulls the plug after the devices were wrong, the withdrawal of the devices' report does not
// contradict that person. That withdrawal is repeated to each agent that starts.
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

// retell queues again the words whose trial ends because the node is no longer on the list: they are then refused.
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

// objection is what this node now knows against a word.
func (v *Prover) objection(now boottime.Instant, p int, w *witness, boot uint64) *Refused {
	known := v.KnownBoot(p)
	no := func(why Refusal, other string) *Refused {
		return &Refused{Why: why, Node: v.roster.Name(p), Boot: known, Other: other}
	}
	switch {
	case p == v.roster.Self:
		return no(RefusedSelf, "")
	case !v.in.Sole: // no quorum; nor has a node that is condemned, or does not know yet whether it is
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

// wroteAsAnother is another boot that has written the node's slot since the known boot last answered; 0: none has.
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

// signs are the signs of life of that boot after an instant.
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

func (v *Prover) end(now boottime.Instant, w *witness, d Death, err *Refused) {
	for _, id := range w.trial.ids {
		v.answer(id, d, err)
	}
	w.trial = trial{again: now.Add(trialPause)}
}

// showTold keeps a reported death among the fenced, unless something speaks against it now.
//
// Invariant: a boot that was reported dead and lives on is an alarm; its death is withdrawn, and until another boot
// answers no report about that node is believed (P9).
func (v *Prover) showTold(now boottime.Instant, p int, w *witness) {
	d := &w.death
	if known := v.KnownBoot(p); d.Boot != known {
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

// slotVerdict is what the LUN says about a word.
type slotVerdict uint8

const (
	slotSilent  slotVerdict = iota // nothing yet: wait for it until the trial is over
	slotWatched                    // the slot does not change, but has not been watched for long enough yet
	slotAgrees                     // the slot has not changed for as long as a running node may leave it alone, or there is no LUN
	slotRefuses                    // the trial ends with a refusal
)

// slotLimit is how long to watch a slot that a running node may leave alone for longer than a trial takes.
const slotLimit = 2 * time.Minute

// askSlot is what the LUN now says about a word.
//
// Invariant: no word is believed if the node's slot cannot be read. The node may be writing it at that moment. Nor does
// a node believe a word without the slot if another member could read it: then that member is the one to tell.
func (v *Prover) askSlot(now boottime.Instant, p int, t *trial) (slotVerdict, Refused) {
	why := Refused{Why: RefusedUnread, Node: v.roster.Name(p), Boot: t.Boot}
	if a := v.slots; a != nil {
		slot := a.PeerPause(now, why.Node, t.since)
		switch {
		case slot.Looked && slot.Still:
			return slotAgrees, why
		case slot.Looked && now.Sub(t.since) < slotLimit:
			return slotWatched, why
		case slot.Looked || slot.Reads && slot.Torn:
			return slotRefuses, why
		case slot.Reads:
			return slotSilent, why // the node has no slot
		}
	}
	if m, reads := v.whoReads(); reads {
		why.Why, why.Other = RefusedBlind, v.roster.Name(m)
		return slotRefuses, why
	}
	if v.slots == nil && !v.cfg.LUN {
		return slotAgrees, why
	}
	return slotSilent, why
}

// whoReads is a counted member that says that its path to the LUN is in order.
func (v *Prover) whoReads() (member int, reads bool) {
	for m, st := range v.merger.Said(v.in.View.Counted, 0) {
		if st.LUNHealthy {
			return m, true
		}
	}
	return 0, false
}
