package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// foreignClock is how far the clocks of peers are behind this node's in these tests.
const foreignClock = 1000 * sec

// dates lets a peer answer a question of an instant with a statement that gives a due of the last node, by its own
// clock, which showed that when it replied. Both are given by this node's clock.
func dates(c *Core, asked, replied boottime.Instant, peer int, due boottime.Instant) *netgossip.Statement {
	st := netgossip.Statement{Boot: 100 + uint64(peer), Guard: killing, Seen: roster.FullSet(4), RosterEpoch: c.cfg.Roster.Epoch, RosterDigest: c.cfg.Roster.Digest}
	st.Dues.Add(due.Add(-testHorizon)+foreignClock, testHorizon, 4)
	again := &st
	answers(c, asked, replied, peer, again)
	return again
}

func answers(c *Core, asked, replied boottime.Instant, peer int, st *netgossip.Statement) {
	c.Merger().Answered(netgossip.Answer{Peer: peer, SentAt: asked, Statement: st, Clock: replied + foreignClock})
}

// bereft returns a core of five nodes that has seen the last one until 13 s, in steps of a second up to 48 s. Its own
// claim is due at 45 s. A majority needs two more.
func bereft(t *testing.T) *Core {
	t.Helper()
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	for d := 11 * sec; d <= 48*sec; d += sec {
		for p := 1; p < 4; p++ {
			tell(c, d, p, netgossip.Statement{Guard: killing})
		}
		c.Step(d)
	}
	if due := c.fx.Statement.Dues.Of(4); due == nil || due.Since != 15*sec || due.Horizon != testHorizon || c.proof.Fenced().Has(4) {
		t.Fatalf("due %v; want the second step after the last sight and the horizon", due)
	}
	return c
}

// Guard: a claim begins with the second step without the victim: the statement of the step before is given out until the
// effects of the first one have been carried out. Before quiet is over, no due is stated.
func TestClaimBeginsWithTheSecondStep(t *testing.T) {
	bereft(t)
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	for _, d := range []boottime.Instant{13 * sec, 14 * sec, 14*sec + sec/2, 16 * sec} {
		c.Step(d)
	}
	if c.fx.Statement.Dues != (netgossip.Dues{}) {
		t.Errorf("silent for 1.5 s, and due: %+v", c.fx.Statement.Dues)
	}
	for p := 1; p < 4; p++ {
		tell(c, 16*sec, p, netgossip.Statement{Guard: killing})
	}
	c.Step(17 * sec)
	if due := c.fx.Statement.Dues.Of(4); due == nil || due.Since != 14*sec+sec/2 {
		t.Errorf("due %v", due)
	}
}

// Guard: a due is dated by when its answer was there, and a claim holds until the question that the answer is to.
func TestDuesAreDatedByTheReader(t *testing.T) {
	c := bereft(t)
	dates(c, 50*sec, 50*sec, 1, 46*sec)
	// The reply was on its way for half a second, so its due is 49.7 s as far as this node can know.
	slow := dates(c, 49*sec+sec/2, 49*sec+sec*6/10, 2, 49*sec+sec*3/10)
	if fx := c.Step(50 * sec); fx.Fenced.Has(4) {
		t.Fatal("due after the question of the answer, and proven")
	}
	dates(c, 51*sec, 51*sec, 1, 46*sec)
	answers(c, 50*sec, 50*sec+sec/10, 2, slow)
	if fx := c.Step(51 * sec); !fx.Fenced.Has(4) { // the second answer was slower: the first one dates the statement
		t.Error("two others claim it before the questions, not proven")
	}
}

// Guard: claims that have no instant in common prove nothing.
func TestClaimsNeedAnInstantInCommon(t *testing.T) {
	c := bereft(t)
	st := dates(c, 50*sec, 50*sec, 1, 46*sec)
	c.Step(50 * sec)
	dates(c, 53*sec, 53*sec, 2, 51*sec)
	if fx := c.Step(53 * sec); fx.Fenced.Has(4) {
		t.Fatal("one claimed it until 50 s, and the other one from 51 s on")
	}
	answers(c, 53*sec, 53*sec, 1, st)
	if fx := c.Step(53*sec + sec/2); !fx.Fenced.Has(4) {
		t.Error("both claim it at 53 s, not proven")
	}
}

