package watchdog

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// silent sets the peers that a core and others miss.
func silent(c *Core, since boottime.Instant, peers ...int) {
	var all []netgossip.Silence
	for _, p := range peers {
		all = append(all, netgossip.Silence{Peer: p, Since: since})
	}
	c.SetSilent(all)
}

func TestWhoIsDoubtedIsLeftBeforeTheEvidenceEnds(t *testing.T) {
	c := lifeCore(t, 4)
	silent(c, 10*sec+1, 1)
	edges(t, c, 11*sec, "doubted", roster.SetOf(1), nobody)
	if c.LeftReason(1) != LeftDoubted || c.doubted != roster.SetOf(1) || !c.View().Counted.Has(1) {
		t.Fatalf("reason %v, doubted %v, counted %v", c.LeftReason(1), c.doubted, c.View().Counted)
	}
	walk(t, c, 12*sec, 13*sec, "evidence lasts", 2, 3)
	edges(t, c, 14*sec, "it has run out, which is no other LEFT", nobody, nobody)
	if c.LeftReason(1) != LeftDoubted || !c.doubted.IsEmpty() {
		t.Fatalf("reason %v, doubted %v", c.LeftReason(1), c.doubted)
	}
	tell(c, 15*sec, 1, netgossip.Statement{})
	edges(t, c, 15*sec, "back", nobody, roster.SetOf(1))
}

// Guard: reports about a peer may be late or wrong. An answer to a later probe has priority.
func TestAnAnswerIsWorthMoreThanADoubt(t *testing.T) {
	c := lifeCore(t, 4)
	silent(c, 10*sec-1, 1)
	edges(t, c, 11*sec, "it answered since", nobody, nobody)
	silent(c, 11*sec, 1)
	edges(t, c, 11*sec+1, "it did not", roster.SetOf(1), nobody)
	tell(c, 12*sec, 1, netgossip.Statement{})
	edges(t, c, 12*sec, "it does", nobody, roster.SetOf(1))
}

func TestAnAnnouncedRestartIsNotDoubted(t *testing.T) {
	c := lifeCore(t, 4)
	tell(c, 11*sec, 1, restarting)
	silent(c, 11*sec+1, 1)
	edges(t, c, 12*sec, "it said that it restarts", nobody, nobody)
	tell(c, 11*sec+2, 2, leaving)
	silent(c, 11*sec+3, 1, 2)
	edges(t, c, 12*sec+1, "it said that it leaves", roster.SetOf(2), nobody)
	if c.LeftReason(2) != LeftLeaving {
		t.Fatal(c.LeftReason(2))
	}
}

func TestANodeThatStoodStillPublishesNoDoubts(t *testing.T) {
	c := lifeCore(t, 4)
	tell(c, 10*sec+1, 1, netgossip.Statement{})
	for p := 1; p < 4; p++ {
		tell(c, 13*sec, p, netgossip.Statement{})
	}
	silent(c, 13*sec+1, 1)
	edges(t, c, 13*sec+2, "a step after 3 s", nobody, nobody)
	walk(t, c, 13*sec+3, 13*sec+4, "it hears the others", 2, 3)
	edges(t, c, 14*sec+3, "the grace is over", roster.SetOf(1), nobody)
}

func TestDoubtsFollowTheList(t *testing.T) {
	c := lifeCore(t, 4)
	silent(c, 10*sec+1, 3)
	edges(t, c, 11*sec, "doubted", roster.SetOf(3), nobody)
	r := c.cfg.Roster
	to, err := roster.New(2, append([]roster.Member{{Name: "a0"}}, r.Members...), r.Name(r.Self))
	if err != nil {
		t.Fatal(err)
	}
	c.Renumber(to)
	c.Step(11*sec + 1)
	if want := roster.SetOf(4); c.doubted != want || c.Available().Has(4) {
		t.Errorf("doubted %v, want %v; available %v", to.Names(c.doubted), to.Names(want), to.Names(c.Available()))
	}
}

// TestTheVerdictDoesNotInherit runs two cores through the same random history. One of them gets random doubts, right
// and wrong ones. They may differ only in what they publish.
func TestTheVerdictDoesNotInherit(t *testing.T) {
	first := *seedFlag
	if first == 0 {
		first = rand.Uint64()
	}
	for i := range 60 {
		seed := first + uint64(i) // -args -seed begins with it
		rnd := rand.New(rand.NewPCG(seed, 2))
		n := 3 + rnd.IntN(6)
		plain, doubting := lifeCore(t, n), lifeCore(t, n)
		differed := false
		for at := 10*sec + 1; at < 150*sec; at = at.Add(time.Duration(rnd.Int64N(int64(2 * time.Second)))) {
			for p := 1; p < n; p++ {
				switch rnd.IntN(6) {
				case 0, 1, 2:
					tell(plain, at, p, netgossip.Statement{Guard: netgossip.Guard{Armed: true, Fences: true, Horizon: 20 * time.Second}})
					tell(doubting, at, p, netgossip.Statement{Guard: netgossip.Guard{Armed: true, Fences: true, Horizon: 20 * time.Second}})
				case 3:
					network := rnd.IntN(plain.cfg.Networks)
					plain.Merger().MemberChanged(network, p, false, at)
					doubting.Merger().MemberChanged(network, p, false, at)
				}
			}
			var doubts []netgossip.Silence
			for p := 1; p < n; p++ {
				if rnd.IntN(2) == 0 {
					doubts = append(doubts, netgossip.Silence{Peer: p, Since: at.Add(-time.Duration(rnd.Int64N(int64(3 * time.Second))))})
				}
			}
			doubting.SetSilent(doubts)
			undamped(plain) // doubts cause more flaps; TestDampingDoesNotEnterTheVerdict tests the holds
			undamped(doubting)
			a, b := *plain.Step(at), *doubting.Step(at)
			differed = differed || a.Available != b.Available
			if *a.Statement != *b.Statement || plain.View() != doubting.View() || plain.Demands() != doubting.Demands() {
				t.Fatalf("seed %d: the statements or views differ:\n%+v\n%+v", seed, *a.Statement, *b.Statement)
			}
			if a.Decision != b.Decision || a.Fenced != b.Fenced || a.Strike != b.Strike || a.Nudge != b.Nudge || a.Changed != b.Changed || a.Wake != b.Wake {
				t.Fatalf("seed %d: the verdicts differ:\n%+v\n%+v", seed, a.Decision, b.Decision)
			}
			if extra := b.Available.Minus(a.Available); !extra.IsEmpty() {
				t.Fatalf("seed %d: a doubt makes %v available", seed, extra)
			}
		}
		if !differed {
			t.Errorf("seed %d: no doubt was ever published", seed)
		}
	}
}

// Demands returns the demand on the networks.
func (c *Core) Demands() netgossip.Demand {
	v := c.NetworkView()
	return c.Merger().Demand(&v, c.rosters.Quorum())
}
