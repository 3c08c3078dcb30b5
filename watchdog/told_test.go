package watchdog

import (
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// verdicts advances the clock like pass, and returns the answers to the reports, and when the last node was first
// called FENCED.
func verdicts(c *Core, from, to boottime.Instant) (answers []Answer, fenced boottime.Instant) {
	for at := from; at <= to; at += sec / 4 {
		for p := 1; p < 4; p++ {
			state(c, at, p, without4, netgossip.Statement{Guard: killing})
		}
		fx := c.Step(at)
		answers = append(answers, fx.Told...)
		if fx.Fenced.Has(4) && fenced == 0 {
			fenced = at
		}
	}
	return answers, fenced
}

// unacquainted returns a core of five that has never met the last node.
func unacquainted(t *testing.T) *Core {
	t.Helper()
	c := testCore(t, 5, nil)
	verdicts(c, 10*sec, 10*sec)
	return c
}

var off = Word{Node: "n0004", Death: Death{Boot: 104, Proof: ProofOperator}}

// A reported death is believed when all others have stated that they do not see the node.
func TestTold(t *testing.T) {
	for _, proof := range []Proof{ProofPower, ProofKdump, ProofOperator} {
		c := settled(t)
		pass(c, 11*sec, 20*sec)
		word := off
		word.Proof = proof
		c.proof.Tell(7, word)
		answers, fenced, spread := []Answer(nil), boottime.Instant(0), 0
		for at := 20*sec + sec/4; at < 30*sec; at += sec / 4 {
			a, f := verdicts(c, at, at)
			if answers = append(answers, a...); fenced == 0 {
				fenced = f
			}
			if c.fx.Spread {
				spread++
			}
		}
		if len(answers) != 1 || answers[0].ID != 7 || answers[0].Err != nil || answers[0].Death != c.proof.Of(4) || fenced == 0 || fenced > 21*sec {
			t.Errorf("%v: %+v, FENCED at %v", proof, answers, time.Duration(fenced))
		}
		if d := c.proof.Of(4); d.Proof != proof || d.Boot != 104 || d.Teller != "n0000" || c.Outcome() != netgossip.Majority {
			t.Errorf("%+v", d)
		}
		if f := c.fx.Statement.Facts; f[0].Boot != 104 || proofOf(f[0].Kind) != proof || f[1].Kind != 0 {
			t.Errorf("handed on: %+v", f)
		}
		if spread != 1 {
			t.Errorf("the others were told at once %d times", spread)
		}
		c.proof.Tell(8, off) // the death is already known
		if answers, _ = verdicts(c, 31*sec, 31*sec); len(answers) != 1 || answers[0].Err != nil || answers[0].Death.Proof != proof {
			t.Errorf("again: %+v", answers)
		}
	}
}

// Guards: each refusal.
func TestWordsThatAreRefused(t *testing.T) {
	during := func(at boottime.Instant, do func(*Core, boottime.Instant)) func(*testing.T, *Core) {
		return func(_ *testing.T, c *Core) {
			pass(c, 11*sec, 20*sec-1)
			c.proof.Tell(1, off)
			c.Step(20 * sec)
			do(c, 20*sec+at)
		}
	}
	after := func(do func(*testing.T, *Core)) func(*testing.T, *Core) {
		return func(t *testing.T, c *Core) {
			t.Helper()
			pass(c, 11*sec, 20*sec-1)
			do(t, c)
		}
	}
	tellIt := func(w Word) func(*testing.T, *Core) {
		return after(func(_ *testing.T, c *Core) { c.proof.Tell(1, w) })
	}
	for name, tc := range map[string]struct {
		do   func(*testing.T, *Core)
		want Refusal
	}{
		"never met":       {tellIt(off), RefusedUnknownBoot},
		"believed":        {tellIt(off), 0},
		"a proof of time": {tellIt(Word{Node: "n0004", Death: Death{Boot: 104, Proof: ProofTime}}), RefusedKind},
		"a sentence":      {tellIt(Word{Node: "n0004", Death: Death{Boot: 104, Proof: ProofSentence}}), RefusedKind},
		"no proof":        {tellIt(Word{Node: "n0004", Death: Death{Boot: 104}}), RefusedKind},
		"no member":       {tellIt(Word{Node: "n0009", Death: Death{Boot: 104, Proof: ProofPower}}), RefusedMember},
		"itself":          {tellIt(Word{Node: "n0000", Death: Death{Boot: 100, Proof: ProofPower}}), RefusedSelf},
		"another boot":    {tellIt(Word{Node: "n0004", Death: Death{Boot: 105, Proof: ProofPower}}), RefusedOtherBoot},
		"no boot":         {tellIt(Word{Node: "n0004", Death: Death{Boot: 0, Proof: ProofPower}}), RefusedOtherBoot},
		"in contact":      {tellIt(Word{Node: "n0003", Death: Death{Boot: 103, Proof: ProofPower}}), RefusedSeen},
		"of former boot":  {after(func(_ *testing.T, c *Core) { c.proof.peers[4].boot = 204; c.proof.Tell(1, off) }), RefusedOtherBoot},
		"two machines":    {after(func(_ *testing.T, c *Core) { c.proof.peers[4].twins = true; c.proof.Tell(1, off) }), RefusedTwins},
		"contradicted":    {after(func(_ *testing.T, c *Core) { c.proof.defy(4, 104); c.proof.Tell(1, off) }), RefusedContradicted},
		"heard by LUN":    {after(func(_ *testing.T, c *Core) { c.proof.peers[4].voiced = 204; c.proof.Tell(1, off) }), RefusedOtherBoot},
		"seen by a member": {during(sec/4, func(c *Core, at boottime.Instant) {
			state(c, at, 2, roster.FullSet(5), netgossip.Statement{Guard: killing})
		}), RefusedSeenByOthers},
		"counted by a member": {during(sec/4, func(c *Core, at boottime.Instant) {
			state(c, at, 2, without4, netgossip.Statement{Guard: killing, View: roster.SetOf(4)})
		}), RefusedSeenByOthers},
		"heard in one direction":     {during(sec/4, func(c *Core, at boottime.Instant) { c.Merger().Heard(0, 4, at) }), RefusedHeard},
		"answers":                    {during(sec/4, func(c *Core, at boottime.Instant) { state(c, at, 4, nobody, netgossip.Statement{Guard: killing}) }), RefusedSeen},
		"condemned itself meanwhile": {during(sec/4, func(c *Core, _ boottime.Instant) { c.sentence.condemned = true }), RefusedNoQuorum},
		"is back under another boot": {during(sec/4, func(c *Core, _ boottime.Instant) { c.proof.peers[4].boot = 204 }), RefusedOtherBoot},
		"heard a moment before":      {after(func(_ *testing.T, c *Core) { c.Merger().Heard(0, 4, 17*sec); c.proof.Tell(1, off) }), RefusedHeard},
		"heard a while before":       {after(func(_ *testing.T, c *Core) { c.Merger().Heard(0, 4, 16*sec); c.proof.Tell(1, off) }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := settled(t)
			if name == "never met" {
				c = unacquainted(t)
			}
			tc.do(t, c)
			var got []Answer
			for at := 20*sec + sec/4; at < 40*sec && len(got) == 0; at += sec / 4 {
				got = c.Step(at).Told // statements from during the trial are evaluated before others answer again
				if len(got) == 0 {
					var a []Answer
					a, _ = verdicts(c, at+sec/8, at+sec/8)
					got = a
				}
			}
			switch {
			case len(got) != 1 || got[0].ID != 1:
				t.Fatalf("%+v", got)
			case tc.want == 0 && (got[0].Err != nil || !c.proof.Fenced().Has(4)):
				t.Errorf("%v", got[0].Err)
			case tc.want != 0 && (got[0].Err == nil || got[0].Err.Why != tc.want || c.proof.Fenced().Has(4) || c.proof.Of(4).Proof != 0):
				t.Errorf("%+v, want %v; %+v", got[0].Err, tc.want, c.proof.Of(4))
			case tc.want != 0 && (strings.Contains(got[0].Err.Error(), "\n") || got[0].Err.Error() == "refused"):
				t.Errorf("%q", got[0].Err.Error())
			}
		})
	}
}

// Guard: without quorum no report is believed, from any source.
func TestNothingIsToldWithoutQuorum(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 12*sec)
	for at := 12*sec + sec/4; at < 20*sec; at += sec / 4 {
		state(c, at, 1, roster.SetOf(0, 1), netgossip.Statement{Guard: killing})
		c.Step(at)
	}
	c.proof.Tell(1, off)
	fx := c.Step(20 * sec)
	if len(fx.Told) != 1 || fx.Told[0].Err == nil || fx.Told[0].Err.Why != RefusedNoQuorum {
		t.Errorf("told: %+v", fx.Told)
	}
	for at := 20*sec + sec/4; at < 40*sec; at += sec / 4 {
		state(c, at, 1, roster.SetOf(0, 1), netgossip.Statement{Guard: killing, Facts: handed(netgossip.FactOperator, 104, 0)})
		if c.Step(at).Fenced.Has(4) {
			t.Fatal("handed on, and believed")
		}
	}
}

