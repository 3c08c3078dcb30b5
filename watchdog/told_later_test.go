package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Guard: a slot that is watched for longer than a trial takes does not wake the loop continuously.
func TestLongTrialDoesNotSpin(t *testing.T) {
	r := shelf(t, false)
	r.interval = 10 * time.Second
	r.write(4, 10)
	for at := 30 * sec; at < 40*sec; at += sec / 4 {
		r.others(at, netgossip.Statement{})
		r.step(at)
	}
	r.proof.Tell(1, off)
	for at := 40 * sec; at < 70*sec; at += sec / 4 {
		r.others(at, netgossip.Statement{})
		if fx := r.step(at); len(fx.Told) > 0 {
			return
		} else if fx.Wake < at {
			t.Fatalf("after %v it wants to be woken %v ago", time.Duration(at-40*sec), time.Duration(at-fx.Wake))
		}
	}
	t.Error("the word was never judged")
}

// Guard: an agent that was restarted after a node was lost knows the boot only from the slot. A proof by time, which
// does not name a boot, does not replace a reported death of that boot: consumers would take that for a withdrawal.
func TestTimeKeepsTheBootOfADeathThatWasTold(t *testing.T) {
	r := withSlots(t, unacquainted(t))
	r.write(4, 4)
	told := Death{}
	r.step(10*sec + sec/4)
	for at := 11 * sec; at < 80*sec; at += sec / 4 {
		st := netgossip.Statement{LUNHealthy: true}
		if at >= 40*sec {
			st.Lost = roster.SetOf(4)
		}
		r.others(at, st)
		if at == 20*sec || at == 60*sec {
			r.proof.Tell(uint64(at/sec), off)
		}
		r.step(at)
		if d := r.proof.Of(4); told.Boot != 0 && d.Boot != told.Boot {
			t.Fatalf("at %v the death is %+v, and was %+v", time.Duration(at), d, told)
		} else {
			told = d
		}
	}
	if told.Proof != ProofOperator {
		t.Errorf("the death is %+v", told)
	}
}

// Guard: a boot that was reported dead but lived on may die later. A death that this node has proven is not passed on
// as contradicted.
func TestBootThatWasDefiedMayDie(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 20*sec)
	c.proof.Tell(1, off)
	verdicts(c, 20*sec+sec/4, 35*sec)
	live := func(from, to boottime.Instant, last int, seen, lost roster.Set) {
		for at := from; at < to; at += sec / 4 {
			for p := 1; p < last; p++ {
				state(c, at, p, seen, netgossip.Statement{Guard: killing, Lost: lost})
			}
			c.Step(at)
		}
	}
	live(36*sec, 40*sec, 5, roster.SetOf(0, 1, 2, 3, 4), roster.Set{})
	if f := c.fx.Statement.Facts[0]; f.Kind != netgossip.FactContradicted {
		t.Fatalf("a boot that lives on is handed on as %+v", f)
	}
	live(40*sec, 70*sec, 4, without4, roster.Set{})
	live(70*sec, 90*sec, 4, without4, roster.SetOf(4))
	if d, f := c.proof.Of(4), c.fx.Statement.Facts[0]; d.Proof != ProofTime || f.Kind != 0 {
		t.Errorf("proven %+v, and handed on as %+v", d, f)
	}
}

// Guard: the trial of a member that leaves the list ends with a refusal: first only the old list still names it, then
// no list does.
func TestTrialOfAMemberThatLeaves(t *testing.T) {
	for name, leave := range map[string]func(*Core){
		"not expected any more": func(c *Core) { c.rosters.expected.Remove(4) },
		"not in the directory":  func(c *Core) { c.Renumber(rosterOf(t, 0, "n0000", "n0001", "n0002", "n0003")) },
	} {
		c := settled(t)
		pass(c, 11*sec, 20*sec)
		c.proof.Tell(7, off)
		c.Step(20*sec + sec/4)
		if got := c.fx.Told; len(got) > 0 || c.proof.peers[4].trial.since == 0 {
			t.Fatalf("%s: no trial, %+v", name, got)
		}
		leave(c)
		v := judging(c, 20*sec+sec/2)
		v.hearWords(20*sec + sec/2)
		v.followTrials(20*sec + sec/2)
		if got := c.proof.out.Answers; len(got) != 1 || got[0].ID != 7 || got[0].Err == nil || got[0].Err.Why != RefusedMember || got[0].Err.Node != "n0004" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
