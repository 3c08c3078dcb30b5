package nodefence

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var tooMany = storm.Verdict{Reason: storm.TooManyUnhealthy, Text: "5 of 10 nodes"}

const oldBoot, newBoot = "024bc581b3a34be3", "124bc581b3a34be3"

// configure returns a node with a fabric switch and two supplies; texts replace methods' texts.
func configure(t testing.TB, replace ...string) *fenceconfig.Config {
	t.Helper()
	o := fenceconfig.Objects{
		"fence-config-n4":           {"config.properties": "node_name=n4\nisolation=fc-off\npower_management=a-off a-on b-off b-on\nrecovery=fc-on\n"},
		"fence-method-template-fc":  {"template.properties": "agent_name=fence_brocade\nip=192.0.2.2"},
		"fence-method-template-pdu": {"template.properties": "agent_name=fence_apc_snmp\nip=192.0.2.3"},
		"fence-method-fc-off-n4":    {"method.properties": "template=fence-method-template-fc\nplug=1\naction=off"},
		"fence-method-fc-on-n4":     {"method.properties": "template=fence-method-template-fc\nplug=1\naction=on"},
		"fence-method-a-off-n4":     {"method.properties": "template=fence-method-template-pdu\nplug=1\naction=off"},
		"fence-method-a-on-n4":      {"method.properties": "template=fence-method-template-pdu\nplug=1\naction=on"},
		"fence-method-b-off-n4":     {"method.properties": "template=fence-method-template-pdu\nplug=2\naction=off"},
		"fence-method-b-on-n4":      {"method.properties": "template=fence-method-template-pdu\nplug=2\naction=on"},
		fenceconfig.ClusterObject:   {"config.properties": "grace_timeout=300\ngiveup_retries=2\nsettle=30\ntrigger_after=0"},
	}
	for i := 0; i+2 < len(replace); i += 3 {
		for key, text := range o[replace[i]] {
			o[replace[i]] = map[string]string{key: strings.Replace(text, replace[i+1], replace[i+2], 1)}
		}
	}
	c := fenceconfig.Read(o, nil)
	for _, p := range c.Problems {
		if !p.Warning {
			t.Fatal(p)
		}
	}
	return c
}

// desk is one NodeFence with its Jobs, and one controller whose writes all succeed.
type desk struct {
	t       testing.TB
	f       Facts
	version int
	created []string // methods of Jobs, in order
	plans   bool     // Jobs that check all methods do not end by themselves
	returns string   // the storages that are about to be given back, and since when that was seen
	since   time.Time
	log     []string
}

func newDesk(t testing.TB, c *fenceconfig.Config) *desk {
	return &desk{t: t, f: Facts{Now: start, Config: c.Nodes["n4"], Cluster: c.Cluster, Policy: storm.Verdict{Allowed: true},
		Node: Node{Exists: true, UID: "u4", Boot: oldBoot, Heartbeat: "h0", NotReadySince: start, Silent: true}}}
}

// begun returns a NodeFence in a step and a phase.
func begun(t testing.TB, step Step, phase Phase) *desk {
	d := newDesk(t, configure(t))
	d.f.Object = &Object{UID: "nf", Version: "1", Spec: Spec{NodeName: "n4"}, Status: Status{Boot: oldBoot, NodeUID: "u4", Step: step, Phase: phase, StartedAt: start, DoneAt: start, NotReady: true}}
	return d
}

func (d *desk) status() *Status { return &d.f.Object.Status }

