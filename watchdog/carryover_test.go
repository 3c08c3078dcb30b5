package watchdog

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// rosterOf returns a list of named members; this node is the first of all nodes.
func rosterOf(t *testing.T, epoch uint64, names ...string) *roster.Roster {
	t.Helper()
	var ms []roster.Member
	for _, n := range names {
		ms = append(ms, roster.Member{Name: n})
	}
	r, err := roster.Of(epoch, ms, "n0")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// listCore returns a core that uses the chain and the directory d.
func listCore(t *testing.T, d *roster.Roster, chain ...*roster.Roster) *Core {
	t.Helper()
	s, err := roster.NewSuccession(&roster.Saved{Chain: chain}, nil, func(r *roster.Roster) int { return r.Quorum(0) })
	if err != nil {
		t.Fatal(err)
	}
	return testCore(t, 2, func(c *Config) { c.Roster, c.Succession = d, s })
}

func standingBy(chain ...*roster.Roster) roster.Standing {
	var st roster.Standing
	for i, r := range chain {
		st.Chain[i] = r.Ref()
	}
	return st
}

// Guard: a node's statement about its guard outlives a list only if no node can have missed that the guard was given
// up.
func TestWhoVouchesForAGuard(t *testing.T) {
	old, next := rosterOf(t, 1, "n0", "n1", "n2", "n3", "n4", "x"), rosterOf(t, 2, "n0", "n1", "x")
	third := rosterOf(t, 3, "n0", "n1", "n2", "x")
	const x = 5
	says := func(st roster.Standing) netgossip.Statement {
		return netgossip.Statement{Standing: st, Guarded: roster.SetOf(x)}
	}
	both, silent := says(standingBy(old, next)), netgossip.Statement{Standing: standingBy(old, next)}
	fresh := standingBy(next)
	fresh.Fresh = true
	begun := standingBy(old, next)
	begun.Fresh = true
	foreign := both
	foreign.RosterDigest, foreign.RosterEpoch = 77, 77
	for _, tc := range []struct {
		name  string
		fresh bool
		peers []netgossip.Statement // statements of n1, n2 and so on
		want  bool
	}{
		{"four of six", false, []netgossip.Statement{both, both, both}, true},
		{"half of the old list", false, []netgossip.Statement{both, both}, false},
		{"most hold the new list, some know of the stop", false, []netgossip.Statement{both, both, silent, silent}, false},
		{"the third goes by the old list alone", false, []netgossip.Statement{both, both, says(standingBy(old))}, false},
		{"the third goes by another list as well", false, []netgossip.Statement{both, both, says(standingBy(old, next, third))}, false},
		{"the third has just begun", false, []netgossip.Statement{both, both, says(begun)}, false},
		{"the third counts by another directory", false, []netgossip.Statement{both, both, foreign}, false},
		{"the third is x", false, []netgossip.Statement{both, both, {}, {}, both}, false},
		{"a peer has looked already", false, []netgossip.Statement{says(standingBy(next))}, true},
		{"a peer has looked already, and found a stop", false, []netgossip.Statement{{Standing: standingBy(next)}}, false},
		{"x says it of itself", false, []netgossip.Statement{{}, {}, {}, {}, says(standingBy(next))}, false},
		{"a fresh node believes", false, []netgossip.Statement{says(fresh)}, false},
		{"this node was fresh", true, []netgossip.Statement{both, both, both}, false},
		{"this node was fresh, a peer has looked", true, []netgossip.Statement{says(standingBy(next))}, true},
	} {
		c := listCore(t, old, next)
		for i, st := range tc.peers {
			if st.Stands().Chain[0].IsZero() {
				continue
			}
			if st.Seen = roster.FullSet(6); st.RosterDigest == 0 {
				st.RosterEpoch, st.RosterDigest = old.Epoch, old.Digest
			}
			c.Merger().Answered(netgossip.Answer{Peer: i + 1, SentAt: 10 * sec, Statement: &st, Sees: true})
		}
		c.view = c.merger.Evaluate(10*sec, c.rosters.quorum)
		before := lists{[]*roster.Roster{old, next}, tc.fresh}
		if tc.fresh {
			before.chain = before.chain[1:]
		}
		if got := c.rosters.vouchedFor(x, before, c.view.Contact); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// Guard: after a change, a peer counts as guarded again when it has stated so in an answer to a later question.
func TestGuardIsSaidAgainAfterAChange(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	c.proof.doubtGuards(20*sec, roster.SetOf(1))
	tell(c, 19*sec, 1, netgossip.Statement{Guard: killing})
	tell(c, 20*sec, 2, netgossip.Statement{Guard: killing})
	tell(c, 20*sec+1, 3, netgossip.Statement{Guard: killing})
	c.Step(22 * sec)
	if got := c.proof.guarded; got != roster.SetOf(1, 3) {
		t.Errorf("guarded %v, want the one that was vouched for and the one that was asked since", c.cfg.Roster.Names(got))
	}
}

// Guard: a peer that also uses another list has not restarted its claims from that list yet.
func TestClaimsOfOneListAlone(t *testing.T) {
	old, next := rosterOf(t, 1, "n0", "n1", "n2", "n3"), rosterOf(t, 2, "n0", "n1", "n2")
	c := listCore(t, old, next)
	lost := roster.SetOf(2)
	for p, st := range []roster.Standing{{}, standingBy(next), standingBy(old, next), standingBy(old)} {
		if p > 0 {
			tell(c, 10*sec, p, netgossip.Statement{Lost: lost, Standing: st})
		}
		st, _ := c.merger.Statement(p)
		if got := st != nil && judging(c, 10*sec).fresh(st); got != (p == 1) {
			t.Errorf("peer %d: its claims count: %v", p, got)
		}
	}
}

// Guard: a node that has left the list that was in force no longer knows what its members know. It does not count in
// the majority that vouches for statements under that list.
func TestWhoHoldsAllLists(t *testing.T) {
	old, mid, next := rosterOf(t, 1, "n0", "n1"), rosterOf(t, 2, "n0", "n1", "n2"), rosterOf(t, 3, "n0", "n1", "n2", "n3")
	l := lists{chain: []*roster.Roster{old, mid, next}}
	for _, tc := range []struct {
		chain []*roster.Roster
		want  bool
	}{
		{[]*roster.Roster{old, mid, next}, true},
		{[]*roster.Roster{old, next}, true},
		{[]*roster.Roster{old, mid}, false},
		{[]*roster.Roster{mid, next}, false},
	} {
		st := standingBy(tc.chain...)
		if got := l.holdAll(&st, next); got != tc.want {
			t.Errorf("%d lists, the first of epoch %d: %v", len(tc.chain), tc.chain[0].Epoch, got)
		}
	}
}

// Guard: a fresh node that adopts a peer's chain, between two steps, only relies on peers that have already made the
// check: an earlier statement of x to this node is not carried over.
func TestFreshNodeThatJoinsDoubtsGuards(t *testing.T) {
	old, next := rosterOf(t, 1, "n1", "n2", "x"), rosterOf(t, 2, "n0", "n1", "n2", "x")
	const x = 3
	s, err := roster.NewSuccession(&roster.Saved{Chain: []*roster.Roster{next}, Fresh: true}, nil, func(r *roster.Roster) int { return r.Quorum(0) })
	if err != nil {
		t.Fatal(err)
	}
	c := testCore(t, 2, func(c *Config) { c.Roster, c.Succession = next, s })
	says := func(at boottime.Instant, p int, guard netgossip.Guard, chain ...*roster.Roster) {
		c.Merger().Answered(netgossip.Answer{Peer: p, SentAt: at, Sees: true, Statement: &netgossip.Statement{
			RosterEpoch: next.Epoch, RosterDigest: next.Digest, Seen: roster.FullSet(4), Guard: guard, Standing: standingBy(chain...),
		}})
	}
	c.Step(9 * sec)
	says(9*sec, x, killing, old)
	handed := false
	for at := 10 * sec; at < 14*sec; at += sec {
		says(at, 1, netgossip.Guard{}, old, next)
		says(at, 2, netgossip.Guard{}, old)
		c.Step(at)
		if fx := c.fx.Rosters; !handed && fx.Fetch != (roster.Ref{}) {
			handed = true
			if err := c.cfg.Succession.Hand(old); err != nil {
				t.Fatal(err)
			}
		}
		c.cfg.Succession.Saved(nil)
	}
	c.Step(14 * sec)
	if n := len(s.Chain()); !handed || s.Fresh() || n != 2 {
		t.Fatalf("handed %v, fresh %v, %d lists", handed, s.Fresh(), n)
	}
	if c.fx.Statement.Guarded.Has(x) {
		t.Error("it vouches for a guard by what it was told before it joined")
	}
}

// Guard: a list that is known but not taken up does not keep a node from holding or from condemning itself, and the
// node's statements still count, because no node counts by such a list. If the LUN counts like a network, a node with
// such a list neither counts by the LUN nor is counted by it (N6).
func TestListAtHandIsNotGoneBy(t *testing.T) {
	old, next := rosterOf(t, 1, "n0", "n1", "n2"), rosterOf(t, 2, "n0", "n1", "n2", "n3")
	c := listCore(t, old, old)
	c.Step(10 * sec)
	if !c.rosters.oneList() || !c.rosters.noOther() || !c.settled() {
		t.Fatalf("one list: %v, no other %v, settled %v", c.rosters.oneList(), c.rosters.noOther(), c.settled())
	}
	if err := c.cfg.Succession.Learn(next); err != nil {
		t.Fatal(err)
	}
	c.Step(11 * sec)
	if c.rosters.standing.Known != next.Ref() {
		t.Fatalf("%+v", c.rosters.standing)
	}
	if !c.rosters.oneList() || c.rosters.noOther() || !c.settled() {
		t.Errorf("another one is known: one list %v, no other %v, settled %v", c.rosters.oneList(), c.rosters.noOther(), c.settled())
	}
	if c.cfg.LUNMode = LUNOr; c.settled() {
		t.Error("another one is known, and the LUN counts as a network")
	}
	for name, c := range map[string]*Core{
		"two are gone by": listCore(t, next, old, next), "the sets are by another one": listCore(t, next, old),
	} {
		if c.Step(10 * sec); c.rosters.oneList() || c.settled() {
			t.Errorf("%s: one list %v, settled %v", name, c.rosters.oneList(), c.settled())
		}
	}
}
