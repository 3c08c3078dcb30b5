package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// step finds the dead nodes, given the grounds on which this node may live now.
func (v *Prover) step(now boottime.Instant, in proverInput) *proverOutput {
	v.in, v.out = in, proverOutput{Wake: boottime.Never}
	if in.Gap {
		v.gap(now)
	}
	v.conclude(now)
	v.followSentences(now)
	v.hearWords(now)
	v.takeFacts(now)
	v.followTrials(now)
	return &v.out
}

// follow evaluates what the networks and the LUN show of the peers, and renews this node's claims.
func (v *Prover) follow(now boottime.Instant, seen roster.Set) {
	v.strangers, v.waits = roster.Set{}, false
	for p := range v.peers {
		w := &v.peers[p]
		st, anchor := v.merger.Statement(p)
		if st == nil || p == v.roster.Self {
			continue
		}
		if st != w.statement {
			v.meet(now, p, st)
		}
		if anchor != w.read {
			w.readClock(now, anchor, v.merger.Clock(p))
		}
		if st.Boot == w.boot {
			w.lived = max(w.lived, anchor)
			v.contradict(p, w.lived)
			v.ownWord(now, p, st)
		}
		if w.returned > 0 {
			v.endOfFormer(now, p)
		}
		put(&v.guarded, p, kills(st) && !w.unmet() && w.fires() && (anchor > v.doubted || v.carried.Has(p)))
		if v.shown[0].Has(p) || v.shown[1].Has(p) {
			w.stated = now
		}
		if seen.Has(p) {
			w.unseen = now
		} else {
			// A sighting is dated by when the packet was created. The argument of Prover does not need sightings: they
			// only delay the proof about a node that is still heard because its guard failed.
			w.unseen = max(w.unseen, v.merger.Sighted(p)) // in one direction only: not contact, but a sign of life
		}
		if w.unseen > w.death.At {
			v.fenced.Remove(p)
		}
		v.claim(now, p)
		if !seen.Has(p) && v.slots != nil {
			if rec, ok := v.slots.PeerSlot(v.roster.Name(p)); ok {
				v.look(now, p, rec)
			}
		}
	}
	v.shown[1], v.shown[0] = v.shown[0], seen
}

// contradict withdraws the death of the latest boot if that boot has answered since. A sentence has its own rule (P9).
//
// Invariant: a death that was contradicted is withdrawn for good. If that boot is lost again, it may be running, and
// has to be proven dead again: by another boot in its slot, or from outside. Time does not prove it any more: its
// watchdog has not fired.
func (v *Prover) contradict(p int, lived boottime.Instant) {
	w := &v.peers[p]
	if w.death.Boot != w.boot || w.death.Proof == 0 || w.death.Proof == ProofSentence || lived <= w.death.At {
		return
	}
	switch {
	case w.death.Proof.told():
		w.defied = w.boot // P9
	case w.death.Proof == ProofTime:
		w.unfired = w.boot
	}
	w.death, w.sequence = Death{}, 0
	v.fenced.Remove(p)
}

// gap ends all claims: they begin again with the next step.
func (v *Prover) gap(now boottime.Instant) {
	v.alone = now
	v.claimNothing()
}

func (v *Prover) meet(now boottime.Instant, p int, st *netgossip.Statement) {
	w := &v.peers[p]
	w.statement, w.held, w.dated = st, now, false
	if st.Boot == w.boot && w.machine == 0 {
		w.machine = st.Machine
	}
	if st.Boot == w.boot || st.Boot == 0 {
		return
	}
	switch {
	case st.Boot == w.death.Boot && w.death.Proof == ProofBoot, (w.twins || w.returned > 0) && st.Boot == w.former:
		// A boot that has ended does not come back. So two machines answer under one name, and neither's boot proves
		// the end of the other's.
		w.twins, w.death, w.returned = true, Death{}, 0
	case w.death.Proof == ProofBoot && w.death.Boot == w.boot: // its slot has shown that this boot ended
		w.twins = false
	case w.elsewhere(st.Machine), w.outlived(now, st.Stated):
		v.strangers.Add(p) // the machine that was met before may still be running
		w.twins, w.returned = false, 0
	case w.boot != 0:
		w.twins, w.returned = false, now
	}
	w.hearsay = 0
	w.boot, w.machine, w.former, w.sequence, w.lived, w.voiced = st.Boot, st.Machine, w.boot, 0, 0, 0
	v.fenced.Remove(p)
}

// elsewhere reports whether the latest boot that was met runs on another machine than the given one.
func (w *witness) elsewhere(machine uint64) bool {
	return w.boot != 0 && w.machine != 0 && machine != 0 && w.machine != machine
}

// clockSlack is how much two clocks may drift apart between a boot and the statement that gives its age.
const clockSlack = time.Second