// once carries one action out, and reports whether there was one.
func (d *desk) once() bool {
	d.f.Returning = 0
	if o := d.f.Object; o != nil && o.Status.Returns() != "" {
		if text := o.Status.Returns(); text != d.returns {
			d.returns, d.since = text, d.f.Now
		}
		d.f.Returning = d.f.Now.Sub(d.since)
	}
	a := Decide(d.f)
	if a.Kind != Wait {
		d.log = append(d.log, fmt.Sprint(a.Kind, " ", a.Name, " ", a.Why))
	}
	switch a.Kind {
	case Wait:
		return false
	case Create:
		d.f.Object = &Object{UID: "nf", Version: "1", Spec: a.Spec, Status: a.Status}
	case Update:
		if a.Version != d.f.Object.Version {
			d.t.Fatal("an update without the version")
		}
		d.version++
		d.f.Object.Version, d.f.Object.Status = fmt.Sprint("v", d.version), a.Status
	case CreateJob:
		d.version++
		if a.Role != Plan { // plan_test.go tests it
			d.created = append(d.created, string(a.Role)+":"+a.Method.Name)
		}
		d.f.Jobs = append(d.f.Jobs, Job{Name: a.Name, UID: fmt.Sprint("j", d.version), Version: "1", Suspended: true, NotAfter: a.NotAfter})
	case StartJob:
		j := d.job(a.Name)
		if j.Suspended = false; d.status().entry(a.Name).Role == Plan && !d.plans {
			j.Finished, j.Reported, j.Succeeded = true, true, true
		}
	case DeleteJob:
		for i := range d.f.Jobs {
			if d.f.Jobs[i].UID == a.UID {
				d.f.Jobs = append(d.f.Jobs[:i:i], d.f.Jobs[i+1:]...)
				break
			}
		}
	case Delete:
		d.f.Object.Deleting = true
	case RemoveFinalizer:
		d.f.Object = nil
	}
	return true
}

func (d *desk) job(name string) *Job {
	for i := range d.f.Jobs {
		if d.f.Jobs[i].Name == name {
			return &d.f.Jobs[i]
		}
	}
	d.t.Fatalf("no Job %s", name)
	return nil
}

func (d *desk) settle() *desk {
	for range 200 {
		if !d.once() {
			return d
		}
		if d.f.Object == nil && !d.f.Node.Ready {
			return d
		}
	}
	d.t.Fatalf("it does not end: %v", d.log)
	return d
}

// finish ends all running Jobs, with success if ok returns true for the method.
func (d *desk) finish(ok func(method string) bool) *desk {
	if d.f.Object == nil {
		return d
	}
	for i := range d.f.Jobs {
		j := &d.f.Jobs[i]
		if e := d.status().entry(j.Name); e != nil && !j.Finished && !j.Suspended {
			j.Finished, j.Reported, j.Node, j.Succeeded, j.Message = true, true, "n1", ok(string(e.Role)+":"+e.Method), "said"
			j.Off = j.Succeeded
		}
	}
	return d.settle()
}

// through lets Jobs end until none runs.
func (d *desk) through(ok func(method string) bool) *desk {
	for range 30 {
		before := len(d.log)
		d.finish(ok)
		if len(d.log) == before {
			return d
		}
	}
	d.t.Fatalf("Jobs without end: %v", d.log)
	return d
}

func (d *desk) after(wait time.Duration) *desk {
	d.f.Now = d.f.Now.Add(wait)
	return d.settle()
}

func (d *desk) is(step Step, phase Phase) {
	d.t.Helper()
	if s := d.status(); s.Step != step || s.Phase != phase {
		d.t.Errorf("it is %s/%s (%s), want %s/%s; %s", s.Step, s.Phase, s.Message, step, phase, strings.Join(d.log, " | "))
	}
}

func good(method string) bool  { return !strings.HasPrefix(method, "check:") }
func all(string) bool          { return true }
func fails(method string) bool { return !strings.Contains(method, "off") }
func (d *desk) ready(boot string) *desk {
	d.f.Node.Ready, d.f.Node.Boot, d.f.Node.Heartbeat = true, boot, "h1"
	return d.settle()
}

// TestTable has a test for each row of the table in docs/power.md.
func TestTable(t *testing.T) {
	for _, rows := range []map[string]func(t *testing.T){beginning(), afterIsolation(), afterPower(), ending()} {
		for name, row := range rows {
			t.Run(name, row)
		}
	}
}

