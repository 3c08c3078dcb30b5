package watchdog

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// Word is a death that was proven elsewhere, as somebody on this node tells it.
type Word struct {
	Node  string
	Boot  uint64
	Proof Proof // ProofPower, ProofKdump or ProofOperator
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
func (r Refusal) String() string {
	if r == 0 || int(r) >= len(refusalNames) {
		return "none"
	}
	return refusalNames[r]
}

// Refusals lists all of them, for metrics that must exist from the start.
func Refusals() []Refusal {
	out := make([]Refusal, 0, len(refusalNames)-1)
	for r := range refusalNames {
		if r > 0 {
			out = append(out, Refusal(r))
		}
	}
	return out
}

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
		return "only the proofs power, kdump and operator can be confirmed externally; the agents find all others themselves"
	case RefusedOff:
		return "api.confirmDead is false here: this agent accepts no external confirmation of a death"
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
		return fmt.Sprintf("boot %016x of %s has answered after it was called dead: no such confirmation is accepted before another boot of the node answers", e.Boot, e.Node)
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
	proof  Proof
	boot   uint64
	teller string
	since  boottime.Instant // when the word came; zero: there is none
	asked  boottime.Instant // of the members that have not answered
	turn   int
	ids    []uint64         // of Core.Tell; none: others have handed it on
	again  boottime.Instant // one that others hand on is not tried before
}

const (
	trialLimit = 15 * time.Second // after that a member that has not answered will not, nor a LUN that is not read
	trialAsk   = 2500 * time.Millisecond
	trialPause = 30 * time.Second
)

// told is what is told from outside, and handed on.
type told struct {
	words []asked
	all   []netgossip.Fact // scratch
}

type asked struct {
	id   uint64
	word Word
}

// Tell takes a death that was proven elsewhere, from somebody who may tell it. The answer is in the Effects of this step or of
// one of those to come.
func (c *Core) Tell(id uint64, w Word) { c.told.words = append(c.told.words, asked{id, w}) }

// followTold takes what was told from outside and handed on by peers, and finds what may be believed.
func (c *Core) followTold(now boottime.Instant) {
	c.fx.Told = nil
	for i := range c.told.words {
		c.hear(now, &c.told.words[i])
	}
	c.told.words = c.told.words[:0]
	c.takeFacts(now)
	for p := range c.proof.peers {
		w := &c.proof.peers[p]
		if w.trial.since != 0 {
			c.try(now, p, w)
		}
		if w.death.Proof.told() {
			c.showTold(now, p, w)
		}
	}
}

// hear opens the trial of a word that was told on this node, or answers at once.
func (c *Core) hear(now boottime.Instant, a *asked) {
	p, member := c.cfg.Roster.Index(a.word.Node)
	switch {
	case !a.word.Proof.told():
		c.answer(a.id, Death{}, &Refused{Why: RefusedKind, Node: a.word.Node})
		return
	case !c.cfg.Outside:
		c.answer(a.id, Death{}, &Refused{Why: RefusedOff, Node: a.word.Node})
		return
	case !member || !c.rosters.expected.Has(p):
		c.answer(a.id, Death{}, &Refused{Why: RefusedMember, Node: a.word.Node})
		return
	}
	w := &c.proof.peers[p]
	if a.word.Contradicted {
		c.takeBack(p, w, a.word.Boot)
		c.answer(a.id, Death{}, &Refused{Why: RefusedContradicted, Node: a.word.Node, Boot: a.word.Boot})
		return
	}
	if w.death.Proof != 0 && w.death.Boot == a.word.Boot && a.word.Boot != 0 && c.proof.fenced.Has(p) {
		c.answer(a.id, w.death, nil) // it is known already
		return
	}
	if err := c.objection(now, p, w, a.word.Boot); err != nil {
		c.answer(a.id, Death{}, err)
		return
	}
	if w.trial.since != 0 && w.trial.boot != a.word.Boot {
		c.try(now, p, w) // it ends: the latest boot is another one by now
	}
	if len(w.trial.ids) == 0 {
		w.trial = trial{proof: a.word.Proof, boot: a.word.Boot, teller: c.cfg.Roster.Name(c.cfg.Roster.Self), since: now}
	}
	w.trial.ids = append(w.trial.ids, a.id)
}

// takeBack gives up what was told of a boot by its devices, since who has told it has heard that boot.
//
// Invariant: what agents have found themselves stands, and what a person says: nobody's word makes a dead node run. Who pulls the
// plug after the devices were wrong is not contradicted by what they said before, which is said again to each agent that starts.
func (c *Core) takeBack(p int, w *witness, boot uint64) {
	if w.death.Proof != 0 && w.death.Boot == boot {
		if w.death.Proof.ofDevices() {
			c.proof.defy(p, boot)
		}
		return
	}
	if t := &w.trial; t.since != 0 && t.boot == boot && t.proof.ofDevices() {
		c.proof.defy(p, boot)
	}
}

