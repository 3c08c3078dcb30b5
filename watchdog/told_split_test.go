package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// Guard: in an equal split a report is believed in the half that a grant names, but not in a half that waits or uses
// the API server: the other half may live, too.
func TestWordInAnEqualSplit(t *testing.T) {
	for name, tc := range map[string]struct {
		split  tie.State
		until  boottime.Instant
		api    bool
		do     func(*Core)
		reason Reason
		want   Refusal
	}{
		"won":                       {split: tie.Won, until: boottime.Never, reason: ReasonSplitWon},
		"won, and it stops":         {split: tie.Won, until: boottime.Never, do: (*Core).Stop, reason: ReasonStopping},
		"won, which has run out":    {split: tie.Won, until: 17 * sec, reason: ReasonSplitPending, want: RefusedNoQuorum},
		"won, at odds":              {split: tie.Won, until: boottime.Never, do: func(c *Core) { c.SetTerms(12*sec, ourTerms, roster.Set{}) }, reason: ReasonSplitAtOdds, want: RefusedNoQuorum},
		"pending":                   {split: tie.Pending, reason: ReasonSplitPending, want: RefusedNoQuorum},
		"no tie-breaker to be had":  {split: tie.Unavailable, reason: ReasonSplitLUN, want: RefusedNoQuorum},
		"lost":                      {split: tie.Lost, reason: ReasonSplitLost, want: RefusedNoQuorum},
		"the API server":            {api: true, reason: ReasonAPIReachable, want: RefusedNoQuorum},
		"the API server, it stops":  {api: true, do: (*Core).Stop, reason: ReasonStopping, want: RefusedNoQuorum},
		"the API server, and a LUN": {api: true, do: func(c *Core) { c.granted, c.cfg.LUNLostAsksAPI = true, true }, reason: ReasonAPIReachable, want: RefusedNoQuorum},
	} {
		t.Run(name, func(t *testing.T) {
			c := testCore(t, 4, func(c *Config) { c.API, c.APIMaxAge = tc.api, time.Minute })
			if !tc.api {
				c.BreakTiesBy(&answer{out: tie.Output{Split: tc.split, Until: tc.until, Wake: boottime.Never}})
			}
			for at := 10 * sec; at < 12*sec; at += sec / 4 {
				for p := 1; p < 4; p++ {
					state(c, at, p, roster.FullSet(4), netgossip.Statement{Guard: killing})
				}
				c.Step(at)
			}
			if tc.do != nil {
				tc.do(c)
			}
			told := false
			for at := 12 * sec; at < 22*sec; at += sec / 4 {
				state(c, at, 1, roster.SetOf(0, 1), netgossip.Statement{Guard: killing})
				c.APIChecked(true, at)
				if !told && at >= 18*sec {
					told = true
					c.proof.Tell(1, Word{Node: "n0003", Death: Death{Boot: 103, Proof: ProofPower}})
				}
				fx := c.Step(at)
				for _, a := range fx.Told {
					if fx.Decision.Reason != tc.reason {
						t.Errorf("%+v, want %v", fx.Decision, tc.reason)
					}
					if (a.Err == nil) != (tc.want == 0) || a.Err != nil && a.Err.Why != tc.want || fx.Fenced.Has(3) != (tc.want == 0) {
						t.Errorf("%+v, FENCED %v", a, fx.Fenced.Has(3))
					}
					return
				}
			}
			t.Error("no answer")
		})
	}
}