func beginning() map[string]func(t *testing.T) {
	return map[string]func(t *testing.T){
		"0 a node that is not Ready": func(t *testing.T) {
			d := newDesk(t, configure(t))
			d.once()
			d.is(Isolation, New)
			if s := d.f.Object.Spec; s.Boot != oldBoot || s.NodeUID != "u4" {
				t.Errorf("spec: %+v", s)
			}
		},
		"1 and 2 methods in order": func(t *testing.T) {
			d := newDesk(t, configure(t)).settle()
			d.is(Isolation, Running)
			if got := strings.Join(d.created, " "); got != "check:a-off check:b-off" {
				t.Errorf("first: %s", got)
			}
			d.through(good)
			d.is(Isolation, Done)
			if got := strings.Join(d.created, " "); got != "check:a-off check:b-off main:fc-off" || !d.status().Isolated {
				t.Errorf("then: %s, %+v", got, d.status())
			}
		},
		"2 off already": func(t *testing.T) {
			d := newDesk(t, configure(t)).settle().through(all)
			d.is(Isolation, Done)
			if p := d.status().Proof; p == nil || p.Kind != ByPower || p.Boot != oldBoot || strings.Join(d.created, " ") != "check:a-off check:b-off again:a-off again:b-off" {
				t.Errorf("proof %+v, Jobs %v", p, d.created)
			}
		},
		"3 and 8 a Job fails, again on another node": func(t *testing.T) {
			d := newDesk(t, configure(t)).settle()
			d.through(func(m string) bool { return false })
			d.is(Isolation, Error)
			if d.after(10 * time.Second); d.status().Retries != 1 || d.status().Failed[0] != "n1" {
				t.Errorf("%+v", d.status())
			}
			d.is(Isolation, Running)
		},
		"3 a Job is too late": func(t *testing.T) {
			d := begun(t, Power, New).settle().after(60*time.Second + slack + time.Second)
			d.is(Power, Error)
			if len(d.jobs()) != 0 {
				t.Error("it is still there")
			}
		},
		"3 a Job has vanished": func(t *testing.T) {
			d := begun(t, Power, New).settle()
			d.f.Jobs = nil
			d.settle().is(Power, Error)
			d.after(11*time.Second).is(Power, Error) // it may run
			d.after(60*time.Second).after(5*time.Second).is(Power, Running)
		},
	}
}

func afterIsolation() map[string]func(t *testing.T) {
	return map[string]func(t *testing.T){
		"4 Ready after isolation, in the boot that was fenced": func(t *testing.T) {
			d := newDesk(t, configure(t)).settle().through(good).ready(oldBoot)
			d.is(Power, Running)
		},
		"4 Ready after isolation, in another boot": func(t *testing.T) {
			d := newDesk(t, configure(t)).settle().through(good).ready(newBoot)
			d.is(Recovery, Running)
		},
		"5 not Ready after isolation": func(t *testing.T) {
			d := newDesk(t, configure(t)).settle().through(good)
			d.after(299*time.Second).is(Isolation, Done)
			d.after(2*time.Second).is(Power, Running)
			d.created = nil
			d.through(good).is(Power, Done)
			if got := strings.Join(d.created, " "); got != "main:b-off again:a-off again:b-off unfence:fc-on main:a-on main:b-on" {
				t.Errorf("order: %s", got)
			}
			if p := d.status().Proof; p == nil || p.Kind != ByPower {
				t.Errorf("proof: %+v", p)
			}
		},
		"5 nothing can isolate it": func(t *testing.T) {
			d := newDesk(t, configure(t, "fence-config-n4", "isolation=fc-off", "isolation=")).settle().through(good)
			d.is(Power, Done)
		},
	}
}

func afterPower() map[string]func(t *testing.T) {
	return map[string]func(t *testing.T){
		"6 Ready after power": func(t *testing.T) { begun(t, Power, Done).ready(newBoot).is(Recovery, Running) },
		"7 not Ready after power": func(t *testing.T) {
			d := begun(t, Power, Done).after(299 * time.Second)
			d.is(Power, Done)
			d.after(2*time.Second).is(Power, Error)
		},
		"9 given up": func(t *testing.T) {
			d := newDesk(t, configure(t)).settle().through(fails)
			for range 8 {
				d.after(20 * time.Second).through(fails)
			}
			d.is(Isolation, GivenUp)
		},
	}
}

