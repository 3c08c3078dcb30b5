package nodefence

import (
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/kdump"
)

// noted is the greatest age of the recorded time of a crash kernel's last message: the NodeFence is not written more
// often.
const noted = 10 * time.Second

// Crashed reports whether a crash kernel proves the end of the boot that the Node shows.
func (f *Facts) Crashed() bool {
	return f.Config != nil && f.Config.Kdump && !f.Node.Ready && f.Crash.Boot != "" && f.Crash.Boot == f.Node.Boot && !f.Node.disputed()
}

// byKdump reports whether a crash kernel proves the end of this boot, and the NodeFence does not record that yet.
func (d *decision) byKdump() bool {
	return d.status.Proof == nil && !d.seen() && d.same() && d.Crashed() && d.Node.Boot == d.status.Boot
}

// hear records that a dump is being written, for the replicas that do not hear it.
func (d *decision) hear() {
	s, last := &d.status, d.Crash.Last
	switch {
	case d.Config == nil || !d.Config.Kdump || !d.same() || d.Node.Ready || d.Node.Boot != s.Boot || last.IsZero():
	case s.Dump == nil:
		s.Dump, d.changed = &Dump{Since: d.Now, Last: last}, true
	case last.Sub(s.Dump.Last) >= noted:
		s.Dump.Last, d.changed = last, true
	}
}

// dumping reports whether this Job would cut the power while a dump is written. Power that is already cut does not
// count.
func (d *decision) dumping(next item) bool {
	s := &d.status
	if s.Dump == nil || d.Config == nil || !d.Config.Kdump || s.Step != Power || s.Switched || next.role != Main || next.method.Action != fenceconfig.Off {
		return false
	}
	over := s.Dump.Last.Add(max(kdump.Quiet, d.Config.DumpDelay))
	return d.Now.Before(over) && d.Now.Before(s.Dump.Since.Add(d.Cluster.MostDump))
}
