package watchdog

import (
	"slices"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// The argument of prover has a second leg beside the claims: of those who can prove the death
// of x, one knows if x has given up its guard. x counted those who know by the lists that it
// went by. When a list goes out of force, they may all leave with it; what the others last heard
// of the guard of x is then worth nothing until x says it again.
//
// It is carried over for whom nobody can have missed it:
//
//   - If most of each list that goes out of force have taken the next one up and take x for
//     guarded still. x can count none of them by the old list alone any more, and one of them would
//     know of a release that was known to most before.
//   - If a peer that goes by the new list alone takes x for guarded, in the very step in which
//     this node follows it. It has looked already. Later it would not do: x may count as one who knows
//     any agent that has dropped it.
//
// A fresh node did not go by any list before. It has but the word of such a peer.

// lists is what a node went by before a step.
type lists struct {
	chain []*roster.Roster
	fresh bool
}

func listsOf(s *roster.Succession) lists { return lists{slices.Clone(s.Chain()), s.Fresh()} }

// base is the list in force, or nil.
func (l *lists) base() *roster.Roster {
	if l.fresh {
		return nil
	}
	return l.chain[0]
}

// carryOver has the prover doubt the guards that nobody vouches for, if another list is in force now.
func (c *Core) carryOver(now boottime.Instant, before lists) {
	after := listsOf(c.cfg.Succession)
	if after.base() == before.base() {
		return
	}
	keep := roster.Set{}
	for x := range c.proof.guarded.All() {
		if c.vouchedFor(x, before) {
			keep.Add(x)
		}
	}
	c.proof.doubtGuards(now, keep)
}

// vouchedFor reports whether nobody can have missed that a peer has given up its guard.
func (c *Core) vouchedFor(x int, before lists) bool {
	base := c.cfg.Succession.Base()
	var most roster.Set // that hold the new list beside the old ones, and take x for guarded
	most.Add(c.cfg.Roster.Self)
	for m := range c.view.Contact.All() {
		st, _ := c.merger.Statement(m)
		if m == x || !st.Guarded.Has(x) || st.RosterEpoch != c.cfg.Roster.Epoch || st.RosterDigest != c.cfg.Roster.Digest {
			continue
		}
		switch stands := st.Stands(); {
		case goesBy(&stands, base):
			return true
		case !stands.Fresh && before.holdAll(&stands, base):
			most.Add(m)
		}
	}
	if before.fresh {
		return false
	}
	for _, old := range before.chain {
		if old != base && 2*most.And(c.rosters.membersOf(old)).Len() <= old.Size() {
			return false
		}
	}
	return true
}

// holdAll reports whether a peer goes by what this node went by, and by the list that is in force now.
func (l *lists) holdAll(st *roster.Standing, base *roster.Roster) bool {
	took := false
	for _, ref := range st.Chain {
		took = took || ref == base.Ref()
		if !ref.IsZero() && ref != base.Ref() && !slices.ContainsFunc(l.chain, func(r *roster.Roster) bool { return r.Ref() == ref }) {
			return false
		}
	}
	return took && st.Base() == l.chain[0].Ref()
}

// goesBy reports whether a peer goes by a list, and by no other.
func goesBy(st *roster.Standing, r *roster.Roster) bool {
	return !st.Fresh && st.Chain == [roster.MaxChain]roster.Ref{r.Ref()}
}
