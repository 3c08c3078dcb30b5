package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// answer is a tie-breaker that always gives the same answer.
type answer struct {
	out      tie.Output
	asked    tie.Input
	expected int
}

func (*answer) Name() tie.Name                           { return tie.Name{Setting: "set", Status: "said", Log: 3} }
func (b *answer) SetRoster(_ *roster.Roster, n int)      { b.expected = n }
func (*answer) Grant(boottime.Instant) (tie.Grant, bool) { return tie.Grant{}, false }
func (b *answer) Step(_ boottime.Instant, in *tie.Input) *tie.Output {
	b.asked = *in
	return &b.out
}

// splitCore takes a core of four nodes into an equal split.
func splitCore(t *testing.T, change func(*Config), b tie.Breaker) *Core {
	t.Helper()
	c := testCore(t, 4, change)
	if b != nil {
		c.BreakTiesBy(b)
	}
	hear(c, 10*sec, 1, 2, 3)
	c.Step(10 * sec)
	hear(c, 16*sec, 1)
	c.Step(16 * sec)
	return c
}

func TestAnyTieBreakerDecides(t *testing.T) {
	for _, tc := range []struct {
		split tie.State
		until boottime.Instant
		want  Decision
	}{
		{tie.Won, 18 * sec, Decision{Action: Feed, Reason: ReasonSplitWon, Until: 18 * sec, Quorum: true}},
		{tie.Won, 16 * sec, Decision{Action: Hold, Reason: ReasonSplitPending, Until: 24 * sec, Quorum: true}},
		{tie.Lost, 0, Decision{Action: Starve, Reason: ReasonSplitLost}},
		{tie.Pending, 0, Decision{Action: Hold, Reason: ReasonSplitPending, Until: 24 * sec, Quorum: true}},
		{tie.Unavailable, 0, Decision{Action: Hold, Reason: ReasonSplitLUN, Until: 24 * sec, Quorum: true}},
	} {
		b := &answer{out: tie.Output{Split: tc.split, Until: tc.until, Token: netgossip.Token{Nonce: 5, Counter: 6}, Relay: netgossip.Relay{Log: 3}, Wake: 17 * sec}}
		// The API server is not asked instead, whatever is configured.
		c := splitCore(t, func(c *Config) { c.API, c.LUNLostAsksAPI = true, true }, b)
		if got := c.Decision(); got != tc.want {
			t.Errorf("%v until %v: %+v, want %+v", tc.split, tc.until, got, tc.want)
		}
		fx := &c.fx
		if fx.Statement.Token != b.out.Token || fx.Relay != b.out.Relay || fx.Wake > 17*sec || fx.Lock != -1 || !fx.Statement.Guard.Leases {
			t.Errorf("%v: what it says is not passed on: %+v", tc.split, fx)
		}
		if in := b.asked; !in.Tie || in.View != roster.SetOf(0, 1) || in.TieSince != 14*sec || in.Quorum != 3 || in.Stop || in.Released {
			t.Errorf("%v: asked %+v", tc.split, in)
		}
	}
}

func TestTieBreakerIsToldOfTheStop(t *testing.T) {
	b := &answer{out: tie.Output{Split: tie.Won, Until: boottime.Never, Wake: boottime.Never}}
	c := splitCore(t, nil, b)
	c.SetGuard(true, 10*time.Second)
	c.Stop()
	if fx := c.Step(17 * sec); fx.Wake > 17*sec {
		t.Errorf("it hears of the stop at %v", fx.Wake)
	}
	if c.Step(17 * sec); !b.asked.Stop || b.asked.Released {
		t.Errorf("while the guard is relied upon: %+v", b.asked)
	}
	c.SetGuard(false, 10*time.Second)
	c.Step(17 * sec)
	if c.Step(17 * sec); !b.asked.Stop || !b.asked.Released {
		t.Errorf("when it is given up: %+v", b.asked)
	}
}

// A tie-breaker has its own name; a decision by reachability of the API server has another name.
func TestTieBreakerIsNamed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		b      tie.Breaker
		reason Reason
		want   string
	}{
		{"nothing", nil, nil, ReasonNetworkQuorum, ""},
		{"a LUN", func(c *Config) { c.LUN, c.API = true, true }, nil, ReasonSplitWon, "lun"},
		{"the API instead of a LUN that is away", func(c *Config) { c.LUN, c.API, c.LUNLostAsksAPI = true, true, true }, nil, ReasonSplitPending, "api"},
		{"the API", func(c *Config) { c.API = true }, nil, ReasonNetworkQuorum, "api"},
		{"the API has answered", func(c *Config) { c.LUN, c.API, c.LUNLostAsksAPI = true, true, true }, nil, ReasonAPIUnreachable, "api"},
		{"another", func(c *Config) { c.API = true }, &answer{}, ReasonSplitUndecided, "said"},
	} {
		if got := splitCore(t, tc.change, tc.b).TieBreaker(tc.reason).Status; got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
