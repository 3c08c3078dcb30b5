package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// testHorizon is the horizon of the peers' guards, testClaim the time after which a lost peer is claimed without a date.
const testHorizon = 30 * time.Second

var (
	killing   = netgossip.Guard{Armed: true, Fences: true, Leases: true, Timeout: 10 * time.Second, Horizon: testHorizon}
	testClaim = testHorizon + undated
)

// mourners returns the first core of five nodes that all saw each other at 10 s; the last node had the given guard and
// is not heard again.
func mourners(t *testing.T, last netgossip.Statement, change func(*Config)) *Core {
	t.Helper()
	c := testCore(t, 5, change)
	for p := 1; p < 4; p++ {
		tell(c, 10*sec, p, netgossip.Statement{Guard: killing})
	}
	tell(c, 10*sec, 4, last)
	c.Step(10 * sec)
	return c
}

// mourn steps the core once a second from from up to and including to, while peers answer and claim the lost; it
// returns when the last node was first fenced, zero if never.
func mourn(c *Core, from, to time.Duration, lost roster.Set, peers ...int) time.Duration {
	for d := from; d <= to; d += time.Second {
		at := boottime.Instant(d)
		for _, p := range peers {
			tell(c, at, p, netgossip.Statement{Guard: killing, Lost: lost})
		}
		if c.Step(at).Fenced.Has(4) {
			return d
		}
	}
	return 0
}

// Guard: a death that was contradicted stays withdrawn, even if the boot that has contradicted it is lost again. Its
// watchdog was observed not to fire: time proves nothing about that boot any more (L9).
func TestContradictedDeathIsNone(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	at := mourn(c, 11*time.Second, 2*time.Minute, roster.SetOf(4), 1, 2, 3)
	if at == 0 || c.proof.Of(4).Proof != ProofTime {
		t.Fatalf("at %v: %+v", at, c.proof.Of(4))
	}
	took := testClaim
	lost := at + 20*time.Second
	for d := at + time.Second; d <= lost; d += time.Second { // its watchdog did not fire
		tell(c, boottime.Instant(d), 4, netgossip.Statement{Guard: killing})
		mourn(c, d, d, roster.Set{}, 1, 2, 3)
	}
	if c.proof.Of(4) != (Death{}) || c.proof.Fenced().Has(4) {
		t.Errorf("it answers: fenced %v, %+v", c.proof.Fenced().Has(4), c.proof.Of(4))
	}
	if again := mourn(c, lost+time.Second, lost+3*took, roster.SetOf(4), 1, 2, 3); again != 0 || c.proof.Of(4) != (Death{}) {
		t.Errorf("lost again at %v, called dead at %v by a watchdog that was seen not to fire: %+v", lost, again, c.proof.Of(4))
	}
	// This does not apply to the next boot: its watchdog may be another one, or repaired.
	next := lost + 4*took
	tell(c, boottime.Instant(next), 4, netgossip.Statement{Boot: 999, Guard: killing})
	if again := mourn(c, next, next+2*took, roster.SetOf(4), 1, 2, 3); again == 0 || c.proof.Of(4).Proof != ProofTime || c.proof.Of(4).Boot != 999 {
		t.Errorf("the next boot is lost, and dead at %v: %+v", again, c.proof.Of(4))
	}
}

// Guard: a block of that boot on the LUN also contradicts its death, but a block of another boot does not.
func TestWordOnTheLUNContradictsADeath(t *testing.T) {
	for boot, contradicts := range map[uint64]bool{104: true, 999: false} {
		c := mourners(t, netgossip.Statement{Guard: killing}, nil)
		at := mourn(c, 11*time.Second, 2*time.Minute, roster.SetOf(4), 1, 2, 3)
		words := make([]diskquorum.Voice, 5)
		words[4].Boot = boot
		c.proof.sight(boottime.Instant(at+time.Second), roster.SetOf(4), words)
		if got := c.proof.Of(4) == (Death{}); at == 0 || got != contradicts || c.proof.Fenced().Has(4) {
			t.Errorf("boot %d: fenced %v, %+v", boot, c.proof.Fenced().Has(4), c.proof.Of(4))
		}
	}
}

