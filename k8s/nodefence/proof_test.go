package nodefence

import (
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/kdump"
)

// isolatedDesk returns the desk of a node whose storage is cut off, and which the agents call dead.
func isolatedDesk(t *testing.T) *desk {
	d := newDesk(t, configure(t)).settle().through(good)
	d.is(Isolation, Done)
	d.f.Node.Fenced = oldBoot
	d.settle()
	if p := d.status().Proof; p == nil || p.Kind != ByAgents || p.Heartbeat != "h0" {
		t.Fatalf("%+v", p)
	}
	return d
}

// against lists the ways in which a boot that was called dead is heard.
var against = map[string]func(n *Node){
	"the Node disputes it":          func(n *Node) { n.Disputed, n.Fenced = oldBoot, "" },
	"its kubelet writes its status": func(n *Node) { n.Heartbeat = "h1" },
	"its Lease is renewed":          func(n *Node) { n.Silent = false },
	"two agents see it":             func(n *Node) { n.Seen = []string{"n1", "n2"} },
}

// Guard (two writers): a boot that was heard after it was called dead gets no storage back, whatever called it dead and
// whatever ends its NodeFence.
func TestWhatWasHeardIsNoWorseThanWhatIsNotKnown(t *testing.T) {
	for what, change := range against {
		for _, kind := range []string{ByAgents, ByPower, ByKdump} {
			d := isolatedDesk(t)
			d.status().Proof.Kind = kind
			change(&d.f.Node)
			d.settle().f.Object.Deleting = true
			d.settle().through(good)
			if got := strings.Join(d.created, " "); strings.Contains(got, "fc-on") || d.f.Object == nil {
				t.Errorf("%s, proven by %s: %s", what, kind, got)
			} else if m := d.status().Message; !strings.Contains(m, "may run") {
				t.Errorf("%s: nobody is asked: %s", what, m)
			}
			d.f.Node.Seen = nil
			d.ready(newBoot)
			d.through(good)
			if got := strings.Join(d.created, " "); !strings.Contains(got, "fc-on") {
				t.Errorf("%s, proven by %s: the next boot has no storage: %s", what, kind, got)
			}
		}
	}
}

// Guard: a proof that the Node's dispute withdrew counts again when a person has removed the dispute.
func TestAPersonEndsADispute(t *testing.T) {
	d := isolatedDesk(t)
	d.f.Node.Disputed = oldBoot
	d.settle().f.Object.Deleting = true
	d.settle().f.Node.Disputed = ""
	if d.settle().through(good); !strings.Contains(strings.Join(d.created, " "), "fc-on") {
		t.Errorf("%v, %+v", d.created, d.status())
	}
}

// A dispute of the agents' proof does not discredit the devices: the power is still cut, which makes another boot.
// Before that, the devices' report about a disputed boot gives no storage back.
func TestAfterADisputeTheDevicesGoOn(t *testing.T) {
	d := isolatedDesk(t)
	d.f.Node.Disputed, d.f.Node.Fenced = oldBoot, ""
	d.after(301*time.Second).through(good).is(Power, Done)
	if got := strings.Join(d.created, " "); strings.Contains(got, "fc-on") || !strings.HasSuffix(got, "main:a-on main:b-on") {
		t.Errorf("%s, %+v", got, d.status())
	}
	d.f.Node.Disputed = ""
	d.ready(newBoot).through(good)
	if got := strings.Join(d.created, " "); !strings.HasSuffix(got, "main:fc-on") {
		t.Errorf("%s, %+v", got, d.status())
	}
	// Without agents' proof it is the same.
	d = newDesk(t, configure(t)).settle().through(good)
	d.f.Node.Disputed = oldBoot
	d.after(301*time.Second).through(good).is(Power, Done)
	if got := strings.Join(d.created, " "); d.status().Proof != nil || strings.Contains(got, "fc-on") {
		t.Errorf("%s, %+v", got, d.status())
	}
}

