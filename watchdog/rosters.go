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
	Changed bool          // the chain of rosters is another one
	Save    *roster.Saved // to be stored; answer with Rosters.Saved
	Fetch   roster.Ref    // that this node lacks: its source is to be asked, and one of Holders; zero: nothing
	From    int           // a node that has it
	Holders roster.Set    // those that can hand it over; answer with Rosters.Hand
	Rival   int           // a node whose list is another one of the same epoch; -1: none
	// Directory is the roster to count by from now on: hand it to Core.Renumber when the
	// other effects are done, and to everybody who uses indices. Nil: the present one stays.
	Directory *roster.Roster
}

// Rosters is the part of the core that follows changes of the list of members.
//
// Invariant: the decision needs a majority of every roster of the chain (see
// [roster.Succession]); while there are several, an equal split of one of them is a
// minority: two tie-breaks by different lists could both be won.
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
	version    uint64     // of the succession, that the rest was made for
	went       lists      // the lists of that version: a fresh node takes a chain over between two steps
	changed    boottime.Instant
	stale      bool             // the directory is not that of this version yet
	wake       boottime.Instant // look again by then
}

func countable(s *roster.Succession) func(*roster.Standing) bool {
	if s == nil {
		return nil
	}
	return s.Countable
}

// base is the roster in force.
func (r *Rosters) base() *roster.Roster {
	if s := r.cfg.Succession; s != nil {
		return s.Base()
	}
	return r.cfg.Roster
}

// Succession is how the list of members changes; nil: it does not.
func (r *Rosters) Succession() *roster.Succession { return r.cfg.Succession }

// Saved takes the end of the storing that Effects.Rosters.Save asked for. After a
// failure the same is asked for again.
func (r *Rosters) Saved(err error) {
	if s := r.cfg.Succession; s != nil {
		s.Saved(err)
	}
}

// Hand makes a list of members known that a peer has handed over (roster.Succession.Hand).
func (r *Rosters) Hand(list *roster.Roster) error {
	if r.cfg.Succession == nil {
		return nil
	}
	return r.cfg.Succession.Hand(list)
}

// Learn makes a list of members known, from the configuration.
func (r *Rosters) Learn(list *roster.Roster) error {
	if r.cfg.Succession == nil {
		return nil
	}
	return r.cfg.Succession.Learn(list)
}

// Sight takes a list, of epoch 0, that a source without numbers shows; reading it began at
// readAt (see roster.Succession.Sight).
func (r *Rosters) Sight(list *roster.Roster, readAt boottime.Instant) {
	if s := r.cfg.Succession; s != nil {
		s.Sight(list, readAt > r.changed)
	}
}

// SetBudget replaces the time budget when it follows the number of members. It must never
// become shorter: peers may reckon with what they were told before.
func (c *Core) SetBudget(b Budget) {
	if b.Horizon() < c.cfg.Budget.Horizon() {
		return
	}
	c.cfg.Budget = b
	c.bound()
}

