package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Guard: if the reporter of a death withdraws it because the boot was heard, the withdrawal counts at once, for all
// other nodes, too, and until another boot answers.
func TestToldDeathIsTakenBack(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 20*sec)
	told := Word{Node: "n0004", Death: Death{Boot: 104, Proof: ProofPower}}
	back := told
	back.Contradicted = true
	c.proof.Tell(1, told)
	if _, fenced := verdicts(c, 20*sec+sec/4, 25*sec); fenced == 0 {
		t.Fatal("not believed")
	}
	other := back
	other.Boot = 103
	c.proof.Tell(2, other)
	if a, fenced := verdicts(c, 26*sec, 26*sec); len(a) != 1 || a[0].Err == nil || fenced == 0 {
		t.Errorf("another boot is heard: %+v, FENCED %v", a, fenced)
	}
	c.proof.Tell(3, back)
	a, fenced := verdicts(c, 27*sec, 30*sec)
	if len(a) != 1 || a[0].ID != 3 || a[0].Err == nil || a[0].Err.Why != RefusedContradicted || fenced != 0 || c.proof.Of(4).Proof != 0 {
		t.Errorf("%+v, FENCED %v", a, fenced)
	}
	if f := c.fx.Statement.Facts[0]; f.Kind != netgossip.FactContradicted || f.Boot != 104 {
		t.Errorf("handed on: %+v", f)
	}
	c.proof.Tell(4, told)
	if a, fenced := verdicts(c, 31*sec, 50*sec); len(a) != 1 || a[0].Err == nil || a[0].Err.Why != RefusedContradicted || fenced != 0 {
		t.Errorf("told again: %+v", a)
	}
}

// Guard: another report stays valid: if a person unplugged the node after its devices gave a wrong report, the
// withdrawal of that report does not contradict the person.
func TestAnothersWordIsNotTakenBack(t *testing.T) {
	back := Word{Node: "n0004", Death: Death{Boot: 104, Proof: ProofPower}, Contradicted: true}
	person := Word{Node: "n0004", Death: Death{Boot: 104, Proof: ProofOperator}}
	c := settled(t)
	pass(c, 11*sec, 20*sec)
	c.proof.Tell(1, person)
	c.proof.Tell(2, back) // during the trial
	a, fenced := verdicts(c, 20*sec+sec/4, 25*sec)
	if len(a) != 2 || a[0].ID != 2 || a[0].Err == nil || a[1].Err != nil || fenced == 0 {
		t.Fatalf("%+v, FENCED %v", a, fenced)
	}
	c.proof.Tell(3, back) // after it is believed
	if a, fenced := verdicts(c, 26*sec, 40*sec); len(a) != 1 || a[0].Err == nil || fenced == 0 || c.proof.Of(4).Proof != ProofOperator {
		t.Errorf("%+v, FENCED %v, %+v", a, fenced, c.proof.Of(4))
	}
}

// Guard: a withdrawal ends a trial.
func TestTrialIsTakenBack(t *testing.T) {
	c := settled(t)
	pass(c, 11*sec, 20*sec)
	told := Word{Node: "n0004", Death: Death{Boot: 104, Proof: ProofPower}}
	back := told
	back.Contradicted = true
	c.proof.Tell(1, told)
	c.proof.Tell(2, back)
	a, fenced := verdicts(c, 20*sec+sec/4, 60*sec)
	if len(a) != 2 || a[0].Err == nil || a[1].Err == nil || fenced != 0 {
		t.Errorf("%+v, FENCED %v", a, fenced)
	}
}

// Guard: deaths that the agents have found themselves stay valid, and a death that was never reported cannot be
// withdrawn: so a withdrawal cannot prevent a later report.
func TestWhatWasFoundIsNotTakenBack(t *testing.T) {
	back := Word{Node: "n0004", Death: Death{Boot: 104, Proof: ProofPower}, Contradicted: true}
	c := settled(t)
	pass(c, 11*sec, 20*sec)
	c.proof.Tell(1, back)
	if a, _ := verdicts(c, 20*sec+sec/4, 20*sec+sec/4); len(a) != 1 || a[0].Err == nil {
		t.Errorf("%+v", a)
	}
	c.proof.Tell(2, off)
	if a, fenced := verdicts(c, 21*sec, 30*sec); len(a) != 1 || a[0].Err != nil || fenced == 0 {
		t.Errorf("told afterwards: %+v", a)
	}

	r := shelf(t, false)
	for at := 30 * sec; at < 60*sec; at += sec / 4 {
		for p := 1; p < 4; p++ {
			state(r.Core, at, p, without4, netgossip.Statement{Guard: killing})
		}
		if at == 41*sec {
			s := byLUN(r.Core, 104, time.Second)
			r.proof.sentencedByLUN(at, &s)
		}
		if at == 50*sec {
			if !r.proof.Fenced().Has(4) || r.proof.Of(4).Proof != ProofSentence {
				t.Fatalf("not found: %+v", r.proof.Of(4))
			}
			r.proof.Tell(1, back)
		}
		r.step(at)
	}
	if !r.proof.Fenced().Has(4) || r.proof.Of(4).Proof != ProofSentence {
		t.Errorf("it is taken back: %+v", r.proof.Of(4))
	}
}
