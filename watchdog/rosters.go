package watchdog

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// RosterEffects is what a step wants done about the list of members.
type RosterEffects struct {
	roster.Moves // answer with what the Succession has for each
	// Directory is the roster to use from now on: give it to Core.Renumber when the other effects are done, and to
	// everything that uses indices. Nil: the present one stays.
	Directory *roster.Roster
}

// Rosters is the part of the core that follows changes of the list of members.
//
// Invariant: the decision needs a majority of every roster of the chain (see [roster.Succession]); while there are
// several, an equal split of one of them counts as a minority: two tie-breaks by different lists could both be won.
type Rosters struct {
	cfg     *Config // of the core
	merger  *netgossip.Merger
	quorum  int
	stepped boottime.Instant

	standing   roster.Standing // to be announced; zero: the directory is in force
	peers      roster.Peers
	members    map[*roster.Roster]roster.Set
	electorate []netgossip.Electorate
	expected   roster.Set // members of any roster of the chain
	version    uint64     // of the succession: the one for which the rest was made
	went       lists      // the lists of that version: a fresh node takes a chain over between two steps
	changed    boottime.Instant
	stale      bool             // the directory is not that of this version yet
	wake       boottime.Instant // look again by then
}

// alone is the Succession of a group whose list does not change.
func alone(list *roster.Roster, quorum int) *roster.Succession {
	s, err := roster.NewSuccession(&roster.Saved{Chain: []*roster.Roster{list}}, nil, func(r *roster.Roster) int { return r.Quorum(quorum) })
	if err != nil {
		panic(err) // only a chain can be refused
	}
	return s
}

// base is the roster in force.
func (r *Rosters) base() *roster.Roster { return r.cfg.Succession.Base() }

// Succession is how the list of members changes.
func (r *Rosters) Succession() *roster.Succession { return r.cfg.Succession }

// Sight takes a list, of epoch 0, that a source without numbers shows; reading it began at
// readAt (see roster.Succession.Sight).
func (r *Rosters) Sight(list *roster.Roster, readAt boottime.Instant) {
	r.cfg.Succession.Sight(list, readAt > r.changed)
}

// recount follows a changed chain, or a changed directory.
func (r *Rosters) recount() {
	r.members = map[*roster.Roster]roster.Set{}
	r.electorate, r.expected = nil, roster.Set{}
	for _, h := range r.cfg.Succession.Chain() {
		e := netgossip.Electorate{Members: r.membersOf(h), Quorum: h.Quorum(r.cfg.Quorum)}
		r.electorate = append(r.electorate, e)
		r.expected = r.expected.Union(e.Members)
	}
	r.quorum = r.electorate[0].Quorum
	r.merger.Recount(r.electorate)
}

func (r *Rosters) membersOf(h *roster.Roster) roster.Set {
	set, ok := r.members[h]
	if !ok {
		set = h.SetOf(r.cfg.Roster)
		r.members[h] = set
	}
	return set
}

// waits reports whether no change of the list may begin now. In an equal split none may: it would cost this half the
// grant by which it lives, and could not succeed, since a change needs a majority. But if a peer is in contact and not
// counted, the split may be due to a peer that has gone ahead with a change.
func (r *Rosters) waits(view *netgossip.View) bool {
	return r.tally(view.Counted) == netgossip.EqualSplit && view.Contact.Minus(view.Counted).IsEmpty()
}

// advance continues a change of the list of members, according to the peers in contact; changed: this node uses other
// lists than before.
func (r *Rosters) advance(now boottime.Instant, contact roster.Set) (moves roster.Moves, before lists, changed bool) {
	s := r.cfg.Succession
	r.peers.Contact = contact
	if r.peers.Stands == nil {
		r.peers.Self = r.cfg.Roster.Self
		r.peers.Members = r.membersOf
		r.peers.Stands = func(i int) roster.Standing {
			st, _ := r.merger.Statement(i)
			return st.Stands()
		}
	}
	if r.went.chain == nil {
		r.went = listsOf(s)
	}
	before, moves = r.went, s.Advance(&r.peers)
	if s.Version() == r.version {
		return moves, before, false
	}
	r.version, r.changed, r.stale = s.Version(), now, true
	r.recount()
	r.went = listsOf(s)
	return moves, before, true
}

