package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// sampled is a core of a large group in which statements are only requested if needed: peers answer briefly.
type sampled struct {
	*Core
	t     *testing.T
	now   boottime.Instant
	there []int
	asked map[boottime.Instant]roster.Set // asked peers, by the time of the round
	ways  [][]roster.Set                  // rounds
	ends  int                             // how often the remaining questions were cancelled
}

// newSampled returns a core that has met all of n guarded peers at 10 s. The last ones are not heard again.
func newSampled(t *testing.T, n, victims int, change func(*Config)) *sampled {
	t.Helper()
	s := &sampled{t: t, now: 10 * sec, asked: map[boottime.Instant]roster.Set{}}
	s.Core = testCore(t, n, func(c *Config) {
		if c.Networks = 2; change != nil {
			change(c)
		}
	})
	for p := 1; p < n; p++ {
		tell(s.Core, s.now, p, netgossip.Statement{Guard: killing})
		if p < n-victims {
			s.there = append(s.there, p)
		}
	}
	s.Step(s.now)
	return s
}

// run lets the peers answer briefly on all networks, and steps, up to an instant.
func (s *sampled) run(to time.Duration) {
	s.t.Helper()
	for ; s.now < boottime.Instant(to); s.now += sec / 2 {
		for _, p := range s.there {
			for k := range s.cfg.Networks {
				s.Merger().Answered(netgossip.Answer{Network: k, Peer: p, SentAt: s.now, Sight: netgossip.SightSeen})
			}
		}
		fx := s.Step(s.now)
		if fx.Ask == nil {
			continue
		}
		all := roster.Set{}
		for _, on := range fx.Ask {
			if on.Intersects(all) {
				s.t.Errorf("at %v: asked twice in a round: %v", s.now, fx.Ask)
			}
			all = all.Union(on)
		}
		if all.IsEmpty() {
			s.ends++
			continue
		}
		s.asked[s.now], s.ways = all, append(s.ways, fx.Ask)
	}
}

// rounds returns the times of the rounds, counted from the moment when this node claimed.
func (s *sampled) rounds() (at []time.Duration) {
	for d := sampledClaim; d <= time.Duration(s.now); d += 500 * time.Millisecond {
		if _, ok := s.asked[boottime.Instant(d)]; ok {
			at = append(at, d-sampledClaim)
		}
	}
	if len(at) != len(s.asked) {
		s.t.Errorf("somebody was asked before this node claimed: %v", s.asked)
	}
	return at
}

// sampledClaim is the first round about peers that were seen until the evidence of 10 s ran out: an inquiryPause before
// this node's own due. The claim begins with the second step without them.
var sampledClaim = lastSeen + 500*time.Millisecond + testHorizon - inquiryPause

// Guard: the inquiry. In a large group most statements are old. A node that claims a death asks every member whose
// claim is missing, each on one network, and has its proof as soon as they have answered.
func TestWhoLacksClaimsAsksEverybodyOnce(t *testing.T) {
	const n = 40
	s := newSampled(t, n, 1, nil)
	s.run(sampledClaim + 1500*time.Millisecond)
	want := roster.FullSet(n - 1)
	want.Remove(0)
	if got := s.rounds(); len(got) != 1 || got[0] > 0 || s.asked[boottime.Instant(sampledClaim+got[0])] != want {
		t.Fatalf("rounds %v, asked %v", got, s.asked)
	}
	if a, b := s.ways[0][0].Len(), s.ways[0][1].Len(); a < n/2-2 || b < n/2-2 {
		t.Errorf("the networks do not share the work: %d and %d", a, b)
	}
	s.run(sampledClaim + inquiryPause + undated + time.Second) // this node claims, too
	for p := 1; p <= 19; p++ {
		tell(s.Core, s.now, p, netgossip.Statement{Guard: killing, Lost: roster.SetOf(n - 1)})
	}
	if fx := s.Step(s.now); fx.Fenced.Has(n - 1) {
		t.Fatal("twenty of forty claim")
	}
	tell(s.Core, s.now, 20, netgossip.Statement{Guard: killing, Lost: roster.SetOf(n - 1)})
	fx := s.Step(s.now)
	if !fx.Fenced.Has(n - 1) {
		t.Fatal("twenty-one of forty claim, not fenced")
	}
	if fx.Ask == nil || !fx.Ask[0].Union(fx.Ask[1]).IsEmpty() {
		t.Errorf("it goes on asking: %v", fx.Ask)
	}
	asked := len(s.asked)
	if s.run(5 * time.Minute); len(s.asked) != asked || s.ends != 0 {
		t.Errorf("it asked %d times after the proof, and ended that %d times", len(s.asked)-asked, s.ends)
	}
}

