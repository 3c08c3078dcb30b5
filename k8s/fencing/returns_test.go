package fencing

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// Guard: the time for which storages have been about to be given back is measured by this replica's own looks,
// separately for each time.
func TestReturningGoesByOwnLooks(t *testing.T) {
	r := &Runner{}
	o := &nodefence.Object{UID: "1", Spec: nodefence.Spec{NodeName: "n4"}}
	look := func(now time.Time, want time.Duration) {
		t.Helper()
		if got := r.returning(o, now); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
	look(begin, 0)
	o.Status.Storages = []nodefence.Severed{{Driver: "a", Returned: begin.Add(-time.Hour)}, {Driver: "b"}}
	look(begin.Add(time.Second), 0) // one of two
	o.Status.Storages[1].Returned = begin.Add(-time.Hour)
	look(begin.Add(2*time.Second), 0)
	look(begin.Add(12*time.Second), 10*time.Second)
	look(begin, 0) // the clock was set back
	look(begin.Add(5*time.Second), 5*time.Second)
	o.UID = "2"
	look(begin.Add(6*time.Second), 0)
	o.Status.Storages = nil
	look(begin.Add(7*time.Second), 0)
	if len(r.returns) != 0 {
		t.Errorf("%v", r.returns)
	}
}
