package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

const (
	// factsTurn is how long a statement shows the same facts where there are more than it has room for.
	factsTurn = 5 * time.Second
	// sentenceNews is for how long a sentence is handed on. After it nobody waits for it any more: time has proven the death.
	sentenceNews = 2 * time.Minute
	// leastSentence is the shortest timeout that a driver can be set to, so no node tells a shorter one.
	leastSentence = time.Second
)

// facts are what this node hands on: the sentences that it knows, the deaths that it was told of and believes, and those of both
// that were contradicted. They are levels and not events: who was away hears them later.
//
// Invariant: what is handed on is what was told, never a conclusion of this node, and never the rest of a countdown (P4). A sentence
// is handed on by those alone to whom the node itself, or its block on the LUN, has told it.
func (c *Core) facts(now boottime.Instant) (facts [netgossip.MaxFacts]netgossip.Fact) {
	all, urgent := c.told.all[:0], 0
	orders := c.orderFacts(&facts) // two at most, for seconds
	for p := range c.proof.peers {
		if w := &c.proof.peers[p]; w.sentenced != 0 || w.defied != 0 || w.death.Proof.told() {
			if f := c.factOf(now, p, w); f.Kind != 0 {
				all = append(all, f)
				if f.Kind == netgossip.FactContradicted {
					all[urgent], all[len(all)-1] = f, all[urgent]
					urgent++
				}
			}
		}
		if boot := c.unfiredBoot(p); boot != 0 {
			all = append(all, netgossip.Fact{Kind: netgossip.FactUnfired, Name: netgossip.NameDigest(c.cfg.Roster.Name(p)), Boot: boot})
		}
	}
	c.told.all = all
	room := len(facts) - orders
	if urgent < len(all) {
		room-- // contradictions stay until another boot answers: they must not keep everything else out for ever
	}
	rest := facts[orders:]
	shown := c.takeTurns(now, rest[:room], all[:urgent]) // first: somebody may act on a death that is none
	c.takeTurns(now, rest[shown:], all[urgent:])
	return facts
}

// takeTurns fills the room that there is with facts, which take turns if it is too small, and returns for how many there was room.
func (c *Core) takeTurns(now boottime.Instant, room, all []netgossip.Fact) int {
	if len(all) <= len(room) {
		return copy(room, all)
	}
	turn := int64(now)/int64(factsTurn) + int64(c.cfg.Roster.Self)
	from := int(turn % int64(len(all)) * int64(len(room)) % int64(len(all)))
	for i := range room {
		room[i] = all[(from+i)%len(all)]
	}
	c.fx.Wake = min(c.fx.Wake, boottime.Instant((int64(now)/int64(factsTurn)+1)*int64(factsTurn)))
	return len(room)
}

// factOf is what this node hands on about a peer; of kind 0: nothing.
func (c *Core) factOf(now boottime.Instant, p int, w *witness) (f netgossip.Fact) {
	known := c.knownBoot(p)
	f = netgossip.Fact{Name: netgossip.NameDigest(c.cfg.Roster.Name(p)), Boot: known}
	switch d := &w.death; {
	case known == 0 || p == c.cfg.Roster.Self:
		return netgossip.Fact{}
	case w.defied == known && d.Proof != 0 && d.Boot == known && !d.handedOn(): // it has died since, and this node has found that itself
		return netgossip.Fact{}
	case w.defied == known:
		f.Kind = netgossip.FactContradicted
	case d.Proof.told() && d.Boot == known:
		f.Kind = factKind(d.Proof)
		f.Teller = netgossip.TellerDigest(d.Teller)
	case w.sentenced == known && w.boot == known && w.hearsay == 0 && now.Sub(w.over) < sentenceNews:
		f.Kind, f.Timeout = netgossip.FactSentence, w.term
	default:
		return netgossip.Fact{}
	}
	return f
}

func factKind(p Proof) netgossip.FactKind {
	switch p {
	case ProofPower:
		return netgossip.FactPower
	case ProofKdump:
		return netgossip.FactKdump
	default:
		return netgossip.FactOperator
	}
}

func proofOf(k netgossip.FactKind) Proof {
	switch k {
	case netgossip.FactPower:
		return ProofPower
	case netgossip.FactKdump:
		return ProofKdump
	case netgossip.FactOperator:
		return ProofOperator
	default:
		return 0
	}
}

// spreads reports whether the statement begins to hand on a death that this node itself was told. All peers are to hear that at once,
// and once: where facts take turns they come back. What others have told spreads with the answers to ordinary questions: were all
// who know a thing to announce it, a large group would send a million packets.
func (c *Core) spreads(facts *[netgossip.MaxFacts]netgossip.Fact) (news bool) {
	news = c.spreadsOrder(facts)
	own := netgossip.TellerDigest(c.cfg.Roster.Name(c.cfg.Roster.Self))
	for _, f := range facts {
		if proofOf(f.Kind) == 0 || f.Teller != own {
			continue
		}
		if p, member := c.proof.digests[f.Name]; member && c.proof.peers[p].spread != f.Boot {
			c.proof.peers[p].spread, news = f.Boot, true
		}
	}
	return news
}

// takeFacts takes what the members hand on that this node counts. What they said under another list they may say, too: it is by
// name. A node that is condemned, or waits, counts nobody and takes nothing.
func (c *Core) takeFacts(now boottime.Instant) {
	if c.apart() {
		return
	}
	for m := range c.view.Counted.All() {
		if m == c.cfg.Roster.Self {
			continue
		}
		st, anchor := c.merger.Statement(m)
		if st == nil || st.Facts[0].Kind == 0 || now.Sub(anchor) > c.cfg.MaxAge {
			continue
		}
		for i := range st.Facts {
			if f := &st.Facts[i]; f.Kind != 0 {
				c.takeFact(now, m, f)
			}
		}
	}
}

