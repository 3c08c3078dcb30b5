package nodefence

import (
	"strings"
	"testing"
	"time"
)

// Both supplies must be off when they are asked once more, at the same time; otherwise nothing is proven.
func TestSuppliesAreAskedTogether(t *testing.T) {
	d := begun(t, Power, New).settle()
	d.through(func(m string) bool { return m != "again:a-off" }) // somebody has switched it on again
	d.is(Power, Error)
	if got := strings.Join(d.created, " "); got != "main:a-off main:b-off again:a-off again:b-off" || d.status().Proof != nil {
		t.Errorf("%s, proof %+v", got, d.status().Proof)
	}
	d.after(20*time.Second).through(good).is(Power, Done)
	if d.status().Proof == nil {
		t.Error("no proof")
	}
	d = begun(t, Power, New).settle().finish(good).finish(good)
	if got := strings.Join(d.created, " "); got != "main:a-off main:b-off again:a-off again:b-off" || d.status().Proof != nil {
		t.Errorf("they are not asked at one time: %s, proof %+v", got, d.status().Proof)
	}
}

// The devices' report gives no storage back while the kubelet renews its Lease.
func TestStorageWaitsForTheLease(t *testing.T) {
	d := newDesk(t, configure(t)).settle().through(good)
	d.f.Node.Silent = false
	d.after(301*time.Second).through(good).is(Power, Running)
	if got := strings.Join(d.created, " "); d.status().Proof == nil || strings.Contains(got, "fc-on") || strings.Contains(got, "a-on") {
		t.Errorf("%s, proof %+v", got, d.status().Proof)
	}
	d.f.Node.Silent = true
	d.settle().through(good).is(Power, Done)
}

// If a node dies with the executor on it, it leaves no pod behind: the node was recorded before.
func TestNodeOfAnExecutorThatDies(t *testing.T) {
	d := begun(t, Power, New).settle()
	j := d.jobs()[0]
	j.Node = "n1"
	d.settle()
	j = d.jobs()[0]
	j.Node, j.Finished, j.Message = "", true, "Job was active longer than specified deadline"
	d.settle().is(Power, Error)
	if s := d.status(); s.Jobs[1].Node != "n1" || len(s.Failed) != 1 || s.Failed[0] != "n1" {
		t.Errorf("%+v", s)
	}
}

// A Job that a late controller makes again never runs.
func TestSecondJobOfOneName(t *testing.T) {
	d := begun(t, Power, New).settle()
	name := d.f.Jobs[0].Name
	d.f.Jobs[0] = Job{Name: name, UID: "again", Version: "1", Suspended: true, NotAfter: start.Add(time.Hour)}
	d.settle()
	for _, j := range d.f.Jobs {
		if j.UID == "again" && !j.Suspended {
			t.Errorf("it runs: %+v", j)
		}
	}
}
