package nodefence

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

var atRisk = storm.Verdict{Reason: storm.ControlPlane, Text: "n5 is not Ready", Anyway: "abc"}

// A step that has begun, or that a person has ordered, still waits for the rest of the control plane, at each off.
func TestEachOffAsksAboutTheControlPlane(t *testing.T) {
	for what, c := range map[string]struct {
		step  Step
		phase Phase
		set   func(d *desk)
		held  bool
	}{
		"isolation that has begun":         {Isolation, Running, func(d *desk) { d.status().Isolated = true }, true},
		"power that has begun":             {Power, Running, func(d *desk) { d.status().Switched = true }, true},
		"power again":                      {Power, Error, func(d *desk) { d.status().Switched = true }, true},
		"what a person has ordered":        {Power, New, func(d *desk) { d.status().Ordered = Power }, true},
		"recovery":                         {Recovery, New, func(d *desk) { d.f.Node.Ready = true }, false},
		"one that is proven by its agents": {Power, New, func(d *desk) { d.status().Proof = &Proof{Kind: ByAgents, Boot: oldBoot} }, true},
	} {
		d := begun(t, c.step, c.phase)
		d.f.Policy = atRisk
		c.set(d)
		d.after(20 * time.Second)
		d.through(func(m string) bool { return !strings.HasPrefix(m, "check:") && good(m) })
		off := slices.ContainsFunc(d.created, func(m string) bool { return strings.HasPrefix(m, "main:") && strings.HasSuffix(m, "off") })
		if held := d.status().Held() == storm.ControlPlane; held != c.held || off {
			t.Errorf("%s: held %v, made %v, %s %s: %s", what, held, d.created, d.status().Step, d.status().Phase, d.status().Message)
		}
	}
}

// Another node fails between the two supplies of a node: the second supply stays on. When both were off, they are
// switched on again; and when one of them may be on, nothing is switched off again.
func TestSuppliesOfTheControlPlane(t *testing.T) {
	d := begun(t, Power, New)
	d.settle()
	d.f.Policy = atRisk
	d.through(good)
	if want := []string{"main:a-off"}; !slices.Equal(d.created, want) || d.status().Held() != storm.ControlPlane {
		t.Fatalf("made %v, want %v; held %q", d.created, want, d.status().Held())
	}
	d.f.Policy = storm.Verdict{Allowed: true}
	d.settle()
	d.f.Policy = atRisk
	d.finish(good) // the second off
	d.through(func(m string) bool { return m != "main:b-on" })
	if !slices.Contains(d.created, "main:b-on") {
		t.Fatalf("what is off stays so: made %v", d.created)
	}
	n := len(d.created)
	d.after(time.Minute)
	if d.through(good); slices.Contains(d.created[n:], "main:a-off") {
		t.Errorf("made %v: the node may run", d.created[n:])
	}
}

// A Job that was recorded is not started once another one has failed.
func TestARecordedOffIsNotStarted(t *testing.T) {
	d := begun(t, Power, New)
	for len(d.status().Jobs) < 2 {
		if !d.once() {
			t.Fatal("it stands still")
		}
	}
	d.f.Policy = atRisk
	if d.settle(); !d.jobs()[0].Suspended {
		t.Error("it is started")
	}
	if d.after(3 * time.Minute); d.status().Phase != Error {
		t.Errorf("%s: %s", d.status().Phase, d.status().Message)
	}
}

// That a NodeFence is no longer held up is one write, and its next step is another: other replicas look in between.
func TestFreeIsWrittenFirst(t *testing.T) {
	d := begun(t, Power, New)
	d.f.Policy = atRisk
	d.settle()
	d.f.Policy = storm.Verdict{Allowed: true}
	if a := Decide(d.f); a.Kind != Update || a.Status.Phase != New || a.Status.Held() != "" {
		t.Errorf("%+v", a)
	}
}