// recount follows a changed chain, or a changed directory.
func (r *Rosters) recount() {
	s := r.cfg.Succession
	if s == nil {
		r.expected = roster.FullSet(r.cfg.Roster.Size())
		r.electorate = []netgossip.Electorate{{Members: r.expected, Quorum: r.quorum}}
		return
	}
	r.members = map[*roster.Roster]roster.Set{}
	r.electorate, r.expected = nil, roster.Set{}
	for _, h := range s.Chain() {
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

// followRosters goes on with a change of the list of members. In an equal split no change is
// begun: it would cost this half the grant by which it lives, and nothing could come of it, since
// a change needs a majority. But the split may be due to a peer that has gone ahead.
func (c *Core) followRosters(now boottime.Instant) {
	c.fx.Rosters = RosterEffects{Rival: -1}
	c.rosters.wake, c.rosters.stepped = boottime.Never, now
	s := c.cfg.Succession
	if s == nil {
		return
	}
	defer c.rosters.stand()
	if c.rosters.tally(c.view.Counted) == netgossip.EqualSplit && c.view.Contact.Minus(c.view.Counted).IsEmpty() {
		return
	}
	c.rosters.peers.Contact = c.view.Contact
	if c.rosters.peers.Stands == nil {
		c.rosters.peers.Self = c.cfg.Roster.Self
		c.rosters.peers.Members = c.rosters.membersOf
		c.rosters.peers.Stands = func(i int) roster.Standing {
			st, _ := c.merger.Statement(i)
			return st.Stands()
		}
	}
	if c.rosters.went.chain == nil {
		c.rosters.went = listsOf(s)
	}
	moves := s.Advance(&c.rosters.peers)
	fx := &c.fx.Rosters
	fx.Changed, fx.Save, fx.Fetch, fx.From, fx.Holders, fx.Rival = moves.Changed, moves.Save, moves.Fetch, moves.From, moves.Holders, moves.Rival
	if s.Version() != c.rosters.version {
		c.rosters.version, c.rosters.changed, c.rosters.stale = s.Version(), now, true
		c.rosters.recount()
		c.proof.doubt(now)
		c.carryOver(now, c.rosters.went)
		c.rosters.went = listsOf(s)
		removed := ""
		if s.Removed() {
			removed = "the removal of this node from the list of members"
		}
		c.SetDisarm("removed", removed)
		c.view = c.look(now)
	}
	if c.rosters.stale {
		fx.Directory = c.rosters.directory(now, c.view.Contact)
	}
}

// stand renews what is announced. No step may leave it out, and a changed directory needs it again:
// to say nothing is to say that the directory is in force, and that may be a list that this node
// has merely been told of. One that began in a tie would put it into force for all who hear it.
func (r *Rosters) stand() {
	s := r.cfg.Succession
	if s == nil {
		return
	}
	if r.standing = s.Standing(); r.standing == (roster.Standing{Chain: [roster.MaxChain]roster.Ref{r.cfg.Roster.Ref()}}) {
		r.standing = roster.Standing{}
	}
}

// farewells is for how many D_max at least a removed node is still talked to.
const farewells = 3

// directory returns the roster to count by, if it is to be another one. A node that is to be added
// is added at once. Who was removed stays until it knows that: it would else be reset as one
// that lost its quorum, instead of disarming.
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

// tally is how the counted stand against the rosters that this node goes by.
func (r *Rosters) tally(counted roster.Set) netgossip.Outcome {
	s := r.cfg.Succession
	if s == nil {
		return netgossip.TallyOf(counted, r.cfg.Roster.Size(), r.quorum)
	}
	if !s.Claims() {
		return netgossip.Minority
	}
	chain := s.Chain()
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
	s := r.cfg.Succession
	return s == nil || len(s.Chain()) == 1 && !s.Fresh()
}

// Moving reports whether a list is being changed, or was a moment ago: then what the peers
// go by must be known of each of them, and be no older than D_max, or two parts could be
// quorate by different lists for longer than that.
func (r *Rosters) Moving() bool {
	s := r.cfg.Succession
	return s != nil && (!s.Settled() || r.changed > 0 && r.stepped < r.changed.Add(farewells*r.cfg.MaxAge))
}

// removed reports whether the list in force does not name this node. Nobody relies on the
// watchdog of such a node any more: a node that could prove its death would need a majority of
// an older list, and most of that one have gone over to the present one.
func (r *Rosters) removed() bool { return r.cfg.Succession != nil && r.cfg.Succession.Removed() }

// mostOfEach reports whether a set has more than half of each list that this node goes by.
func (r *Rosters) mostOfEach(set roster.Set) bool {
	for _, e := range r.electorate {
		if 2*set.And(e.Members).Len() <= e.Members.Len() {
			return false
		}
	}
	return true
}

// Expected are the members of any list that this node goes by.
func (r *Rosters) Expected() roster.Set { return r.expected }

// WaitingFor lists the nodes that a change of the list of members waits for.
func (r *Rosters) WaitingFor() roster.Set {
	if r.cfg.Succession == nil || r.peers.Stands == nil {
		return roster.Set{}
	}
	return r.cfg.Succession.Waiting(&r.peers)
}

// Renumber makes to the directory: all sets count by it from now on. Between two steps only.
func (c *Core) Renumber(to *roster.Roster) {
	n := roster.Renumber(c.cfg.Roster, to)
	c.merger.Renumber(to)
	c.cfg.Roster = to
	c.publication.renumber(n, to.Size())
	c.proof.renumber(n, to)
	c.proof.doubt(c.stepped)
	c.hold.seen = renumbered(n, c.hold.seen, to.Size())
	c.voices = newVoices(to.Size())
	c.terms.heard, c.terms.unfit = n.Set(c.terms.heard), n.Set(c.terms.unfit)
	c.view = netgossip.View{Seen: n.Set(c.view.Seen), Contact: n.Set(c.view.Contact), Counted: n.Set(c.view.Counted)}
	c.fx.Available, c.fx.Left, c.fx.Joined = n.Set(c.fx.Available), n.Set(c.fx.Left), n.Set(c.fx.Joined)
	c.fx.Fenced = n.Set(c.fx.Fenced)
	c.rosters.peers.Self, c.rosters.peers.Contact = to.Self, c.view.Contact
	c.rosters.stand()
	c.rosters.recount()
	c.breaker.SetRoster(to, c.rosters.base().Size())
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

// renumber keeps what is known of those who are still listed.
func (p *publication) renumber(n roster.Renumbering, size int) {
	peers := make([]peerLife, size)
	for i, k := range n {
		if k >= 0 {
			peers[k] = p.peers[i]
		}
	}
	p.peers = peers
	p.leaving, p.restarting = n.Set(p.leaving), n.Set(p.restarting)
	p.rebooted, p.held, p.twins = n.Set(p.rebooted), n.Set(p.held), n.Set(p.twins)
	p.doubted = n.Set(p.doubted)
	p.present, p.flapping = n.Set(p.present), n.Set(p.flapping)
	var silent []netgossip.Silence
	for _, s := range p.silent {
		if k := n[s.Peer]; k >= 0 {
			silent = append(silent, netgossip.Silence{Peer: k, Since: s.Since})
		}
	}
	p.silent = silent
}

// oneList reports whether this node goes by the list by which its sets count, and by no other. Only who does is
// taken at its word by others, and only such a node holds, or condemns itself: two lists that are changed to one another have majorities that
// meet, and any two lists need not.
//
// A list that is known, or stored to be taken up, is no such list: nobody counts by it. What is said by a node that has one at hand is as
// true as what it says a moment before it hears of one, which nobody can tell from it.
func (r *Rosters) oneList() bool {
	s := r.cfg.Succession
	return s == nil || r.settled() && s.Claims() && s.Base().Ref() == r.cfg.Roster.Ref()
}

// noOther reports whether besides no other list is at hand: who counts by the LUN as by a network asks for that of itself, and of others (N6).
func (r *Rosters) noOther() bool { return r.oneList() && r.standing == (roster.Standing{}) }

// Size is N, the number of expected nodes.
func (r *Rosters) Size() int { return r.base().Size() }

// Quorum is the number of counted members that are needed.
func (r *Rosters) Quorum() int { return r.quorum }

// window is for how long a member may be counted for what it said.
func (r *Rosters) window() time.Duration {
	if r.cfg.Window != nil {
		return r.cfg.Window(r.base().Size())
	}
	return r.cfg.MaxAge + r.cfg.Budget.Sampling
}

// heeding reports whether the latest statement of every other member is of an agent that heeds sentences.
func (r *Rosters) heeding() bool {
	for p := range r.expected.All() {
		if p == r.cfg.Roster.Self {
			continue
		}
		if st, _ := r.merger.Statement(p); st != nil && !st.Heeds {
			return false
		}
	}
	return true
}

// The argument of Prover has a second leg beside the claims: of those who can prove the death
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
