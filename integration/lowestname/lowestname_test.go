package lowestname

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

const maxAge = 4 * time.Second

// group is four cores that hear each other through no network at all, each with the tie-breaker.
type group struct {
	t     *testing.T
	now   boottime.Instant
	cores []*watchdog.Core
	fx    []*watchdog.Effects
}

func newGroup(t *testing.T) *group {
	t.Helper()
	names := []string{"n1", "n2", "n3", "n4"}
	var members []roster.Member
	for _, n := range names {
		members = append(members, roster.Member{Name: n})
	}
	g := &group{t: t, now: boottime.Instant(time.Hour)}
	for i, n := range names {
		r, err := roster.New(1, members, n)
		if err != nil {
			t.Fatal(err)
		}
		c := watchdog.NewCore(watchdog.Config{
			Roster: r, Networks: 1, Policy: netgossip.Any(), MaxAge: maxAge, Arbitrate: 10 * time.Second, OnLoss: watchdog.LossFence, Boot: uint64(0xb0 + i),
			Budget: watchdog.Budget{MaxAge: maxAge, Arbitrate: 10 * time.Second, Feed: time.Second, Margin: time.Second}.WithWatchdog(5 * time.Second),
		})
		c.BreakTiesBy(New(r, c.Merger(), maxAge, uint64(0xb0+i))) // the line of wiring
		c.SetTerms(g.now, netgossip.Terms{By: Terms, Log: 1}, roster.Set{})
		c.SetGuard(true, 5*time.Second)
		g.cores = append(g.cores, c)
	}
	g.fx = make([]*watchdog.Effects, len(g.cores))
	return g
}

// run lets time pass in which a node hears those of its part. Two parts never live at one moment by grants.
func (g *group) run(d time.Duration, parts ...roster.Set) {
	g.t.Helper()
	for end := g.now.Add(d); g.now < end; {
		g.now = g.now.Add(500 * time.Millisecond)
		for _, part := range parts {
			for i := range part.All() {
				for p := range part.All() {
					if fx := g.fx[p]; p != i && fx != nil {
						g.cores[i].Merger().Answered(netgossip.Answer{Peer: p, SentAt: g.now, Statement: fx.Statement, Relay: fx.Relay})
					}
				}
			}
		}
		for i, c := range g.cores {
			g.fx[i] = c.Step(g.now)
		}
		var living int
		for _, part := range parts {
			for i := range part.All() {
				if g.fx[i].Decision.Reason == watchdog.ReasonSplitWon {
					living++
					break
				}
			}
		}
		if living > 1 {
			g.t.Fatalf("%v: both halves live", time.Duration(g.now))
		}
	}
}

func TestThirdTieBreakerNeedsNoChangeOfTheCore(t *testing.T) {
	all := roster.FullSet(4)
	for _, winner := range []roster.Set{roster.SetOf(0, 1), roster.SetOf(0, 2), roster.SetOf(0, 3)} {
		g := newGroup(t)
		g.run(5*time.Second, all)
		for i, fx := range g.fx {
			if fx.Decision.Reason != watchdog.ReasonNetworkQuorum || !g.cores[i].Agreed() {
				t.Fatalf("together: %d decides %+v, agreed %v", i, fx.Decision, g.cores[i].Agreed())
			}
		}
		loser := all.Minus(winner)
		g.run(8*time.Second, winner, loser)
		for i, fx := range g.fx {
			want := watchdog.Decision{Action: watchdog.Starve, Reason: watchdog.ReasonSplitLost}
			if winner.Has(i) {
				want = watchdog.Decision{Action: watchdog.Feed, Reason: watchdog.ReasonSplitWon, Quorum: true, Until: fx.Decision.Until}
			}
			if fx.Decision != want || winner.Has(i) && fx.Decision.Until <= g.now {
				t.Errorf("half %v: %d decides %+v, want %+v", winner, i, fx.Decision, want)
			}
			if n := g.cores[i].TieBreaker(fx.Decision.Reason); n.Setting != Setting {
				t.Errorf("%d calls what has decided %+v", i, n)
			}
		}
		if d, ok := g.cores[0].Breaker().Grant(g.now); !ok || !d.Held || len(d.Holders) != 2 || d.Holders[0] != "n1" {
			t.Errorf("shown as %+v", d)
		}
		g.run(time.Minute, winner, loser)
		if got := g.fx[0].Fenced; got != loser {
			t.Errorf("half %v: takes %v for dead, want %v", winner, got, loser)
		}
		g.run(5*time.Second, all)
		for i, fx := range g.fx {
			if fx.Decision.Reason != watchdog.ReasonNetworkQuorum {
				t.Errorf("together again: %d decides %+v", i, fx.Decision)
			}
		}
	}
}