// Guard: a node that is configured not to accept reports believes neither reports on this node nor those that others
// pass on.
func TestWordsAreConfiguredAway(t *testing.T) {
	c := mourners(t, netgossip.Statement{Guard: killing}, func(c *Config) { c.Outside = false })
	pass(c, 11*sec, 20*sec)
	c.proof.Tell(1, off)
	if a, _ := verdicts(c, 20*sec+sec/4, 20*sec+sec/4); len(a) != 1 || a[0].Err == nil || a[0].Err.Why != RefusedOff {
		t.Errorf("told: %+v", a)
	}
	for at := 21 * sec; at < 40*sec; at += sec / 4 {
		for p := 1; p < 4; p++ {
			state(c, at, p, without4, netgossip.Statement{Guard: killing, Facts: handed(netgossip.FactOperator, 104, 0)})
		}
		if c.Step(at).Fenced.Has(4) {
			t.Fatal("handed on, and believed")
		}
	}
}

// Guard: if a counted member does not answer, the trial fails: silence is not agreement.
func TestMemberThatDoesNotAnswerEndsATrial(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 20*sec)
	w := &c.proof.peers[4]
	for late, want := range map[time.Duration]bool{trialLimit - 1: false, trialLimit: true} {
		v := judging(c, 20*sec)
		w.trial, v.out.Answers = trial{Death: Death{Proof: ProofOperator, Boot: 104}, question: question{since: 20 * sec}, ids: []uint64{1}}, nil
		v.try((20 * sec).Add(late), 4, w)
		over := len(v.out.Answers) == 1
		if over != want || over && (v.out.Answers[0].Err == nil || v.out.Answers[0].Err.Why != RefusedUnanswered || v.out.Answers[0].Err.Other != "n0001") {
			t.Errorf("after %v: %+v", late, v.out.Answers)
		}
	}
}

