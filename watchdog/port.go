package watchdog

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Errors of a [Device] that callers tell apart.
var (
	// ErrNoWayOut says that the driver runs with nowayout: the watchdog cannot be disarmed.
	ErrNoWayOut = errors.New("nowayout is set: the driver cannot be disarmed, only fed")
	// ErrBusy says that another process holds the watchdog.
	ErrBusy = errors.New("held by another process")
	// ErrCondemned says that a countdown runs which an agent before this one has made short for good.
	ErrCondemned = errors.New("this boot has announced its self-fence: its watchdog counts down, and nothing may open it")
	// ErrRefused says that the driver took no notice of a timeout: what it counted down before, it counts on.
	ErrRefused = errors.New("the driver refused the timeout")
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
	// Shorten sets the timeout of the countdown that runs and reads it back. What is returned is the driver's word, and no
	// more than that is left. ErrRefused says that nothing has changed. Any other error says that neither is known: the
	// countdown may have begun again, and it runs on.
	Shorten(timeout time.Duration) (time.Duration, error)
}

// MaxSentence and SentenceBound are those of netgossip, for the adapters of a device.
const MaxSentence = netgossip.MaxSentence

// SentenceBound is how long a boot can last whose watchdog was given that timeout, see netgossip.
func SentenceBound(timeout time.Duration) time.Duration { return netgossip.SentenceBound(timeout) }

// Countdown is what the kernel counts down.
type Countdown struct {
	Running bool
	Timeout time.Duration
}

// Condemns reports whether it says that this boot is condemned, where an ordinary countdown is of that timeout.
func (c Countdown) Condemns(ordinary time.Duration) bool {
	return c.Running && c.Timeout <= MaxSentence && ordinary > MaxSentence
}

// Looker is a Device that can say what the kernel counts down, without being opened. known is false if it cannot.
type Looker interface {
	Look() (c Countdown, known bool)
}
