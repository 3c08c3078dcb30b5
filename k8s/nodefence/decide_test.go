package nodefence

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// A node that has just stopped answering is looked at again after a while. A NodeFence remembers that the node was not
// Ready: if the Node is Ready later, it is back, and has not just stayed Ready.
func TestWhenItBegins(t *testing.T) {
	d := newDesk(t, configure(t))
	d.f.Cluster.Trigger = time.Minute
	d.f.Now = start.Add(10 * time.Second)
	if a := Decide(d.f); a.Kind != Wait || !a.Until.Equal(start.Add(time.Minute)) {
		t.Errorf("%+v", a)
	}
	d.f.Now = start.Add(time.Minute)
	if a := Decide(d.f); a.Kind != Create || !a.Status.NotReady || a.Status.Boot != oldBoot || a.Spec.Boot != oldBoot {
		t.Errorf("%+v", a)
	}
}

// Values that a person has written into a NodeFence stay: the boot that the Node shows does not replace another one.
func TestAnOrderKeepsItsBoot(t *testing.T) {
	d := newDesk(t, configure(t))
	d.f.Object = &Object{UID: "nf", Version: "1", Spec: Spec{NodeName: "n4", Boot: newBoot, Step: Power}}
	if a := Decide(d.f); a.Kind != Update || a.Status.Boot != newBoot || a.Status.NodeUID != "u4" || a.Status.Step != Power || a.Status.Ordered != Power || !a.Status.NotReady {
		t.Errorf("%+v", a.Status)
	}
}

// A NodeFence is about a Node, not about a name: a Node that was created again with the same name is another one.
func TestAnotherNodeOfThatName(t *testing.T) {
	d := begun(t, Isolation, New)
	d.f.Node.UID = "another"
	if a := Decide(d.f); a.Kind != Delete || a.UID != "nf" {
		t.Errorf("%+v", a)
	}
}

// A Job with the name of a recorded one is another Job: its result does not count, and the recorded one may still run.
func TestAJobOfThatNameIsAnother(t *testing.T) {
	d := begun(t, Isolation, Running)
	d.status().Jobs = []Entry{{Name: "fc-off-1", UID: "j1", Method: "fc-off", Role: Main, Step: Isolation, State: Recorded, NotAfter: start.Add(time.Minute)}}
	d.f.Jobs = []Job{{Name: "fc-off-1", UID: "j2", Finished: true, Succeeded: true, Reported: true, Off: true}}
	if a := Decide(d.f); a.Kind != Update || a.Status.Jobs[0].State != Failed || !a.Status.Jobs[0].Unclear {
		t.Errorf("%+v", a.Status.Jobs)
	}
}

// The latest nodes on which an executor has failed are avoided. A node on which an executor only asked, and got "on",
// is not.
func TestWhichNodesAreAvoided(t *testing.T) {
	failed := func(role Role, before []string) []string {
		d := begun(t, Isolation, Running)
		d.status().Failed = before
		d.status().Jobs = []Entry{{Name: "a", UID: "j1", Method: "fc-off", Role: role, Step: Isolation, State: Recorded, NotAfter: start.Add(time.Minute)}}
		d.f.Jobs = []Job{{Name: "a", UID: "j1", Finished: true, Reported: true, Node: "n9"}}
		for range 3 { // the node of a Job is noted first
			if a := Decide(d.f); a.Kind == Update {
				d.f.Object.Status = a.Status
			}
		}
		if d.status().Jobs[0].State != Failed {
			t.Errorf("%s: %+v", role, d.status().Jobs[0])
		}
		return d.status().Failed
	}
	if got := failed(Main, nil); !slices.Equal(got, []string{"n9"}) {
		t.Errorf("%q", got)
	}
	for _, role := range []Role{Check, Again} {
		if got := failed(role, nil); len(got) > 0 {
			t.Errorf("%s: %q", role, got)
		}
	}
	var many []string
	for i := range mostAvoided {
		many = append(many, fmt.Sprint("x", i))
	}
	if got := failed(Main, many); len(got) != mostAvoided || got[0] != "x1" || got[mostAvoided-1] != "n9" {
		t.Errorf("%q", got)
	}
}

// A Job that failed without a message may run until its time is over by any clock, and of several Jobs the last end
// counts. So may an existing Job that failed.
func TestUntilWhenSomethingMayRun(t *testing.T) {
	d := &decision{Facts: Facts{Now: start}, status: Status{Jobs: []Entry{
		{Name: "long", UID: "1", State: Failed, Unclear: true, NotAfter: start.Add(time.Minute)},
		{Name: "short", UID: "2", State: Failed, Unclear: true, NotAfter: start.Add(time.Second)},
	}}}
	if ok, until := d.quiet(); ok || !until.Equal(start.Add(time.Minute+slack)) {
		t.Errorf("%v until %v", ok, until)
	}
	d.Now = start.Add(time.Minute + slack)
	if ok, until := d.quiet(); !ok {
		t.Errorf("until %v", until)
	}
	d.Jobs = []Job{{Name: "short", UID: "2"}}
	if ok, _ := d.quiet(); ok {
		t.Error("a Job that failed by its time is still there, and may run")
	}
	d.Jobs[0].Finished = true
	if ok, _ := d.quiet(); !ok {
		t.Error("it has finished")
	}
}

// A step that a limit has held up is free when it begins, by the verdict at that time. A step that the verdict holds up
// is not.
func TestAStepThatBeginsIsFree(t *testing.T) {
	for _, c := range []struct {
		step   Step
		policy storm.Verdict
		want   string
	}{{Power, storm.Verdict{Allowed: true}, ""}, {Power, tooMany, storm.TooManyUnhealthy}, {Recovery, tooMany, ""}} {
		d := begun(t, Isolation, Done)
		d.status().Conditions = []Condition{{Type: PolicyAllows, Status: "False", Reason: storm.TooManyUnhealthy}}
		x := &decision{Facts: d.f, status: d.status().Clone()}
		x.Policy = c.policy
		a := x.enter(c.step, "")
		if a.Kind != Update || a.Status.Step != c.step || a.Status.Held() != c.want {
			t.Errorf("%s with %+v: %+v", c.step, c.policy, a.Status)
		}
	}
}

// The recovery has work to do even without methods: what was switched off is switched on again.
func TestRecoveryWithoutMethods(t *testing.T) {
	d := begun(t, Recovery, New)
	d.f.Config = configure(t, "fence-config-n4", "recovery=fc-on\n", "").Nodes["n4"]
	for _, switched := range []bool{false, true} {
		x := &decision{Facts: d.f, status: Status{Switched: switched}}
		if x.methods(Recovery) != switched {
			t.Errorf("switched %v: methods %v", switched, !switched)
		}
	}
}
