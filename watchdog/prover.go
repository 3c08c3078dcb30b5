package watchdog

import (
	"iter"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Proof is the kind of evidence for the death of a node. Its strings are the vocabulary of logs, metrics and status.
type Proof uint8

const (
	ProofTime     Proof = iota + 1 // its guard must have reset it: a majority, or the granted half, has not seen it for its horizon
	ProofBoot                      // another boot of the node answers, or writes its slot
	ProofSentence                  // it has announced that nothing feeds its watchdog any more, and its time is over
	ProofPower                     // reported from outside: a power switch or a management board reports it as off
	ProofKdump                     // reported from outside: its crash kernel runs
	ProofOperator                  // reported from outside: an operator vouches that it is off
)

var proofNames = [...]string{
	ProofTime: "time", ProofBoot: "boot", ProofSentence: "sentence", ProofPower: "power", ProofKdump: "kdump", ProofOperator: "operator",
}

// String returns the proof's name in logs, metrics and the API.
func (p Proof) String() string { return nameOf(proofNames[:], p, "none") }

// told reports whether the proof comes from outside. The other proofs are found by agents.
func (p Proof) told() bool { return p == ProofPower || p == ProofKdump || p == ProofOperator }

// ofDevices reports whether the proof comes from a device or a crash kernel.
func (p Proof) ofDevices() bool { return p == ProofPower || p == ProofKdump }

// Death records that one incarnation of a node, from one boot to the next, has ended.
type Death struct {
	Proof Proof            // zero: no death is known
	Boot  uint64           // of the incarnation that ended; 0: peers proved the death, this node never met the incarnation
	At    boottime.Instant // when this node concluded it
	// Teller is the node whose agent got the report; empty: the proof was not reported, or not by a member.
	Teller string
	// Hearsay is set if others passed the sentence on: this node has it neither from the condemned node nor from that
	// node's slot.
	Hearsay bool
}

// handedOn reports whether this node has not found the death itself.
func (d *Death) handedOn() bool { return d.Proof.told() || d.Hearsay }

// proverInput holds what the core knows at this moment and the Prover needs.
type proverInput struct {
	View       netgossip.View
	Heard      roster.Set // members that this node sees by the LUN
	Restarting roster.Set // members that announced a restart and have not been heard since

	Apart     bool // this node counts nobody: it is condemned, or does not know yet whether it is
	Condemned bool
	Unfired   bool // this node's own watchdog was observed not to fire
	Gap       bool // this node did not live for a time, or may not have: its claims begin again
	Sole      bool // only this node's side can live, see soleSide
	Leads     bool // this node counts a majority, not half of an equal split
	Majority  bool // this node lives by a majority that it counts
	Granted   bool // this node lives by a grant, and the others die without one
	Won       bool // a grant names this node
	Until     boottime.Instant
	BySlots   bool    // grants are on the LUN
	Unfit     Refusal // why this node's own state keeps it from obeying an order
}

// proverOutput is the result of a step, valid until the next one.
type proverOutput struct {
	Wake    boottime.Instant
	Ask     []roster.Set // see Effects
	Answers []Answer
	Obeyed  []Answer
	Unfired bool // a member states that this node's watchdog did not fire

	seen     roster.Set // the nodes that the counted members see, filled on demand, see seenByCounted
	gathered bool
}

// Prover concludes who is dead. The argument, with N members, for a victim x:
//
// A member m's *claim* of x is a stretch of time: no statement that m gave out after the instant from, and up to until,
// had x among the seen. H is the horizon that the last statement of x to m gave, and due = from + H.
//
// By majority: let Q be more than half of the roster, and let e be an instant with due <= e <= until for the claim of
// each member of Q. Suppose that x, in the incarnation that the claims are about, ran at e. Then its watchdog was fed,
// or armed, at some t <= e, because x counted a majority or exactly half of the roster. Both kinds of set share with Q
// a node m other than x. x counts m only if a statement of m had x among the seen, and its evidence is dated by x's own
// question, which x asked before m gave the statement out. That was not in m's claim. It was not after until either: x
// had the answer at t, and t <= e <= until. So it was at from or earlier. Evidence lasts for D_max, A, G or D_lun (and
// a vouch for the time that samples take): the horizon contains them, and F, two countdowns and a margin. A watchdog
// that was last fed at t has fired by due, even if the agent was killed and the kernel restarted the countdown once. As
// due <= e, this is a contradiction: x does not run at e, and that boot never runs again.
//
// This node dates the claims by its own clock, so that each is shorter than it was: until is when it asked the question
// whose answer had the statement, and due is dated by the clock in the answer as if the answer had not been on its way
// (readClock). Its own claim begins with the second step after the last one with x among the seen: until the effects of
// the first one are carried out, the statement of the step before is given out, and they are carried out before the
// second one begins (reckoning.shown). A record on the LUN that shows whom m sees is composed in the step in which m
// sees them, and x dates it by a ping from before that. A claim covers neither time in which m did not live (M1), nor a
// change of the list (doubt): both begin it again.
//
// By grant: in an equal split, no majority can claim. All members of the granted half must claim; x cannot have counted
// a majority without one of them. x could feed under a grant that excludes them, but not for longer than G after the
// present grant was decided: so e must also be H after this node learnt of the present grant. A node that may live in a
// tie without a grant is never proven dead in a tie. Nor does a node that has lost its own path to the LUN prove a
// death: what it has read of the victim's slot is old.
//
// By a grant of another tie-breaker, such as the Lease: the argument is the same but simpler. From the moment at which
// the present grant was written, nobody feeds under another grant (tie.Breaker; for the Lease: K3). So H counts from
// when this node learnt that the present grant is in force. There is no slot in which the victim could tell this half
// that it has given up its guard: so in a tie the victim does not give it up.
//
// The argument fails if a guard is given up while others rely on it. So an armed node disarms only when all nodes that
// could prove its death know (see release in guard.go), and a node that does not fence itself is never proven dead by
// time.
type Prover struct {
	cfg    *Config // the core's configuration
	lists  *Rosters
	roster *roster.Roster
	merger *netgossip.Merger
	slots  *diskquorum.Arbiter // nil until the LUN has been opened
	in     proverInput
	out    proverOutput

	chance  time.Duration // within this time random samples reach every member, see chanceDelay
	peers   []witness
	inquiry inquiry
	reckoning

	guarded roster.Set       // peers whose last statement says that their guard kills; it cannot have been given up unknown to all
	carried roster.Set       // peers whose guard outlives the latest change of the list, see carryOver
	doubted boottime.Instant // when the list changed: the other peers' guards need a later statement; zero: it has not changed
	fenced  roster.Set       // dead, and not met since

	strangers roster.Set // names under which two machines run, as noticed in this step
	waits     bool       // a proof that a former boot has ended waits for a slot

	digests map[uint64]int // members by netgossip.NameDigest
	told    told
	orders  orders

	alone boottime.Instant // the latest step in which this node did not live: no claim covers the time before it (M1)

	grantSince boottime.Instant // since when the grant that names this node is in force; zero: no such grant
	grantUntil boottime.Instant // when that grant ends, as known at the last step
}

// witness is what this node knows of one peer.
type witness struct {
	statement *netgossip.Statement // the statement from which the other fields were taken
	held      boottime.Instant     // when this node first held it
	read      boottime.Instant     // the instant for which it was last proven
	ahead     time.Duration        // by how much this node's clock is ahead of the peer's, at most, see readClock
	dated     bool                 // ahead is known
	ask       boottime.Instant     // when the answers to an inquiry can prove its death, or may show when they can
	dueKnown  bool                 // the former
	check     boottime.Instant     // before this, no look at the claims can prove its death
	boot      uint64               // the latest incarnation met; 0: none
	machine   uint64               // the machine that it runs on; 0: not known
	former    uint64               // the incarnation before it
	lived     boottime.Instant     // the last moment for which an answer of the latest boot is proven
	returned  boottime.Instant     // when the latest boot was met, while the proof that former has ended waits for its slot; zero: it does not wait
	twins     bool                 // boot and former answer in turns
	sequence  uint64               // the greatest sequence of that incarnation in its active slot; 0: never seen
	unseen    boottime.Instant     // the last moment at which this node may have seen the peer; zero: never
	stated    boottime.Instant     // the last moment at which this node may have stated to see the peer
	sentenced uint64               // the boot that has condemned itself; 0: none is known
	term      time.Duration        // the timeout that it announced
	over      boottime.Instant     // when it has ended for certain
	seers     question             // to the members that still see the peer
	defied    uint64               // the boot that has outlived its sentence; 0: none
	unfired   uint64               // the boot whose watchdog was observed not to fire; 0: none
	voiced    uint64               // the boot that was heard on the LUN since the latest was met (N3); 0: none
	hearsay   boottime.Instant     // when others passed on that sentence; zero: the node has announced it to this node
	rumour    rumour               // a sentence that only one member has passed on
	trial     trial                // of a reported death
	spread    uint64               // the boot whose death was reported here and announced to all; 0: none
	death     Death
}

// unmet reports whether the boot heard last, on the LUN, is not the one that was met: nothing is known of its guard.
func (w *witness) unmet() bool { return w.voiced != 0 && w.voiced != w.boot }

// fires reports whether the guard of the latest boot is not known to have failed.
//
// Invariant: a boot that has outlived its horizon or its sentence is never again proven dead by a horizon or a
// sentence, no matter which member has seen it (L9, P9). If a watchdog once did not fire in time, no time is known
// within which it fires. Proofs by another boot, by another machine or by a person stay possible.
func (w *witness) fires() bool { return w.unfired == 0 || w.unfired != w.boot }

func newProver(cfg *Config, lists *Rosters, m *netgossip.Merger) Prover {
	n := cfg.Roster.Size()
	return Prover{cfg: cfg, lists: lists, roster: cfg.Roster, merger: m, chance: chanceDelay(n), peers: make([]witness, n), reckoning: newReckoning(n), digests: digestsOf(cfg.Roster)}
}

func newReckoning(size int) reckoning {
	return reckoning{by: make([]claimant, 0, size), spans: make([]span, 0, size), at: make([]boottime.Instant, 0, size)}
}

// chanceDelay is the time within which all members of a roster of n answer random samples, without an inquiry.
func chanceDelay(n int) time.Duration {
	return max(claimAge, time.Duration(n)*200*time.Millisecond) + settle
}

func digestsOf(r *roster.Roster) map[uint64]int {
	m := make(map[uint64]int, r.Size())
	for p := range r.Members {
		m[netgossip.NameDigest(r.Name(p))] = p
	}
	return m
}

func (v *Prover) renumber(n roster.Renumbering, to *roster.Roster) {
	peers := make([]witness, to.Size())
	for i, k := range n {
		if k >= 0 {
			peers[k] = v.peers[i]
			peers[k].rumour = rumour{} // a rumour counts only if two members of one list report it
		}
	}
	v.roster, v.peers = to, peers
	v.digests = digestsOf(to)
	v.chance, v.inquiry = chanceDelay(to.Size()), inquiry{}
	v.guarded, v.carried, v.fenced = n.Set(v.guarded), n.Set(v.carried), n.Set(v.fenced)
	v.reckoning = newReckoning(to.Size()) // doubt follows
	v.in.View.Seen, v.in.View.Counted = n.Set(v.in.View.Seen), n.Set(v.in.View.Counted)
}

// Fenced returns the nodes whose last known incarnation cannot run any more, and that have not been met since.
func (v *Prover) Fenced() roster.Set { return v.fenced }

// Strangers lists the peers under whose names two machines run, as noticed in the latest step: a machine that was not
// met before answers or has the slot, or one boot writes the slot after another boot has answered. See also Core.Twins.
func (v *Prover) Strangers() roster.Set { return v.strangers }

// Of returns the latest known death of a node; its Proof is zero if none is known.
func (v *Prover) Of(p int) Death { return v.peers[p].death }

// kills reports whether this statement says that the peer's guard kills.
func kills(st *netgossip.Statement) bool { return st.Guard.Kills() && !st.Stopping }

// hasEnded reports whether another boot proves that this boot of a peer has ended, or this boot is condemned. The last
// record of an ended boot says nothing about the running boot.
func (v *Prover) hasEnded(p int, boot uint64) bool {
	w := &v.peers[p]
	return w.death.Proof == ProofBoot && w.death.Boot == boot || w.sentenced != 0 && w.sentenced == boot && w.hearsay == 0
}

// words yields the statements of the members that this node counts, except those older than age.
func (v *Prover) words(now boottime.Instant, age time.Duration) iter.Seq2[int, *netgossip.Statement] {
	return v.merger.Said(v.in.View.Counted, now.Add(-age))
}

// KnownBoot returns the latest boot of a member that this node knows of, by the member's statements or, if it was never
// met, by its slot on the LUN; 0: none.
func (v *Prover) KnownBoot(p int) uint64 {
	w := &v.peers[p]
	switch {
	case p == v.roster.Self:
		return v.cfg.Boot
	case w.boot == 0 && v.slots != nil:
		if rec, ok := v.slots.PeerSlot(v.roster.Name(p)); ok {
			return rec.Statement.Boot
		}
	}
	return w.boot
}

// whoSees returns a member whose fresh statement has the peer among those that it sees or counts.
func (v *Prover) whoSees(now boottime.Instant, p int) (member int, sees bool) {
	for m, st := range v.merger.Said(v.in.View.Counted.Union(v.in.View.Seen), now.Add(-v.cfg.MaxAge)) {
		if st.Seen.Has(p) || st.View.Has(p) {
			return m, true
		}
	}
	return 0, false
}

// seenByCounted reports whether a counted member's fresh statement has a peer among the seen: that member may have met
// a later boot. The statements are gathered once in a step, because many nodes may be checked: half of a group may have
// condemned itself.
func (v *Prover) seenByCounted(now boottime.Instant, p int) bool {
	if out := &v.out; !out.gathered {
		out.gathered = true
		for _, st := range v.words(now, v.cfg.MaxAge) {
			out.seen = out.seen.Union(st.Seen)
		}
	}
	return v.out.seen.Has(p)
}

func (v *Prover) spoke(p int) (boot uint64, at boottime.Instant, sentenced bool) {
	if v.slots == nil {
		return 0, 0, false
	}
	return v.slots.Spoke(p)
}

// wroteSlot reports whether a boot that was called dead has written its slot since. A LUN may have no echo blocks,
// and a node that uses another list writes none that this node can read.
func (v *Prover) wroteSlot(now boottime.Instant, p int, d *Death) bool {
	if v.slots == nil {
		return false
	}
	slot := v.slots.PeerPause(now, v.roster.Name(p), d.At)
	return slot.Moved && slot.Record.Statement.Boot == d.Boot
}

// barred returns the peers whose latest boot is condemned, as far as this node knows. They are neither seen nor
// counted, whatever they state (P5).
func (v *Prover) barred() (set roster.Set) {
	for p := range v.peers {
		if w := &v.peers[p]; w.sentenced != 0 && w.sentenced == w.boot && w.hearsay == 0 {
			set.Add(p)
		}
	}
	return set
}

// parted returns the members that have condemned themselves. A member that has not announced it yet is recognised by
// its statement: it is armed and counts nobody, not even itself.
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

// factOf returns the fact of this kind in a statement that is about this boot; nil: there is none.
func factOf(st *netgossip.Statement, kind netgossip.FactKind, name, boot uint64) *netgossip.Fact {
	for i := range st.Facts {
		if f := &st.Facts[i]; f.Kind == kind && f.Name == name && f.Boot == boot {
			return f
		}
	}
	return nil
}

func (v *Prover) others() roster.Set {
	set := v.in.View.Counted
	set.Remove(v.roster.Self)
	return set
}

// silent returns those of the members that have not answered a question asked after since.
func (v *Prover) silent(members roster.Set, since boottime.Instant) (set roster.Set) {
	for m := range members.All() {
		_, anchor := v.merger.Statement(m)
		put(&set, m, m != v.roster.Self && anchor <= since)
	}
	return set
}

// question holds the state of a repeated question to members that have not answered since; each repetition uses another
// network.
type question struct {
	since boottime.Instant
	asked boottime.Instant // the latest time; zero: not yet
	turn  int
}

// askWhether asks for the statements of members, as an inquiry does, but not before the delay after has passed.
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

// askToo asks for statements in addition to those that another question of this step wants.
func (v *Prover) askToo(now boottime.Instant, members roster.Set, turn int) {
	ways := v.merger.Ways(now, members, turn)
	for k := range v.out.Ask {
		ways[k] = ways[k].Union(v.out.Ask[k])
	}
	v.out.Ask = ways
}

// defy withdraws, for good, the death of a boot that lives on.
func (v *Prover) defy(p int, boot uint64) {
	w := &v.peers[p]
	w.defied = boot // this ends a trial of that boot, see objection: its reporter gets an answer
	if w.death.Boot == boot {
		w.death, w.sequence = Death{}, 0
		v.fenced.Remove(p)
	}
}

func (v *Prover) tellerOf(digest uint32) string {
	i := slices.IndexFunc(v.roster.Members, func(m roster.Member) bool { return netgossip.TellerDigest(m.Name) == digest })
	if digest == 0 || i < 0 {
		return ""
	}
	return v.roster.Name(i)
}