// stand renews what is announced. No step may leave it out, and a changed directory needs it again: without it the
// statement would say that the directory is in force, and the directory may be a list that this node merely knows. A
// node that started in a tie would put that list into force for all that hear the statement.
func (r *Rosters) stand() {
	if r.standing = r.cfg.Succession.Standing(); r.standing == (roster.Standing{Chain: [roster.MaxChain]roster.Ref{r.cfg.Roster.Ref()}}) {
		r.standing = roster.Standing{}
	}
}

// farewells is for how many times D_max, at least, this node still talks to a removed node.
const farewells = 3

// directory returns the roster to use, if it has to change. A node that has to be added is added at once. A node that
// was removed stays until it knows of its removal: it would otherwise be reset as one that lost its quorum, instead of
// disarming.
func (r *Rosters) directory(now boottime.Instant, contact roster.Set) *roster.Roster {
	s, present := r.cfg.Succession, r.cfg.Roster
	d, err := s.Directory(present, present.Members[present.Self])
	if err != nil || d.Ref() == present.Ref() {
		r.stale = err != nil // impossible: its parts were checked when they were learnt
		return nil
	}
	if !present.Covers(d) {
		return d
	}
	for i := range contact.Minus(d.SetOf(present)).All() {
		if st := r.peers.Stands(i); st.Base() != s.Base().Ref() {
			return nil
		}
	}
	if at := r.changed.Add(farewells * r.cfg.MaxAge); now < at {
		r.wake = at
		return nil
	}
	return d
}

// tally compares the counted set with the rosters that this node uses.
func (r *Rosters) tally(counted roster.Set) netgossip.Outcome {
	if !r.cfg.Succession.Claims() {
		return netgossip.Minority
	}
	chain := r.cfg.Succession.Chain()
	for i, e := range r.electorate {
		o := netgossip.TallyOf(counted.And(e.Members), chain[i].Size(), e.Quorum)
		if o == netgossip.Majority {
			continue
		}
		if len(chain) > 1 {
			return netgossip.Minority
		}
		return o
	}
	return netgossip.Majority
}

// settled reports whether one list of members is in force and no other is taken up.
func (r *Rosters) settled() bool {
	return len(r.cfg.Succession.Chain()) == 1 && !r.cfg.Succession.Fresh()
}

// Moving reports whether a list is being changed, or was a moment ago. Then the lists of each peer must be known, from
// a statement no older than D_max. Otherwise two parts could have quorum by different lists for longer than D_max.
func (r *Rosters) Moving() bool {
	return !r.cfg.Succession.Settled() || r.changed > 0 && r.stepped < r.changed.Add(farewells*r.cfg.MaxAge)
}

// removed reports whether the list in force does not name this node. Nobody relies on the watchdog of such a node any
// more: a node that could prove its death would need a majority of an older list, and most members of that list have
// gone over to the present one.
func (r *Rosters) removed() bool { return r.cfg.Succession.Removed() }

// mostOfEach reports whether a set has more than half of each list that this node uses.
func (r *Rosters) mostOfEach(set roster.Set) bool {
	for _, e := range r.electorate {
		if 2*set.And(e.Members).Len() <= e.Members.Len() {
			return false
		}
	}
	return true
}

// Expected are the members of any list that this node uses.
func (r *Rosters) Expected() roster.Set { return r.expected }

// WaitingFor lists the nodes that a change of the list of members waits for.
func (r *Rosters) WaitingFor() roster.Set {
	if r.peers.Stands == nil {
		return roster.Set{}
	}
	return r.cfg.Succession.Waiting(&r.peers)
}