// Guard: the traffic of the inquiry is bounded if the claims never come: each round uses another network, and the
// pauses grow. A member that has claimed is not asked again while its claim counts.
func TestInquiryThatFindsNothingSlowsDown(t *testing.T) {
	s := newSampled(t, 40, 1, nil)
	for _, at := range []time.Duration{500 * time.Millisecond, 2 * time.Second} { // by a random sample, and because it was asked
		s.run(sampledClaim + at)
		for p := 1; p < 10; p++ {
			tell(s.Core, s.now, p, netgossip.Statement{Guard: killing, Lost: roster.SetOf(39)})
		}
	}
	tell(s.Core, s.now, 30, netgossip.Statement{Guard: killing})
	s.run(sampledClaim + 5*time.Minute)
	at := s.rounds()
	if len(at) < 6 {
		t.Fatalf("rounds at %v", at)
	}
	if got := s.asked[boottime.Instant(sampledClaim+at[1])]; got.Has(1) || !got.Has(10) || got.Has(30) {
		t.Errorf("the second round asks %v", got)
	}
	if got := s.asked[boottime.Instant(sampledClaim+at[2])]; !got.Has(1) {
		t.Errorf("the third round, after the claims have aged, asks %v", got)
	}
	pause := inquiryPause
	for i := 2; i < len(at); i++ { // the claims have started the rounds again
		if got := at[i] - at[i-1]; got < pause || got > pause+time.Second {
			t.Errorf("round %d comes %v after the one before it, want %v", i, got, pause)
		}
		pause = min(2*pause, inquirySlowest)
		if s.ways[i][0].Has(20) == s.ways[i-1][0].Has(20) {
			t.Errorf("round %d asks on the network of round %d", i, i-1)
		}
	}
}

// Guard: the pauses have grown while most members saw the victim. When they lose it, too, one claim that arrives with a
// random sample is enough to ask soon.
func TestFirstClaimOfAnotherBeginsTheInquiryAgain(t *testing.T) {
	s := newSampled(t, 40, 1, nil)
	s.run(sampledClaim + 80*time.Second)
	before, from := len(s.rounds()), time.Duration(s.now)
	tell(s.Core, s.now, 7, netgossip.Statement{Guard: killing, Lost: roster.SetOf(39)})
	s.run(from + 12*time.Second)
	at := s.rounds()
	if len(at) < before+2 || at[before] > from-sampledClaim+inquiryDelay+time.Second || at[before+1]-at[before] > inquiryPause+time.Second {
		t.Errorf("a claim %v after this node's, rounds %v", from-sampledClaim, at)
	}
	tell(s.Core, s.now, 7, netgossip.Statement{Guard: killing, Lost: roster.SetOf(39)})
	before = len(at)
	if s.run(time.Duration(s.now) + 2*time.Second); len(s.rounds()) > before+1 {
		t.Errorf("the same claim again, rounds %v", s.rounds())
	}
}

// Guard: another victim starts the rounds again, but not within inquiryPause of the last one.
func TestAnotherVictimBeginsTheInquiryAgain(t *testing.T) {
	var alone []time.Duration // times of the rounds for one victim
	for _, later := range []time.Duration{0, 30 * time.Second, -1} {
		if later < 0 {
			later = alone[3] + 500*time.Millisecond // right after a round
		}
		s := newSampled(t, 40, 2, nil)
		s.run(sampledClaim - 500*time.Millisecond)
		if later > 0 {
			s.proof.peers[38].unseen = s.proof.since(&s.proof.peers[39]).Add(later)
		}
		s.run(sampledClaim + 45*time.Second)
		at := s.rounds()
		if later == 0 {
			alone = at
			continue
		}
		var after []time.Duration
		for i, d := range at {
			if i > 0 && d-at[i-1] < inquiryPause {
				t.Errorf("another victim after %v: rounds at %v", later, at)
			}
			if d >= later {
				after = append(after, d)
			}
		}
		if len(after) < 3 || after[0] > later+inquiryPause+time.Second || after[1]-after[0] > inquiryPause+500*time.Millisecond {
			t.Errorf("another victim after %v: rounds at %v", later, at)
		}
	}
}

