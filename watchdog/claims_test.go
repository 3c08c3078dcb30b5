package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// The times are those of docs/consumers.md: a claim counts for some seconds in a group of any size, and a proof waits
// for this time and for late answers. chanceDelay is the time in which random samples reach all members.
func TestTimesOfAProof(t *testing.T) {
	if claimAge != 5*time.Second || undated != 7*time.Second {
		t.Errorf("claims count for %v, a claim without a date covers %v more than the horizon", claimAge, undated)
	}
	for n, want := range map[int]time.Duration{3: 7 * time.Second, 25: 7 * time.Second, 100: 22 * time.Second, 1000: 202 * time.Second} {
		if got := chanceDelay(n); got != want {
			t.Errorf("%d nodes: all are asked by chance within %v, want %v", n, got, want)
		}
	}
}

// Guard: a death is concluded once, and withdrawn when the node is seen again with the same boot: its guard has failed.
func TestProofStandsUntilTheNodeIsSeenAgain(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	at := mourn(c, 11*time.Second, 2*time.Minute, roster.SetOf(4), 1, 2, 3)
	for d := at + time.Second; d < at+10*time.Second; d += time.Second {
		if mourn(c, d, d, roster.SetOf(4), 1, 2, 3) == 0 || c.proof.Of(4).At != boottime.Instant(at) {
			t.Fatalf("at %v: fenced %v, %+v, proven at %v", d, c.proof.Fenced().Has(4), c.proof.Of(4), at)
		}
	}
	back := boottime.Instant(at + 10*time.Second)
	tell(c, back, 4, netgossip.Statement{Guard: killing})
	if fx := c.Step(back); fx.Fenced.Has(4) {
		t.Error("in contact, and fenced")
	}
}

// Guard: peers' sets are bytes from outside. They prove neither this node's own death nor that of a node that is not
// listed.
func TestClaimsOfOneselfAndOfNobody(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	mourn(c, 11*time.Second, 2*time.Minute, roster.SetOf(0, 4, 9), 1, 2, 3)
	if got := c.proof.Fenced(); got != roster.SetOf(4) {
		t.Errorf("fenced %v", got)
	}
}

// Guard: a node that is seen is not dead, whatever a majority claims. An agent that has just started may see a node
// from which it has no statement yet.
func TestWhoIsSeenIsNotProvenDead(t *testing.T) {
	c := testCore(t, 5, nil)
	for p := 1; p < 4; p++ {
		tell(c, 10*sec, p, netgossip.Statement{Lost: roster.SetOf(4)})
	}
	c.Merger().Answered(netgossip.Answer{Peer: 4, SentAt: 10 * sec, Sight: netgossip.SightSeen})
	if fx := c.Step(10 * sec); !c.View().Seen.Has(4) || fx.Fenced.Has(4) {
		t.Errorf("seen %v, fenced %v", c.View().Seen.Has(4), fx.Fenced.Has(4))
	}
}

// A node that has just booted has not seen any peer before, and counts the others' claims at once.
func TestWitnessThatHasJustBootedBelieves(t *testing.T) {
	c := testCore(t, 5, nil)
	if at := mourn(c, time.Second, time.Second, roster.SetOf(4), 1, 2, 3); at == 0 {
		t.Error("three of five claim, not fenced")
	}
}

// Guard: L9. Only a node that lives by a majority proves deaths by majority: not a node that is stopping, nor one that
// is fed although it counts fewer members than the configured quorum.
func TestOnlyWhoLivesByAMajorityProves(t *testing.T) {
	for _, tc := range []struct {
		name     string
		quorum   int
		decision Decision
		want     bool
	}{
		{"fed by a majority", 0, Decision{Action: Feed, Reason: ReasonNetworkQuorum, Quorum: true}, true},
		{"lost the LUN", 0, Decision{Action: Starve, Reason: ReasonLUNLost}, false},
		{"too few for the quorum", 5, Decision{Action: Hold, Reason: ReasonSplitPending, Quorum: true}, false},
	} {
		c := testCore(t, 5, func(c *Config) { c.Quorum = tc.quorum })
		for p := 1; p < 4; p++ {
			tell(c, 10*sec, p, netgossip.Statement{Lost: roster.SetOf(4)})
		}
		c.view = c.merger.Evaluate(10*sec, c.rosters.quorum)
		c.outcome, c.fx.Decision = c.rosters.tally(c.view.Counted), tc.decision
		if judging(c, 10*sec).conclude(10 * sec); c.proof.Fenced().Has(4) != tc.want {
			t.Errorf("%s: fenced %v", tc.name, c.proof.Fenced().Has(4))
		}
	}
}

// A majority is counted by the list in force, not by all nodes in contact, some of which are leaving or joining.
func TestClaimsAreCountedByTheListInForce(t *testing.T) {
	const x = 4
	c := listCore(t, rosterOf(t, 9, "n0", "n1", "n2", "n3", "x"), rosterOf(t, 1, "n0", "n1", "x"))
	base := standingBy(c.rosters.base())
	tell(c, 10*sec, x, netgossip.Statement{Guard: killing, Standing: base})
	c.Step(10 * sec)
	tell(c, 100*sec, 1, netgossip.Statement{Lost: roster.SetOf(x), Standing: base})
	c.Step(60 * sec)
	c.Step(61 * sec)
	if fx := c.Step(100 * sec); !fx.Decision.Quorum || !fx.Fenced.Has(x) {
		t.Errorf("two of three claim: quorum %v, fenced %v", fx.Decision.Quorum, fx.Fenced.Has(x))
	}
}