// Guard: a slot that another boot has written before the first boot answered again does not prove the end of the first
// boot again.
func TestSlotFromBeforeAContradiction(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	slot := diskquorum.Slot{State: diskquorum.SlotActive, Sequence: 5, Statement: netgossip.Statement{Boot: 104}}
	c.proof.look(11*sec, 4, &slot)
	slot.Sequence, slot.Statement.Boot = 9, 999
	c.proof.look(12*sec, 4, &slot)
	if c.proof.Of(4).Proof != ProofBoot {
		t.Fatalf("%+v", c.proof.Of(4))
	}
	tell(c, 13*sec, 4, netgossip.Statement{Guard: killing})
	c.Step(13 * sec)
	c.proof.look(14*sec, 4, &slot)
	if c.proof.Of(4) != (Death{}) || c.proof.Fenced().Has(4) {
		t.Errorf("fenced %v, %+v", c.proof.Fenced().Has(4), c.proof.Of(4))
	}
}

// lastSeen is when the evidence of 10 s runs out.
const lastSeen = 14 * time.Second

func TestDeathByTime(t *testing.T) {
	guarded := netgossip.Statement{Guard: killing}
	of := func(change func(*netgossip.Statement)) netgossip.Statement {
		st := guarded
		change(&st)
		return st
	}
	claimed := roster.SetOf(4)
	for _, tc := range []struct {
		name   string
		last   netgossip.Statement
		lost   roster.Set
		peers  []int
		proven bool
	}{
		{"three of five claim", guarded, claimed, []int{1, 2}, true},
		{"all claim", guarded, claimed, []int{1, 2, 3}, true},
		{"a majority, but only one other claims", guarded, claimed, []int{1}, false},
		{"nobody else claims", guarded, nobody, []int{1, 2, 3}, false},
		{"not armed", of(func(s *netgossip.Statement) { s.Guard.Armed = false }), claimed, []int{1, 2, 3}, false},
		{"does not fence itself", of(func(s *netgossip.Statement) { s.Guard.Fences = false }), claimed, []int{1, 2, 3}, false},
		{"says no horizon", of(func(s *netgossip.Statement) { s.Guard.Horizon = 0 }), claimed, []int{1, 2, 3}, false},
		{"stopped as planned", of(func(s *netgossip.Statement) { s.Stopping = true }), claimed, []int{1, 2, 3}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := mourners(t, tc.last, nil)
			at := mourn(c, 11*time.Second, 2*time.Minute, tc.lost, tc.peers...)
			if (at > 0) != tc.proven {
				t.Fatalf("proven after %v, want %v", at, tc.proven)
			}
			if kills := tc.last.Guard.Kills() && !tc.last.Stopping; c.fx.Statement.Lost.Has(4) != (kills && at == 0) && at == 0 {
				t.Errorf("claimed %v, guarded %v", c.fx.Statement.Lost.Has(4), kills)
			}
			if !tc.proven {
				return
			}
			// The last step with the node among the seen was at 13 s, so this node's claim begins at 15 s. The others'
			// claims have no date. If this node's is not needed, theirs count as soon as the node is not seen.
			want := lastSeen + time.Second + testHorizon + undated
			if len(tc.peers) > 2 {
				want = lastSeen
			}
			if at != want {
				t.Errorf("proven at %v, want %v", at, want)
			}
			if d := c.proof.Of(4); d.Proof != ProofTime || d.Boot != 104 {
				t.Errorf("%+v", d)
			}
		})
	}
}