// Guard: a report about a node that has left the list in force, or is not on it yet, is refused.
func TestWordAboutOneThatIsNotExpected(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 20*sec)
	c.rosters.expected.Remove(4)
	v := judging(c, 20*sec)
	if v.hear(20*sec, &off); len(v.out.Answers) != 1 || v.out.Answers[0].Err == nil || v.out.Answers[0].Err.Why != RefusedMember {
		t.Errorf("%+v", v.out.Answers)
	}
}

// Guard: statements from before the report do not count. Each counted member has to answer after it, and is asked.
func TestWordWaitsForEachMember(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 20*sec)
	c.proof.Tell(1, off)
	asked := false
	var got []Answer
	for at := 20*sec + sec/4; at < 40*sec && len(got) == 0; at += sec / 4 {
		for p := 1; p < 4; p++ {
			if p != 3 { // member 3 has answered before the report, and is covered by a vouch
				state(c, at, p, without4, netgossip.Statement{Guard: killing})
			}
		}
		if c.view.Counted.Has(3) && at > 24*sec {
			t.Fatal("the third one counts without evidence")
		}
		fx := c.Step(at)
		got = fx.Told
		asked = asked || len(fx.Ask) > 0 && fx.Ask[0].Has(3)
		if c.proof.Fenced().Has(4) && c.view.Counted.Has(3) {
			t.Fatal("believed without the third one's answer")
		}
	}
	if !asked || len(got) != 1 {
		t.Errorf("asked %v, %+v", asked, got)
	}
}