// Guard: no peer is asked without need. A group at rest asks nothing, and a node asks nothing if the answers could not
// prove a death.
func TestInquiryOnlyWhereItCanProve(t *testing.T) {
	for _, tc := range []struct {
		name    string
		victims int
		change  func(*Config)
		spoil   func(*sampled)
	}{
		{"nobody is missing", 0, nil, nil},
		{"the victim was not guarded", 1, nil, func(s *sampled) { tell(s.Core, s.now, 39, netgossip.Statement{}) }},
		{"the victim is heard one way", 1, nil, func(s *sampled) { s.Merger().Heard(0, 39, boottime.Instant(time.Minute+testClaim)) }},
		{"the victim is heard one way, and another member claims its death", 1, nil, func(s *sampled) {
			s.Merger().Heard(0, 39, boottime.Instant(time.Minute+testClaim))
			tell(s.Core, boottime.Instant(time.Minute), 1, netgossip.Statement{Guard: killing, Lost: roster.SetOf(39)})
		}},
		{"others claim, and this node does not yet", 1, nil, func(s *sampled) {
			s.run(lastSeen + undated + 2*time.Second)
			tell(s.Core, s.now, 1, netgossip.Statement{Guard: killing, Lost: roster.SetOf(39)})
			s.run(lastSeen + undated + 10*time.Second)
			s.Merger().Heard(0, 39, boottime.Instant(time.Minute+testClaim)) // this ends the node's own claim
		}},
		{"this node has no majority", 25, nil, nil},
		{"half, and nobody grants", 20, nil, nil},
	} {
		s := newSampled(t, 40, tc.victims, tc.change)
		if tc.spoil != nil {
			tc.spoil(s)
		}
		if s.run(sampledClaim + 20*time.Second); len(s.asked) > 0 {
			t.Errorf("%s: asked %v", tc.name, s.asked)
		}
	}
}

// Guard: a claim covers the horizon and the allowed delays, in a group of any size.
func TestClaimStandsForTheHorizon(t *testing.T) {
	for at, lost := range map[time.Duration]bool{-time.Second: false, time.Second: true} {
		s := newSampled(t, 100, 1, nil)
		s.run(lastSeen + testHorizon + undated + at)
		if s.fx.Statement.Lost.Has(99) != lost {
			t.Errorf("at %v: claimed %v", at, !lost)
		}
	}
}

// Guard: claims of different moments do not add up, in a group of any size. Forty members claim, and when their claims
// are too old, twenty others do: there is no known moment at which more than half of the group had missed the victim
// for long enough.
func TestClaimsOfDifferentMomentsDoNotAddUp(t *testing.T) {
	s := newSampled(t, 100, 1, nil)
	s.run(sampledClaim + undated + 2*time.Second)
	claim := func(from, to int) *Effects {
		for p := from; p < to; p++ {
			tell(s.Core, s.now, p, netgossip.Statement{Guard: killing, Lost: roster.SetOf(99)})
		}
		return s.Step(s.now)
	}
	claim(1, 41)
	s.run(time.Duration(s.now.Add(claimAge + time.Second)))
	if fx := claim(41, 61); fx.Fenced.Has(99) {
		t.Error("forty claims of the past and twenty of now, fenced")
	}
	if fx := claim(61, 91); !fx.Fenced.Has(99) {
		t.Error("fifty-one of a hundred claim, not fenced")
	}
}

// Guard: in an equal split the claims prove nothing before the grant is old enough, so no member is asked for them.
func TestInquiryWaitsForTheGrant(t *testing.T) {
	for _, tc := range []struct {
		granted time.Duration // age of the grant
		want    roster.Set
	}{{time.Second, roster.Set{}}, {testHorizon - inquiryPause + time.Second, roster.FullSet(20).Minus(roster.SetOf(0))}} {
		s := newSampled(t, 40, 20, nil)
		s.run(sampledClaim + 20*time.Second)
		c, now := s.Core, s.now
		c.guard.Leases, c.proof.alone, c.breaker = true, 0, struct{ tie.Breaker }{} // a breaker without slots
		for p := range c.proof.peers {
			c.proof.peers[p].check = 0
		}
		c.proof.missing = roster.FullSet(40).Minus(roster.FullSet(20))
		c.proof.grantSince, c.proof.grantUntil = now.Add(-tc.granted), now.Add(time.Minute)
		c.fx.Decision = Decision{Action: Feed, Reason: ReasonSplitWon, Quorum: true, Until: now.Add(time.Minute)}
		c.proof.inquiry = inquiry{}
		var asked roster.Set
		judging(c, now).out = proverOutput{Wake: boottime.Never}
		c.proof.conclude(now)
		for _, on := range c.proof.out.Ask {
			asked = asked.Union(on)
		}
		if asked != tc.want || !c.proof.Fenced().IsEmpty() {
			t.Errorf("granted for %v: asks %v, fenced %v", tc.granted, asked, c.proof.Fenced())
		}
	}
}
