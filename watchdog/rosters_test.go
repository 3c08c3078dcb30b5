package watchdog

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Guard: the lists are announced in every step. A node that begins in a tie must not state that a list is in force that
// it merely knows: a node that hears the statement would accept it.
func TestANodeThatBeginsInATieAnnouncesTheListInForce(t *testing.T) {
	list := func(epoch uint64, address string, names ...string) *roster.Roster {
		var ms []roster.Member
		for _, n := range names {
			ms = append(ms, roster.Member{Name: n, Addresses: map[string]string{"mgmt": address}})
		}
		r, err := roster.New(epoch, ms, names[0])
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	old, next := list(0, "10.0.0.1", "n0", "n1"), list(1, "10.0.0.2", "n0", "n1", "n2")
	s, err := roster.NewSuccession(&roster.Saved{Chain: []*roster.Roster{old}}, next, func(r *roster.Roster) int { return r.Quorum(0) })
	if err != nil {
		t.Fatal(err)
	}
	if s.Prepare() == nil {
		t.Fatal("a list with other addresses of the node is not to be stored")
	}
	s.Saved(nil)
	directory, err := s.Directory(nil, next.Members[next.Self])
	if err != nil {
		t.Fatal(err)
	}
	c := testCore(t, 2, func(c *Config) { c.Roster, c.Succession = directory, s })
	want := roster.Standing{Chain: [roster.MaxChain]roster.Ref{old.Ref()}, Offer: next.Ref()}
	for range 3 { // in a tie: only n0 of two
		if got := c.Step(10 * sec).Statement.Stands(); got != want {
			t.Fatalf("it announces %+v, want %+v", got, want)
		}
	}
}

// Guard: L3. While two lists are in use, half of one of them is a minority: the other half may have a tie by the other
// list, and two ties by different lists could both be won.
func TestNoTieWhileTwoListsAreInForce(t *testing.T) {
	list := func(epoch uint64, names ...string) *roster.Roster {
		var ms []roster.Member
		for _, n := range names {
			ms = append(ms, roster.Member{Name: n, Addresses: map[string]string{"mgmt": "10.0.0." + n[1:]}})
		}
		r, err := roster.New(epoch, ms, names[0])
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	old, next := list(1, "n0", "n1", "n2", "n3"), list(2, "n0", "n1", "n2", "n3", "n4", "n5")
	for _, c := range []struct {
		chain   []*roster.Roster
		counted roster.Set
		want    netgossip.Outcome
	}{
		{[]*roster.Roster{next}, roster.SetOf(0, 1, 2), netgossip.EqualSplit},
		{[]*roster.Roster{old, next}, roster.SetOf(0, 1, 2), netgossip.Minority}, // half of the newer list
		{[]*roster.Roster{old, next}, roster.SetOf(0, 1, 4, 5), netgossip.Minority},
		{[]*roster.Roster{old, next}, roster.SetOf(0, 1, 2, 3), netgossip.Majority},
	} {
		s, err := roster.NewSuccession(&roster.Saved{Chain: c.chain}, nil, func(r *roster.Roster) int { return r.Quorum(0) })
		if err != nil {
			t.Fatal(err)
		}
		core := testCore(t, 2, func(cfg *Config) { cfg.Roster, cfg.Succession = next, s })
		core.view.Counted = c.counted
		if got := core.rosters.tally(core.view.Counted); got != c.want {
			t.Errorf("%d lists, counted %v: %v, want %v", len(c.chain), c.counted, got, c.want)
		}
	}
}
