package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Guard: near a tie. The API server is asked often only if there is a tie, or may soon be one.
func TestAPIIsAskedNearATie(t *testing.T) {
	for _, tc := range []struct {
		members int
		heard   int // others
		want    bool
	}{
		{2, 1, false}, {2, 0, true},
		{3, 2, false}, {3, 1, true}, {3, 0, true},
		{4, 3, false}, {4, 2, true}, {4, 1, true}, {4, 0, true},
		{6, 4, false}, {6, 3, true}, {6, 2, true},
		{100, 60, false}, {100, 59, true}, {100, 49, true},
	} {
		c := testCore(t, tc.members, func(c *Config) { c.API, c.APIMaxAge = true, 5*time.Second })
		var peers []int
		for p := 1; p <= tc.heard; p++ {
			peers = append(peers, p)
		}
		hear(c, 10*sec, peers...)
		if fx := c.Step(10 * sec); fx.AskAPI != tc.want {
			t.Errorf("%d of %d: asked often %v", tc.heard+1, tc.members, fx.AskAPI)
		}
	}
}

// Guard: an answer from the time when none was needed does not decide a tie: it is too old. Until a fresh answer can be
// there, it may still determine which half tries first.
func TestOldAnswersDecideNothing(t *testing.T) {
	c := testCore(t, 4, func(c *Config) { c.API, c.APIMaxAge = true, 5*time.Second })
	hear(c, 100*sec, 1, 2, 3)
	c.APIChecked(true, 50*sec)
	if fx := c.Step(100 * sec); !fx.Statement.APIReachable {
		t.Error("an answer of a minute ago is not told while none is needed")
	}
	at := 100 * sec
	for ; at <= 106*sec; at += sec / 2 { // no packet of peer 1 is lost, all of peers 2 and 3 are
		hear(c, at, 1)
		c.Step(at)
	}
	d := c.fx.Decision
	if d.Action == Feed || d.Reason == ReasonAPIReachable {
		t.Fatalf("in a tie, by an answer of a minute ago: %+v", d)
	}
	if c.fx.Statement.APIReachable {
		t.Error("told although a fresh answer is overdue")
	}
	hear(c, at, 1)
	c.APIChecked(true, at)
	if d := c.Step(at).Decision; d.Action != Feed || d.Reason != ReasonAPIReachable || d.Until != at.Add(5*time.Second) {
		t.Errorf("in a tie, by a fresh answer: %+v", d)
	}
}

func TestAPIIsToldWhileAFreshAnswerIsUnderWay(t *testing.T) {
	c := testCore(t, 4, func(c *Config) { c.API, c.APIMaxAge = true, 5*time.Second })
	hear(c, 100*sec, 1, 2, 3)
	c.APIChecked(true, 50*sec)
	c.Step(100 * sec)
	told := func(at boottime.Instant) bool {
		hear(c, at, 1)
		return c.Step(at).Statement.APIReachable
	}
	at := 101 * sec
	for told(at) && c.api.urgent == 0 {
		at += sec / 4
	}
	began := c.api.urgent
	if began == 0 || !c.fx.Statement.APIReachable {
		t.Fatalf("not told when it became urgent, at %v", began)
	}
	if !told(began.Add(apiFirst) - 1) {
		t.Error("not told before a fresh answer can be there")
	}
	if told(began.Add(apiFirst)) {
		t.Error("told although it is overdue")
	}
	c.APIChecked(false, began.Add(apiFirst))
	if told(began.Add(apiFirst) + 1) {
		t.Error("told although the server did not answer")
	}
}
