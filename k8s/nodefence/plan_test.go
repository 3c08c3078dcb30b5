package nodefence

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// planning returns a NodeFence whose check of all methods ends when the test ends it.
func planning(t *testing.T, step Step) *desk {
	d := begun(t, step, New)
	d.plans = true
	return d.settle()
}

func planOf(d *desk) *Job {
	i := slices.IndexFunc(d.f.Jobs, func(j Job) bool { return strings.HasPrefix(j.Name, string(Plan)) && !j.Finished })
	if i < 0 {
		d.t.Fatalf("nobody looks: %v", d.log)
	}
	return &d.f.Jobs[i]
}

func cuts(d *desk) bool {
	return slices.ContainsFunc(d.created, func(m string) bool { return strings.HasPrefix(m, "main:") })
}

// An impossible method, in any step, is found before anything is cut off: storage is not taken from a node whose power
// cannot be cut.
func TestNothingIsCutBeforeAllIsPossible(t *testing.T) {
	for _, step := range []Step{Isolation, Power} {
		d := planning(t, step)
		for try := range 3 {
			for i := range d.f.Jobs {
				if j := &d.f.Jobs[i]; !j.Suspended && !j.Finished {
					j.Finished, j.Reported, j.Succeeded, j.Message = true, true, false, "fence_eaton_snmp has no action off"
				}
			}
			if d.settle(); cuts(d) || d.status().Isolated || d.status().Switched {
				t.Fatalf("%s, try %d: made %v", step, try, d.created)
			}
			d.after(d.f.Cluster.Poll)
		}
		if d.status().Phase != GivenUp || !strings.Contains(d.status().Message, "has no action off") {
			t.Errorf("%s: %s, %s", step, d.status().Phase, d.status().Message)
		}
	}
}

// The check is waited for, even if the plugs have answered; a check without a result is a failure.
func TestThePlanIsWaitedFor(t *testing.T) {
	d := planning(t, Isolation)
	for _, j := range d.jobs() {
		j.Finished, j.Reported, j.Message = true, true, "the plug is on"
	}
	if d.settle(); cuts(d) {
		t.Fatalf("made %v", d.created)
	}
	p := planOf(d)
	p.Finished, p.Reported, p.Succeeded = true, true, true
	if d.settle(); !cuts(d) {
		t.Errorf("it is not isolated: %s", d.status().Message)
	}
	d = planning(t, Power)
	if d.after(d.f.Cluster.JobTimeout + slack + time.Second); cuts(d) || d.status().Phase != Error {
		t.Errorf("made %v: %s", d.created, d.status().Phase)
	}
}

// All supplies are off already: that is a proof, whatever methods are possible.
func TestOffAlreadyNeedsNoPlan(t *testing.T) {
	d := planning(t, Isolation)
	for range 2 { // each is asked twice
		for _, j := range d.jobs() {
			j.Finished, j.Reported, j.Succeeded, j.Off = true, true, true, true
		}
		d.settle()
	}
	if d.status().Proof == nil {
		t.Errorf("%+v", d.status())
	}
}

// An image of an older version cannot check the methods: a node is then fenced as before.
func TestAnOlderImage(t *testing.T) {
	d := planning(t, Power)
	p := planOf(d)
	p.Finished, p.Reported, p.Unknown, p.Message = true, true, true, "exit code 2"
	if d.settle(); !cuts(d) {
		t.Errorf("it is not fenced: %s", d.status().Message)
	}
}

// Once something is cut off, a check cannot help any more; and the recovery cuts nothing off.
func TestThePlanComesFirstOnly(t *testing.T) {
	for _, set := range []func(s *Status){
		func(s *Status) { s.Isolated = true }, func(s *Status) { s.Switched = true }, func(s *Status) { s.Step = Recovery },
	} {
		d := begun(t, Power, Running)
		d.plans = true
		set(d.status())
		if d.status().Step == Recovery {
			d.f.Node.Ready, d.f.Node.Boot = true, newBoot
		}
		d.settle()
		if slices.ContainsFunc(d.f.Jobs, func(j Job) bool { return strings.HasPrefix(j.Name, string(Plan)) }) {
			t.Errorf("it looks: %v", d.log)
		}
	}
}

// jobs returns all Jobs except those that check whether methods are possible.
func (d *desk) jobs() (out []*Job) {
	for i := range d.f.Jobs {
		if !strings.HasPrefix(d.f.Jobs[i].Name, string(Plan)) {
			out = append(out, &d.f.Jobs[i])
		}
	}
	return out
}
