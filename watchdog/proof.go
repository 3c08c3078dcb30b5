package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// step finds who is dead, given what this node lives by now.
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

// follow takes what the networks and the LUN say of the peers, and renews this node's claims.
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
		if st.Boot == w.boot {
			w.lived = max(w.lived, anchor)
			v.contradict(p, w.lived)
			v.ownWord(now, p, st)
		}
		if w.returned > 0 {
			v.endOfFormer(now, p)
		}
		put(&v.guarded, p, kills(st) && !w.unmet() && w.fires() && (anchor > v.doubted || v.carried.Has(p)))
		if seen.Has(p) {
			w.unseen = now
		} else {
			// A sighting is dated by when the packet was made. The argument of Prover does without sightings: all that
			// they hold up is the proof about a node that is still heard because its guard failed.
			w.unseen = max(w.unseen, v.merger.Sighted(p)) // one way only: no contact, but a sign of life
		}
		if w.unseen > w.death.At {
			v.fenced.Remove(p)
		}
		put(&v.lost, p, v.guarded.Has(p) && v.missed(now, w) >= st.Guard.Horizon+ProofDelay)
		if !seen.Has(p) && v.slots != nil {
			if rec, ok := v.slots.PeerSlot(v.roster.Name(p)); ok {
				v.look(now, p, rec)
			}
		}
	}
}

// contradict withdraws the death of the latest boot if that boot has answered since. A sentence has its own rule (P9).
//
// Invariant: a death that was contradicted is none, and stays none. If that boot is lost again, it may be running, and
// has to be proven dead again: by a slot that it has written since, or from outside. Not by time: its watchdog has not
// fired.
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

// missed is how long this node has lived and not seen a peer.
func (v *Prover) missed(now boottime.Instant, w *witness) time.Duration {
	return now.Sub(max(w.unseen, v.alone))
}

// gap ends all claims: they begin again with the next step.
func (v *Prover) gap(now boottime.Instant) {
	v.alone, v.lost = now, roster.Set{}
}