// Guard: a sign of life, even in one direction only, restarts the clock.
func TestOneWaySightRestartsTheClock(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	mourn(c, 11*time.Second, 40*time.Second, nobody, 1, 2, 3)
	c.Merger().Heard(0, 4, 40*sec)
	if at := mourn(c, 41*time.Second, 3*time.Minute, nobody, 1, 2, 3); at != 0 {
		t.Fatalf("proven at %v without claims", at)
	}
	c = mourners(t, netgossip.Statement{Guard: killing}, nil)
	mourn(c, 11*time.Second, 40*time.Second, nobody, 1, 2, 3)
	c.Merger().Heard(0, 4, 40*sec)
	for d := 41 * time.Second; d < 40*time.Second+testClaim; d += time.Second {
		if mourn(c, d, d, nobody, 1, 2, 3); c.fx.Statement.Lost.Has(4) {
			t.Fatalf("claimed at %v", d)
		}
	}
	if mourn(c, 40*time.Second+testClaim, 40*time.Second+testClaim, nobody, 1, 2, 3); !c.fx.Statement.Lost.Has(4) {
		t.Fatal("not claimed in the end")
	}
}

// Guard: an old claim does not count, since its author may have met the node later.
func TestOldClaimsDoNotCount(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, func(c *Config) { c.MaxAge = time.Minute })
	tell(c, 110*sec, 1, netgossip.Statement{Guard: killing, Lost: roster.SetOf(4)})
	tell(c, 110*sec, 2, netgossip.Statement{Guard: killing, Lost: roster.SetOf(4)})
	for _, at := range []boottime.Instant{69, 71, 72} { // this node claims it from 102 s on
		c.Step(at * sec)
	}
	if fx := c.Step(116 * sec); fx.Fenced.Has(4) || !fx.Decision.Quorum {
		t.Fatalf("fenced %v, quorum %v", fx.Fenced.Has(4), fx.Decision.Quorum)
	}
}

// Guard: a node that has met the victim lately, or knows that it gave up its guard, does not accept the others' claims.
func TestOwnKnowledgeSpeaksAgainstClaims(t *testing.T) {
	claimed := roster.SetOf(4)
	c := mourners(t, netgossip.Statement{}, nil)
	if at := mourn(c, 11*time.Second, 2*time.Minute, claimed, 1, 2, 3); at != 0 {
		t.Errorf("unarmed by its own last word, yet fenced at %v", at)
	}
	c = mourners(t, netgossip.Statement{Guard: killing}, nil)
	// This node lost the victim later: the others claim before it does.
	for d := 11 * time.Second; d < lastSeen; d += time.Second {
		if mourn(c, d, d, claimed, 1, 2, 3) != 0 {
			t.Errorf("seen until %v, and fenced at %v", lastSeen, d)
		}
	}
	if at := mourn(c, lastSeen, 2*time.Minute, claimed, 1, 2, 3); at != lastSeen {
		t.Errorf("fenced at %v, not at %v, when it was not seen any more", at, lastSeen)
	}
}

// An agent that started after the loss accepts the claims of a majority of the others.
func TestRestartedWitnessBelievesTheMajority(t *testing.T) {
	c := testCore(t, 5, nil)
	if at := mourn(c, 11*time.Second, 12*time.Second, roster.SetOf(4), 1, 2); at != 0 {
		t.Errorf("two of five claim, yet fenced at %v", at)
	}
	if at := mourn(c, 13*time.Second, 14*time.Second, roster.SetOf(4), 1, 2, 3); at == 0 {
		t.Error("three of five claim, not fenced")
	}
	if d := c.proof.Of(4); d.Proof != ProofTime || d.Boot != 0 {
		t.Errorf("%+v", d)
	}
}

// Guard: the proof is withdrawn when the node is back, and its return with another boot proves the death of the earlier
// incarnation at once, whatever its guard was.
func TestDeathByBootAndReturn(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	at := mourn(c, 11*time.Second, 2*time.Minute, roster.SetOf(4), 1, 2, 3)
	if at == 0 {
		t.Fatal("not proven")
	}
	back := boottime.Instant(at + 10*time.Second)
	mourn(c, at+time.Second, at+9*time.Second, nobody, 1, 2, 3)
	tell(c, back, 4, netgossip.Statement{Boot: 999})
	if fx := c.Step(back); fx.Fenced.Has(4) || !fx.Available.Has(4) {
		t.Fatal("still fenced when it is back")
	}
	if d := c.proof.Of(4); d != (Death{Proof: ProofBoot, Boot: 104, At: back}) {
		t.Errorf("%+v", d)
	}
	c = mourners(t, netgossip.Statement{}, nil) // never armed
	tell(c, 11*sec, 4, netgossip.Statement{Boot: 999})
	if c.Step(11 * sec); c.proof.Of(4).Proof != ProofBoot {
		t.Errorf("unarmed and rebooted: %+v", c.proof.Of(4))
	}
	tell(c, 12*sec, 4, netgossip.Statement{Boot: 999})
	if c.Step(12 * sec); c.proof.Of(4).At != 11*sec {
		t.Errorf("one reboot, two deaths: %+v", c.proof.Of(4))
	}
}

