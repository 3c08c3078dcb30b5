package watchdog

import (
	"slices"
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
//
// Where they take turns, the next ones are shown from again on.
func (v *Prover) facts(now boottime.Instant) (facts [netgossip.MaxFacts]netgossip.Fact, again boottime.Instant) {
	again = boottime.Never
	all, urgent := v.told.all[:0], 0
	orders := v.orderFacts(&facts) // two at most, for seconds
	for p := range v.peers {
		if w := &v.peers[p]; w.sentenced != 0 || w.defied != 0 || w.death.Proof.told() {
			if f := v.factOf(now, p, w); f.Kind != 0 {
				all = append(all, f)
				if f.Kind == netgossip.FactContradicted {
					all[urgent], all[len(all)-1] = f, all[urgent]
					urgent++
				}
			}
		}
		if boot := v.unfiredBoot(p); boot != 0 {
			all = append(all, netgossip.Fact{Kind: netgossip.FactUnfired, Name: netgossip.NameDigest(v.roster.Name(p)), Boot: boot})
		}
	}
	v.told.all = all
	room := len(facts) - orders
	if urgent < len(all) {
		room-- // contradictions stay until another boot answers: they must not keep everything else out for ever
	}
	rest := facts[orders:]
	shown := v.takeTurns(now, rest[:room], all[:urgent]) // first: somebody may act on a death that is none
	if others := v.takeTurns(now, rest[shown:], all[urgent:]); shown < urgent || others < len(all)-urgent {
		again = boottime.Instant((int64(now)/int64(factsTurn) + 1) * int64(factsTurn))
	}
	return facts, again
}

// takeTurns fills the room that there is with facts, which take turns if it is too small, and returns for how many there was room.
func (v *Prover) takeTurns(now boottime.Instant, room, all []netgossip.Fact) int {
	if len(all) <= len(room) {
		return copy(room, all)
	}
	turn := int64(now)/int64(factsTurn) + int64(v.roster.Self)
	from := int(turn % int64(len(all)) * int64(len(room)) % int64(len(all)))
	for i := range room {
		room[i] = all[(from+i)%len(all)]
	}
	return len(room)
}

// factOf is what this node hands on about a peer; of kind 0: nothing.
func (v *Prover) factOf(now boottime.Instant, p int, w *witness) (f netgossip.Fact) {
	known := v.knownBoot(p)
	f = netgossip.Fact{Name: netgossip.NameDigest(v.roster.Name(p)), Boot: known}
	switch d := &w.death; {
	case known == 0 || p == v.roster.Self:
		return netgossip.Fact{}
	case w.defied == known && d.Proof != 0 && d.Boot == known && !d.handedOn(): // it has died since, and this node has found that itself
		return netgossip.Fact{}
	case w.defied == known:
		f.Kind = netgossip.FactContradicted
	case d.Proof.told() && d.Boot == known:
		f.Kind = netgossip.FactKind(slices.Index(outside[:], d.Proof)) //nolint:gosec // it is in there
		f.Teller = netgossip.TellerDigest(d.Teller)
	case w.sentenced == known && w.boot == known && w.hearsay == 0 && now.Sub(w.over) < sentenceNews:
		f.Kind, f.Timeout = netgossip.FactSentence, w.term
	default:
		return netgossip.Fact{}
	}
	return f
}

// outside are the proofs that are told from outside, by the kind of their facts.
var outside = [...]Proof{netgossip.FactPower: ProofPower, netgossip.FactKdump: ProofKdump, netgossip.FactOperator: ProofOperator}

func proofOf(k netgossip.FactKind) Proof {
	if int(k) >= len(outside) {
		return 0
	}
	return outside[k]
}

// spreads reports whether the statement begins to hand on a death that this node itself was told. All peers are to hear that at once,
// and once: where facts take turns they come back. What others have told spreads with the answers to ordinary questions: were all
// who know a thing to announce it, a large group would send a million packets.
func (v *Prover) spreads(facts *[netgossip.MaxFacts]netgossip.Fact) (news bool) {
	news = v.spreadsOrder(facts)
	own := netgossip.TellerDigest(v.roster.Name(v.roster.Self))
	for _, f := range facts {
		if proofOf(f.Kind) == 0 || f.Teller != own {
			continue
		}
		if p, member := v.digests[f.Name]; member && v.peers[p].spread != f.Boot {
			v.peers[p].spread, news = f.Boot, true
		}
	}
	return news
}

// takeFacts takes what the members hand on that this node counts. What they said under another list they may say, too: it is by
// name. A node that is condemned, or waits, counts nobody and takes nothing.
func (v *Prover) takeFacts(now boottime.Instant) {
	if v.in.Apart {
		return
	}
	for m := range v.in.View.Counted.All() {
		if m == v.roster.Self {
			continue
		}
		st, anchor := v.merger.Statement(m)
		if st == nil || st.Facts[0].Kind == 0 || now.Sub(anchor) > v.cfg.MaxAge {
			continue
		}
		for i := range st.Facts {
			if f := &st.Facts[i]; f.Kind != 0 {
				v.takeFact(now, m, f)
			}
		}
	}
}

// takeFact judges one by what this node knows itself. It is of a boot that this node knows as the latest one, or it is nothing:
// what was said of an earlier boot may be said again at any time.
func (v *Prover) takeFact(now boottime.Instant, m int, f *netgossip.Fact) {
	p, member := v.digests[f.Name]
	if member && f.Kind == netgossip.FactUnfired {
		v.takeUnfired(p, f.Boot)
		return
	}
	if !member || p == v.roster.Self || f.Boot == 0 || !v.lists.expected.Has(p) {
		return
	}
	w := &v.peers[p]
	if f.Boot != v.knownBoot(p) || w.defied == f.Boot {
		return
	}
	switch f.Kind {
	case netgossip.FactContradicted:
		if w.death.Proof == 0 || w.death.Proof.told() || w.death.Proof == ProofSentence {
			v.defy(p, f.Boot)
		} else {
			w.defied = f.Boot // the proofs of this node itself stand
		}
	case netgossip.FactSentence:
		v.hearsay(now, m, p, f)
	case netgossip.FactOrder: // it is for that node alone
	default:
		if !v.cfg.Outside || w.trial.since != 0 || w.death.Proof != 0 && w.death.Boot == f.Boot || now < w.trial.again || v.objection(now, p, w, f.Boot) != nil {
			return
		}
		w.trial = trial{Death: Death{Proof: proofOf(f.Kind), Boot: f.Boot, Teller: v.tellerOf(f.Teller)}, question: question{since: now}}
	}
}

// unfiredBoot is the latest boot of a node if its watchdog was seen not to fire, this one's included; else 0.
func (v *Prover) unfiredBoot(p int) uint64 {
	switch w := &v.peers[p]; {
	case p == v.roster.Self && v.in.Unfired:
		return v.cfg.Boot
	case p == v.roster.Self || w.fires():
		return 0
	default:
		return w.boot
	}
}

// takeUnfired takes from a member that the watchdog of a boot was seen not to fire, also of this one, if an agent before this one was
// there. One word is enough: it takes a proof away and makes none. Who lies could as well say that it sees that node.
func (v *Prover) takeUnfired(p int, boot uint64) {
	switch {
	case p == v.roster.Self && boot == v.cfg.Boot:
		v.out.Unfired = true
	case p != v.roster.Self && boot != 0 && boot == v.peers[p].boot:
		v.peers[p].unfired = boot
	}
}

// TakenBack reports whether that boot of a member has answered after it was called dead, as this node or a member that it counts
// says at present. This node need not have met it. Nobody's word stands in the way of another's.
func (v *Prover) TakenBack(now boottime.Instant, p int, boot uint64) bool {
	if boot == 0 || boot == v.peers[p].defied {
		return boot != 0
	}
	name := netgossip.NameDigest(v.roster.Name(p))
	for m := range v.in.View.Counted.All() {
		st, anchor := v.merger.Statement(m)
		if m == v.roster.Self || st == nil || now.Sub(anchor) > v.cfg.MaxAge {
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