// ofDevices reports whether a proof is one that devices or a crash kernel give.
func (p Proof) ofDevices() bool { return p == ProofPower || p == ProofKdump }

// retell has words be heard again whose trial ends because the node is renumbered away: they are refused then.
func (c *Core) retell(n roster.Renumbering) {
	for p, k := range n {
		if t := &c.proof.peers[p].trial; k < 0 {
			for _, id := range t.ids {
				c.Tell(id, Word{Node: c.cfg.Roster.Name(p), Boot: t.boot, Proof: t.proof})
			}
		}
	}
}

func (c *Core) answer(id uint64, d Death, err *Refused) {
	c.fx.Told = append(c.fx.Told, Answer{id, d, err})
}

// knownBoot is the latest boot of a peer that this node knows of: by its statements or, for a node that was never met, by its
// slot on the LUN.
func (c *Core) knownBoot(p int) uint64 {
	if w := &c.proof.peers[p]; w.boot != 0 {
		return w.boot
	}
	if c.lun.arbiter != nil {
		if rec, ok := c.lun.arbiter.PeerSlot(c.cfg.Roster.Name(p)); ok {
			return rec.Statement.Boot
		}
	}
	return 0
}

// KnownBoot is the latest boot of a member that this node knows of; 0: none.
func (c *Core) KnownBoot(p int) uint64 {
	if p == c.cfg.Roster.Self {
		return c.cfg.Boot
	}
	return c.knownBoot(p)
}

// objection is what this node knows at this moment against a word.
func (c *Core) objection(now boottime.Instant, p int, w *witness, boot uint64) *Refused {
	known := c.knownBoot(p)
	no := func(why Refusal, other string) *Refused {
		return &Refused{Why: why, Node: c.cfg.Roster.Name(p), Boot: known, Other: other}
	}
	switch {
	case p == c.cfg.Roster.Self:
		return no(RefusedSelf, "")
	case !c.soleSide(now): // nor has one that is condemned, or waits
		return no(RefusedNoQuorum, "")
	case known == 0:
		return no(RefusedUnknownBoot, "")
	case boot != known || w.unmet():
		return no(RefusedOtherBoot, "")
	case w.twins || w.returned > 0:
		return no(RefusedTwins, "")
	case w.defied == boot:
		return no(RefusedContradicted, "")
	case c.view.Seen.Has(p) || c.view.Counted.Has(p) || c.voices.heard.Has(p):
		return no(RefusedSeen, "")
	case c.pub.held.Has(p):
		return no(RefusedRestarts, "")
	}
	if later := c.wroteAsAnother(now, p, w, boot); later != 0 {
		return &Refused{Why: RefusedOtherBoot, Node: c.cfg.Roster.Name(p), Boot: later}
	}
	if m, sees := c.whoSees(now, p); sees {
		return no(RefusedSeenByOthers, c.cfg.Roster.Name(m))
	}
	if heard := c.merger.Sighted(p); heard > 0 && now.Sub(heard) <= c.cfg.MaxAge {
		return no(RefusedHeard, "")
	}
	return nil
}

// soleSide reports whether nobody else can live: this node counts a majority, or is in the half that a grant names.
//
// Invariant: in an equal split that is not decided yet, or that is left to who reaches the API server, both halves may live.
// Neither believes that the other one is dead; it would be told so by who sees one half alone.
func (c *Core) soleSide(now boottime.Instant) bool {
	if d := &c.fx.Decision; !d.Quorum || d.Action == Hold || c.apart() {
		return false
	}
	return c.outcome == netgossip.Majority || c.granted && c.split.Split == tie.Won && c.split.Until > now
}

// wroteAsAnother is another boot that has written the node's slot since the one that was met answered last; 0: none has.
func (c *Core) wroteAsAnother(now boottime.Instant, p int, w *witness, boot uint64) uint64 {
	if c.lun.arbiter == nil || w.boot == 0 {
		return 0
	}
	slot := c.lun.arbiter.PeerPause(now, c.cfg.Roster.Name(p), w.lived)
	if slot.Moved && slot.Record.State == diskquorum.SlotActive && slot.Record.Statement.Boot != boot {
		return slot.Record.Statement.Boot
	}
	return 0
}

// whoSees is a member whose fresh statement has a peer among those that it sees or counts.
func (c *Core) whoSees(now boottime.Instant, p int) (member int, sees bool) {
	for m := range c.view.Counted.Union(c.view.Seen).All() {
		if m == c.cfg.Roster.Self {
			continue
		}
		if st, anchor := c.merger.Statement(m); st != nil && now.Sub(anchor) <= c.cfg.MaxAge && (st.Seen.Has(p) || st.View.Has(p)) {
			return m, true
		}
	}
	return 0, false
}

