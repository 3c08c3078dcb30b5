package watchdog

import (
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// servant returns a healthy core of five that obeys orders: its boot is 100, and there is no LUN.
func servant(t *testing.T) *Core {
	t.Helper()
	c := testCore(t, 5, func(cfg *Config) {
		cfg.Orders, cfg.Boot = true, 100
		cfg.Sentence = Sentencing{Timeout: time.Second, Strike: time.Second}
	})
	c.SetGuard(true, 30*time.Second)
	return c
}

func orderTo(c *Core, victim int, boot uint64, by int) netgossip.Fact {
	return netgossip.Fact{
		Kind: netgossip.FactOrder, Name: netgossip.NameDigest(c.cfg.Roster.Name(victim)), Boot: boot, Teller: netgossip.TellerDigest(c.cfg.Roster.Name(by)),
	}
}

// serve advances the clock while all others answer, with statements that change may modify, and returns when the core
// condemned itself.
func serve(c *Core, from, to boottime.Instant, change func(peer int, st *netgossip.Statement)) boottime.Instant {
	full := roster.FullSet(5)
	for at := from; at <= to; at += sec / 4 {
		for p := 1; p < 5; p++ {
			st := netgossip.Statement{Guard: killing, Feeding: true, View: full}
			if change != nil {
				change(p, &st)
			}
			seen := full
			if !st.Seen.IsEmpty() {
				seen = st.Seen
			}
			state(c, at, p, seen, st)
		}
		if c.Step(at).Condemn > 0 {
			return at
		}
	}
	return 0
}

// by1 adds an order of member 1 to end this boot.
func by1(c *Core) func(int, *netgossip.Statement) {
	return func(p int, st *netgossip.Statement) {
		if p == 1 {
			st.Facts[0] = orderTo(c, 0, 100, 1)
		}
	}
}

// A node that gets an order announces it, hears all others, and condemns its boot within about a second.
func TestOrderIsObeyed(t *testing.T) {
	c := servant(t)
	if at := serve(c, 10*sec, 20*sec, nil); at != 0 {
		t.Fatalf("without an order: %v", time.Duration(at))
	}
	said := false
	at := serve(c, 21*sec, 30*sec, func(p int, st *netgossip.Statement) {
		by1(c)(p, st)
		said = said || c.fx.Statement.Facts[0] == orderTo(c, 0, 100, 1)
	})
	if at < 21*sec+boottime.Instant(letReach) || at > 23*sec || !said {
		t.Errorf("condemned at %v, said so %v", time.Duration(at), said)
	}
	if by := c.CondemnedBy(); by != "n0001" || c.Decision().Reason != ReasonCondemned {
		t.Errorf("by %q, %v", by, c.Decision().Reason)
	}
	if c.Sentenced(time.Second); c.Step(at+sec/10).Statement.Sentence != time.Second {
		t.Error("it is not told")
	}
}

// Guards: the conditions under which a node does not obey.
func TestOrderIsNotObeyed(t *testing.T) {
	type statement = netgossip.Statement
	everybody := func(f func(*Core, int, *statement)) func(*Core) func(int, *statement) {
		return func(c *Core) func(int, *statement) {
			order := by1(c)
			return func(p int, st *statement) { order(p, st); f(c, p, st) }
		}
	}
	first := func(f func(*Core, *statement)) func(*Core) func(int, *statement) {
		return everybody(func(c *Core, p int, st *statement) {
			if p == 1 {
				f(c, st)
			}
		})
	}
	alone := func(f func(*Core)) func(*Core) func(int, *statement) {
		return func(c *Core) func(int, *statement) { f(c); return by1(c) }
	}
	for name, prepare := range map[string]func(*Core) func(int, *statement){
		"it takes none":           alone(func(c *Core) { c.cfg.Orders = false }),
		"no timeout for it":       alone(func(c *Core) { c.cfg.Sentence.Timeout = 0 }),
		"a short watchdog":        alone(func(c *Core) { c.SetGuard(true, 3*time.Second) }),
		"two countdowns too long": alone(func(c *Core) { c.cfg.Sentence.Timeout = 3 * time.Second; c.SetGuard(true, 6*time.Second) }),
		"no watchdog":             alone(func(c *Core) { c.SetGuard(false, 0) }),
		"maintenance":             alone(func(c *Core) { c.SetDisarm("file", "maintenance") }),
		"it stops":                alone(func(c *Core) { c.Stop() }),
		"it has given way":        alone(func(c *Core) { c.proof.orders.rest = 40 * sec }),
		"of an earlier boot":      first(func(c *Core, st *statement) { st.Facts[0] = orderTo(c, 0, 99, 1) }),
		"of another node":         first(func(c *Core, st *statement) { st.Facts[0] = orderTo(c, 2, 100, 1) }),
		"handed on":               first(func(c *Core, st *statement) { st.Facts[0] = orderTo(c, 0, 100, 2) }),
		"by one who starves":      first(func(_ *Core, st *statement) { st.Feeding = false }),
		"by one who stops":        first(func(_ *Core, st *statement) { st.Stopping = true }),
		"by one who is condemned": first(func(_ *Core, st *statement) { st.Sentence = time.Second }),
		"by one who is condemned, and has outlived it": first(func(c *Core, st *statement) { st.Sentence, c.proof.peers[1].defied = time.Second, 101 }), // P5 no longer bars it
		"by one without majority":                      first(func(_ *Core, st *statement) { st.View = roster.SetOf(0, 1) }),
		"by one who does not count this node":          first(func(_ *Core, st *statement) { st.View = roster.SetOf(1, 2, 3, 4) }),
		"the others are too few":                       everybody(func(_ *Core, p int, st *statement) { st.View = roster.SetOf(0, 1, 2) }),
		// Each of the other three has a majority without this node only because of 4, which does not see it.
		"a majority of others rests on one whom this node does not count": everybody(func(_ *Core, p int, st *statement) {
			if p == 4 {
				st.Seen = roster.SetOf(1, 2, 3, 4)
			} else {
				st.View.Remove(p%3 + 1)
			}
		}),
		"two of the others starve":      everybody(func(_ *Core, p int, st *statement) { st.Feeding = p < 3 }),
		"two of the others are to stop": everybody(func(_ *Core, p int, st *statement) { st.Stopping = p > 2 }),
		"another one is about to obey, and goes first": everybody(func(c *Core, p int, st *statement) {
			if lower := lowest(c); p == lower {
				st.Facts[0] = orderTo(c, p, 100+uint64(p), 1)
			}
		}),
		"another one is about to obey, and has not given way": everybody(func(c *Core, p int, st *statement) {
			if p == highest(c) {
				k := 0
				if p == 1 {
					k = 1
				}
				st.Facts[k] = orderTo(c, p, 100+uint64(p), 1)
			}
		}),
		"another one is condemned": everybody(func(_ *Core, p int, st *statement) {
			if p == 4 {
				st.View, st.Sentence = roster.Set{}, time.Second
			}
		}),
		"another one was ended a moment ago": alone(func(c *Core) { c.proof.peers[4].death = Death{Proof: ProofSentence, Boot: 1, At: 20 * sec} }),
	} {
		t.Run(name, func(t *testing.T) {
			c := servant(t)
			serve(c, 10*sec, 20*sec, nil)
			change := prepare(c)
			if at := serve(c, 21*sec, 26*sec, change); at != 0 {
				t.Errorf("condemned at %v", time.Duration(at))
			}
		})
	}
}

func lowest(c *Core) int  { return extreme(c, func(a, b uint64) bool { return a < b }) }
func highest(c *Core) int { return extreme(c, func(a, b uint64) bool { return a > b }) }

func extreme(c *Core, better func(a, b uint64) bool) int {
	best := 0
	for p := range 5 {
		if better(netgossip.NameDigest(c.cfg.Roster.Name(p)), netgossip.NameDigest(c.cfg.Roster.Name(best))) {
			best = p
		}
	}
	return best
}

// Guard: the remaining majority does not depend on a member that this node does not count.
func TestOrderRestsOnWhomTheVictimCounts(t *testing.T) {
	c := servant(t)
	serve(c, 10*sec, 20*sec, nil)
	for at := 21 * sec; at < 26*sec; at += sec / 4 {
		for p := 1; p < 5; p++ {
			seen, st := roster.FullSet(5), netgossip.Statement{Guard: killing, Feeding: true, View: roster.SetOf(0, p, p%3+1, 4)}
			if by1(c)(p, &st); p == 4 {
				seen.Remove(0)
			}
			state(c, at, p, seen, st)
		}
		if fx := c.Step(at); fx.Condemn > 0 || c.view.Counted.Has(4) {
			t.Fatalf("at %v: condemned %v, counted %v", time.Duration(at), fx.Condemn, c.view.Counted)
		}
	}
}

// A member under maintenance is alive, and counts in the remaining majority. So does one without a watchdog.
func TestOrderWithMembersUnderMaintenance(t *testing.T) {
	c := servant(t)
	serve(c, 10*sec, 20*sec, nil)
	if at := serve(c, 21*sec, 26*sec, func(p int, st *netgossip.Statement) {
		if by1(c)(p, st); p > 2 {
			st.Guard, st.Feeding = netgossip.Guard{}, false
		}
	}); at == 0 {
		t.Error("not obeyed")
	}
}

// Guard: a member that has not answered since this node's announcement may be about to obey, too.
func TestOrderWaitsForAll(t *testing.T) {
	c := servant(t)
	serve(c, 10*sec, 20*sec, nil)
	full := roster.FullSet(5)
	for at := 21 * sec; at < 24*sec; at += sec / 4 {
		for p := 1; p < 4; p++ { // the last one has answered lately, but not since the announcement
			st := netgossip.Statement{Guard: killing, Feeding: true, View: full}
			by1(c)(p, &st)
			state(c, at, p, full, st)
		}
		if fx := c.Step(at); fx.Condemn > 0 {
			t.Fatalf("condemned at %v", time.Duration(at))
		} else if at == 22*sec && c.fx.Ask == nil && c.proof.orders.q.asked == 0 {
			t.Error("it is not asked")
		}
	}
}

// Guard: O8. A step that is delayed after it has decided to obey has not announced it yet. Answers that arrive in the
// meantime are not consent: the others may have asked this node in the same time, and have not heard the announcement.
func TestConsentIsFromAfterTheWordIsOut(t *testing.T) {
	c := servant(t)
	serve(c, 10*sec, 20*sec, nil)
	answer := func(at boottime.Instant) {
		for p := 1; p < 5; p++ {
			st := netgossip.Statement{Guard: killing, Feeding: true, View: roster.FullSet(5)}
			by1(c)(p, &st)
			state(c, at, p, roster.FullSet(5), st)
		}
	}
	answer(21 * sec)
	if c.Step(21 * sec); c.proof.orders.taken != 21*sec {
		t.Fatal("it is not about to obey")
	}
	answer(22 * sec) // answers to questions of other goroutines of this node
	back := 22*sec + 4*sec/10
	if fx := c.Step(back); fx.Condemn > 0 || fx.Ask == nil || c.Step(back+sec/10).Condemn > 0 {
		t.Errorf("condemned %v, asked %v", fx.Condemn, fx.Ask)
	}
	answer(back + sec/10)
	if c.Step(back+2*sec/10).Condemn == 0 {
		t.Error("not obeyed")
	}
}

// Guard: the victim asks for consent as soon as answers count, but not before.
func TestConsentIsAskedForAtOnce(t *testing.T) {
	c := servant(t)
	serve(c, 10*sec, 20*sec, nil)
	full := roster.FullSet(5)
	st := netgossip.Statement{Guard: killing, Feeding: true, View: full}
	by1(c)(1, &st)
	state(c, 21*sec, 1, full, st)
	for at := 21 * sec; ; at += sec / 50 {
		if fx := c.Step(at); fx.Ask == nil && at < 24*sec {
			continue
		}
		if due := c.proof.orders.taken.Add(letReach); at <= due || at > due+sec/10 || c.fx.Ask[0] != roster.SetOf(1, 2, 3, 4) {
			t.Errorf("asked at %v, due at %v: %v", time.Duration(at), time.Duration(due), c.fx.Ask)
		}
		return
	}
}

// Guard: two questions of one step are both asked.
func TestQuestionsOfOneStepAreAllAsked(t *testing.T) {
	c := servant(t)
	serve(c, 10*sec, 20*sec, nil)
	c.proof.out.Ask = nil
	c.proof.askToo(20*sec, roster.SetOf(1), 0)
	if c.proof.askToo(20*sec, roster.SetOf(3), 0); c.proof.out.Ask[0] != roster.SetOf(1, 3) {
		t.Errorf("asked: %v", c.proof.out.Ask)
	}
}

// Guard: O1. A member may be counted because of answers that only confirm its latest statement, or because of a vouch,
// as in a group with samples. Its order is still valid for no longer than MaxAge, even if a rival has kept this node
// waiting since all have answered.
func TestOldOrderIsNone(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		c := servant(t)
		serve(c, 10*sec, 20*sec, nil)
		rival, obeyed := highest(c), false
		if rival < 2 {
			t.Fatal("the rival is to be neither this node nor the one that orders")
		}
		for at := 21 * sec; at < 32*sec; at += sec / 4 {
			for p := 1; p < 5; p++ {
				if p == 1 && !fresh && at > 23*sec {
					c.Merger().Answered(netgossip.Answer{Peer: 1, SentAt: at, Sight: netgossip.SightSeen})
					continue
				}
				st := netgossip.Statement{Guard: killing, Feeding: true, View: roster.FullSet(5)}
				if by1(c)(p, &st); p == rival && at < 29*sec {
					st.Facts[0] = orderTo(c, p, 100+uint64(p), 1)
				}
				state(c, at, p, roster.FullSet(5), st)
			}
			obeyed = c.Step(at).Condemn > 0 || obeyed
			if at == 25*sec && (c.proof.orders.taken == 0 || !c.proof.unheard().IsEmpty()) {
				t.Errorf("it is not about to obey: since %v, unheard %v", c.proof.orders.taken, c.proof.unheard())
			}
			if !obeyed && !c.view.Counted.Has(1) {
				t.Fatalf("at %v the member that orders is not counted", time.Duration(at))
			}
		}
		if obeyed != fresh {
			t.Errorf("said again and again %v: obeyed %v", fresh, obeyed)
		}
	}
}

