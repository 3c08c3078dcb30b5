package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Proof is how the death of a node is known. Its strings are the vocabulary of logs,
// metrics and status.
type Proof uint8

const (
	ProofTime     Proof = iota + 1 // its guard must have reset it: a majority, or the granted half, has not seen it for its horizon
	ProofBoot                      // another boot of the node answers, or writes its slot
	ProofSentence                  // it has said that nothing feeds its watchdog any more, and its time is over
	ProofPower                     // told from outside: a power switch or a management board answers that it is off
	ProofKdump                     // told from outside: its crash kernel has answered
	ProofOperator                  // told from outside: an operator vouches that it is off
)

// String is the proof's name in logs, metrics and the API.
func (p Proof) String() string {
	switch p {
	case ProofTime:
		return "time"
	case ProofBoot:
		return "boot"
	case ProofSentence:
		return "sentence"
	case ProofPower:
		return "power"
	case ProofKdump:
		return "kdump"
	case ProofOperator:
		return "operator"
	default:
		return "none"
	}
}

// Death says that one incarnation of a node, from one boot to the next, has ended.
type Death struct {
	Proof Proof            // zero: no death is known
	Boot  uint64           // of the incarnation that ended; 0: peers proved it, this node never met it
	At    boottime.Instant // when this node concluded it
	// Teller is the node whose agent was told from outside; empty: it is no such proof, or no member's.
	Teller string
	// Hearsay says of a sentence that others have handed it on: neither the node itself nor its slot has told this one.
	Hearsay bool
}

// handedOn reports whether this node has not found the death itself.
func (d *Death) handedOn() bool { return d.Proof.told() || d.Hearsay }

// prover concludes who is dead. The argument, with N members, for a victim x:
//
// A member m *claims* x when m has, by its own clock, not seen x for longer than T, and the
// last word of x was that its guard kills within a horizon H; T is H plus [ProofDelay].
// The claim covers all of that time: in it no statement of m had x among the seen.
//
// By majority: let Q be the members with a fresh claim, more than half of the roster, and
// let s be the earliest moment at which one of these claims was made. Suppose that x, in
// the incarnation that the claims speak of, ran at s. Then it was fed, or armed, within H
// less D_max, A or G before s, since a watchdog unfed for longer has fired, even if the
// agent was killed and the kernel restarted the countdown once. It was fed because x
// counted, by evidence not older than D_max, A or G, either a majority, or exactly half of
// the roster. Both meet Q in a node m other than x, which x counts only if m's own
// statement had x among the seen; and that lies within the time of m's claim. So x is dead.
//
// By grant: an equal split has no majority to claim. The members of the granted half claim,
// all of them; x cannot have counted a majority without one of them. It could feed under a
// grant that excludes them, but not for longer than G after the present one was decided:
// so the grant must have been in force for T, too. A node that may live in a tie without
// a grant is never proven dead in one. Nor does a node prove it whose own path to the LUN
// is lost: what it has read of the victim's slot is old.
//
// By a grant of another tie-breaker, such as the Lease, it is the same, with less to wait for and
// less to look at. Nobody feeds under another grant from the moment at which the present one was
// written (tie.Breaker; of the Lease K3), so T counts from when this node learnt that it is in
// force. There is no slot in which the victim could tell this half that its guard is given up: in a
// tie it does not give it up.
//
// What breaks the chain is a guard that is given up while others rely on it. So an
// armed node disarms only when everybody who could prove its death knows (see release in
// disarm.go), and a node that does not fence itself is never proven dead by time.
type prover struct {
	roster  *roster.Roster
	chance  time.Duration // within it everybody is asked by chance, see chanceDelay
	peers   []witness
	inquiry inquiry

	guarded roster.Set       // last word: its guard kills, and it cannot have been given up unknown to all
	carried roster.Set       // peers whose guard outlives the latest change of the list, see carryOver
	doubted boottime.Instant // of that change: others must have been asked since; zero: there was none
	lost    roster.Set       // claimed by this node
	fenced  roster.Set       // dead, and not met since

	strangers roster.Set // in whose name two machines run, as noticed in this step
	waits     bool       // an end waits for a slot

	digests map[uint64]int // members by netgossip.NameDigest

	alone boottime.Instant // the latest step in which this node did not live: nothing is claimed of the time before (M1)

	grantSince boottime.Instant // the grant that names this node is in force since; zero: none
	grantUntil boottime.Instant // as known at the last step
}

