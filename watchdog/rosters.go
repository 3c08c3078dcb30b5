package watchdog

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// RosterEffects holds the actions on the list of members that a step asks for.
type RosterEffects struct {
	roster.Moves // answer each with the method that the Succession has for it
	// Directory is the roster to use from now on. Give it to Core.Renumber when the other effects are done, and to all
	// other code that uses indices. Nil: the present roster stays.
	Directory *roster.Roster
}

// Rosters is the part of the core that follows changes of the list of members.
//
// Invariant: the decision needs a majority of every roster of the chain (see [roster.Succession]). While the chain has
// several rosters, an equal split of one of them counts as a minority: two tie-breaks by different lists could both be
// won.
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
	version    uint64     // the version of the succession from which the other fields were computed
	went       lists      // the lists of that version; a fresh node adopts a chain between two steps
	changed    boottime.Instant
	stale      bool             // the directory does not match this version yet
	wake       boottime.Instant // look again by then
}

// alone returns the Succession of a group whose list does not change.
func alone(list *roster.Roster, quorum int) *roster.Succession {
	s, err := roster.NewSuccession(&roster.Saved{Chain: []*roster.Roster{list}}, nil, func(r *roster.Roster) int { return r.Quorum(quorum) })
	if err != nil {
		panic(err) // only a chain can be refused
	}
	return s
}

// base returns the roster in force.
func (r *Rosters) base() *roster.Roster { return r.cfg.Succession.Base() }

// Succession returns the state of changes of the list of members.
func (r *Rosters) Succession() *roster.Succession { return r.cfg.Succession }

// Sight records a list, of epoch 0, from a source that does not number its lists; reading it began at readAt (see
// roster.Succession.Sight).
func (r *Rosters) Sight(list *roster.Roster, readAt boottime.Instant) {
	r.cfg.Succession.Sight(list, readAt > r.changed)
}

// recount computes everything that depends on the chain and on the directory again after either has changed.
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

// waits reports whether no change of the list may begin now. In an equal split no change may begin: it would cost this
// half the grant by which it lives, and could not succeed, since a change needs a majority. There is an exception: if a
// peer is in contact but not counted, the split may exist because that peer has gone ahead with a change.
func (r *Rosters) waits(view *netgossip.View) bool {
	return r.tally(view.Counted) == netgossip.EqualSplit && view.Contact.Minus(view.Counted).IsEmpty()
}

// advance continues a change of the list of members, according to the peers in contact. changed reports whether this
// node now uses other lists than before.
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

// stand renews the announced lists. Every step must call it, and must call it again after the directory has changed.
// Otherwise the statement would say that the directory is in force, although the directory may be a list that this node
// merely knows. A node that started in a tie would then put that list into force for all that hear the statement.
func (r *Rosters) stand() {
	if r.standing = r.cfg.Succession.Standing(); r.standing == (roster.Standing{Chain: [roster.MaxChain]roster.Ref{r.cfg.Roster.Ref()}}) {
		r.standing = roster.Standing{}
	}
}

// farewells is how many times D_max, at least, this node still talks to a removed node.
const farewells = 3

// directory returns the roster to use, if it has to change. A new node is added at once. A removed node stays until it
// knows of its removal: otherwise it would lose its quorum and be reset instead of disarming.
func (r *Rosters) directory(now boottime.Instant, contact roster.Set) *roster.Roster {
	s, present := r.cfg.Succession, r.cfg.Roster
	d, err := s.Directory(present, present.Members[present.Self])
	if err != nil || d.Ref() == present.Ref() {
		r.stale = err != nil // impossible: its parts were checked when this node received them
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

// tally compares the counted members with each roster that this node uses.
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

// settled reports whether one list of members is in force and this node has not adopted another.
func (r *Rosters) settled() bool {
	return len(r.cfg.Succession.Chain()) == 1 && !r.cfg.Succession.Fresh()
}

// Moving reports whether a list is being changed, or was a moment ago. Then this node must know each peer's lists from
// a statement no older than D_max. Otherwise two parts could have quorum by different lists for longer than D_max.
func (r *Rosters) Moving() bool {
	return !r.cfg.Succession.Settled() || r.changed > 0 && r.stepped < r.changed.Add(farewells*r.cfg.MaxAge)
}

// removed reports whether this node is missing from the list in force. No node relies on the watchdog of a removed node
// any more: a proof of its death would need a majority of an older list, and most members of that list have changed to
// the present one.
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

// Expected returns the members of all lists that this node uses.
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

// oneList reports whether this node uses only one list, the one whose indices its sets use. Only such a node's sets
// count for others, and only such a node holds or condemns itself. Majorities of two successive lists share a member;
// majorities of any other two lists need not.
//
// A list that is only known, or stored, does not count as used: no node counts by it. That a node has merely heard of
// another list does not make its statements less true.
func (r *Rosters) oneList() bool {
	s := r.cfg.Succession
	return r.settled() && s.Claims() && s.Base().Ref() == r.cfg.Roster.Ref()
}

// noOther reports whether this node uses one list and does not even know another. A node that counts by the LUN as by a
// network requires this of itself and of others (N6).
func (r *Rosters) noOther() bool { return r.oneList() && r.standing == (roster.Standing{}) }

// Size returns N, the number of expected nodes.
func (r *Rosters) Size() int { return r.base().Size() }

// Quorum returns the number of counted members that are needed.
func (r *Rosters) Quorum() int { return r.quorum }

// window returns how long a member may be counted because of one statement.
func (r *Rosters) window() time.Duration {
	if r.cfg.Window != nil {
		return r.cfg.Window(r.base().Size())
	}
	return r.cfg.MaxAge + r.cfg.Budget.Sampling
}

// The argument of Prover has a second part besides the claims: if x has given up its guard, one of the nodes that can
// prove the death of x knows of it. x counted the nodes that know of it by the lists that x used. When a list goes out
// of force, all nodes that know of it may leave with that list. The other nodes then cannot rely on x's last statement
// about its guard, until x states its guard again.
//
// A guard is carried over if no node can have missed that it was given up. There are two such cases:
//
//   - Most members of each list that goes out of force have adopted the next one and still take x for guarded. x cannot
//     count any of them by the old list alone any more, and one of them would know of a release that most members knew
//     of before.
//   - A peer that uses only the new list takes x for guarded, in the very step in which that list comes into force on this node.
//     That peer has already made this check. In a later step its statement would not be enough: among the nodes that
//     know of a release, x may count any agent that no longer takes x for guarded.
//
// A fresh node has not used any list before. It knows only the statement of such a peer.

// lists holds the lists that a node used before a step.
type lists struct {
	chain []*roster.Roster
	fresh bool
}

func listsOf(s *roster.Succession) lists { return lists{slices.Clone(s.Chain()), s.Fresh()} }

// base returns the list in force, or nil.
func (l *lists) base() *roster.Roster {
	if l.fresh {
		return nil
	}
	return l.chain[0]
}

// carryOver returns the guarded members whose guard is carried over when the list in force has changed; replaced
// reports whether it has changed.
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

// vouchedFor reports whether the guard of x is carried over: no node can have missed that x has given it up.
func (r *Rosters) vouchedFor(x int, before lists, contact roster.Set) bool {
	base := r.cfg.Succession.Base()
	var most roster.Set // peers that use the new list besides the old ones, and take x for guarded
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