// Guard: an order that is not repeated ends.
func TestOrderEnds(t *testing.T) {
	c := servant(t)
	serve(c, 10*sec, 20*sec, nil)
	serve(c, 21*sec, 21*sec, by1(c))
	if by, _ := c.proof.Ordered(); by != "n0001" {
		t.Fatalf("by %q", by)
	}
	if at := serve(c, 21*sec+sec/4, 30*sec, nil); at != 0 || c.proof.orders.taken != 0 {
		t.Errorf("condemned at %v, still about to %v", time.Duration(at), c.proof.orders.taken)
	}
}

// Guards: each answer to a request for an order. The cases that need a whole group are in integration/sim.
func TestOrderIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*Core)
		order  Word
		want   Refusal
	}{
		"off":              {func(c *Core) { c.cfg.Orders = false }, Word{Node: "n0004", Death: Death{Boot: 104}}, RefusedOff},
		"no member":        {nil, Word{Node: "n0009", Death: Death{Boot: 104}}, RefusedMember},
		"itself":           {nil, Word{Node: "n0000", Death: Death{Boot: 100}}, RefusedSelf},
		"another boot":     {nil, Word{Node: "n0004", Death: Death{Boot: 105}}, RefusedOtherBoot},
		"no boot":          {nil, Word{Node: "n0004", Death: Death{Boot: 0}}, RefusedOtherBoot},
		"two machines":     {func(c *Core) { c.proof.peers[4].twins = true }, Word{Node: "n0004", Death: Death{Boot: 104}}, RefusedTwins},
		"not obeyed":       {nil, Word{Node: "n0004", Death: Death{Boot: 104}}, RefusedDisobeyed},
		"while one stands": {func(c *Core) { c.proof.Order(2, Word{Node: "n0003", Death: Death{Boot: 103}}) }, Word{Node: "n0004", Death: Death{Boot: 104}}, RefusedBusy},
	} {
		t.Run(name, func(t *testing.T) {
			c := servant(t)
			serve(c, 10*sec, 20*sec, nil)
			if tc.before != nil {
				tc.before(c)
			}
			c.proof.Order(1, tc.order)
			var got *Refused
			for at := 21 * sec; at < 33*sec; at += sec / 4 {
				serve(c, at, at, nil)
				for _, o := range c.fx.Obeyed {
					if o.ID == 1 {
						got = o.Err
					}
				}
			}
			if got == nil || got.Why != tc.want || strings.Contains(got.Error(), "%!") {
				t.Fatalf("%+v", got)
			}
		})
	}
	for f := range refusals {
		e := &Refused{Why: Refusal(f), Order: true, Node: "n4", Other: "n3"}
		if text := e.Error(); f > 0 && (e.Why.String() == "none" || e.Why.String() == "" || text == "refused" || text == "") {
			t.Errorf("%d: %v, %s", f, e.Why, text)
		}
	}
}

// Guard: an order is given until its limit, ends when the boot announces that it is condemned, and is not passed on by
// others.
func TestOrderIsGiven(t *testing.T) {
	c := servant(t)
	serve(c, 10*sec, 20*sec, nil)
	c.proof.Order(1, Word{Node: "n0004", Death: Death{Boot: 104}})
	serve(c, 21*sec, 21*sec, nil)
	if c.fx.Statement.Facts[0] != orderTo(c, 4, 104, 0) || !c.fx.Spread {
		t.Fatalf("%+v, at once %v", c.fx.Statement.Facts, c.fx.Spread)
	}
	var answers []Answer
	for at := 22 * sec; at < 24*sec; at += sec / 4 {
		serve(c, at, at, func(p int, st *netgossip.Statement) {
			if p == 4 {
				st.View, st.Sentence = roster.Set{}, time.Second
			}
		})
		answers = append(answers, c.fx.Obeyed...)
	}
	if len(answers) != 1 || answers[0].ID != 1 || answers[0].Err != nil {
		t.Errorf("%+v", answers)
	}
	for _, f := range c.fx.Statement.Facts {
		if f.Kind == netgossip.FactOrder {
			t.Errorf("it still orders: %+v", f)
		}
	}
}