func (v *Prover) meet(now boottime.Instant, p int, st *netgossip.Statement) {
	w := &v.peers[p]
	w.statement = st
	if st.Boot == w.boot && w.machine == 0 {
		w.machine = st.Machine
	}
	if st.Boot == w.boot || st.Boot == 0 {
		return
	}
	switch {
	case st.Boot == w.death.Boot && w.death.Proof == ProofBoot, (w.twins || w.returned > 0) && st.Boot == w.former:
		// A boot that has ended does not come back: two machines answer as one, so neither's boot proves the end of
		// the other's.
		w.twins, w.death, w.returned = true, Death{}, 0
	case w.death.Proof == ProofBoot && w.death.Boot == w.boot: // its slot has shown that
		w.twins = false
	case w.elsewhere(st.Machine), w.outlived(now, st.Stated):
		v.strangers.Add(p) // what was met before may be running
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
// kernel does not boot while the one before still runs. So the other is no boot of a kernel (some container runtimes
// make up a boot id for each start of a container, which leaves the kernel and its watchdog as they were), or it is on
// another machine. An age of 0 is not known, and is the least.
func (w *witness) outlived(now boottime.Instant, age boottime.Instant) bool {
	return w.boot != 0 && w.lived-boottime.Instant(clockSlack) > now-age
}

// endOfFormer proves that the boot before the latest one has ended. Another boot that answers is not enough where the
// slot of the former may still be written: the copy of a machine answers as well, and leaves the original running. So
// one of these is needed, whichever comes first:
//
//   - the latest boot has the slot. It took the slot only after nobody had written it for a while;
//   - since the latest boot was met, the slot has not changed for as long as a writer may pause, or it did not belong
//     to the former. A node that is back and has lost the LUN writes nothing;
//   - this node cannot read the slot. It then decides like a node without a LUN, but gives an original that is in
//     contact the time to answer.
//
// While the slot is written, the proof goes on waiting: two machines run.
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

// look finds in the slot of an unheard peer that the peer has booted again. A record of another boot proves that only
// if it was made after a record of the incarnation in question. Otherwise it may be from an older boot, whose record
// can reappear when a write lands late, or when the only device that had stored it comes back. The sequences of a slot
// that is still being claimed prove nothing: only those of an active slot are greater than all earlier ones.
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

// conclude proves deaths by time, from the claims of the members that this node counts.
func (v *Prover) conclude(now boottime.Instant) {
	in := &v.in
	switch {
	case !in.Won:
		v.grantSince = 0
	case v.grantSince == 0 || now >= v.grantUntil:
		v.grantSince = now // it is not known to have been in force in between
	}
	v.grantUntil = in.Until
	if !v.lists.settled() || !in.Majority && !in.Granted {
		v.inquire(now, roster.Set{})
		return
	}
	claimed := v.lost
	for _, st := range v.words(now, claimAge) {
		if !st.Lost.IsEmpty() && v.fresh(st) {
			claimed = claimed.Union(st.Lost)
		}
	}
	var open roster.Set // their deaths only lack the claims of others
	for p := range claimed.Minus(v.fenced.Minus(v.handedOn())).Minus(in.View.Seen).All() {
		if p == v.roster.Self || p >= len(v.peers) || !v.admissible(now, p) {
			continue
		}
		claims := v.claims(now, p)
		switch {
		case in.Majority && 2*claims > v.lists.base().Size():
		case in.Granted && claims == in.View.Counted.Len() && v.excludedBy(now, p):
		default:
			put(&open, p, v.lost.Has(p) && (in.Majority || v.excludedBy(now, p)))
			continue
		}
		w := &v.peers[p]
		w.death = Death{Proof: ProofTime, Boot: w.boot, At: now}
		v.fenced.Add(p)
	}
	v.inquire(now, open)
}

// handedOn are the fenced nodes whose death this node has not found itself.
//
// Invariant: such a death never stands in the way of a proof. For a controller an operator's confirmation is a single
// voice; it should also hear of the death from agents that have found it.
func (v *Prover) handedOn() (set roster.Set) {
	for p := range v.fenced.All() {
		w := &v.peers[p]
		put(&set, p, w.death.handedOn() && w.death.Boot == w.boot) // else time would prove, in its place, a death without a known boot
	}
	return set
}

// admissible reports that nothing this node knows itself speaks against a peer's death.
func (v *Prover) admissible(now boottime.Instant, p int) bool {
	w := &v.peers[p]
	return (w.statement == nil || kills(w.statement)) && !w.unmet() && w.fires() && (max(w.unseen, v.alone) == 0 || v.missed(now, w) >= ProofDelay)
}

// excludedBy reports that a peer outside the granted half has had the time to die, by what it said
// last and by what its slot says.
func (v *Prover) excludedBy(now boottime.Instant, p int) bool {
	bySlot, agrees := v.slotHorizon(p)
	return agrees && v.excluded(now, p, bySlot)
}

// excluded is excludedBy for the horizon in the slot: the peer cannot live in a tie without a
// grant, and the present one is old enough.
func (v *Prover) excluded(now boottime.Instant, p int, bySlot time.Duration) bool {
	w := &v.peers[p]
	if w.statement == nil || !w.statement.Guard.Leases || v.grantSince == 0 {
		return false
	}
	need := max(w.statement.Guard.Horizon, bySlot) + ProofDelay
	return now.Sub(v.grantSince) >= need && v.missed(now, w) >= need
}

// slotHorizon is the horizon in a peer's slot. A peer writes there before it disarms under a grant of the LUN, so the
// slot must not say that its guard was given up. Its agent may have been started with other times since the peer was
// last heard; the slot shows that too, because the token that a grant names has to be there. Any other tie-breaker
// waits for such times itself (for the Lease: K7).
func (v *Prover) slotHorizon(p int) (h time.Duration, agrees bool) {
	if !v.in.BySlots {
		return 0, true
	}
	if v.slots == nil {
		return 0, false
	}
	rec, ok := v.slots.PeerSlot(v.roster.Name(p))
	if !ok || !v.guardedBySlot(p, rec) {
		return 0, false
	}
	return rec.Statement.Guard.Horizon, true
}

func (v *Prover) guardedBySlot(p int, rec *diskquorum.Slot) bool {
	return rec.State == diskquorum.SlotActive && rec.Statement.Boot == v.peers[p].boot && rec.Statement.Guard.Kills()
}

// doubt begins all claims again, as if every peer had been seen at now. It is for the moment when the list of members
// changes: a claim must cover a time in which one list was in force; otherwise the majorities of the argument above
// need not share a member.
func (v *Prover) doubt(now boottime.Instant) {
	for p := range v.peers {
		v.peers[p].unseen = max(v.peers[p].unseen, now)
	}
	v.lost, v.grantSince = roster.Set{}, 0
}

// After doubtGuards a peer is only taken for guarded if it says so after now, or is one of those to keep.
func (v *Prover) doubtGuards(now boottime.Instant, keep roster.Set) {
	v.doubted, v.carried = now, keep
	v.guarded = v.guarded.And(keep)
}

// sight takes the members that the LUN shows. A claim of a death begins again with each sighting, on the LUN as on a
// network.
func (v *Prover) sight(now boottime.Instant, heard roster.Set, words []diskquorum.Voice) {
	for p := range heard.All() {
		w := &v.peers[p]
		w.unseen, w.voiced = now, words[p].Boot
		v.lost.Remove(p)
		if now > w.death.At {
			v.fenced.Remove(p)
		}
		if w.voiced == w.boot && (w.death.Proof == ProofTime || w.death.Proof.told()) {
			v.contradict(p, now)
		}
	}
}

// Fresh claims are claims in statements that are proven for an instant not older than claimAge. settle is how far a
// statement may lag behind the step that made it, or how late an answer may arrive that was made before it. Both are
// part of the time that a claim covers.
//
// Neither depends on the size of the group: in a large one most statements are older, and
// a node that lacks claims asks for them (inquiry).
const (
	claimAge = 5 * time.Second
	settle   = 2 * time.Second
)

// ProofDelay is how much longer than the victim's horizon a proof by time takes, without the inquiry.
const ProofDelay = claimAge + settle

// fresh reports whether the claims of a statement count. They do not while the peer also uses another list: it has not
// yet begun its claims again (see doubt) since it used that one.
func (v *Prover) fresh(st *netgossip.Statement) bool {
	stands := st.Stands()
	return goesBy(&stands, v.lists.base())
}

// claims counts the fresh claims of a peer among the counted members, this node included.
func (v *Prover) claims(now boottime.Instant, p int) int {
	n := 0
	if v.lost.Has(p) {
		n++
	}
	for _, st := range v.words(now, claimAge) {
		if st.Lost.Has(p) && v.fresh(st) {
			n++
		}
	}
	return n
}

// claimants are the counted members that freshly claim the death of one of these peers.
func (v *Prover) claimants(now boottime.Instant, of roster.Set) (by roster.Set) {
	for m, st := range v.words(now, claimAge) {
		if st.Lost.Intersects(of) && v.fresh(st) {
			by.Add(m)
		}
	}
	return by
}

// inquiry asks for the claims that a proof lacks, in rounds. In a large group the statements of most
// members are minutes old, and claims of different moments do not add up.
//
// A round asks each counted member once whose latest statement is too old or makes no such claim. It asks on one
// network, and the next round on another. The answer is a statement like any other: first hand, to a question of this
// node, and dated by when that was asked. So the inquiry makes nothing believed that is not believed without it. It
// only affects time and traffic:
//
//   - A node does not ask if it does not claim the death itself, could not prove it by the claims, or has proven it. A
//     group at rest asks nothing.
//   - The first round waits inquiryDelay for the others to notice as much. The next begins no sooner than inquiryPause
//     after the first, and each pause is twice as long as the one before, up to inquirySlowest: where most members
//     still see the victim, the claims never come. Another victim, or a member that had not claimed before, makes the
//     rounds begin again, but not before inquiryPause is over: a victim that most members have seen until now is
//     claimed by all of them within seconds.
//   - A round takes as long as a sweep (Params.RoundTime): half of claimAge, or a little more in groups whose evidence
//     lasts longer than by default. What is left of a round then waits for the next one.
type inquiry struct {
	about roster.Set       // the victims of the present rounds
	heard roster.Set       // the members that have claimed one of them
	next  boottime.Instant // the next round; zero: there was none
	last  boottime.Instant // the latest round; zero: there was none
	pause time.Duration    // after the next round
	turn  int              // rounds so far
}

const (
	inquiryDelay   = time.Second
	inquiryPause   = claimAge / 2
	inquirySlowest = time.Minute
)

func (v *Prover) inquire(now boottime.Instant, open roster.Set) {
	q := &v.inquiry
	if open.IsEmpty() {
		if !q.about.IsEmpty() {
			q.about, q.heard = roster.Set{}, roster.Set{}
			v.out.Ask = v.merger.Ways(now, roster.Set{}, q.turn) // members that were not asked yet need not be
		}
		return
	}
	heard := q.heard.Union(v.claimants(now, open))
	if fresh := !open.Minus(q.about).IsEmpty(); fresh || !heard.Minus(q.heard).IsEmpty() {
		soon := now.Add(inquiryDelay)
		if q.last != 0 {
			soon = max(soon, q.last.Add(inquiryPause))
		}
		if fresh || soon < q.next {
			q.next = soon
		}
		q.pause = inquiryPause
	}
	q.about, q.heard = open, heard
	if now < q.next {
		v.out.Wake = min(v.out.Wake, q.next)
		return
	}
	wanted := v.others()
	for m, st := range v.words(now, claimAge/2) {
		if open.Minus(st.Lost).IsEmpty() {
			wanted.Remove(m)
		}
	}
	v.out.Ask = v.merger.Ways(now, wanted, q.turn)
	q.turn++
	q.last, q.next = now, now.Add(q.pause)
	q.pause = min(2*q.pause, inquirySlowest)
	v.out.Wake = min(v.out.Wake, q.next)
}

// ProvenIn returns how long it takes until this node itself claims an unseen peer's death. ok is false if time proves
// nothing: the peer is seen, was never met, was not guarded, or this node already knows its death.
func (v *Prover) ProvenIn(now boottime.Instant, p int) (d time.Duration, ok bool) {
	w := &v.peers[p]
	if w.unseen == 0 || v.in.View.Seen.Has(p) || !v.guarded.Has(p) || v.fenced.Has(p) && !w.death.handedOn() {
		return 0, false
	}
	return max(0, w.statement.Guard.Horizon+ProofDelay-v.missed(now, w)), true
}
