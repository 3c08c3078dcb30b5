package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// state lets a peer answer, with these among the seen.
func state(c *Core, at boottime.Instant, peer int, seen roster.Set, st netgossip.Statement) {
	st.RosterEpoch, st.RosterDigest, st.Seen = c.cfg.Roster.Epoch, c.cfg.Roster.Digest, seen
	if st.Boot == 0 {
		st.Boot = 100 + uint64(peer)
	}
	c.Merger().Answered(netgossip.Answer{Peer: peer, SentAt: at, Statement: &st})
}

// without4 is the set that the others see when the last node of five is gone.
var without4 = roster.SetOf(0, 1, 2, 3)

// settled returns a core of five that has met all others, the last one at 10 s.
func settled(t *testing.T) *Core {
	t.Helper()
	c := mourners(t, netgossip.Statement{Guard: killing}, nil)
	return c
}

// pass steps the core every 100 ms, while three others that do not see the last node answer. It returns when the core
// first called the last node FENCED; zero: never.
func pass(c *Core, from, to boottime.Instant) boottime.Instant {
	for at := from; at <= to; at += sec / 10 {
		for p := 1; p < 4; p++ {
			state(c, at, p, without4, netgossip.Statement{Guard: killing})
		}
		if c.Step(at).Fenced.Has(4) {
			return at
		}
	}
	return 0
}

func byLUN(c *Core, boot uint64, timeout time.Duration) diskquorum.Sentence {
	return diskquorum.Sentence{Boot: boot, Timeout: timeout, Name: diskquorum.NameDigest(c.cfg.Roster.Name(4))}
}

// Guards: P3, P4. The time of a sentence begins when it was heard, by this node's clock, and ends after twice the
// timeout and the driver's delay.
func TestSentenceOfAPeer(t *testing.T) {
	for name, c := range map[string]struct {
		hear func(*Core)
		want boottime.Instant // about
	}{
		"stated": {func(c *Core) { state(c, 20*sec, 4, nobody, netgossip.Statement{Guard: killing, Sentence: time.Second}) }, 23 * sec},
		"read":   {func(c *Core) { s := byLUN(c, 104, 2*time.Second); c.proof.sentencedByLUN(20*sec, &s) }, 25 * sec},
		"read twice": {func(c *Core) {
			s := byLUN(c, 104, time.Second)
			c.proof.sentencedByLUN(20*sec, &s)
			c.proof.sentencedByLUN(22*sec, &s)
		}, 23 * sec},
		"too long":        {func(c *Core) { s := byLUN(c, 104, 4*time.Second); c.proof.sentencedByLUN(20*sec, &s) }, 0},
		"of another boot": {func(c *Core) { s := byLUN(c, 105, time.Second); c.proof.sentencedByLUN(20*sec, &s) }, 0},
		"of another name": {func(c *Core) { s := byLUN(c, 104, time.Second); s.Name++; c.proof.sentencedByLUN(20*sec, &s) }, 0},
		"of an earlier boot": {func(c *Core) {
			state(c, 19*sec, 4, without4, netgossip.Statement{Boot: 200, Guard: killing})
			c.Step(19 * sec)
			s := byLUN(c, 104, time.Second)
			c.proof.sentencedByLUN(20*sec, &s)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			core := settled(t)
			pass(core, 11*sec, 19*sec)
			c.hear(core)
			got := pass(core, 20*sec, 30*sec)
			if c.want == 0 && got != 0 || c.want != 0 && (got < c.want+sec/100 || got > c.want+sec/4) {
				t.Errorf("FENCED at %v, want a moment after %v", time.Duration(got), time.Duration(c.want))
			}
			if d := core.proof.Of(4); c.want != 0 && (d.Proof != ProofSentence || d.Boot != 104) {
				t.Errorf("%+v", d)
			}
		})
	}
}