// witness is what this node knows of one peer.
type witness struct {
	statement *netgossip.Statement // the one that the rest was taken from
	boot      uint64               // the latest incarnation met; 0: none
	machine   uint64               // it runs on; 0: not known
	former    uint64               // the one before
	lived     boottime.Instant     // the last moment for which an answer of the latest boot is proven
	returned  boottime.Instant     // when the latest was met, while the end of the former waits for its slot; zero: it does not
	twins     bool                 // these two answer in turns
	sequence  uint64               // the greatest with which that incarnation was seen in its slot, active; 0: never
	unseen    boottime.Instant     // the last moment at which it may have been seen; zero: never
	sentenced uint64               // the boot that has condemned itself; 0: none is known to have
	term      time.Duration        // the timeout that it told,
	over      boottime.Instant     // and when it has ended for certain
	seers     trial                // of which the questions are used: of those who still see it
	defied    uint64               // the boot that has outlived its sentence; 0: none
	unfired   uint64               // the boot whose watchdog was seen not to fire; 0: none
	voiced    uint64               // the boot that was heard on the LUN since the latest was met (N3); 0: none
	hearsay   boottime.Instant     // when others handed that sentence on; zero: the node has told it itself
	rumour    rumour               // of a sentence that one member alone has handed on
	trial     trial                // of a death that was told from outside
	spread    uint64               // the boot whose death was told here and announced to all; 0: none
	death     Death
}

// unmet reports whether the boot that was heard last, on the LUN, is another one than was met: nothing is known of its guard.
func (w *witness) unmet() bool { return w.voiced != 0 && w.voiced != w.boot }

// fires reports whether nothing speaks against the guard of the latest boot.
//
// Invariant: a boot that has outlived its horizon or its sentence is never proven dead by either again, no matter which member has seen it (L9, P9):
// what did not fire once has no time within which it fires. Another boot, another machine's word or a person's is no matter of it.
func (w *witness) fires() bool { return w.unfired == 0 || w.unfired != w.boot }

func newProver(r *roster.Roster) prover {
	n := r.Size()
	return prover{roster: r, chance: chanceDelay(n), peers: make([]witness, n), digests: digestsOf(r)}
}

// follow takes what the networks and the LUN say of the peers, and renews this node's claims.
func (v *prover) follow(now boottime.Instant, m *netgossip.Merger, seen roster.Set, a *diskquorum.Arbiter) {
	v.strangers, v.waits = roster.Set{}, false
	for p := range v.peers {
		w := &v.peers[p]
		st, anchor := m.Statement(p)
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
			v.endOfFormer(now, p, a)
		}
		put(&v.guarded, p, kills(st) && !w.unmet() && w.fires() && (anchor > v.doubted || v.carried.Has(p)))
		if seen.Has(p) {
			w.unseen = now
		} else {
			// A sighting is dated by when the packet was made. The argument above does without it: all it
			// holds up is the proof about a node that is still heard because its guard failed.
			w.unseen = max(w.unseen, m.Sighted(p)) // one way only: no contact, but life
		}
		if w.unseen > w.death.At {
			v.fenced.Remove(p)
		}
		put(&v.lost, p, v.guarded.Has(p) && v.missed(now, w) >= st.Guard.Horizon+ProofDelay)
		if !seen.Has(p) && a != nil {
			if rec, ok := a.PeerSlot(v.roster.Name(p)); ok {
				v.look(now, p, rec)
			}
		}
	}
}