func TestProvenIn(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	if _, ok := c.proof.ProvenIn(10*sec, 4); ok {
		t.Error("a seen node is not about to be proven dead")
	}
	mourn(c, 11*time.Second, 20*time.Second, nobody, 1, 2, 3)
	if d, ok := c.proof.ProvenIn(20*sec, 4); !ok || d != testHorizon-5*time.Second { // its claim began at 15 s
		t.Errorf("%v %v", d, ok)
	}
	if d, ok := c.proof.ProvenIn(1000*sec, 4); !ok || d != 0 {
		t.Errorf("it is claimed, and the others do not yet: %v %v", d, ok)
	}
	c = mourners(t, netgossip.Statement{}, nil)
	mourn(c, 11*time.Second, 20*time.Second, nobody, 1, 2, 3)
	if _, ok := c.proof.ProvenIn(20*sec, 4); ok {
		t.Error("an unarmed node is never proven dead by time")
	}
}

// The path runs in every step and must not allocate.
func TestProofDoesNotAllocate(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	for p := 1; p < 4; p++ {
		tell(c, 60*sec, p, netgossip.Statement{Guard: killing, Lost: roster.SetOf(4)})
	}
	c.Step(60 * sec)
	if n := testing.AllocsPerRun(100, func() { c.Step(60 * sec) }); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

// Guard: a record of another boot on the LUN proves a reboot only if it was composed after a record of the incarnation
// in question; a write that lands late may show an older boot.
func TestSlotOfAnotherBoot(t *testing.T) {
	record := func(boot, sequence uint64) *diskquorum.Slot {
		return &diskquorum.Slot{State: diskquorum.SlotActive, Sequence: sequence, Statement: netgossip.Statement{Boot: boot}}
	}
	claiming := func(s *diskquorum.Slot) *diskquorum.Slot { s.State = diskquorum.SlotClaiming; return s }
	for _, tc := range []struct {
		name  string
		slots []*diskquorum.Slot
		dead  bool
	}{
		{"the node is there", []*diskquorum.Slot{record(104, 9)}, false},
		{"it never wrote, an older boot did", []*diskquorum.Slot{record(99, 9)}, false},
		{"an older record comes to light again", []*diskquorum.Slot{record(104, 9), record(99, 8)}, false},
		{"it boots again", []*diskquorum.Slot{record(104, 9), record(105, 11)}, true},
		{"an older one of its own comes to light, then an older boot", []*diskquorum.Slot{record(104, 9), record(104, 5), record(99, 8)}, false},
		{"an older record comes to light while the slot is being claimed", []*diskquorum.Slot{claiming(record(104, 9)), record(99, 10)}, false},
		{"it boots again, and is claiming still", []*diskquorum.Slot{record(104, 9), claiming(record(105, 11))}, true},
		{"a record without a boot", []*diskquorum.Slot{record(104, 9), record(0, 11)}, false},
	} {
		c := mourners(t, netgossip.Statement{Guard: killing}, nil)
		for _, rec := range tc.slots {
			c.proof.look(20*sec, 4, rec)
		}
		if c.proof.Fenced().Has(4) != tc.dead || tc.dead && c.proof.Of(4) != (Death{Proof: ProofBoot, Boot: 104, At: 20 * sec}) {
			t.Errorf("%s: fenced %v, %+v", tc.name, c.proof.Fenced().Has(4), c.proof.Of(4))
		}
	}
}

// Guard: the excluded half may feed under an older grant for some time after the present one was decided, so the time
// for the proof begins with the present one (lease.md, counterexample 21).
func TestGrantMustBeOldEnough(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	v := &c.proof
	excluded := func(now boottime.Instant, bySlot time.Duration) bool {
		at, ok := v.excluded(4, bySlot)
		return ok && now >= at
	}
	v.peers[4].unseen = 0
	if excluded(1000*sec, 0) {
		t.Error("proven without a grant")
	}
	v.grantSince = 500 * sec
	if excluded(v.grantSince.Add(testHorizon-1), 0) || !excluded(v.grantSince.Add(testHorizon), 0) {
		t.Errorf("not exactly %v after the grant", testHorizon)
	}
	longer := 7 * time.Second
	bySlot := killing.Horizon + longer
	if excluded(v.grantSince.Add(testHorizon+longer-1), bySlot) || !excluded(v.grantSince.Add(testHorizon+longer), bySlot) {
		t.Error("the horizon in the slot, which is longer, is not waited for")
	}
	v.peers[4].unseen = 990 * sec
	if excluded(v.peers[4].unseen.Add(testHorizon-1), 0) {
		t.Error("proven dead although it was seen not long ago")
	}
	v.peers[4].unseen = 0
	st := *v.peers[4].statement
	st.Guard.Leases = false
	v.peers[4].statement = &st
	if excluded(1000*sec, 0) {
		t.Error("a node that may live in a tie without a grant is proven dead")
	}
}

// Guard: under a grant, the victim's slot must say that this incarnation is still armed. The slot is written before the
// guard is given up, for nodes that do not hear the announcement.
func TestSlotSpeaksAgainstADeath(t *testing.T) {
	for _, tc := range []struct {
		name string
		rec  diskquorum.Slot
		want bool
	}{
		{"armed", diskquorum.Slot{State: diskquorum.SlotActive, Statement: netgossip.Statement{Boot: 104, Guard: killing}}, true},
		{"unarmed", diskquorum.Slot{State: diskquorum.SlotActive, Statement: netgossip.Statement{Boot: 104}}, false},
		{"armed for nobody knows how long", diskquorum.Slot{State: diskquorum.SlotActive, Statement: netgossip.Statement{Boot: 104, Guard: netgossip.Guard{Armed: true, Fences: true}}}, false},
		{"stopped", diskquorum.Slot{State: diskquorum.SlotStopped, Statement: netgossip.Statement{Boot: 104, Guard: killing}}, false},
		{"claiming", diskquorum.Slot{State: diskquorum.SlotClaiming, Statement: netgossip.Statement{Boot: 104, Guard: killing}}, false},
		{"another boot", diskquorum.Slot{State: diskquorum.SlotActive, Statement: netgossip.Statement{Boot: 105, Guard: killing}}, false},
	} {
		c := mourners(t, netgossip.Statement{Guard: killing}, nil)
		if got := c.proof.guardedBySlot(4, &tc.rec); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	if judging(c, 1000*sec).in.Majority = false; floors(&c.proof, 4) {
		t.Error("without LUN no slot agrees")
	}
}

// Guard: in an equal split all members of the granted half must claim.
func TestEveryMemberOfAGrantedHalfClaims(t *testing.T) {
	for _, tc := range []struct {
		name   string
		claims int // claims of the other two in the half
		change func(c *Core)
		want   bool
	}{
		{"all claim", 2, func(*Core) {}, true},
		{"one does not", 1, func(*Core) {}, false},
		{"this one alone", 0, func(*Core) {}, false},
		{"this one does not", 2, func(c *Core) { c.proof.missing = roster.Set{} }, false},
		{"there is no grant", 2, func(c *Core) { c.fx.Decision.Reason = ReasonNetworkQuorum }, false},
		{"by another member's writes", 2, func(c *Core) { c.split.Relayed = true }, false},
		{"the slot of the victim was never read", 2, func(c *Core) { c.breaker = &c.lun }, false},
		{"the grant is new", 2, func(c *Core) { c.proof.grantSince = 99 * sec }, false},
		{"one does not, but another one whom it merely sees", 1, func(c *Core) {
			c.merger.Answered(netgossip.Answer{Peer: 3, SentAt: 100 * sec, Statement: &netgossip.Statement{
				RosterEpoch: c.cfg.Roster.Epoch, RosterDigest: c.cfg.Roster.Digest, Lost: roster.SetOf(5),
			}})
			c.view = c.merger.Evaluate(100*sec, c.rosters.quorum)
		}, false},
		{"halves may live without a grant", 2, func(c *Core) { c.guard.Leases = false }, false},
	} {
		c := testCore(t, 6, nil)
		c.BreakTiesBy(&answer{})
		tell(c, 10*sec, 5, netgossip.Statement{Guard: killing})
		for _, at := range []boottime.Instant{10, 50, 51} {
			c.Step(at * sec)
		}
		for p := 1; p < 3; p++ {
			st := netgossip.Statement{Guard: killing}
			if p <= tc.claims {
				st.Lost = roster.SetOf(5)
			}
			tell(c, 100*sec, p, st)
		}
		c.view = c.merger.Evaluate(100*sec, c.rosters.quorum)
		c.outcome = c.rosters.tally(c.view.Counted)
		c.fx.Decision = Decision{Action: Feed, Reason: ReasonSplitWon, Quorum: true, Until: 103 * sec}
		c.proof.follow(100*sec, c.view.Seen)
		c.proof.grantSince, c.proof.grantUntil = 20*sec, 101*sec
		tc.change(c)
		if judging(c, 100*sec).conclude(100 * sec); c.proof.Fenced().Has(5) != tc.want {
			t.Errorf("%s: fenced %v", tc.name, c.proof.Fenced().Has(5))
		}
	}
}

// Guard: while two lists are in use nothing is proven: a majority of one list may not be a majority of the other.
func TestNothingIsProvenByTwoLists(t *testing.T) {
	old, next := rosterOf(t, 1, "n0", "n1", "n2", "n3", "x"), rosterOf(t, 2, "n0", "n1", "n2")
	for _, chain := range [][]*roster.Roster{{old}, {old, next}} {
		c := listCore(t, old, chain...)
		for p := 1; p < 4; p++ {
			tell(c, 10*sec, p, netgossip.Statement{Guard: killing, Lost: roster.SetOf(4), Standing: standingBy(old)})
		}
		c.rosters.recount()
		c.view = c.merger.Evaluate(10*sec, c.rosters.quorum)
		c.outcome = c.rosters.tally(c.view.Counted)
		c.fx.Decision = Decision{Action: Feed, Reason: ReasonNetworkQuorum, Quorum: true, Until: 13 * sec}
		if c.outcome != netgossip.Majority {
			t.Fatalf("%d lists: %v", len(chain), c.outcome)
		}
		if judging(c, 10*sec).conclude(10 * sec); c.proof.Fenced().Has(4) != (len(chain) == 1) {
			t.Errorf("%d lists: fenced %v", len(chain), c.proof.Fenced().Has(4))
		}
	}
}

// Guard: a claim covers a time in which one list was in force.
func TestClaimsBeginAgainWithAnotherList(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	mourn(c, 11*time.Second, 30*time.Second, nobody, 1, 2, 3)
	c.proof.grantSince = 5 * sec
	if c.proof.doubt(30 * sec); c.proof.grantSince != 0 || !c.proof.lost.IsEmpty() {
		t.Errorf("the grant counts since %v, claimed %v", c.proof.grantSince, c.proof.lost)
	}
	begins := 32 * time.Second // with the second step after that
	for d := 31 * time.Second; d <= begins+testClaim; d += time.Second {
		mourn(c, d, d, nobody, 1, 2, 3)
		if claimed := c.fx.Statement.Lost.Has(4); claimed != (d == begins+testClaim) {
			t.Fatalf("at %v: claimed %v", d, claimed)
		}
	}
}

// floors reports whether time may prove the death of a peer to this node.
func floors(v *Prover, p int) bool {
	_, ok := v.floor(p)
	return ok
}