// outlived reports whether another boot, of that age, had begun while the latest boot that was met still answered. A
// kernel does not boot while the one before still runs. So the other boot id is not that of a kernel boot, or it is
// from another machine. (Some container runtimes create a boot id for each start of a container; the kernel and its
// watchdog run on.) An age of 0 means that the age is not known; it counts as the smallest, so the boot is accepted.
func (w *witness) outlived(now boottime.Instant, age boottime.Instant) bool {
	return w.boot != 0 && w.lived-boottime.Instant(clockSlack) > now-age
}

// endOfFormer proves that the boot before the latest one has ended. That another boot answers is not enough while the
// former boot may still write the slot: the copy of a machine also answers, and the original still runs. One of these
// is needed:
//
//   - the latest boot has the slot. It took the slot only after no agent had written it for a while;
//   - since the latest boot was met, the slot has not changed for as long as a writer may pause, or it did not belong
//     to the former boot. This covers a node that is back but has lost the LUN: it writes nothing;
//   - this node cannot read the slot. It then decides like a node without a LUN, but first gives an original that is in
//     contact the time to answer.
//
// While the slot is written, the proof waits: two machines run.
func (v *Prover) endOfFormer(now boottime.Instant, p int) {
	w := &v.peers[p]
	if v.slots != nil {
		slot := v.slots.PeerPause(now, v.roster.Name(p), w.returned)
		late := now.Sub(w.returned) >= v.chance
		switch {
		case slot.Record != nil && slot.Record.Statement.Boot == w.boot:
		case !slot.Looked && late:
		case !slot.Looked, slot.Record.Statement.Boot == w.former && !slot.Still:
			put(&v.strangers, p, slot.Looked && slot.Moved && late)
			v.waits = true
			return
		}
	}
	w.death, w.returned = Death{Proof: ProofBoot, Boot: w.former, At: now}, 0
}

// look checks whether the slot of an unheard peer shows that the peer has booted again. A record of another boot proves
// that only if it was composed after a record of the incarnation in question. Otherwise it may be from an older boot:
// such a record can reappear if a write completes late, or if the only device that had stored it comes back. The
// sequences of a slot that is still being claimed prove nothing: only the sequences of an active slot are greater than
// all earlier ones.
func (v *Prover) look(now boottime.Instant, p int, rec *diskquorum.Slot) {
	w := &v.peers[p]
	switch {
	case rec.Statement.Boot == 0:
	case rec.Statement.Boot == w.boot:
		if w.machine == 0 {
			w.machine = rec.Machine()
		}
		if rec.State == diskquorum.SlotActive {
			w.sequence = max(w.sequence, rec.Sequence)
		}
	case w.sequence == 0 || rec.Sequence <= w.sequence || w.death.Boot == w.boot && !w.death.handedOn():
	case w.elsewhere(rec.Machine()), w.outlived(now, rec.Statement.Stated):
		v.strangers.Add(p)
	default:
		w.death = Death{Proof: ProofBoot, Boot: w.boot, At: now}
		put(&v.fenced, p, !w.unmet())
	}
}

// doubt starts all claims again, as if every peer had been seen at now. It is called when the list of members changes:
// a claim must cover a time in which one list was in force. Otherwise the majorities in the argument of Prover need not
// share a member.
func (v *Prover) doubt(now boottime.Instant) {
	for p := range v.peers {
		v.peers[p].unseen = max(v.peers[p].unseen, now)
	}
	v.shown[0] = roster.FullSet(len(v.peers))
	v.grantSince = 0
	v.claimNothing()
}

// After doubtGuards, a peer counts as guarded only if it states its guard again after now, or if it is in keep.
func (v *Prover) doubtGuards(now boottime.Instant, keep roster.Set) {
	v.doubted, v.carried = now, keep
	v.guarded = v.guarded.And(keep)
}

// sight records the members that the LUN shows. A sighting on the LUN, like one on a network, starts this node's claim
// of that member's death again.
func (v *Prover) sight(now boottime.Instant, heard roster.Set, words []diskquorum.Voice) {
	for p := range heard.All() {
		w := &v.peers[p]
		w.unseen, w.voiced = now, words[p].Boot
		v.missing.Remove(p)
		v.lost.Remove(p)
		if now > w.death.At {
			v.fenced.Remove(p)
		}
		if w.voiced == w.boot && (w.death.Proof == ProofTime || w.death.Proof.told()) {
			v.contradict(p, now)
		}
	}
}

// ProvenIn returns the time until this node itself claims an unseen peer's death. ok is false if time proves nothing:
// the peer is seen, was never met, was not guarded, or this node has already found its death.
func (v *Prover) ProvenIn(now boottime.Instant, p int) (d time.Duration, ok bool) {
	w := &v.peers[p]
	if w.unseen == 0 || v.in.View.Seen.Has(p) || !v.guarded.Has(p) || v.fenced.Has(p) && !w.death.handedOn() {
		return 0, false
	}
	return max(0, v.due(p).Sub(now)), true
}