// Guard: a node that writes to the LUN runs, whatever was reported. A node whose slot does not change for as long as a
// writer may pause does not run.
func TestWordAndTheLUN(t *testing.T) {
	for name, tc := range map[string]struct {
		writes bool
		met    bool
		boot   uint64
		want   Refusal
	}{
		"stands still":            {false, true, 104, 0},
		"writes":                  {true, true, 104, RefusedWrites},
		"never met, stands still": {false, false, 104, 0},
		"never met, writes":       {true, false, 104, RefusedWrites},
		"never met, another boot": {false, false, 105, RefusedOtherBoot},
	} {
		t.Run(name, func(t *testing.T) {
			c := settled(t)
			if !tc.met {
				c = unacquainted(t)
			}
			r := withSlots(t, c)
			r.put(4, diskquorum.SlotActive, 8, netgossip.Statement{Boot: 104, Guard: killing})
			others := func(at boottime.Instant) {
				for p := 1; p < 4; p++ {
					state(r.Core, at, p, without4, netgossip.Statement{Guard: killing})
				}
			}
			at := 11 * sec
			for ; at < 30*sec; at += sec / 4 {
				others(at)
				r.step(at)
			}
			word := off
			word.Boot = tc.boot
			r.proof.Tell(1, word)
			begun := at
			var got []Answer
			for sequence := uint64(20); at < begun+20*sec && len(got) == 0; at += sec / 4 {
				if tc.writes && at > begun {
					r.put(4, diskquorum.SlotActive, sequence, netgossip.Statement{Boot: 104, Guard: killing})
					sequence += 2
				}
				others(at)
				got = r.step(at).Told
			}
			if len(got) != 1 || (got[0].Err == nil) != (tc.want == 0) || got[0].Err != nil && got[0].Err.Why != tc.want {
				t.Fatalf("%+v", got)
			}
			if tc.want == 0 && (at-begun < 4*sec || !r.proof.Fenced().Has(4) || r.proof.Of(4).Boot != 104) {
				t.Errorf("believed after %v: %+v", time.Duration(at-begun), r.proof.Of(4))
			}
			if tc.want != 0 {
				return
			}
			// It answers: this is a contradiction, even if it was never met before.
			state(r.Core, at+sec, 4, without4, netgossip.Statement{Guard: killing})
			r.step(at + sec)
			state(r.Core, at+2*sec, 4, without4, netgossip.Statement{Guard: killing})
			if r.step(at + 2*sec); r.proof.Fenced().Has(4) || r.proof.Of(4).Proof != 0 || r.proof.peers[4].defied != 104 {
				t.Errorf("contradicted: %+v", r.proof.Of(4))
			}
		})
	}
}

// Guard: P9. If a boot that was reported dead is alive, this raises an alarm, whatever the sign of life is. The death
// is withdrawn, the withdrawal is passed on, and no report is believed until another boot answers.
func TestToldDeathIsContradicted(t *testing.T) {
	for name, live := range map[string]func(*Core, boottime.Instant){
		"answers":          func(c *Core, at boottime.Instant) { state(c, at, 4, nobody, netgossip.Statement{Guard: killing}) },
		"is heard one way": func(c *Core, at boottime.Instant) { c.Merger().Heard(0, 4, at) },
		"others have noticed it": func(c *Core, at boottime.Instant) {
			state(c, at, 1, without4, netgossip.Statement{Facts: handed(netgossip.FactContradicted, 104, 0)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := settled(t)
			pass(c, 11*sec, 20*sec)
			c.proof.Tell(1, off)
			if _, fenced := verdicts(c, 20*sec+sec/4, 25*sec); fenced == 0 {
				t.Fatal("not believed")
			}
			live(c, 26*sec)
			if fx := c.Step(26 * sec); fx.Fenced.Has(4) || c.proof.Of(4).Proof != 0 {
				t.Fatalf("it stands: %+v", c.proof.Of(4))
			}
			if f := c.fx.Statement.Facts[0]; f.Kind != netgossip.FactContradicted || f.Boot != 104 {
				t.Errorf("handed on: %+v", f)
			}
			for at := 27 * sec; at < 60*sec; at += sec / 4 {
				state(c, at, 1, without4, netgossip.Statement{Guard: killing, Facts: handed(netgossip.FactOperator, 104, 0)})
				state(c, at, 2, without4, netgossip.Statement{Guard: killing, Facts: handed(netgossip.FactSentence, 104, time.Second)})
				state(c, at, 3, without4, netgossip.Statement{Guard: killing, Facts: handed(netgossip.FactContradicted, 103, 0)}) // about the boot before
				if c.Step(at).Fenced.Has(4) {
					t.Fatalf("believed again at %v", time.Duration(at))
				}
			}
			c.proof.Tell(2, off)
			if a, _ := verdicts(c, 60*sec, 60*sec); len(a) != 1 || a[0].Err == nil || a[0].Err.Why != RefusedContradicted {
				t.Errorf("told again: %+v", a)
			}
			state(c, 61*sec, 4, without4, netgossip.Statement{Boot: 204, Guard: killing})
			c.Step(61 * sec)
			pass(c, 62*sec, 80*sec)
			c.proof.Tell(3, Word{Node: "n0004", Death: Death{Boot: 204, Proof: ProofPower}})
			if a, _ := verdicts(c, 80*sec+sec/4, 90*sec); len(a) != 1 || a[0].Err != nil {
				t.Errorf("another boot: %+v", a)
			}
		})
	}
}

// Guard: the death is not shown while a counted member sees the node, which may run another boot. This is not a
// contradiction.
func TestToldDeathIsHiddenWhileSomebodySeesTheNode(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 20*sec)
	c.proof.Tell(1, off)
	verdicts(c, 20*sec+sec/4, 25*sec)
	state(c, 26*sec, 2, roster.FullSet(5), netgossip.Statement{Guard: killing})
	if fx := c.Step(26 * sec); fx.Fenced.Has(4) || c.proof.Of(4).Proof != ProofOperator {
		t.Errorf("fenced %v, %+v", fx.Fenced.Has(4), c.proof.Of(4))
	}
	if _, fenced := verdicts(c, 27*sec, 27*sec); fenced == 0 {
		t.Error("never shown again")
	}
}

