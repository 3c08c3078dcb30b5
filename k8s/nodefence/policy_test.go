package nodefence

import (
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// A storm comes before each step, before each try, and before the first method of each.
func TestEachStepAsksThePolicy(t *testing.T) {
	for what, c := range map[string]struct {
		step  Step
		phase Phase
		set   func(d *desk)
		held  bool
	}{
		"isolation":                              {Isolation, New, nil, true},
		"power_management":                       {Power, New, nil, true},
		"isolation, before its first method":     {Isolation, Running, nil, true},
		"power, before its first method":         {Power, Running, nil, true},
		"isolation that has begun":               {Isolation, Running, func(d *desk) { d.status().Isolated = true }, false},
		"power that has begun":                   {Power, Running, func(d *desk) { d.status().Switched = true }, false},
		"isolation again":                        {Isolation, Error, nil, true},
		"power again":                            {Power, Error, nil, true},
		"power again, with a supply that is off": {Power, Error, func(d *desk) { d.status().Switched = true }, false},
		"after the isolation":                    {Isolation, Done, func(d *desk) { d.status().StartedAt = start.Add(-time.Hour) }, true},
		"recovery":                               {Recovery, New, func(d *desk) { d.f.Node.Ready = true }, false},
		"what a person has ordered":              {Isolation, New, func(d *desk) { d.status().Ordered = Isolation }, false},
		"the step after that":                    {Power, New, func(d *desk) { d.status().Ordered = Isolation }, true},
		"a step that a person has ordered":       {Power, New, func(d *desk) { d.status().Ordered = Power }, false},
		"the power of what nothing isolates": {Power, New, func(d *desk) {
			d.status().Ordered, d.f.Config.Isolation = Isolation, nil
		}, false},
	} {
		d := begun(t, c.step, c.phase)
		d.f.Policy = tooMany
		if c.set != nil {
			c.set(d)
		}
		d.after(20 * time.Second)
		if c.phase == Running && c.step == Isolation { // plugs are asked even in a storm
			d.through(func(m string) bool { return !strings.HasPrefix(m, "check:") && good(m) })
		}
		mains := strings.Contains(strings.Join(d.created, " "), "main:")
		if d.status().Held() != "" != c.held || c.held && mains {
			t.Errorf("%s: held %q, made %v, %s %s: %s", what, d.status().Held(), d.created, d.status().Step, d.status().Phase, d.status().Message)
		}
	}
}

// A NodeFence that is held up shows what holds it up, and how a person overrules it; and it shows when that is over.
func TestCondition(t *testing.T) {
	d := begun(t, Power, New)
	d.f.Policy = storm.Verdict{Reason: storm.TooManyUnhealthy, Text: "5 of 10", Anyway: "abc"}
	d.settle()
	c := d.status().Conditions
	if len(c) != 1 || c[0].Type != PolicyAllows || c[0].Status != "False" || c[0].Reason != storm.TooManyUnhealthy ||
		!strings.Contains(c[0].Message, "5 of 10") || !strings.Contains(c[0].Message, AnywayAnnotation+"=abc") || !c[0].LastTransitionTime.Equal(start) {
		t.Fatalf("%+v", c)
	}
	d.f.Policy.Text = "6 of 10"
	d.after(time.Minute)
	if c = d.status().Conditions; !strings.Contains(c[0].Message, "6 of 10") || !c[0].LastTransitionTime.Equal(start) || d.once() {
		t.Errorf("%+v", c)
	}
	d.f.Policy = storm.Verdict{Allowed: true}
	d.settle().is(Power, Running)
	if c = d.status().Conditions; c[0].Status != "True" || c[0].Message != "" || d.status().Held() != "" || !d.status().StartedAt.Equal(d.f.Now) {
		t.Errorf("%+v, since %v", c, d.status().StartedAt)
	}
}

// A step that a person has ordered begins even in a storm.
func TestOrder(t *testing.T) {
	d := begun(t, Power, New)
	d.f.Object.Spec, d.f.Object.Status = Spec{NodeName: "n4", Step: Power}, Status{}
	d.f.Policy = tooMany
	d.settle().is(Power, Running)
	if d.status().Ordered != Power {
		t.Errorf("%+v", d.status())
	}
	if a := Decide(Facts{Now: start, Config: d.f.Config, Cluster: d.f.Cluster, Node: Node{Exists: true, UID: "u4", Boot: oldBoot, NotReadySince: start}, Policy: storm.Verdict{Allowed: true}}); a.Kind != Create || a.Status.Ordered != "" {
		t.Errorf("nobody has ordered what begins by itself: %+v", a)
	}
}
