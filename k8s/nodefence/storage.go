package nodefence

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
)

// ReturnWait is how long a storage is still kept from a node after it was last said that nothing of it lands there: who
// acts on that has asked within this time.
const ReturnWait = 30 * time.Second

// Severed is a storage from which a boot was cut off: it proves nothing about other storages, nor that the boot has ended.
type Severed struct {
	Driver   string    `json:"driver"` // CSI driver of its volumes
	From     time.Time `json:"from"`   // nothing of this boot lands there after this
	Barrier  string    `json:"barrier"`
	Returned time.Time `json:"returned,omitzero"` // it is given back from then on: nothing rests on it any more
}

// sever notes the storages from which all of their methods have cut the node off.
//
// Invariant: each method of that storage has succeeded in this try, which includes its executor's word that it is off and,
// where the barrier is a reset, that each logical unit was reset. The time for which the operator vouches begins when
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

// storages are those from which the methods cut a node off.
func storages(methods []fenceconfig.Method) (drivers []string) {
	for _, m := range methods {
		if m.Storage.Driver != "" && !slices.Contains(drivers, m.Storage.Driver) {
			drivers = append(drivers, m.Storage.Driver)
		}
	}
	return drivers
}

// givesBack lets nobody rest on a storage any more before anything is switched on, and waits until those who still may
// have done. A boot that is on again may take its storage itself.
//
// Invariant: the replica that goes on has itself seen for that long that they are told so no more. What it reads there was
// written by the clock of another one, which may be behind by as much as those who act may be late.
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
		return d.update("its storage is about to be given back: nobody takes its volumes any more"), true
	}
	if len(s.Storages) > 0 && d.Returning < ReturnWait {
		return d.rest(d.Now.Add(ReturnWait-d.Returning), "waits until nobody takes volumes from the node any more"), true
	}
	return Action{}, false
}

// Vouched is from when on nothing lands on a storage any more, by the clock of who has written it, and how long that was then; zero
// where nothing had to be waited for.
func (s *Status) Vouched(driver string) (from time.Time, wait time.Duration) {
	for _, v := range s.Storages {
		if v.Driver == driver {
			wait, _ = time.ParseDuration(v.Barrier) // else it is a reset, which has ended
			return v.From, wait
		}
	}
	return time.Time{}, 0
}

// Returns tells a replica for how long all storages of this object are about to be given back; empty:
// they are not.
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

// Severed reports whether nothing of the boot that the Node shows lands on a storage, so that its volumes may be attached
// elsewhere. It is true for that storage only, and for at most [ReturnWait] after it was asked.
//
// Invariant: the Node is not Ready, its Lease has run out, and it shows the boot that was cut off: a kubelet of another
// boot might run the pods already.
func (o *Object) Severed(n Node, driver string, now time.Time) bool {
	s := &o.Status
	if o.Deleting || !n.Exists || n.Ready || !n.Silent || s.Boot == "" || n.UID != s.NodeUID || n.Boot != s.Boot || driver == "" {
		return false
	}
	return slices.ContainsFunc(s.Storages, func(v Severed) bool {
		return v.Driver == driver && v.Returned.IsZero() && !now.Before(v.From)
	})
}