// Guard: P5. A node that knows the sentence neither sees nor counts that boot, whatever it states, but does see and
// count the next boot.
func TestCondemnedBootIsNotCounted(t *testing.T) {
	c := settled(t)
	state(c, 20*sec, 4, roster.FullSet(5), netgossip.Statement{Guard: killing})
	if c.Step(20 * sec); !c.view.Counted.Has(4) {
		t.Fatal("it is not counted before")
	}
	s := byLUN(c, 104, 3*time.Second)
	c.proof.sentencedByLUN(20*sec, &s)
	state(c, 21*sec, 4, roster.FullSet(5), netgossip.Statement{Guard: killing})
	if fx := c.Step(21 * sec); c.view.Seen.Has(4) || c.view.Counted.Has(4) || fx.Statement.Seen.Has(4) {
		t.Errorf("view %+v", c.view)
	}
	state(c, 22*sec, 4, roster.FullSet(5), netgossip.Statement{Boot: 200, Guard: killing})
	c.Step(22 * sec)
	state(c, 22*sec+1, 4, roster.FullSet(5), netgossip.Statement{Boot: 200, Guard: killing})
	if c.Step(22*sec + 1); !c.view.Counted.Has(4) {
		t.Errorf("the next boot: %+v", c.view)
	}
	if pass(c, 23*sec, 40*sec); c.proof.Of(4).Proof == ProofSentence {
		t.Errorf("the former boot ended by another proof: %+v", c.proof.Of(4))
	}
}

// Guard: P4. The death is not shown while a counted member sees the node.
func TestFencedBySentenceWaitsForThoseWhoSeeIt(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 19*sec)
	s := byLUN(c, 104, time.Second)
	c.proof.sentencedByLUN(20*sec, &s)
	for at := 20 * sec; at < 30*sec; at += sec / 2 {
		state(c, at, 1, roster.FullSet(5), netgossip.Statement{Guard: killing})
		state(c, at, 2, without4, netgossip.Statement{Guard: killing})
		if c.Step(at).Fenced.Has(4) {
			t.Fatalf("FENCED at %v", time.Duration(at))
		}
	}
	if c.proof.Of(4).Proof != ProofSentence {
		t.Errorf("%+v", c.proof.Of(4))
	}
	if pass(c, 31*sec, 40*sec) == 0 {
		t.Error("never FENCED")
	}
}

// Guard: P9. A boot that outlives its sentence raises an alarm, and a later sentence of it does not count.
func TestSentenceThatIsDefied(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 19*sec)
	s := byLUN(c, 104, time.Second)
	c.proof.sentencedByLUN(20*sec, &s)
	at := pass(c, 20*sec, 30*sec)
	state(c, at+sec, 4, without4, netgossip.Statement{Guard: killing, Sentence: time.Second})
	if fx := c.Step(at + sec); fx.Fenced.Has(4) || c.proof.Of(4).Proof != 0 || !defied(c).Has(4) {
		t.Errorf("fenced %v, %+v, defied %v", fx.Fenced.Has(4), c.proof.Of(4), defied(c).Has(4))
	}
	c.proof.sentencedByLUN(at+2*sec, &s)
	if got := pass(c, at+2*sec, at+20*sec); got != 0 {
		t.Errorf("believed again at %v", time.Duration(got))
	}
	if got := mourn(c, time.Duration(at+21*sec), time.Duration(at+99*sec), roster.SetOf(4), 1, 2, 3); got != 0 {
		t.Errorf("dead by time at %v: a watchdog that did not count down its sentence does not count down its horizon", got)
	}
	at += 80 * sec
	state(c, at+21*sec, 4, without4, netgossip.Statement{Boot: 200, Guard: killing, Sentence: time.Second})
	if got := pass(c, at+21*sec, at+30*sec); got == 0 || defied(c).Has(4) {
		t.Errorf("the next boot: %v, defied %v", time.Duration(got), defied(c).Has(4))
	}
}

// Guard: P4. Two machines that answer under one name are never shown dead by a sentence.
func TestTwinsAreNotFencedBySentence(t *testing.T) {
	c := settled(t)
	for i, at := range []boottime.Instant{12 * sec, 13 * sec, 14 * sec} {
		state(c, at, 4, without4, netgossip.Statement{Boot: []uint64{200, 104, 200}[i], Guard: killing})
		c.Step(at)
	}
	s := byLUN(c, 200, time.Second)
	c.proof.sentencedByLUN(15*sec, &s)
	if got := pass(c, 15*sec, 30*sec); got != 0 {
		t.Errorf("FENCED at %v", time.Duration(got))
	}
}

// judged returns a core of five with quorum and an armed watchdog that condemned itself at 11 s.
func judged(t *testing.T) *Core {
	t.Helper()
	c := settled(t)
	c.cfg.Sentence = Sentencing{After: time.Second, Timeout: 2 * time.Second}
	c.SetGuard(true, 10*time.Second)
	c.sentence.condemned, c.sentence.at = true, 11*sec
	return c
}