func put(s *roster.Set, i int, in bool) {
	if in {
		s.Add(i)
	} else {
		s.Remove(i)
	}
}

func renumbered(n roster.Renumbering, old []boottime.Instant, size int) []boottime.Instant {
	made := make([]boottime.Instant, size)
	for i, k := range n {
		if k >= 0 {
			made[k] = old[i]
		}
	}
	return made
}

// oneList reports whether this node uses the list whose indices its sets use, and no other. Others only believe such a
// node, and only such a node holds or condemns itself. If one list is changed into another, their majorities share a
// member; for any two lists that need not be so.
//
// A list that is only known, or stored, does not count as used: no node counts by it. What a node says while it only
// knows such a list is as true as what it said the moment before it heard of it; nobody can tell the two apart.
func (r *Rosters) oneList() bool {
	s := r.cfg.Succession
	return r.settled() && s.Claims() && s.Base().Ref() == r.cfg.Roster.Ref()
}

// noOther reports whether, in addition, no other list is even known: a node that counts by the LUN as by a network
// requires that of itself and of others (N6).
func (r *Rosters) noOther() bool { return r.oneList() && r.standing == (roster.Standing{}) }

// Size is N, the number of expected nodes.
func (r *Rosters) Size() int { return r.base().Size() }

// Quorum is the number of counted members that are needed.
func (r *Rosters) Quorum() int { return r.quorum }

// window is how long a member may be counted for what it said.
func (r *Rosters) window() time.Duration {
	if r.cfg.Window != nil {
		return r.cfg.Window(r.base().Size())
	}
	return r.cfg.MaxAge + r.cfg.Budget.Sampling
}

// The argument of Prover has a second part besides the claims: if x has given up its guard, one of the nodes that can
// prove the death of x knows it. x counted the nodes that know by the lists that it used. When a list goes out of
// force, the nodes that know may all leave with it; what the others last heard of the guard of x is then worth nothing
// until x states its guard again.
//
// A guard is carried over if no node can have missed that it was given up. That is so in two cases:
//
//   - Most members of each list that goes out of force have taken up the next one and still take x for guarded. x can
//     count none of them by the old list alone any more, and one of them would know of a release that was known to most
//     before.
//   - A peer that uses the new list alone takes x for guarded, in the very step in which this node follows it. That
//     peer has looked already. Later its word would not be enough: x may count, among those that know, any agent that
//     no longer takes x for guarded.
//
// A fresh node did not use any list before. It only knows what such a peer says.

// lists are the lists that a node used before a step.
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

// carryOver are the guarded members for which a peer vouches when the list in force has changed; replaced: it has.
func (r *Rosters) carryOver(before lists, guarded, contact roster.Set) (keep roster.Set, replaced bool) {
	if r.went.base() == before.base() {
		return keep, false
	}
	for x := range guarded.All() {
		if r.vouchedFor(x, before, contact) {
			keep.Add(x)
		}
	}
	return keep, true
}

// vouchedFor reports whether nobody can have missed that a peer has given up its guard.
func (r *Rosters) vouchedFor(x int, before lists, contact roster.Set) bool {
	base := r.cfg.Succession.Base()
	var most roster.Set // that hold the new list beside the old ones, and take x for guarded
	most.Add(r.cfg.Roster.Self)
	for m := range contact.All() {
		st, _ := r.merger.Statement(m)
		if m == x || !st.Guarded.Has(x) || st.RosterEpoch != r.cfg.Roster.Epoch || st.RosterDigest != r.cfg.Roster.Digest {
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
		if old != base && 2*most.And(r.membersOf(old)).Len() <= old.Size() {
			return false
		}
	}
	return true
}

// holdAll reports whether a peer uses the lists that this node used, and the list that is in force now.
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

// goesBy reports whether a peer uses a list, and no other.
func goesBy(st *roster.Standing, r *roster.Roster) bool {
	return !st.Fresh && st.Chain == [roster.MaxChain]roster.Ref{r.Ref()}
}
