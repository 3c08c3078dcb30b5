package watchdog

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Errors of a [Device] that callers distinguish.
var (
	// ErrNoWayOut says that the driver runs with nowayout: the watchdog cannot be disarmed.
	ErrNoWayOut = errors.New("nowayout is set: the driver cannot be disarmed, only fed")
	// ErrBusy says that another process holds the watchdog.
	ErrBusy = errors.New("held by another process")
	// ErrCondemned says that a countdown runs which an agent before this one has shortened for good.
	ErrCondemned = errors.New("this boot has announced its self-fence: its watchdog counts down, and nothing may open it")
	// ErrRefused says that the driver ignored a timeout: the earlier countdown goes on.
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

// Driver is what is known of a watchdog before it is armed.
type Driver struct {
	Identity string   // what the driver calls itself, e.g. "Software Watchdog"; empty: unknown
	Measured Measured // on this machine
}

// Measured is what was seen when watchdogs of this driver were left to reset this machine. The zero value: nobody has
// tried.
type Measured struct {
	Fired bool // one was seen to fire
	// By how much, and how many times as late as its driver is known to be, one has fired at the latest. 0: no later.
	Offset time.Duration
	Factor float64
	// Failed says that one did not fire, and that none has fired in time since.
	Failed bool
	// Unproven says that the operator wants to see one fire before it is used, and that nobody has with this firmware.
	Unproven bool
}

// Info is what a watchdog driver said about itself when it was armed.
type Info struct {
	Driver
	Timeout     time.Duration // read back with WDIOC_GETTIMEOUT; this, not the wish, enters the time budget
	Pretimeout  time.Duration // this long before the end the driver warns by an interrupt, which may take the node down; 0: not at all
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
	// Shorten sets the timeout of the countdown that runs and reads it back. The result is the timeout that the driver
	// reports; no more time than that is left. ErrRefused says that nothing has changed. Any other error means that
	// neither the timeout nor the time left is known: the countdown may have restarted, and it runs on.
	Shorten(timeout time.Duration) (time.Duration, error)
}

// MaxSentence and SentenceBound are those of netgossip, for the adapters of a device.
const MaxSentence = netgossip.MaxSentence

// SentenceBound is how long a boot can last after its watchdog was set to that timeout, see netgossip.
func SentenceBound(timeout time.Duration) time.Duration { return netgossip.SentenceBound(timeout) }

// Countdown is what the kernel counts down.
type Countdown struct {
	Running bool
	Timeout time.Duration
}

// Condemns reports whether the countdown says that this boot is condemned; ordinary is the timeout of an ordinary
// countdown.
func (c Countdown) Condemns(ordinary time.Duration) bool {
	return c.Running && c.Timeout <= MaxSentence && ordinary > MaxSentence
}

// Looker is a Device that can say what the kernel counts down, without being opened. known is false if it cannot.
type Looker interface {
	Look() (c Countdown, known bool)
}

// late are the drivers that are known to fire later than the timeout that was set and read back; latest is how long
// after the last feed they fire at the latest. Measured values are from QEMU 7.2 with Linux 6.1 and 6.12.
//
// A driver that is not in the table is taken at its word. No driver is assumed to fire earlier than what was set. How a
// board counts can only be measured on that board: fencectl watchdog test says what was seen.
var late = map[string]struct {
	latest func(timeout time.Duration) time.Duration
	least  time.Duration // it takes no shorter timeout, and sysfs does not say so
}{
	// The TCO timer of Intel's chipsets counts down twice: at the end of the first round it raises an SMI, at the end
	// of the second it resets. If the firmware handles the SMI, or has it off, the machine may be reset after the first
	// round. Linux 5.14 halved the programmed value to make up for that, which was taken back because other boards
	// fired too early. Set to 3, 4, 5, 10 and 30 s, QEMU's q35 fires after 6.0, 7.2, 9.6, 19.2 and 60.0 s.
	"iTCO_wdt": {func(timeout time.Duration) time.Duration { return 2 * timeout }, 3 * time.Second},
	// This driver counts even seconds only, but reports the timeout that was asked for: 9 s are 10.0, 15 s are 16.0.
	"IB700 WDT": {latest: func(timeout time.Duration) time.Duration {
		const step = 2 * time.Second
		return (timeout + step - 1) / step * step
	}},
	// This driver counts a clock of 33 MHz in steps of a power of two: 60 s are 60.4. That is more than rounding only
	// where the timeout is long.
	"i6300ESB timer": {latest: func(timeout time.Duration) time.Duration { return timeout + timeout*7/1000 }},
}

// granted is how late every driver may be, here as in the bound of a sentence: smaller delays are ignored.
const granted = 500 * time.Millisecond

// Late reports whether a watchdog that fired that long after its last feed was later than every driver may be.
func Late(timeout, fired time.Duration) bool { return fired-timeout > granted }

// Latest is how long after its last feed a watchdog with this timeout fires at the latest: by what its driver calls
// itself, and by how late it was on this machine, whichever is later. The earliest is the timeout itself, which feeding
// uses.
//
// Invariant: no measurement makes it earlier than the table does. One reset shows how late a watchdog may be, not how
// early it always is. A delay counts as a factor and as an offset, whichever is more, since one reset does not show
// which of the two it is.
func (d Driver) Latest(timeout time.Duration) time.Duration {
	known := d.known(timeout)
	latest := max(known, known+d.Measured.Offset, time.Duration(float64(known)*d.Measured.Factor))
	if Late(timeout, latest) {
		return latest
	}
	return timeout
}

// known is Latest by what the driver calls itself alone.
func (d Driver) known(timeout time.Duration) time.Duration {
	if f := late[d.Identity].latest; f != nil {
		return f(timeout)
	}
	return timeout
}

// LongestTimeout is the longest timeout of a watchdog that a configuration may have.
const LongestTimeout = time.Hour

// LatestOfAny is the longest Latest of all known drivers, for a node whose driver is not known.
func LatestOfAny(timeout time.Duration) time.Duration {
	latest := timeout
	for identity := range late {
		latest = max(latest, Driver{Identity: identity}.Latest(timeout))
	}
	return latest
}

// shortest is Latest for the countdown of a sentence: a driver that does not take so short a timeout is asked for the next longer one.
func (d Driver) shortest(timeout time.Duration) time.Duration {
	return d.Latest(max(timeout, late[d.Identity].least))
}

// Latest is the latest firing time for the driver with the timeout that was read back; 0: unknown.
func (i *Info) Latest() time.Duration { return i.Driver.Latest(i.Timeout) }

// Named is a Device that knows its driver before it is armed. The zero Driver: it does not.
type Named interface{ Known() Driver }
