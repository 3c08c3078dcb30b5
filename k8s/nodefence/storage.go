package nodefence

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
)

// ReturnWait is the time for which a storage is kept from a node after the last report that no write of the node lands
// there. A program that acts on that report has asked within this time.
const ReturnWait = 30 * time.Second

// Severed is a storage from which a boot was cut off: it proves nothing about other storages, nor that the boot has
// ended.
type Severed struct {
	Driver   string    `json:"driver"` // CSI driver of its volumes
	From     time.Time `json:"from"`   // after this nothing of this boot lands there
	Barrier  string    `json:"barrier"`
	Returned time.Time `json:"returned,omitzero"` // from then on it is given back, and nothing may depend on it any more
}

// sever records the storages from which all of their methods have cut the node off.
//
// Invariant: each method of that storage has succeeded in this try. This includes its executor's report that it is off
// and, if the barrier is a reset, that each logical unit was reset. The time for which the operator vouches begins when
// this is written, not when the Job ended.
func (d *decision) sever(items []item) bool {
	s := &d.status
	if s.Step != Isolation || s.Boot == "" || !d.same() || d.Node.Boot != s.Boot {
		return false
	}
	for _, driver := range storages(d.Config.Isolation) {
		if slices.ContainsFunc(s.Storages, func(v Severed) bool { return v.Driver == driver }) {
			continue
		}
		all, vouched, barrier := true, time.Duration(0), fenceconfig.LUNReset
		for _, it := range items {
			if it.role != Main || it.method.Storage.Driver != driver {
				continue
			}
			e := s.entry(it.name)
			all = all && e != nil && e.State == Succeeded
			if v := it.method.Storage.Vouched; v > vouched {
				vouched, barrier = v, v.String()
			}
		}
		if all {
			s.Storages = append(s.Storages, Severed{Driver: driver, From: d.Now.Add(vouched), Barrier: barrier})
			return true
		}
	}
	return false
}

// storages lists the storages from which the methods cut a node off.
func storages(methods []fenceconfig.Method) (drivers []string) {
	for _, m := range methods {
		if m.Storage.Driver != "" && !slices.Contains(drivers, m.Storage.Driver) {
			drivers = append(drivers, m.Storage.Driver)
		}
	}
	return drivers
}

// givesBack first withdraws the report that a storage is cut off, before anything is switched on. Then it waits until
// all programs that may still act on that report are done. A boot that is on again may take its storage itself.
//
// Invariant: the replica that continues has itself seen the report withdrawn for that long. The time that it reads in
// the NodeFence comes from the clock of another replica. That clock may be behind by as much as those programs may be
// late.
func (d *decision) givesBack(next item) (Action, bool) {
	s := &d.status
	if next.method.Action != fenceconfig.On {
		return Action{}, false
	}
	marked := false
	for i := range s.Storages {
		if s.Storages[i].Returned.IsZero() {
			s.Storages[i].Returned, marked = d.Now, true
		}
	}
	if marked {
		return d.update("its storage is about to be given back: no volume is taken from the node any more"), true
	}
	if len(s.Storages) > 0 && d.Returning < ReturnWait {
		return d.rest(d.Now.Add(ReturnWait-d.Returning), "waits until no volume is taken from the node any more"), true
	}
	return Action{}, false
}

// Vouched returns the moment from which nothing lands on a storage any more, by the clock of the replica that wrote it,
// and how long it had to wait; zero if it did not have to wait.
func (s *Status) Vouched(driver string) (from time.Time, wait time.Duration) {
	for _, v := range s.Storages {
		if v.Driver == driver {
			wait, _ = time.ParseDuration(v.Barrier) // if it is not a duration, it is a reset, which has ended
			return v.From, wait
		}
	}
	return time.Time{}, 0
}

// Returns returns a text that is not empty while all storages of this object are about to be given back. A replica
// measures how long it has seen that text.
func (s *Status) Returns() string {
	text := ""
	for _, v := range s.Storages {
		if v.Returned.IsZero() {
			return ""
		}
		text += v.Driver + v.Returned.UTC().Format(time.RFC3339Nano)
	}
	return text
}

// Severed reports whether nothing of the boot that the Node shows lands on a storage, so that its volumes may be
// attached elsewhere. It is true for that storage only, and for at most [ReturnWait] after the call.
//
// Invariant: the Node is not Ready, its Lease has run out, and it shows the boot that was cut off: a kubelet of another
// boot might already run the pods.
func (o *Object) Severed(n Node, driver string, now time.Time) bool {
	s := &o.Status
	if o.Deleting || !n.Exists || n.Ready || !n.Silent || s.Boot == "" || n.UID != s.NodeUID || n.Boot != s.Boot || driver == "" {
		return false
	}
	return slices.ContainsFunc(s.Storages, func(v Severed) bool {
		return v.Driver == driver && v.Returned.IsZero() && !now.Before(v.From)
	})
}