// signs are what this node has of that boot from after an instant.
func (c *Core) signs(now boottime.Instant, p int, w *witness, boot uint64, since boottime.Instant) Refusal {
	if w.boot == boot && w.lived > since || c.merger.Sighted(p) > since {
		return RefusedHeard
	}
	if spoke, at, _ := c.spoke(p); spoke == boot && at > since {
		return RefusedWrites
	}
	if a := c.lun.arbiter; a != nil && a.PeerPause(now, c.cfg.Roster.Name(p), since).Moved {
		return RefusedWrites
	}
	return 0
}

// try goes on with a trial.
func (c *Core) try(now boottime.Instant, p int, w *witness) {
	t := &w.trial
	if w.death.Proof != 0 && w.death.Boot == t.boot && c.proof.fenced.Has(p) {
		c.end(now, w, w.death, nil)
		return
	}
	if !c.rosters.expected.Has(p) {
		c.end(now, w, Death{}, &Refused{Why: RefusedMember, Node: c.cfg.Roster.Name(p)})
		return
	}
	err := c.objection(now, p, w, t.boot)
	if err == nil {
		if why := c.signs(now, p, w, t.boot, t.since); why != 0 {
			err = &Refused{Why: why, Node: c.cfg.Roster.Name(p), Boot: t.boot}
		}
	}
	if err != nil {
		c.end(now, w, Death{}, err)
		return
	}
	silent := c.unanswered(t.since)
	over := now.Sub(t.since) >= trialLimit
	verdict, why := c.askSlot(now, p, t)
	switch {
	case !silent.IsEmpty() && over:
		for m := range silent.All() {
			c.end(now, w, Death{}, &Refused{Why: RefusedUnanswered, Node: c.cfg.Roster.Name(p), Boot: t.boot, Other: c.cfg.Roster.Name(m)})
			return
		}
	case !silent.IsEmpty():
		c.askWhether(now, t, inquiryDelay, silent)
	case verdict == slotRefuses && over:
		c.end(now, w, Death{}, &why)
		return
	case verdict == slotAgrees || verdict == slotSilent && over:
		w.death = Death{Proof: t.proof, Boot: t.boot, At: now, Teller: t.teller}
		c.proof.fenced.Add(p)
		c.end(now, w, w.death, nil)
		return
	}
	if !over {
		c.fx.Wake = min(c.fx.Wake, t.since.Add(trialLimit))
	}
}

// end closes a trial.
func (c *Core) end(now boottime.Instant, w *witness, d Death, err *Refused) {
	for _, id := range w.trial.ids {
		c.answer(id, d, err)
	}
	w.trial = trial{again: now.Add(trialPause)}
}

// unanswered are the counted members whose latest statement answers a question from before an instant.
func (c *Core) unanswered(since boottime.Instant) (set roster.Set) {
	for m := range c.view.Counted.All() {
		_, anchor := c.merger.Statement(m)
		put(&set, m, m != c.cfg.Roster.Self && anchor <= since)
	}
	return set
}

// askWhether asks for the statements of members, as an inquiry does, for the first time after so long.
func (c *Core) askWhether(now boottime.Instant, t *trial, after time.Duration, members roster.Set) {
	next := t.since.Add(after)
	if t.asked != 0 {
		next = t.asked.Add(trialAsk)
	}
	if now < next {
		c.fx.Wake = min(c.fx.Wake, next)
		return
	}
	c.askToo(now, members, t.turn)
	t.asked = now
	t.turn++
	c.fx.Wake = min(c.fx.Wake, now.Add(trialAsk))
}

// askToo asks for statements beside those that another question of this step wants.
func (c *Core) askToo(now boottime.Instant, members roster.Set, turn int) {
	ways := c.merger.Ways(now, members, turn)
	for k := range c.fx.Ask {
		ways[k] = ways[k].Union(c.fx.Ask[k])
	}
	c.fx.Ask = ways
}

// showTold keeps a death that was told among the fenced, unless something speaks against it now.
//
// Invariant: a boot that was told dead and lives on is an alarm; its death is withdrawn, and until another boot answers nothing
// is believed that is told of that node (P9).
func (c *Core) showTold(now boottime.Instant, p int, w *witness) {
	d := &w.death
	if known := c.knownBoot(p); d.Boot != known {
		c.proof.fenced.Remove(p) // it is back
		return
	}
	spoke, at, _ := c.spoke(p)
	if w.boot == d.Boot && w.lived > d.At || c.merger.Sighted(p) > d.At || spoke == d.Boot && at > d.At || c.wroteSlot(now, p, d) {
		c.proof.defy(p, d.Boot)
		return
	}
	put(&c.proof.fenced, p, !w.twins && !w.unmet() && !c.view.Seen.Has(p) && !c.voices.heard.Has(p) && !c.seenByCounted(now, p))
}

// defy takes the death of a boot back that lives on, for good.
func (v *prover) defy(p int, boot uint64) {
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
func (c *Core) tellerOf(digest uint32) string {
	i := slices.IndexFunc(c.cfg.Roster.Members, func(m roster.Member) bool { return netgossip.TellerDigest(m.Name) == digest })
	if digest == 0 || i < 0 {
		return ""
	}
	return c.cfg.Roster.Name(i)
}
