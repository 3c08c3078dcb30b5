package wdt

import (
	"errors"
	"fmt"
)

var (
	// ErrNoWayOut says that the driver runs with nowayout: the watchdog cannot be disarmed.
	ErrNoWayOut = errors.New("nowayout is set: the driver cannot be disarmed, only fed")
	// ErrBusy says that another process holds the watchdog.
	ErrBusy = errors.New("held by another process")
	// ErrStarved says that a planned stop was refused since the permission to feed has ended.
	ErrStarved = errors.New("permission to feed has ended: the watchdog is left to expire")
	// ErrLeftArmed says that the feeder ended while its watchdog counts down.
	ErrLeftArmed = errors.New("watchdog left armed: the node will reset when its timeout passes")

	errNotArmed     = errors.New("watchdog is not armed")
	errAlreadyArmed = errors.New("watchdog is already armed")
	errNotWatchdog  = errors.New("not a watchdog device: set watchdog.device to /dev/watchdog or /dev/watchdogN")
	errOverdue      = errors.New("watchdog timeout passed unfed: the node should be resetting now; feeding stays off")
)

// StillArmedError is the failure of an Arm that could not be undone: the countdown runs.
type StillArmedError struct {
	Cause  error // why arming failed
	Disarm error // why it could not be undone
}

// Error implements error.
func (e *StillArmedError) Error() string {
	return fmt.Sprintf("%v; and it could not be disarmed again (%v): the node WILL reset as soon as it is no longer fed", e.Cause, e.Disarm)
}

// Unwrap gives errors.Is and errors.As both causes.
func (e *StillArmedError) Unwrap() []error { return []error{e.Cause, e.Disarm} }

// StillArmed marks the error for the [Feeder], which has to feed on.
func (e *StillArmedError) StillArmed() bool { return true }

// stillArmed tells whether a failed Arm left the countdown running. It asks for behaviour
// and not for a type, so that a test double can say the same without this package.
func stillArmed(err error) bool {
	var mark interface{ StillArmed() bool }
	return errors.As(err, &mark) && mark.StillArmed()
}