// contradict takes the death of the latest boot back if that boot has answered since. A sentence has its own rule (P9).
//
// Invariant: a death that was contradicted is none, and stays none. Lost again, that boot may be running, and has to be
// proven dead again: by a slot that it has written since, or from outside. Not by time: its watchdog has not fired.
func (v *prover) contradict(p int, lived boottime.Instant) {
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

// missed is for how long this node has lived and not seen a peer.
func (v *prover) missed(now boottime.Instant, w *witness) time.Duration {
	return now.Sub(max(w.unseen, v.alone))
}

// gap ends all claims: they begin again with the next step.
func (v *prover) gap(now boottime.Instant) {
	v.alone, v.lost = now, roster.Set{}
}

// meet takes a new statement of a peer.
func (v *prover) meet(now boottime.Instant, p int, st *netgossip.Statement) {
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
		// What has ended does not come back: two machines answer as one, so that neither's
		// boot proves the end of the other's.
		w.twins, w.death, w.returned = true, Death{}, 0
	case w.death.Proof == ProofBoot && w.death.Boot == w.boot: // its slot has told
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

// elsewhere reports whether the latest boot that was met runs on another machine than this one.
func (w *witness) elsewhere(machine uint64) bool {
	return w.boot != 0 && w.machine != 0 && machine != 0 && w.machine != machine
}

// clockSlack is what two clocks may differ by between a boot and the statement that tells its age.
const clockSlack = time.Second

// outlived reports whether another boot, of that age, had begun while the latest one that was met
// still answered. A kernel does not boot beside the one before. So it is none: some container
// runtimes make up a boot id for each start of a container, which leaves the kernel and its
// watchdog as they were; or it is another machine. An age of 0 is not known, and
// is the least.
func (w *witness) outlived(now boottime.Instant, age boottime.Instant) bool {
	return w.boot != 0 && w.lived-boottime.Instant(clockSlack) > now-age
}

// endOfFormer proves that the boot before the latest one has ended. Another boot that answers
// is not enough where the slot of the former may still be written: the copy of a machine answers
// as well, and leaves the original running. So, whichever comes first,
//
//   - the latest boot has the slot. It took it only after nobody had written it for a while;
//   - the slot has stood still since the latest boot was met for as long as a writer may pause, or it
//     was not the former's. A node that is back and has lost the LUN writes nothing;
//   - this node cannot read the slot. It decides as one without LUN then, but gives an
//     original that is in contact the time to answer.
//
// A slot that is written goes on waiting: two machines run.
func (v *prover) endOfFormer(now boottime.Instant, p int, a *diskquorum.Arbiter) {
	w := &v.peers[p]
	if a != nil {
		slot := a.PeerPause(now, v.roster.Name(p), w.returned)
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

// kills reports whether the last word of a peer is that its guard kills.
func kills(st *netgossip.Statement) bool { return st.Guard.Kills() && !st.Stopping }

// look finds in the slot of a peer that nobody hears that it has booted again. A record of
// another boot proves that only if it was made after one of the incarnation in question:
// else it may be of an older boot, which can come to light again when a write lands late,
// or a device comes back that alone had taken it. The sequences of a slot that is still
// being claimed do not tell: only those of an active one are past all earlier ones.
func (v *prover) look(now boottime.Instant, p int, rec *diskquorum.Slot) {
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

// conclude proves deaths by time, from the claims of those this node counts.
func (v *prover) conclude(now boottime.Instant, c *Core) {
	d := &c.fx.Decision
	switch {
	case d.Reason != ReasonSplitWon:
		v.grantSince = 0
	case v.grantSince == 0 || now >= v.grantUntil:
		v.grantSince = now // it is not known to have been in force between
	}
	v.grantUntil = d.Until
	if !c.rostersSettled() {
		v.inquire(now, roster.Set{}, c)
		return
	}
	byMajority := d.Quorum && c.outcome == netgossip.Majority
	// Who lives by another holder's writes does not see what the victim wrote last.
	byGrant := d.Reason == ReasonSplitWon && c.guard.Leases && !c.split.Relayed
	if !byMajority && !byGrant {
		v.inquire(now, roster.Set{}, c)
		return
	}
	claimed := v.lost
	for m := range c.view.Counted.All() {
		if st := v.fresh(now, m, c); st != nil {
			claimed = claimed.Union(st.Lost)
		}
	}
	var open roster.Set // their deaths lack nothing but the claims of others
	for p := range claimed.Minus(v.fenced.Minus(v.handedOn())).Minus(c.view.Seen).All() {
		if p == v.roster.Self || p >= len(v.peers) || !v.admissible(now, p) {
			continue
		}
		claims := v.claims(now, p, c)
		switch {
		case byMajority && 2*claims > c.base().Size():
		case byGrant && claims == c.view.Counted.Len() && v.excludedBy(now, p, c):
		default:
			put(&open, p, v.lost.Has(p) && (byMajority || v.excludedBy(now, p, c)))
			continue
		}
		w := &v.peers[p]
		w.death = Death{Proof: ProofTime, Boot: w.boot, At: now}
		v.fenced.Add(p)
	}
	v.inquire(now, open, c)
}

// handedOn are the fenced whose death this node has not found itself.
//
// Invariant: such a death never stands in the way of a proof. What an operator has said of a node is one voice for a controller,
// which is to hear of the death from those who have found it, too.
func (v *prover) handedOn() (set roster.Set) {
	for p := range v.fenced.All() {
		w := &v.peers[p]
		put(&set, p, w.death.handedOn() && w.death.Boot == w.boot) // else time would prove the death of no known boot in its place
	}
	return set
}

// admissible reports that nothing this node knows itself speaks against a peer's death.
func (v *prover) admissible(now boottime.Instant, p int) bool {
	w := &v.peers[p]
	return (w.statement == nil || kills(w.statement)) && !w.unmet() && w.fires() && (max(w.unseen, v.alone) == 0 || v.missed(now, w) >= ProofDelay)
}

// excludedBy reports that a peer outside the granted half has had the time to die, by what it said
// last and by what its slot says.
func (v *prover) excludedBy(now boottime.Instant, p int, c *Core) bool {
	bySlot, agrees := v.slotHorizon(p, c)
	return agrees && v.excluded(now, p, bySlot)
}

// excluded is excludedBy for the horizon in the slot: the peer cannot live in a tie without a
// grant, and the present one is old enough.
func (v *prover) excluded(now boottime.Instant, p int, bySlot time.Duration) bool {
	w := &v.peers[p]
	if w.statement == nil || !w.statement.Guard.Leases || v.grantSince == 0 {
		return false
	}
	need := max(w.statement.Guard.Horizon, bySlot) + ProofDelay
	return now.Sub(v.grantSince) >= need && v.missed(now, w) >= need
}

// slotHorizon is the horizon that a peer's slot tells. A peer writes there before it disarms under a
// grant of the LUN, so the slot must not say that its guard was given up. Its agent may have been
// started with other times since the peer was last heard; the slot tells that, too, because the token
// that a grant names has to stand there. Any other tie-breaker waits for them itself (of the Lease K7).
func (v *prover) slotHorizon(p int, c *Core) (h time.Duration, agrees bool) {
	if !c.bySlots() {
		return 0, true
	}
	if c.lun.arbiter == nil {
		return 0, false
	}
	rec, ok := c.lun.arbiter.PeerSlot(v.roster.Name(p))
	if !ok || !v.guardedBySlot(p, rec) {
		return 0, false
	}
	return rec.Statement.Guard.Horizon, true
}

func (v *prover) guardedBySlot(p int, rec *diskquorum.Slot) bool {
	return rec.State == diskquorum.SlotActive && rec.Statement.Boot == v.peers[p].boot && rec.Statement.Guard.Kills()
}

// doubt begins all claims again, as if every peer had been seen at now. It is for the moment
// when the list of members changes: a claim must stand for a time in which one list was in
// force, or the majorities of the argument above need not meet.
func (v *prover) doubt(now boottime.Instant) {
	for p := range v.peers {
		v.peers[p].unseen = max(v.peers[p].unseen, now)
	}
	v.lost, v.grantSince = roster.Set{}, 0
}

// doubtGuards takes no peer for guarded that has not said so since now, but for those to keep.
func (v *prover) doubtGuards(now boottime.Instant, keep roster.Set) {
	v.doubted, v.carried = now, keep
	v.guarded = v.guarded.And(keep)
}

// renumber keeps what is known of those who are still listed.
func (v *prover) renumber(n roster.Renumbering, to *roster.Roster) {
	peers := make([]witness, to.Size())
	for i, k := range n {
		if k >= 0 {
			peers[k] = v.peers[i]
			peers[k].rumour = rumour{} // it is by index
		}
	}
	v.roster, v.peers = to, peers
	v.digests = digestsOf(to)
	v.chance, v.inquiry = chanceDelay(to.Size()), inquiry{}
	v.guarded, v.carried, v.lost, v.fenced = n.Set(v.guarded), n.Set(v.carried), n.Set(v.lost), n.Set(v.fenced)
}

// Fenced are the nodes whose last known incarnation cannot run any more and that were not
// met since.
func (c *Core) Fenced() roster.Set { return c.proof.fenced }

// Strangers lists the peers in whose name two machines run, as noticed in the latest step: one that
// was not met before answers or has the slot, or the slot of a boot is written after another
// boot has answered. See also Twins.
func (c *Core) Strangers() roster.Set { return c.proof.strangers }

// Death is the latest known death of a node; Proof is zero if none is known.
func (c *Core) Death(p int) Death { return c.proof.peers[p].death }

// ProvenIn tells how long until this node's own claim of an unseen peer's death; ok is
// false if time proves nothing: the peer is seen, was never met, was not guarded, or this node knows its death already.
func (c *Core) ProvenIn(now boottime.Instant, p int) (d time.Duration, ok bool) {
	w := &c.proof.peers[p]
	if w.unseen == 0 || c.view.Seen.Has(p) || !c.proof.guarded.Has(p) || c.proof.fenced.Has(p) && !w.death.handedOn() {
		return 0, false
	}
	return max(0, w.statement.Guard.Horizon+ProofDelay-c.proof.missed(now, w)), true
}