// Guards: P2, P7. Nothing feeds, arms or disarms the watchdog of a condemned boot, and its statements count for no
// other node, although all others answer.
func TestCondemnedCore(t *testing.T) {
	c := judged(t)
	c.SetDisarm("file", "a test")
	if c.Stop(); c.stopping {
		t.Error("it is stopped as planned")
	}
	for at := 11 * sec; at < 20*sec; at += sec / 2 {
		hear(c, at, 1, 2, 3, 4)
		fx := c.Step(at)
		st := fx.Statement
		if fx.Decision.Action != Starve || fx.Decision.Reason != ReasonCondemned || fx.Decision.Quorum || fx.Arm || fx.Disarm || fx.Condemn != 2*time.Second {
			t.Fatalf("%+v, arm %v, disarm %v, condemn %v", fx.Decision, fx.Arm, fx.Disarm, fx.Condemn)
		}
		if !st.Seen.IsEmpty() || !st.View.IsEmpty() || !st.Lost.IsEmpty() || st.Stopping || !st.Guard.Armed || st.Sentence != 0 || fx.Relay != (netgossip.Relay{}) {
			t.Fatalf("%+v", st)
		}
	}
	if c.Released() || c.Releasing() {
		t.Error("its guard is being given up")
	}
}

// Guard: P2, P3. The announced timeout is the one that was read back, and is announced once it is known. A timeout that
// is too long is not announced.
func TestSentenceIsToldWhenItIsReadBack(t *testing.T) {
	for got, want := range map[time.Duration]time.Duration{0: 0, time.Second: time.Second, 3 * time.Second: 3 * time.Second, 4 * time.Second: 0} {
		c := judged(t)
		c.Sentenced(got)
		c.Sentenced(2 * time.Second) // only the first answer counts
		if st := c.Step(12 * sec).Statement; st.Sentence != want {
			t.Errorf("%v: told %v", got, st.Sentence)
		}
	}
	c := settled(t)
	c.Sentenced(time.Second)
	if st := c.Step(12 * sec).Statement; st.Sentence != 0 {
		t.Error("told without a sentence")
	}
}

// Guards: P2, P2'. An agent that finds a condemned boot opens no watchdog and counts nobody. It has not read the
// timeout back, and the countdown may belong to another program: so it announces nothing.
func TestInheritedSentence(t *testing.T) {
	for _, policy := range []LossPolicy{LossFence, LossExclude, LossWait} {
		c := testCore(t, 3, func(cfg *Config) { cfg.OnLoss = policy })
		c.Inherit(9*sec, 2*time.Second)
		for at := 10 * sec; at < 20*sec; at += sec {
			hear(c, at, 1, 2)
			if fx := c.Step(at); fx.Decision.Action != Starve || fx.Arm || fx.Condemn != 0 || fx.Statement.Sentence != 0 || !c.view.Counted.IsEmpty() {
				t.Fatalf("%+v, arm %v, %+v", fx.Decision, fx.Arm, fx.Statement)
			}
		}
	}
	c := testCore(t, 3, nil)
	c.Inherit(9*sec, 10*time.Second)
	if _, _, condemned := c.Condemned(); condemned {
		t.Error("a long countdown was taken for a sentence")
	}
}

// Guard: P2'. An agent that cannot see the countdown counts nobody until the agent before it is gone, and the longest
// countdown is over.
func TestBlindAgentWaits(t *testing.T) {
	c := testCore(t, 3, nil)
	c.Blind()
	counted := func(from, to boottime.Instant) boottime.Instant {
		for at := from; at < to; at += sec / 2 {
			hear(c, at, 1, 2)
			if fx := c.Step(at); fx.Arm || fx.Decision.Quorum || !fx.Statement.Seen.IsEmpty() {
				return at
			}
		}
		return 0
	}
	if got := counted(10*sec, 60*sec); got != 0 {
		t.Fatalf("counts at %v, and the agent before it is not known to be gone", time.Duration(got))
	}
	c.PredecessorGone(60 * sec)
	c.PredecessorGone(70 * sec) // it is already gone
	if got := counted(60*sec, 70*sec); got != 64*sec {
		t.Errorf("counts at %v, want 64 s", time.Duration(got))
	}
}