func ending() map[string]func(t *testing.T) {
	return map[string]func(t *testing.T){
		"10 Ready while Jobs run": func(t *testing.T) {
			d := begun(t, Power, New).settle()
			d.ready(oldBoot).is(Power, Running)
			d.finish(good).is(Recovery, Running)
			if d.through(good).is(Recovery, Done); !strings.HasSuffix(strings.Join(d.created, " "), "restore:a-on restore:b-on main:fc-on") {
				t.Errorf("the supply stays off: %v", d.created)
			}
		},
		"11 over": func(t *testing.T) {
			d := begun(t, Recovery, Done).ready(newBoot)
			d.after(29*time.Second).is(Recovery, Done)
			if d.after(2 * time.Second); d.f.Object != nil {
				t.Error("it is still there")
			}
		},
		"12 fails again": func(t *testing.T) {
			d := begun(t, Recovery, Done)
			d.status().Isolated = true
			d.f.Node.Boot = newBoot
			for range 3 {
				d.once()
			}
			if d.f.Object == nil || d.f.Object.Spec.Boot != newBoot {
				t.Errorf("%v", d.log)
			}
		},
		"13 the Node is gone": func(t *testing.T) {
			d := begun(t, Power, Done)
			d.status().Isolated = true
			d.f.Node = Node{Silent: true}
			d.settle().is(Power, Done) // its storage stays fenced: nobody knows whether it runs
			d.status().Proof = &Proof{Kind: ByPower, Boot: oldBoot}
			if d.settle().through(good); d.f.Object != nil || strings.Join(d.created, " ") != "main:fc-on" {
				t.Errorf("%v %v", d.created, d.log)
			}
		},
		"14 paused": func(t *testing.T) {
			for _, how := range []func(d *desk){func(d *desk) { d.f.Object.Spec.Paused = true }, func(d *desk) { d.f.Node.Kept = true }} {
				d := begun(t, Power, New)
				how(d)
				d.settle().is(Power, New)
			}
		},
	}
}

// A Node is deleted while a Job runs: no step of recovery begins before that Job has ended.
func TestLeavesNothingRunning(t *testing.T) {
	d := begun(t, Power, New).settle()
	d.status().Isolated, d.status().Proof = true, &Proof{Kind: ByPower, Boot: oldBoot}
	d.f.Node = Node{Silent: true}
	d.settle().is(Power, Running)
	if d.finish(good); d.status().Step != Recovery {
		t.Errorf("%v", d.log)
	}
}

// A node still runs if one of its two supplies is off.
func TestOneSupplyIsOff(t *testing.T) {
	d := newDesk(t, configure(t)).settle().through(func(m string) bool { return m == "check:a-off" || good(m) })
	if d.is(Isolation, Done); d.status().Proof != nil {
		t.Errorf("proof: %+v", d.status().Proof)
	}
}

func TestBeginsNothing(t *testing.T) {
	for what, change := range map[string]func(f *Facts){
		"not managed": func(f *Facts) { f.Config = nil }, "problems": func(f *Facts) { f.Config.Broken = true },
		"Ready": func(f *Facts) { f.Node.Ready = true }, "maintenance": func(f *Facts) { f.Node.Kept = true },
		"no boot": func(f *Facts) { f.Node.Boot = "" }, "storm": func(f *Facts) { f.Policy = storm.Verdict{Reason: storm.TooManyUnhealthy, Text: "5 of 10"} },
		"not yet": func(f *Facts) { f.Cluster.Trigger = time.Second }, "no Node": func(f *Facts) { f.Node = Node{} },
	} {
		d := newDesk(t, configure(t))
		if change(&d.f); d.once() {
			t.Errorf("%s: it begins", what)
		}
	}
}

func TestEscalationWaitsForAStorm(t *testing.T) {
	d := newDesk(t, configure(t)).settle().through(good)
	d.f.Policy = tooMany
	d.after(400*time.Second).is(Isolation, Done)
}

// A node that has not come back is not switched off again in a storm, unless it would stay off.
func TestRetryWaitsForAStorm(t *testing.T) {
	d := begun(t, Power, Done)
	d.f.Policy = tooMany
	d.after(301*time.Second).after(20*time.Second).is(Power, Error)
	d.f.Policy = storm.Verdict{Allowed: true}
	d.settle().is(Power, Running)
	d = begun(t, Power, Error)
	d.f.Policy, d.status().Switched = tooMany, true
	d.after(20*time.Second).is(Power, Running)
}