// takeFact judges one by what this node knows itself. It is of a boot that this node knows as the latest one, or it is nothing:
// what was said of an earlier boot may be said again at any time.
func (c *Core) takeFact(now boottime.Instant, m int, f *netgossip.Fact) {
	p, member := c.proof.digests[f.Name]
	if member && f.Kind == netgossip.FactUnfired {
		c.takeUnfired(p, f.Boot)
		return
	}
	if !member || p == c.cfg.Roster.Self || f.Boot == 0 || !c.rosters.expected.Has(p) {
		return
	}
	w := &c.proof.peers[p]
	if f.Boot != c.knownBoot(p) || w.defied == f.Boot {
		return
	}
	switch f.Kind {
	case netgossip.FactContradicted:
		if w.death.Proof == 0 || w.death.Proof.told() || w.death.Proof == ProofSentence {
			c.proof.defy(p, f.Boot)
		} else {
			w.defied = f.Boot // the proofs of this node itself stand
		}
	case netgossip.FactSentence:
		c.hearsay(now, m, p, f)
	case netgossip.FactOrder: // it is for that node alone
	default:
		if !c.cfg.Outside || w.trial.since != 0 || w.death.Proof != 0 && w.death.Boot == f.Boot || now < w.trial.again || c.objection(now, p, w, f.Boot) != nil {
			return
		}
		w.trial = trial{proof: proofOf(f.Kind), boot: f.Boot, teller: c.tellerOf(f.Teller), since: now}
	}
}

// unfiredBoot is the latest boot of a node if its watchdog was seen not to fire, this one's included; else 0.
func (c *Core) unfiredBoot(p int) uint64 {
	switch w := &c.proof.peers[p]; {
	case p == c.cfg.Roster.Self && c.unfired:
		return c.cfg.Boot
	case p == c.cfg.Roster.Self || w.fires():
		return 0
	default:
		return w.boot
	}
}

// takeUnfired takes from a member that the watchdog of a boot was seen not to fire, also of this one, if an agent before this one was
// there. One word is enough: it takes a proof away and makes none. Who lies could as well say that it sees that node.
func (c *Core) takeUnfired(p int, boot uint64) {
	switch {
	case p == c.cfg.Roster.Self && boot == c.cfg.Boot:
		c.GuardFailed()
	case p != c.cfg.Roster.Self && boot != 0 && boot == c.proof.peers[p].boot:
		c.proof.peers[p].unfired = boot
	}
}

// TakenBack reports whether that boot of a member has answered after it was called dead, as this node or a member that it counts
// says at present. This node need not have met it. Nobody's word stands in the way of another's.
func (c *Core) TakenBack(now boottime.Instant, p int, boot uint64) bool {
	if boot == 0 || boot == c.proof.peers[p].defied {
		return boot != 0
	}
	name := netgossip.NameDigest(c.cfg.Roster.Name(p))
	for m := range c.view.Counted.All() {
		st, anchor := c.merger.Statement(m)
		if m == c.cfg.Roster.Self || st == nil || now.Sub(anchor) > c.cfg.MaxAge {
			continue
		}
		for i := range st.Facts {
			if f := &st.Facts[i]; f.Kind == netgossip.FactContradicted && f.Name == name && f.Boot == boot {
				return true
			}
		}
	}
	return false
}

// rumour is a sentence that one member has handed on, until a second one says the same.
type rumour struct {
	boot    uint64
	timeout time.Duration
	by      int
	at      boottime.Instant
}

// hearsay takes a sentence that member m hands on (P4). Its time begins now, by this node's clock. The node has not told it
// itself, so this one goes on seeing and counting it if it answers, and does not believe it of a node that somebody sees. There are no
// sentences without a LUN: who has none believes none.
//
// Invariant: two different members say the same, each from what the node itself has told it. So one that lies has nobody called
// dead. All others read a sentence where they have a LUN; who hears of it from one alone waits for the proof by time.
func (c *Core) hearsay(now boottime.Instant, m, p int, f *netgossip.Fact) {
	w := &c.proof.peers[p]
	if !c.cfg.Hold || f.Boot == w.sentenced || f.Timeout < leastSentence || c.view.Seen.Has(p) || c.view.Counted.Has(p) || c.voices.heard.Has(p) {
		return
	}
	if _, sees := c.whoSees(now, p); sees {
		return
	}
	if r := &w.rumour; r.boot != f.Boot || r.timeout != f.Timeout || r.by == m || now.Sub(r.at) > sentenceNews {
		*r = rumour{f.Boot, f.Timeout, m, now}
		return
	}
	if c.proof.sentence(now, p, f.Boot, f.Timeout); w.sentenced == f.Boot {
		w.hearsay = now
	}
}

// firstHand takes a sentence that the node tells itself, whatever others have said of it before.
func (v *prover) firstHand(now boottime.Instant, p int, boot uint64, timeout time.Duration) {
	if w := &v.peers[p]; w.hearsay > 0 && w.sentenced == boot && timeout > 0 && timeout <= netgossip.MaxSentence {
		w.sentenced, w.hearsay = 0, 0 // it counts from now
	}
	v.sentence(now, p, boot, timeout)
}

// ownWord takes what the latest boot says of itself. If it answers and tells no sentence, then it has none, whatever others have
// handed on.
func (v *prover) ownWord(now boottime.Instant, p int, st *netgossip.Statement) {
	w := &v.peers[p]
	if st.Sentence == 0 && w.hearsay > 0 && w.sentenced == st.Boot && w.lived > w.hearsay {
		w.sentenced, w.hearsay = 0, 0
		v.defy(p, st.Boot)
		return
	}
	v.firstHand(now, p, st.Boot, st.Sentence)
}