// Guard: a trial that a contradiction ends is answered, and does not prevent a report about the next boot.
func TestTrialThatIsContradictedIsAnswered(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 20*sec)
	c.proof.Tell(1, off)
	state(c, 20*sec+sec/4, 1, without4, netgossip.Statement{Guard: killing, Facts: handed(netgossip.FactContradicted, 104, 0)})
	got := append([]Answer(nil), c.Step(20*sec+sec/4).Told...)
	if a, _ := verdicts(c, 21*sec, 60*sec); len(append(got, a...)) != 1 || append(got, a...)[0].Err == nil || append(got, a...)[0].Err.Why != RefusedContradicted {
		t.Errorf("%+v, %+v", got, a)
	}
	state(c, 61*sec, 4, without4, netgossip.Statement{Boot: 204, Guard: killing})
	c.Step(61 * sec)
	pass(c, 62*sec, 80*sec)
	c.proof.Tell(3, Word{Node: "n0004", Death: Death{Boot: 204, Proof: ProofPower}})
	if a, _ := verdicts(c, 80*sec+sec/4, 120*sec); len(a) != 1 || a[0].Err != nil {
		t.Errorf("the next boot: %+v", a)
	}
}

// Guard: a reported death does not prevent the proofs that the agents find themselves.
func TestToldDeathGivesWayToProofs(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(*slotRig)
		lost bool
		want Proof
	}{
		"nothing more is found": {func(*slotRig) {}, false, ProofOperator},
		"by time":               {func(*slotRig) {}, true, ProofTime},
		"a sentence":            {func(r *slotRig) { s := byLUN(r.Core, 104, time.Second); r.proof.sentencedByLUN(41*sec, &s) }, false, ProofSentence},
		"another boot": {func(r *slotRig) {
			r.put(4, diskquorum.SlotActive, 100, netgossip.Statement{Boot: 204, Guard: killing})
		}, false, ProofBoot},
	} {
		t.Run(name, func(t *testing.T) {
			r := shelf(t, false)
			r.proof.Tell(1, off)
			for at := 30 * sec; at < 90*sec; at += sec / 4 {
				if at == 40*sec {
					if !r.proof.Fenced().Has(4) || r.proof.Of(4).Proof != ProofOperator {
						t.Fatalf("not believed: %+v", r.proof.Of(4))
					}
					tc.do(r)
				}
				for p := 1; p < 4; p++ {
					st := netgossip.Statement{Guard: killing}
					put(&st.Lost, 4, tc.lost && at > 45*sec)
					state(r.Core, at, p, without4, st)
				}
				r.step(at)
			}
			if d := r.proof.Of(4); d.Proof != tc.want || d.Boot != 104 || !r.proof.Fenced().Has(4) {
				t.Errorf("%+v, FENCED %v", d, r.proof.Fenced().Has(4))
			}
		})
	}
}

// Guard: P9. A boot that was reported dead but writes its slot is alive, even if the LUN has no echo blocks.
func TestToldDeathIsContradictedByTheSlot(t *testing.T) {
	r := shelf(t, false)
	r.proof.Tell(1, off)
	for at := 30 * sec; at < 50*sec; at += sec / 4 {
		if at == 40*sec && !r.proof.Fenced().Has(4) {
			t.Fatal("not believed")
		}
		if at >= 41*sec && at%sec == 0 {
			r.write(4, uint64(at/sec))
		}
		r.others(at, netgossip.Statement{})
		r.step(at)
	}
	if r.proof.Fenced().Has(4) || r.proof.Of(4).Proof != 0 || r.proof.peers[4].defied != 104 {
		t.Errorf("it stands: %+v", r.proof.Of(4))
	}
}
