package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Word is a report or an order, given on this node, about one boot of another node. A report says that the boot is
// dead, with the Proof ProofPower, ProofKdump or ProofOperator. An order says that the boot has to end, and has no
// proof.
type Word struct {
	ID   uint64 // of the Answer; Tell and Order set it
	Node string
	Death
	// Contradicted says that the boot was heard after its death had been reported. The answer is RefusedContradicted.
	Contradicted bool
}

// trial is the check of a report. The report is not believed at once: the members' latest statements may be from before
// the death.
//
// Invariant: when a report is believed, each counted member has answered a question that was asked after the report
// came, and does not see the node. In all that time nothing was heard from that boot, and its slot on the LUN did not
// change. So a node that is in contact with a counted member, or with the LUN, is not called dead.
type trial struct {
	Death
	question                  // its since is when the report came; zero: there is no trial
	ids      []uint64         // of the reports made on this node; empty: others have passed the report on
	again    boottime.Instant // before this, a report that others pass on is not tried
}

const (
	trialLimit = 15 * time.Second // by then, no more answers of members and no read of the LUN are expected
	trialAsk   = 2500 * time.Millisecond
	trialPause = 30 * time.Second
)

type told struct {
	words []Word
	all   []netgossip.Fact // scratch
}

// Tell records the report of a death that was proven elsewhere; the caller must be allowed to report it. The answer is
// in the Effects of this step or of a later one.
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

// hear begins the trial of a report that was made on this node, or answers it at once.
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
		v.try(now, p, w) // this ends the trial: the latest boot is now another one
	}
	if len(w.trial.ids) == 0 {
		w.trial = trial{Death: Death{Proof: said.Proof, Boot: said.Boot, Teller: v.roster.Name(v.roster.Self)}, question: question{since: now}}
	}
	w.trial.ids = append(w.trial.ids, said.ID)
}

// takeBack withdraws the devices' report about a boot, because the reporter has heard that boot.
//
// Invariant: deaths that agents have found themselves stay valid, and so do reports by a person. If a person unplugs a
// node after its devices gave a wrong report, the withdrawal of that report does not contradict the person. The
// withdrawal is repeated to each agent that starts.
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

// retell queues again the reports whose trial ends because the node is no longer on the list. They are then refused.
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

// objection returns the reason, as far as this node knows now, why a report is not believed; nil: there is none.
func (v *Prover) objection(now boottime.Instant, p int, w *witness, boot uint64) *Refused {
	known := v.KnownBoot(p)
	no := func(why Refusal, other string) *Refused {
		return &Refused{Why: why, Node: v.roster.Name(p), Boot: known, Other: other}
	}
	switch {
	case p == v.roster.Self:
		return no(RefusedSelf, "")
	case !v.in.Sole: // no quorum; a node that is condemned, or does not know yet whether it is, has none either
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

// wroteAsAnother returns another boot that has written the node's slot since the known boot last answered; 0: none has.
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

// signs returns the kind of sign of life that the boot gave after since; 0: none.
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

// showTold keeps a reported death among the fenced, unless something contradicts it now.
//
// Invariant: if a boot that was reported dead lives on, that raises an alarm. Its death is withdrawn, and no report
// about that node is believed until another boot answers (P9).
func (v *Prover) showTold(now boottime.Instant, p int, w *witness) {
	d := &w.death
	if known := v.KnownBoot(p); d.Boot != known {
		v.fenced.Remove(p) // the node is back
		return
	}
	spoke, at, _ := v.spoke(p)
	if w.boot == d.Boot && w.lived > d.At || v.merger.Sighted(p) > d.At || spoke == d.Boot && at > d.At || v.wroteSlot(now, p, d) {
		v.defy(p, d.Boot)
		return
	}
	put(&v.fenced, p, !w.twins && !w.unmet() && !v.in.View.Seen.Has(p) && !v.in.Heard.Has(p) && !v.seenByCounted(now, p))
}

// slotVerdict is what the LUN shows about a report.
type slotVerdict uint8

const (
	slotSilent  slotVerdict = iota // nothing yet: wait until the trial is over
	slotWatched                    // the slot does not change, but has not been watched for long enough yet
	slotAgrees                     // the slot has not changed for as long as a running node may leave it alone, or there is no LUN
	slotRefuses                    // the trial ends with a refusal
)

// slotLimit is how long to watch a slot that a running node may leave alone for longer than a trial takes.
const slotLimit = 2 * time.Minute

// askSlot returns what the LUN now shows about a report.
//
// Invariant: if there is a LUN, no report is believed while the node's slot cannot be read: the node may be writing it
// at that moment. A node that does not read the LUN itself believes no report if another member reads it: the report
// has to be made to that member.
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

// whoReads returns a counted member that states that its path to the LUN works.
func (v *Prover) whoReads() (member int, reads bool) {
	for m, st := range v.merger.Said(v.in.View.Counted, 0) {
		if st.LUNHealthy {
			return m, true
		}
	}
	return 0, false
}
