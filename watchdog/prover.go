package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// proverInput is what the verdict knows at this moment, and deaths are judged by.
type proverInput struct {
	View       netgossip.View
	Heard      roster.Set // members that this node sees by the LUN
	Restarting roster.Set // nothing is heard of them, and they said that they restart

	Apart     bool // this node counts nobody: it is condemned, or does not know yet whether it is
	Condemned bool
	Unfired   bool // its own watchdog was seen not to fire
	Gap       bool // it did not live, or nobody can tell: its claims begin again
	Sole      bool // nobody but its side can live, see soleSide
	Leads     bool // it counts a majority, not half of an equal split
	Majority  bool // it lives by a majority that is counted,
	Granted   bool // or by a grant by which the others die
	Won       bool // a grant names it,
	Until     boottime.Instant
	BySlots   bool       // and is on the LUN
	Unfit     Forbidding // why it would not obey an order, by what it knows of itself
}

// proverOutput is what comes of a step, until the next one.
type proverOutput struct {
	Wake    boottime.Instant
	Ask     []roster.Set // see Effects
	Answers []Answer
	Obeyed  []Obeyed
	Unfired bool // a member says that this node's watchdog did not fire
}

// Prover concludes who is dead. The argument, with N members, for a victim x:
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
// guard.go), and a node that does not fence itself is never proven dead by time.
type Prover struct {
	cfg    *Config // of the core
	lists  *Rosters
	roster *roster.Roster
	merger *netgossip.Merger
	slots  *diskquorum.Arbiter // nil until the LUN was opened
	in     proverInput
	out    proverOutput

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
	told    told
	orders  orders

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
	seers     question             // to those who still see it
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

func newProver(cfg *Config, lists *Rosters, m *netgossip.Merger) Prover {
	n := cfg.Roster.Size()
	return Prover{cfg: cfg, lists: lists, roster: cfg.Roster, merger: m, chance: chanceDelay(n), peers: make([]witness, n), digests: digestsOf(cfg.Roster)}
}

// step finds who is dead, by what this node lives by now.
func (v *Prover) step(now boottime.Instant, in *proverInput) *proverOutput {
	v.in, v.out = *in, proverOutput{Wake: boottime.Never}
	if in.Gap {
		v.gap(now)
	}
	v.conclude(now)
	v.followSentences(now)
	v.followTold(now)
	return &v.out
}

// renumber keeps what is known of those who are still listed.
func (v *Prover) renumber(n roster.Renumbering, to *roster.Roster) {
	v.retell(n)
	peers := make([]witness, to.Size())
	for i, k := range n {
		if k >= 0 {
			peers[k] = v.peers[i]
			peers[k].rumour = rumour{} // of two members of one list
		}
	}
	v.roster, v.peers = to, peers
	v.digests = digestsOf(to)
	v.chance, v.inquiry = chanceDelay(to.Size()), inquiry{}
	v.guarded, v.carried, v.lost, v.fenced = n.Set(v.guarded), n.Set(v.carried), n.Set(v.lost), n.Set(v.fenced)
	v.in.View.Seen, v.in.View.Counted = n.Set(v.in.View.Seen), n.Set(v.in.View.Counted)
}

// Fenced are the nodes whose last known incarnation cannot run any more and that were not
// met since.
func (v *Prover) Fenced() roster.Set { return v.fenced }

// Strangers lists the peers in whose name two machines run, as noticed in the latest step: one that
// was not met before answers or has the slot, or the slot of a boot is written after another
// boot has answered. See also Core.Twins.
func (v *Prover) Strangers() roster.Set { return v.strangers }

// Of is the latest known death of a node; Proof is zero if none is known.
func (v *Prover) Of(p int) Death { return v.peers[p].death }

// ProvenIn tells how long until this node's own claim of an unseen peer's death; ok is
// false if time proves nothing: the peer is seen, was never met, was not guarded, or this node knows its death already.
func (v *Prover) ProvenIn(now boottime.Instant, p int) (d time.Duration, ok bool) {
	w := &v.peers[p]
	if w.unseen == 0 || v.in.View.Seen.Has(p) || !v.guarded.Has(p) || v.fenced.Has(p) && !w.death.handedOn() {
		return 0, false
	}
	return max(0, w.statement.Guard.Horizon+ProofDelay-v.missed(now, w)), true
}