func TestAgentsProof(t *testing.T) {
	d := newDesk(t, configure(t))
	d.once()
	d.f.Node.Fenced = oldBoot
	d.settle().is(Isolation, Done)
	if p := d.status().Proof; p == nil || p.Kind != ByAgents || len(d.created) != 0 {
		t.Errorf("%+v %v", p, d.created)
	}
}

// A Job that runs and is not recorded may belong to another replica, which recorded it after the NodeFence was read: it
// is not deleted.
func TestJobOfAnotherReplicaRunsOn(t *testing.T) {
	d := begun(t, Power, New)
	for len(d.jobs()) == 0 {
		d.once()
	}
	before, uid := *d.f.Object, d.jobs()[0].UID
	d.settle()
	if d.jobs()[0].Suspended {
		t.Fatal("it does not run")
	}
	d.f.Object = &before
	for range 3 {
		d.once() // each write would meet a conflict
	}
	if len(d.jobs()) == 0 || d.jobs()[0].UID != uid {
		t.Errorf("it is taken away: %v", d.log)
	}
	d.after(60*time.Second + slack + time.Second)
	if len(d.created) != 2 { // nobody has recorded it: the step goes on with one that it makes
		t.Errorf("it stays for ever: %v", d.log)
	}
}

// A Job that is complete without an executor's report proves nothing: its image may be another program.
func TestCompleteWithoutItsWord(t *testing.T) {
	for _, reported := range []bool{true, false} {
		d := begun(t, Power, New).settle()
		j := d.jobs()[0]
		j.Finished, j.Succeeded, j.Reported, j.Node = true, true, reported, "n1"
		d.settle().is(Power, Error)
		if e := d.status().Jobs[1]; d.status().Proof != nil || e.Unclear == reported {
			t.Errorf("%+v, proof %+v", e, d.status().Proof)
		}
	}
}

// A kubelet that still runs after its power was off contradicts that, whether it is Ready or not.
func TestDeviceLiesAboutANodeThatIsNotReady(t *testing.T) {
	d := newDesk(t, configure(t)).settle().through(all)
	d.f.Node.Heartbeat = "h1"
	d.settle().is(Isolation, GivenUp)
	if p := d.status().Proof; p == nil || !p.Contradicted {
		t.Errorf("proof: %+v", p)
	}
}

// A device reports off while the node still runs.
func TestDeviceLies(t *testing.T) {
	d := newDesk(t, configure(t)).settle().through(all)
	d.ready(oldBoot).is(Isolation, GivenUp)
	if p := d.status().Proof; p == nil || !p.Contradicted {
		t.Errorf("proof: %+v", p)
	}
}

// Without confirmation nothing is proven, and no storage is given back before the node is back.
func TestUnconfirmedOff(t *testing.T) {
	d := newDesk(t, configure(t, "fence-method-b-off-n4", "action=off", "action=off\nconfirm=none")).settle().through(good)
	d.after(301*time.Second).through(good).is(Power, Done)
	if got := strings.Join(d.created, " "); got != "main:fc-off main:a-off main:b-off main:a-on main:b-on" || d.status().Proof != nil {
		t.Errorf("%s, proof %+v", got, d.status().Proof)
	}
}

func TestOnlyOne(t *testing.T) {
	c := configure(t, "fence-config-n4", "isolation=fc-off", "isolation_policy=only one\nisolation=fc-off a-off")
	d := newDesk(t, c).settle().through(func(m string) bool { return m == "main:a-off" })
	d.is(Isolation, Done)
	d = newDesk(t, c).settle().through(good)
	if d.is(Isolation, Done); strings.Contains(strings.Join(d.created, " "), "main:a-off") {
		t.Errorf("both ran: %v", d.created)
	}
	newDesk(t, c).settle().through(func(string) bool { return false }).is(Isolation, Error)
}

func TestByHand(t *testing.T) {
	d := begun(t, Power, New)
	d.f.Node.Ready = true
	d.f.Object.Spec, d.f.Object.Status = Spec{NodeName: "n4", Step: Power}, Status{}
	d.settle().is(Power, Running)
	d.through(good).is(Power, Done)
	d.ready(newBoot).is(Recovery, Running)
}
