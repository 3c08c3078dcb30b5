package nodefence

import (
	"strings"
	"testing"
	"time"
)

// Guard (two writers): the clock of a replica may be ahead by as much as clocks may differ. It still gives storage back
// no sooner after the report was withdrawn than a replica whose clock is right: each waits by its own looks.
func TestAClockThatIsAheadGivesNothingBackSooner(t *testing.T) {
	for _, ahead := range []time.Duration{-slack, 0, slack, time.Hour} {
		d := storageDesk(t, "1").settle().through(good)
		d.after(301*time.Second).through(good).is(Power, Running)
		marked := d.f.Now
		if s := d.status().Storages; len(s) == 0 || s[0].Returned.IsZero() || strings.Contains(strings.Join(d.created, " "), "-on") {
			t.Fatalf("%v, %+v", d.created, d.status())
		}
		// Another replica takes over: it reads what this one has written, and has seen nothing yet.
		d.f.Now, d.returns = d.f.Now.Add(ahead), ""
		began := d.f.Now
		for !strings.Contains(strings.Join(d.created, " "), "-on") && d.f.Now.Sub(began) < 10*time.Minute {
			d.after(time.Second).through(good)
		}
		if waited := d.f.Now.Sub(began); waited < ReturnWait || waited > ReturnWait+2*time.Second {
			t.Errorf("ahead by %v: %v after %v", ahead, waited, marked)
		}
	}
}

// Guard: a Job that failed without a message may run until its time is over by the clock of any node. The next try
// waits until that time and slack have passed or, if the Job exists, until it has ended.
func TestTheNextTryWaitsForWrongClocks(t *testing.T) {
	d := begun(t, Power, New).settle()
	name, end := d.jobs()[0].Name, d.status().Jobs[1].NotAfter
	d.f.Jobs = nil // somebody has deleted it
	d.settle().is(Power, Error)
	if !d.status().Jobs[1].Unclear {
		t.Fatalf("%s: %+v", name, d.status().Jobs[1])
	}
	made := len(d.created)
	for d.f.Now.Before(end.Add(slack)) {
		if d.after(time.Second); d.f.Now.Before(end.Add(slack)) && len(d.created) > made {
			t.Fatalf("another one is made %v before", end.Add(slack).Sub(d.f.Now))
		}
	}
	if d.after(time.Second); len(d.created) == made {
		t.Error("the next try does not come")
	}
}

// Guard: a Job that does not end is given up when its time and slack have passed, and no sooner: its executor's clock
// may be behind.
func TestALateJobIsWaitedFor(t *testing.T) {
	d := begun(t, Power, New).settle()
	end := d.status().Jobs[1].NotAfter
	d.f.Now = end.Add(slack)
	if d.settle(); d.status().Jobs[1].State != Recorded {
		t.Errorf("at its end and slack: %+v", d.status().Jobs[1])
	}
	if d.after(time.Second); d.status().Jobs[1].State != Failed {
		t.Errorf("a second later: %+v", d.status().Jobs[1])
	}
}