// Guard: for a proof by grant, only the time counts for which the grant is known to be in force. Time in another tie,
// or before a gap in which the grant may not have been in force, does not count.
func TestGrantOfAnotherTimeProvesNothing(t *testing.T) {
	won := func(until boottime.Instant) Decision {
		return Decision{Action: Feed, Reason: ReasonSplitWon, Quorum: true, Until: until}
	}
	for _, tc := range []struct {
		name string
		then Decision         // at 12 s
		want boottime.Instant // start of the grant, as known at 15 s
	}{
		{"in force all the time", won(18 * sec), 10 * sec},
		{"it had ended when the next was seen", won(14 * sec), 15 * sec},
		{"a majority between", Decision{Action: Feed, Reason: ReasonNetworkQuorum, Quorum: true, Until: 18 * sec}, 15 * sec},
	} {
		c := testCore(t, 4, nil)
		c.fx.Decision = won(15 * sec)
		judging(c, 10*sec).conclude(10 * sec)
		c.fx.Decision = tc.then
		judging(c, 12*sec).conclude(12 * sec)
		c.fx.Decision = won(22 * sec)
		if judging(c, 15*sec).conclude(15 * sec); c.proof.grantSince != tc.want {
			t.Errorf("%s: in force since %v, want %v", tc.name, time.Duration(c.proof.grantSince), time.Duration(tc.want))
		}
	}
}

// Guard: the state of a member follows it when the indices change, and a new member inherits nothing from the former
// member with its index.
func TestProofsFollowTheirNodes(t *testing.T) {
	members := []string{"n0", "n1", "n2", "n3", "n4"}
	c := listCore(t, rosterOf(t, 1, members...), rosterOf(t, 1, members...))
	v := &c.proof
	tell(c, 10*sec, 2, netgossip.Statement{Guard: killing})
	tell(c, 10*sec, 3, netgossip.Statement{Guard: killing})
	c.Step(10 * sec)
	v.fenced, v.carried = roster.SetOf(3), roster.SetOf(2)
	v.peers[3].death = Death{Proof: ProofTime, Boot: 103, At: 10 * sec}

	c.Renumber(rosterOf(t, 2, "a0", "a1", "a2", "n0", "n2", "n3")) // the indices of n2 and n3 grow by two
	want := roster.SetOf(4, 5)
	if v.guarded != want || v.fenced != roster.SetOf(5) || v.carried != roster.SetOf(4) || !v.lost.IsEmpty() {
		t.Errorf("guarded %v, fenced %v, carried %v, lost %v", v.guarded, v.fenced, v.carried, v.lost)
	}
	if c.proof.Of(5).Boot != 103 || c.proof.Of(3).Proof != 0 || v.peers[4].boot != 102 {
		t.Errorf("%+v %+v, boot %d", c.proof.Of(5), c.proof.Of(3), v.peers[4].boot)
	}
	for p := range 6 {
		if _, ok := c.proof.ProvenIn(20*sec, p); ok != (p == 5) && !c.view.Seen.Has(p) {
			t.Errorf("%s: about to be proven dead: %v", c.cfg.Roster.Name(p), ok)
		}
	}
	if v.roster.Self != 3 {
		t.Errorf("it takes %d for itself", v.roster.Self)
	}
	var many []string
	for i := range 100 {
		many = append(many, string(rune('a'+i/26))+string(rune('a'+i%26)))
	}
	if c.Renumber(rosterOf(t, 3, append(many, "n0")...)); v.chance != chanceDelay(101) {
		t.Errorf("everybody is asked by chance within %v", v.chance)
	}
}

// Guard: when the indices change, claims begin again, and a new member is not called dead before this node has had the
// time to meet it.
func TestClaimsBeginAgainWithOtherIndices(t *testing.T) {
	members := []string{"n0", "n1", "n2"}
	c := listCore(t, rosterOf(t, 1, members...), rosterOf(t, 1, members...))
	tell(c, 10*sec, 2, netgossip.Statement{Guard: killing})
	c.Step(10 * sec)
	c.Step(50 * sec)
	c.Step(51 * sec)
	c.Step(100 * sec)
	if !c.proof.lost.Has(2) {
		t.Fatal("not claimed")
	}
	c.Renumber(rosterOf(t, 2, append(members, "n3")...))
	if got := c.Step(101 * sec).Statement.Lost; !got.IsEmpty() || c.fx.Statement.Dues != (netgossip.Dues{}) || c.proof.since(&c.proof.peers[3]) < 100*sec || c.proof.since(&c.proof.peers[2]) < 101*sec {
		t.Errorf("claimed %v", got)
	}
}

// judging returns the prover of a core with the core's present input.
func judging(c *Core, now boottime.Instant) *Prover {
	c.proof.in = c.situation(now)
	return &c.proof
}
