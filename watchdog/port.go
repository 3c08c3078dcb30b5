package watchdog

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a [Device] that callers tell apart.
var (
	// ErrNoWayOut says that the driver runs with nowayout: the watchdog cannot be disarmed.
	ErrNoWayOut = errors.New("nowayout is set: the driver cannot be disarmed, only fed")
	// ErrBusy says that another process holds the watchdog.
	ErrBusy = errors.New("held by another process")
)

// StillArmedError is the failure of an Arm that could not be undone: the countdown runs, and
// the device has to be fed on.
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

// StillArmed reports whether a failed Arm left the countdown running.
func StillArmed(err error) bool {
	var still *StillArmedError
	return errors.As(err, &still)
}

// Info is what a watchdog driver said about itself when it was armed.
type Info struct {
	Identity    string        // e.g. "Software Watchdog"
	Timeout     time.Duration // read back with WDIOC_GETTIMEOUT; this, not the wish, enters the time budget
	Pretimeout  time.Duration // so long before the end the driver warns by an interrupt, which may take the node down; 0: not at all
	NoWayOut    bool          // magic close is ignored: disarming is impossible
	MagicClose  bool          // the driver honours 'V'
	BootFencing bool          // GETBOOTSTATUS: this boot follows a watchdog reset
}

// Device is a watchdog. Arming and feeding belong to the feeder's goroutine alone.
// Implementations: wdt.Device (/dev/watchdog), wdt.None and watchdogtest.Device.
type Device interface {
	// Arm opens the device, sets the timeout and reads it back. After an error the device
	// is not armed, or the error is a *StillArmedError.
	Arm(timeout time.Duration) (Info, error)
	// Feed restarts the countdown. It must not allocate, log or wait for a lock.
	Feed() error
	// Disarm writes the magic character and closes. It is for planned stops only;
	// an error path never calls it.
	Disarm() error
}
