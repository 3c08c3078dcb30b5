package main

import (
	"fmt"
	"time"
)

const (
	// madeVariable names the variable with the time at which the Job was created, by the controller's clock. An older
	// controller does not set it.
	madeVariable = "FENCING_MADE_AT"
	// clocks is the allowed difference between the clocks of two machines; the controller waits as long
	// (k8s/nodefence).
	clocks = 15 * time.Second
)

// clock returns the reason why nothing may be started now. It compares the clocks of two machines: the controller's,
// which created the Job, and this node's.
//
// Invariant: a delayed Job does not act when all others believe that it never will. So nothing is started after
// notAfter, nor if this clock is behind by more than the controller allows for: otherwise the Job would act too late
// without noticing.
func clock(notAfter time.Time, made string, now time.Time) error {
	at, err := time.Parse(time.RFC3339, made)
	known := err == nil
	switch late := now.Sub(notAfter); {
	case late >= 0 && known:
		return fmt.Errorf("it is too late: nothing may start after %s, and this node's clock says %s, %v after that. The Job was made at %s by the controller's clock: "+
			"if the Job has not waited for this long, the two clocks differ: compare them, and correct the wrong one", stamp(notAfter), stamp(now), late.Truncate(time.Second), stamp(at))
	case late >= 0:
		return fmt.Errorf("it is too late: nothing may start after %s, and this node's clock says %s, %v after that. "+
			"If the Job has not waited for this long, the clocks of this node and of the controller differ", stamp(notAfter), stamp(now), late.Truncate(time.Second))
	case known && at.Sub(now) > clocks:
		return fmt.Errorf("this node's clock is wrong, or the controller's: the Job was made at %s, and this clock says %s, %v before that; at most %v are allowed, "+
			"since a Job that goes by a clock that is behind acts when nobody expects it any more", stamp(at), stamp(now), at.Sub(now).Truncate(time.Second), clocks)
	default:
		return nil
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