// Barred returns the first obstacle that keeps a node from condemning itself; all obstacles have to be removed.
func TestBarred(t *testing.T) {
	guarded := netgossip.Statement{Guard: killing}
	r := withSlots(t, mourners(t, guarded, func(c *Config) {
		c.LUN, c.Hold, c.Sentence = true, true, Sentencing{After: time.Second, Timeout: time.Second}
	}))
	for which := range 2 {
		if err := diskquorum.EncodeSuperblock(r.image[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], r.sb, which); err != nil {
			t.Fatal(err)
		}
	}
	r.SetGuard(true, 2*netgossip.MaxSentence)
	at := r.read(11 * sec)
	for p := 1; p < 5; p++ {
		tell(r.Core, at, p, guarded)
	}
	if got := r.Barred(); got != BarNone {
		t.Fatalf("barred by %v", got)
	}
	for _, s := range []struct {
		want        Bar
		spoil, mend func()
	}{
		{BarWatchdog, func() { r.SetGuard(true, netgossip.MaxSentence) }, func() { r.SetGuard(true, 2*netgossip.MaxSentence) }},
		{BarNoHold, func() { r.cfg.Hold = false }, func() { r.cfg.Hold = true }},
		{BarOff, func() { r.cfg.Sentence.After = 0 }, func() { r.cfg.Sentence.After = time.Second }},
	} {
		if s.spoil(); r.Barred() != s.want {
			t.Errorf("barred by %v, want %v", r.Barred(), s.want)
		}
		if s.mend(); r.Barred() != BarNone {
			t.Errorf("without %v barred by %v", s.want, r.Barred())
		}
	}
}

// Guard: P8. If nodes condemn themselves, a node is taken down when its announcement has had the time to reach the LUN.
func TestCondemnedNodeIsStruck(t *testing.T) {
	c := judged(t)
	c.hadQuorum, c.cfg.Sentence.Strike = true, 2*time.Second
	for at := 11 * sec; at < 20*sec; at += sec / 2 {
		if struck := c.Step(at).Strike; struck != (at >= 13*sec) {
			t.Errorf("struck %v at %v", struck, time.Duration(at))
		}
	}
}

// defied lists the peers whose boot has outlived its sentence.
func defied(c *Core) (set roster.Set) {
	for p := range c.proof.peers {
		if w := &c.proof.peers[p]; w.defied != 0 && w.defied == w.boot {
			set.Add(p)
		}
	}
	return set
}

// Guard: if samples are taken, a member's statement from before a node was condemned delays FENCED. Such a member is
// asked for a new statement in time. Members that do not state that they see the node, or whose statements will be too
// old by then, are not asked.
func TestSeersOfTheCondemnedAreAsked(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 19*sec)
	maxAge := boottime.Instant(c.cfg.MaxAge)
	over := 20*sec + boottime.Instant(netgossip.SentenceBound(time.Second))
	state(c, 20*sec, 1, roster.FullSet(5), netgossip.Statement{Guard: killing})
	state(c, over-maxAge-1, 2, roster.FullSet(5), netgossip.Statement{Guard: killing})
	state(c, 20*sec, 3, without4, netgossip.Statement{Guard: killing})
	s := byLUN(c, 104, time.Second)
	c.proof.sentencedByLUN(20*sec, &s)
	var asked, fenced boottime.Instant
	for at := 20 * sec; at < over+sec; at += sec / 50 {
		for p := 1; p < 4; p++ { // they are in contact, but have no new statement
			c.Merger().Answered(netgossip.Answer{Peer: p, SentAt: at, Sight: netgossip.SightSeen})
		}
		if asked > 0 && at == asked+sec/50 {
			state(c, at, 1, without4, netgossip.Statement{Guard: killing})
		}
		fx := c.Step(at)
		if fx.Ask != nil {
			if asked != 0 || fx.Ask[0] != roster.SetOf(1) {
				t.Errorf("at %v: %v are asked", time.Duration(at), fx.Ask)
			}
			asked = at
		}
		if fenced == 0 && fx.Fenced.Has(4) {
			fenced = at
		}
	}
	if due := over.Add(-seersLead); asked < due || asked > due+sec/20 || fenced < over || fenced > over+sec/20 {
		t.Errorf("asked at %v, FENCED at %v; due at %v, %v", time.Duration(asked), time.Duration(fenced), time.Duration(due), time.Duration(over))
	}
}