// Guard: this node has not seen the victim at the instant at which its death is proven, or later, in either direction.
func TestDeathIsNotBeforeTheLastSight(t *testing.T) {
	c := bereft(t)
	for p := 1; p < 4; p++ {
		dates(c, 50*sec, 50*sec, p, 46*sec)
	}
	c.Merger().Heard(0, 4, 51*sec)
	if fx := c.Step(52 * sec); fx.Fenced.Has(4) {
		t.Fatal("heard at 51 s, and dead at 50 s")
	}
	for p := 1; p < 4; p++ {
		dates(c, 52*sec, 52*sec, p, 46*sec)
	}
	if fx := c.Step(52*sec + sec/2); !fx.Fenced.Has(4) {
		t.Error("all others claim it at 52 s, not proven")
	}
}

// Guard: a statement whose clock is not known has no due: its boot may have begun after the clock was read.
func TestDuesOfAnUnknownClock(t *testing.T) {
	c := bereft(t)
	for p := 1; p < 4; p++ {
		before := dates(c, 49*sec, 49*sec, p, 80*sec)
		c.Step(49 * sec)
		other := *before
		other.Boot, other.Dues = 200, netgossip.Dues{}
		other.Dues.Add(sec, time.Second, 4) // by a clock that has just begun
		c.Merger().Answered(netgossip.Answer{Peer: p, SentAt: 50 * sec, Statement: &other})
	}
	if fx := c.Step(50 * sec); fx.Fenced.Has(4) {
		t.Error("dated by the clock of the boot before")
	}
}

// Guard: the horizon counts that any of the members knows. This node has lost the victim at 15 s, and knows that an agent
// killed within 30 s. Another one that began meanwhile has told the others that it kills within 40 s.
func TestTheLongestHorizonCounts(t *testing.T) {
	c := bereft(t)
	claims := func(at boottime.Instant) *Effects {
		for p := 1; p < 3; p++ {
			st := netgossip.Statement{Boot: 100 + uint64(p), Guard: killing, Seen: roster.FullSet(4), RosterEpoch: c.cfg.Roster.Epoch, RosterDigest: c.cfg.Roster.Digest}
			st.Dues.Add(10*sec+foreignClock, testHorizon+10*time.Second, 4)
			answers(c, at, at, p, &st)
		}
		return c.Step(at)
	}
	if fx := claims(54*sec + sec/2); fx.Fenced.Has(4) {
		t.Fatal("the others are due at 50 s, this node at 45 s or, by their horizon, at 55 s; proven at 54.5 s")
	}
	if fx := claims(55*sec + sec/2); !fx.Fenced.Has(4) {
		t.Error("not proven")
	}
}

// Guard: of an undated claim the horizon is not known. An agent without dues has lost the victim at 19 s, and knows that
// it kills within 18 s: it claims it at 44 s. This node lost the victim at 15 s, and knows that the agent which began
// meanwhile kills within 30 s. That agent may have counted the other one until 19 s, so it may run until 49 s.
func TestUndatedClaimsCountLater(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	var said [5]*netgossip.Statement // by peer
	for d := 11 * sec; ; d += sec / 2 {
		for p := 1; p < 4; p++ {
			st := netgossip.Statement{Boot: 100 + uint64(p), Guard: killing, Seen: roster.FullSet(4), RosterEpoch: c.cfg.Roster.Epoch, RosterDigest: c.cfg.Roster.Digest}
			switch {
			case p == 1 && d > 20*sec:
				st.Dues.Add(15*sec+foreignClock, testHorizon, 4)
			case p == 3 && d >= (19+18+7)*sec:
				st.Lost.Add(4)
			}
			if said[p] == nil || *said[p] != st {
				said[p] = &st
			}
			answers(c, d, d, p, said[p])
		}
		switch fenced := c.Step(d).Fenced.Has(4); {
		case fenced && d <= 49*sec:
			t.Fatalf("proven at %v, and it may run until 49 s", d)
		case fenced:
			return
		case d > 53*sec:
			t.Fatal("not proven")
		}
	}
}

// Guard: a condemned node states no due.
func TestCondemnedNodeStatesNoDue(t *testing.T) {
	c := bereft(t)
	c.sentence.condemned = true
	if st := c.statement(49 * sec); st.Dues != (netgossip.Dues{}) {
		t.Errorf("%+v", st.Dues)
	}
}

// The path of a proof must not allocate, with dues or without.
func TestDatedProofDoesNotAllocate(t *testing.T) {
	c := bereft(t)
	dates(c, 49*sec, 49*sec, 1, 46*sec)
	c.Step(49 * sec)
	c.Step(49 * sec)
	if n := testing.AllocsPerRun(100, func() { c.Step(49 * sec) }); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}