// A boot that was not isolated because it was proven dead is isolated when that proof is withdrawn.
func TestWhatWasNotIsolatedIsIsolatedAfterAll(t *testing.T) {
	d := newDesk(t, configure(t))
	d.once()
	d.f.Node.Fenced = oldBoot
	d.settle().is(Isolation, Done)
	d.f.Node.Heartbeat = "h1"
	d.settle().through(good).is(Isolation, Done)
	if got := strings.Join(d.created, " "); got != "check:a-off check:b-off main:fc-off" || !d.status().Proof.Contradicted {
		t.Errorf("%s, %+v", got, d.status())
	}
}

// Guard (two writers): a board reports off for a plug of another machine, and two agents see the boot. Nothing is
// proven, nothing is switched on, and people are told. A sighting from a moment ago only makes it wait.
func TestOffThatAgentsContradict(t *testing.T) {
	for name, desk := range map[string]func() *desk{
		"before anything": func() *desk { return newDesk(t, configure(t)) },
		"after the off":   func() *desk { return begun(t, Power, New) },
	} {
		d := desk()
		d.f.Node.Seen = []string{"n1", "n2"}
		d.settle().through(all).after(10 * time.Minute).through(all)
		if got := strings.Join(d.created, " "); d.status().Proof != nil || strings.Contains(got, "-on") || strings.Contains(got, "fc") {
			t.Errorf("%s: %s, %+v", name, got, d.status())
		}
		if m := d.status().Message; !strings.Contains(m, "n1, n2") || !strings.Contains(m, "fencing-agent.io/sightings") {
			t.Errorf("%s: %s", name, m)
		}
		d.f.Node.Seen = nil
		if d.settle(); d.status().Proof == nil {
			t.Errorf("%s: they do not see it any more, and nothing is proven: %+v", name, d.status())
		}
	}
}

// Guard: even after the proof, nothing is switched on for a boot that is seen.
func TestSeenAfterTheProof(t *testing.T) {
	for what, change := range against {
		if strings.Contains(what, "Lease") { // that alone gives no storage back (TestStorageWaitsForTheLease)
			continue
		}
		d := begun(t, Power, New)
		for d.status().Proof == nil {
			if !d.once() { // no write is left before the Jobs end
				for i := range d.f.Jobs {
					j := &d.f.Jobs[i]
					j.Finished, j.Reported, j.Succeeded, j.Off = true, true, true, true
				}
			}
		}
		before := len(d.created)
		change(&d.f.Node)
		d.settle().through(good).after(10 * time.Minute).through(good)
		if got := strings.Join(d.created[before:], " "); got != "" {
			t.Errorf("%s: %s", what, got)
		}
		if d.status().Message == "" {
			t.Errorf("%s: nobody is told", what)
		}
	}
}

// Guard: neither the agents' proof nor a crash kernel's is noted while the boot is in dispute or seen.
func TestNothingIsNotedInADispute(t *testing.T) {
	for what, change := range map[string]func(f *Facts){
		"disputed": func(f *Facts) { f.Node.Disputed = oldBoot }, "seen": func(f *Facts) { f.Node.Seen = []string{"n1", "n2"} },
	} {
		c := configure(t)
		c.Nodes["n4"].Kdump = true
		d := newDesk(t, c)
		d.once()
		d.f.Node.Fenced = oldBoot
		change(&d.f)
		d.f.Crash = kdump.Verdict{Boot: oldBoot}
		if d.settle(); d.status().Proof != nil {
			t.Errorf("%s: %+v", what, d.status().Proof)
		}
	}
	f := Facts{Config: configure(t).Nodes["n4"], Node: Node{Boot: oldBoot, Disputed: oldBoot}, Crash: kdump.Verdict{Boot: oldBoot}}
	f.Config.Kdump = true
	if f.Crashed() {
		t.Error("a crash kernel lifts the limits for a boot in dispute")
	}
}
