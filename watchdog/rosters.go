package watchdog

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// RosterEffects is what a step wants done about the list of members.
type RosterEffects struct {
	Changed bool          // the chain of rosters is another one
	Save    *roster.Saved // to be stored; answer with Core.RostersSaved
	Fetch   roster.Ref    // that this node lacks: its source is to be asked, and one of Holders; zero: nothing
	From    int           // a node that has it
	Holders roster.Set    // those that can hand it over; answer with Core.HandRoster
	Rival   int           // a node whose list is another one of the same epoch; -1: none
	// Directory is the roster to count by from now on: hand it to Core.Renumber when the
	// other effects are done, and to everybody who uses indices. Nil: the present one stays.
	Directory *roster.Roster
}

// rosters is the part of the core that follows changes of the list of members.
//
// Invariant: the decision needs a majority of every roster of the chain (see
// [roster.Succession]); while there are several, an equal split of one of them is a
// minority: two tie-breaks by different lists could both be won.
type rosters struct {
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
func (c *Core) base() *roster.Roster {
	if s := c.cfg.Succession; s != nil {
		return s.Base()
	}
	return c.cfg.Roster
}

// Succession is how the list of members changes; nil: it does not.
func (c *Core) Succession() *roster.Succession { return c.cfg.Succession }

// RostersSaved takes the end of the storing that Effects.Rosters.Save asked for. After a
// failure the same is asked for again.
func (c *Core) RostersSaved(err error) {
	if s := c.cfg.Succession; s != nil {
		s.Saved(err)
	}
}

// HandRoster makes a list of members known that a peer has handed over (roster.Succession.Hand).
func (c *Core) HandRoster(r *roster.Roster) error {
	if c.cfg.Succession == nil {
		return nil
	}
	return c.cfg.Succession.Hand(r)
}

// LearnRoster makes a list of members known, from the configuration.
func (c *Core) LearnRoster(r *roster.Roster) error {
	if c.cfg.Succession == nil {
		return nil
	}
	return c.cfg.Succession.Learn(r)
}

// SightRoster takes a list, of epoch 0, that a source without numbers shows; reading it began at
// readAt (see roster.Succession.Sight).
func (c *Core) SightRoster(r *roster.Roster, readAt boottime.Instant) {
	if s := c.cfg.Succession; s != nil {
		s.Sight(r, readAt > c.rosters.changed)
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
func (c *Core) recount() {
	r, s := &c.rosters, c.cfg.Succession
	if s == nil {
		r.expected = roster.FullSet(c.cfg.Roster.Size())
		r.electorate = []netgossip.Electorate{{Members: r.expected, Quorum: c.quorum}}
		return
	}
	r.members = map[*roster.Roster]roster.Set{}
	r.electorate, r.expected = nil, roster.Set{}
	for _, h := range s.Chain() {
		e := netgossip.Electorate{Members: c.membersOf(h), Quorum: h.Quorum(c.cfg.Quorum)}
		r.electorate = append(r.electorate, e)
		r.expected = r.expected.Union(e.Members)
	}
	c.quorum = r.electorate[0].Quorum
	c.merger.Recount(r.electorate)
}

func (c *Core) membersOf(h *roster.Roster) roster.Set {
	set, ok := c.rosters.members[h]
	if !ok {
		set = h.SetOf(c.cfg.Roster)
		c.rosters.members[h] = set
	}
	return set
}

// followRosters goes on with a change of the list of members. In an equal split no change is
// begun: it would cost this half the grant by which it lives, and nothing could come of it, since
// a change needs a majority. But the split may be due to a peer that has gone ahead.
func (c *Core) followRosters(now boottime.Instant) {
	c.fx.Rosters = RosterEffects{Rival: -1}
	c.rosters.wake = boottime.Never
	s := c.cfg.Succession
	if s == nil {
		return
	}
	defer c.stand()
	if c.tally() == netgossip.EqualSplit && c.view.Contact.Minus(c.view.Counted).IsEmpty() {
		return
	}
	c.rosters.peers.Contact = c.view.Contact
	if c.rosters.peers.Stands == nil {
		c.rosters.peers.Self = c.cfg.Roster.Self
		c.rosters.peers.Members = c.membersOf
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
		c.recount()
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
		fx.Directory = c.directory(now)
	}
}

// stand renews what is announced. No step may leave it out, and a changed directory needs it again:
// to say nothing is to say that the directory is in force, and that may be a list that this node
// has merely been told of. One that began in a tie would put it into force for all who hear it.
func (c *Core) stand() {
	s := c.cfg.Succession
	if s == nil {
		return
	}
	if c.rosters.standing = s.Standing(); c.rosters.standing == (roster.Standing{Chain: [roster.MaxChain]roster.Ref{c.cfg.Roster.Ref()}}) {
		c.rosters.standing = roster.Standing{}
	}
}

// farewells is for how many D_max at least a removed node is still talked to.
const farewells = 3

// directory returns the roster to count by, if it is to be another one. A node that is to be added
// is added at once. Who was removed stays until it knows that: it would else be reset as one
// that lost its quorum, instead of disarming.
func (c *Core) directory(now boottime.Instant) *roster.Roster {
	s, present := c.cfg.Succession, c.cfg.Roster
	d, err := s.Directory(present, present.Members[present.Self])
	if err != nil || d.Ref() == present.Ref() {
		c.rosters.stale = err != nil // impossible: its parts were checked when they were learnt
		return nil
	}
	if !present.Covers(d) {
		return d
	}
	for i := range c.view.Contact.Minus(d.SetOf(present)).All() {
		if st := c.rosters.peers.Stands(i); st.Base() != s.Base().Ref() {
			return nil
		}
	}
	if at := c.rosters.changed.Add(farewells * c.cfg.MaxAge); now < at {
		c.rosters.wake = at
		return nil
	}
	return d
}

// tally is how the counted stand against the rosters that this node goes by.
func (c *Core) tally() netgossip.Outcome {
	s := c.cfg.Succession
	if s == nil {
		return netgossip.TallyOf(c.view.Counted, c.cfg.Roster.Size(), c.quorum)
	}
	if !s.Claims() {
		return netgossip.Minority
	}
	chain := s.Chain()
	for i, e := range c.rosters.electorate {
		o := netgossip.TallyOf(c.view.Counted.And(e.Members), chain[i].Size(), e.Quorum)
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

// rostersSettled reports whether one list of members is in force and no other is taken up.
func (c *Core) rostersSettled() bool {
	s := c.cfg.Succession
	return s == nil || len(s.Chain()) == 1 && !s.Fresh()
}

// RostersMove reports whether a list is being changed, or was a moment ago: then what the peers
// go by must be known of each of them, and be no older than D_max, or two parts could be
// quorate by different lists for longer than that.
func (c *Core) RostersMove() bool {
	s := c.cfg.Succession
	return s != nil && (!s.Settled() || c.rosters.changed > 0 && c.stepped < c.rosters.changed.Add(farewells*c.cfg.MaxAge))
}

// removed reports whether the list in force does not name this node. Nobody relies on the
// watchdog of such a node any more: a node that could prove its death would need a majority of
// an older list, and most of that one have gone over to the present one.
func (c *Core) removed() bool { return c.cfg.Succession != nil && c.cfg.Succession.Removed() }

// mostOfEach reports whether a set has more than half of each list that this node goes by.
func mostOfEach(lists []netgossip.Electorate, set roster.Set) bool {
	for _, e := range lists {
		if 2*set.And(e.Members).Len() <= e.Members.Len() {
			return false
		}
	}
	return true
}

// Expected are the members of any list that this node goes by.
func (c *Core) Expected() roster.Set { return c.rosters.expected }

// WaitingFor lists the nodes that a change of the list of members waits for.
func (c *Core) WaitingFor() roster.Set {
	if c.cfg.Succession == nil || c.rosters.peers.Stands == nil {
		return roster.Set{}
	}
	return c.cfg.Succession.Waiting(&c.rosters.peers)
}

// Renumber makes to the directory: all sets count by it from now on. Between two steps only.
func (c *Core) Renumber(to *roster.Roster) {
	n := roster.Renumber(c.cfg.Roster, to)
	c.merger.Renumber(to)
	c.cfg.Roster = to
	c.pub.renumber(n, to.Size())
	c.proof.renumber(n, to)
	c.proof.doubt(c.stepped)
	c.hold.seen = renumbered(n, c.hold.seen, to.Size())
	c.voices = newVoices(to.Size())
	c.terms.heard, c.terms.unfit = n.Set(c.terms.heard), n.Set(c.terms.unfit)
	c.view = netgossip.View{Seen: n.Set(c.view.Seen), Contact: n.Set(c.view.Contact), Counted: n.Set(c.view.Counted)}
	c.fx.Available, c.fx.Left, c.fx.Joined = n.Set(c.fx.Available), n.Set(c.fx.Left), n.Set(c.fx.Joined)
	c.fx.Fenced = n.Set(c.fx.Fenced)
	c.rosters.peers.Self, c.rosters.peers.Contact = to.Self, c.view.Contact
	c.stand()
	c.recount()
	c.breaker.SetRoster(to, c.base().Size())
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
