package nodefence

import (
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/kdump"
)

// crashing returns the desk of a node with kdump=true that has just stopped answering.
func crashing(t *testing.T, more ...string) *desk {
	t.Helper()
	keys := append([]string{"node_name=n4", "kdump=true"}, more...)
	return newDesk(t, configure(t, "fence-config-n4", "node_name=n4", strings.Join(keys, "\n"),
		"fence-cluster-config", "trigger_after=0", "trigger_after=30\nkdump_max=600"))
}

// A crash kernel is a proof, begins the fencing at once, and keeps the power on while the dump is written.
func TestCrashKernel(t *testing.T) {
	d := crashing(t).settle()
	if d.f.Object != nil {
		t.Fatal("it begins before its time")
	}
	d.f.Crash = kdump.Verdict{Last: d.f.Now} // one message
	if d.settle(); d.f.Object != nil {
		t.Fatal("one message must not be a proof")
	}
	d.after(10 * time.Second)
	d.f.Crash = kdump.Verdict{Boot: oldBoot, Last: d.f.Now}
	d.settle().through(good)
	if p := d.status().Proof; p == nil || p.Kind != ByKdump || p.Boot != oldBoot || p.Heartbeat != "h0" {
		t.Fatalf("%+v", d.status())
	}
	for range 50 { // the dump takes 500 s
		d.after(10 * time.Second)
		d.f.Crash.Last = d.f.Now
		d.settle().through(good)
	}
	if got := strings.Join(d.created, " "); strings.Contains(got, "main:a-off") {
		t.Fatalf("%s: the power was cut while the dump was written", got)
	}
	d.f.Crash = kdump.Verdict{}
	d.after(31 * time.Second).through(good)
	if got := strings.Join(d.created, " "); !strings.Contains(got, "main:a-off main:b-off") {
		t.Errorf("%s: the power stays on after the dump", got)
	}
}

// A dump that never ends does not keep the power on for ever. A configured delay is respected, even by a replica that
// has heard nothing of the dump.
func TestPowerWaitsForTheDump(t *testing.T) {
	for _, c := range []struct {
		name, key string
		hears     time.Duration
		cut       time.Duration // the power is cut no earlier than this, and soon after
	}{
		{"for ever", "power_delay_after_kdump=0", 2 * time.Hour, 600 * time.Second},
		{"with a delay", "power_delay_after_kdump=200", 250 * time.Second, 450 * time.Second},
	} {
		d := crashing(t, c.key)
		d.f.Crash = kdump.Verdict{Boot: oldBoot, Last: d.f.Now}
		d.settle().through(good)
		began, cut := d.f.Now, time.Duration(0)
		for cut == 0 && d.f.Now.Sub(began) < time.Hour {
			d.after(10 * time.Second)
			if d.f.Now.Sub(began) <= c.hears {
				d.f.Crash = kdump.Verdict{Boot: oldBoot, Last: d.f.Now}
			} else {
				d.f.Crash = kdump.Verdict{} // or this is another replica
			}
			if d.settle().through(good); strings.Contains(strings.Join(d.created, " "), "main:a-off") {
				cut = d.f.Now.Sub(began)
			}
		}
		if cut < c.cut || cut > c.cut+20*time.Second {
			t.Errorf("%s: cut after %v, want %v", c.name, cut, c.cut)
		}
	}
}

// Guards: a message proves nothing about another boot, about a Node that is Ready, and without kdump=true.
func TestCrashKernelIsNotBelieved(t *testing.T) {
	for name, change := range map[string]func(d *desk){
		"another boot": func(d *desk) { d.f.Crash.Boot = newBoot },
		"Ready":        func(d *desk) { d.f.Node.Ready = true },
		"not its node": func(d *desk) { d.f.Config.Kdump = false },
	} {
		d := crashing(t)
		d.f.Crash = kdump.Verdict{Boot: oldBoot, Last: d.f.Now}
		change(d)
		if d.settle(); d.f.Object != nil {
			t.Errorf("%s: a NodeFence begins", name)
		}
		d.f.Object = begun(t, Isolation, Done).f.Object
		if d.settle(); d.status().Proof != nil || name == "not its node" && d.status().Dump != nil {
			t.Errorf("%s: %+v", name, d.status())
		}
	}
}

// Guard: a kubelet that still runs after the message contradicts it.
func TestCrashKernelLies(t *testing.T) {
	d := crashing(t)
	d.f.Crash = kdump.Verdict{Boot: oldBoot, Last: d.f.Now}
	d.settle().through(good)
	d.f.Node.Heartbeat = "h1"
	d.settle().is(Isolation, GivenUp)
	if p := d.status().Proof; p == nil || !p.Contradicted || !strings.Contains(d.status().Message, "crash kernel") {
		t.Errorf("%+v", d.status())
	}
}

// Guard: the report of a crash kernel gives no storage back while the kubelet renews its Lease.
func TestStorageWaitsForTheLeaseAfterACrash(t *testing.T) {
	for _, silent := range []bool{false, true} {
		d := crashing(t)
		d.f.Crash = kdump.Verdict{Boot: oldBoot, Last: d.f.Now}
		d.settle().through(good)
		d.f.Crash, d.f.Node.Silent = kdump.Verdict{}, silent
		d.after(301 * time.Second).through(good)
		if got := strings.Join(d.created, " "); strings.Contains(got, "fc-on") != silent {
			t.Errorf("silent %v: %s, %+v", silent, got, d.status().Proof)
		}
	}
}
