package leasequorumtest

import (
	"fmt"

	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
)

// Lease is a Lease as the API server stores it. The zero value is a Lease that has not been created yet.
type Lease struct {
	uid, resource int
	present       bool
	record        leasequorum.Record
}

// Apply performs an operation. It leaves the times and the number of the completion to the caller.
func (l *Lease) Apply(op *leasequorum.Op) leasequorum.Completion {
	switch {
	case op.Kind == leasequorum.Create && l.present, op.Kind == leasequorum.Write && l.present && op.Base != l.version():
		return leasequorum.Completion{Outcome: leasequorum.Conflict}
	case op.Kind == leasequorum.Create:
		l.uid, l.present = l.uid+1, true
	case !l.present:
		return leasequorum.Completion{Outcome: leasequorum.Absent}
	}
	if op.Kind != leasequorum.Read {
		l.resource++
		l.record = op.Record
	}
	return leasequorum.Completion{Outcome: leasequorum.Done, Record: l.record, Version: l.version()}
}

func (l *Lease) version() leasequorum.Version {
	return leasequorum.Version{UID: fmt.Sprint(l.uid), Resource: fmt.Sprint(l.resource)}
}

// Delete deletes the Lease, as a careless person does.
func (l *Lease) Delete() { l.present = false }

// Record returns the record that was written last, even if the Lease has been deleted since.
func (l *Lease) Record() leasequorum.Record { return l.record }
