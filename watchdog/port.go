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
	// ErrCondemned says that an earlier agent has shortened the running countdown for good.
	ErrCondemned = errors.New("this boot has announced its self-fence: its watchdog counts down, and nothing may open it")
	// ErrRefused says that the driver ignored a timeout: the earlier countdown goes on.
	ErrRefused = errors.New("the driver refused the timeout")
)

// StillArmedError is the failure of an Arm that could not be undone: the countdown runs, and the device still has to be
// fed.
type StillArmedError struct {
	Cause  error // why arming failed
	Disarm error // why it could not be undone
}

// Error implements error.
func (e *StillArmedError) Error() string {
	return fmt.Sprintf("%v; and it could not be disarmed again (%v): the node WILL reset as soon as it is no longer fed", e.Cause, e.Disarm)
}

// Unwrap returns both causes, for errors.Is and errors.As.
func (e *StillArmedError) Unwrap() []error { return []error{e.Cause, e.Disarm} }

// StillArmed reports whether a failed Arm left the countdown running.
func StillArmed(err error) bool {
	var still *StillArmedError
	return errors.As(err, &still)
}

// Driver holds what is known of a watchdog before it is armed.
type Driver struct {
	Identity string   // the name that the driver reports, e.g. "Software Watchdog"; empty: unknown
	Measured Measured // on this machine
}

// Measured holds the results of tests in which watchdogs of this driver were left to reset this machine. The zero
// value: there was no test.
type Measured struct {
	Fired bool // a watchdog was observed to fire
	// The greatest measured delay, in two forms: as an offset, and as a multiple of the latest firing time that is
	// known for the driver. 0: no delay.
	Offset time.Duration
	Factor float64
	// Failed says that a watchdog did not fire, and that no later test saw one fire in time.
	Failed bool
	// Unproven says that the operator wants to see one fire before it is used, and that nobody has with this firmware.
	Unproven bool
}

// Info holds what a watchdog's driver reported when the watchdog was armed.
type Info struct {
	Driver
	Timeout     time.Duration // read back with WDIOC_GETTIMEOUT; this value, not the configured one, enters the time budget
	Pretimeout  time.Duration // how long before the end the driver raises an interrupt, which may take the node down; 0: it raises none
	NoWayOut    bool          // magic close is ignored: disarming is impossible
	MagicClose  bool          // the driver honours 'V'
	BootFencing bool          // WDIOC_GETBOOTSTATUS: this boot follows a watchdog reset
}

// Device is a watchdog. Only the feeder's goroutine arms and feeds it. Implementations: wdt.Device (/dev/watchdog),
// wdt.None and watchdogtest.Device.
type Device interface {
	// Arm opens the device, sets the timeout and reads it back. After an error the device
	// is not armed, or the error is a *StillArmedError.
	Arm(timeout time.Duration) (Info, error)
	// Feed restarts the countdown. It must not allocate, log or wait for a lock.
	Feed() error
	// Disarm writes the magic character and closes. It is for planned stops only;
	// an error path never calls it.
	Disarm() error
	// Shorten sets the timeout of the running countdown and reads it back. It returns the timeout that the driver
	// reports; at most that much time is left. ErrRefused means that nothing has changed. Any other error means that
	// neither the timeout nor the time left is known: the countdown runs on, and may have restarted.
	Shorten(timeout time.Duration) (time.Duration, error)
}

// MaxSentence and SentenceBound are those of netgossip, for the adapters of a device.
const MaxSentence = netgossip.MaxSentence

// SentenceBound returns how long a boot can last after its watchdog has been set to that timeout, see netgossip.
func SentenceBound(timeout time.Duration) time.Duration { return netgossip.SentenceBound(timeout) }

// Countdown describes the kernel's present countdown.
type Countdown struct {
	Running bool
	Timeout time.Duration
}

// Condemns reports whether the countdown shows that this boot is condemned; ordinary is the timeout of an ordinary
// countdown.
func (c Countdown) Condemns(ordinary time.Duration) bool {
	return c.Running && c.Timeout <= MaxSentence && ordinary > MaxSentence
}

// Looker is a Device that can report the kernel's countdown without being opened. known is false if it cannot.
type Looker interface {
	Look() (c Countdown, known bool)
}

// late lists the drivers that are known to fire later than the timeout that was set and read back. latest returns the
// longest time from the last feed to the reset. Measured values are from QEMU 7.2 with Linux 6.1 and 6.12.
//
// For a driver that is not in the table, the timeout that it reports is taken as correct. No driver is assumed to fire
// earlier than the timeout that was set. The behaviour of a board can only be measured on that board: fencectl watchdog
// test reports the result.
var late = map[string]struct {
	latest func(timeout time.Duration) time.Duration
	least  time.Duration // the shortest timeout that the driver accepts, which sysfs does not show
}{
	// The TCO timer of Intel's chipsets counts down twice: at the end of the first countdown it raises an SMI, at the
	// end of the second it resets the machine. Depending on the firmware's handling of the SMI, the machine may be
	// reset after the first countdown. Linux 5.14 halved the programmed value to compensate; this was reverted because
	// other boards fired too early. Set to 3, 4, 5, 10 and 30 s, QEMU's q35 fires after 6.0, 7.2, 9.6, 19.2 and 60.0 s.
	"iTCO_wdt": {func(timeout time.Duration) time.Duration { return 2 * timeout }, 3 * time.Second},
	// This driver counts only even seconds, but reports the timeout that was requested: set to 9 s it fires after 10.0
	// s, set to 15 s after 16.0 s.
	"IB700 WDT": {latest: func(timeout time.Duration) time.Duration {
		const step = 2 * time.Second
		return (timeout + step - 1) / step * step
	}},
	// This driver counts a 33 MHz clock in steps of a power of two: set to 60 s it fires after 60.4 s. The difference
	// matters only for long timeouts.
	"i6300ESB timer": {latest: func(timeout time.Duration) time.Duration { return timeout + timeout*7/1000 }},
}

// granted is the delay that every driver is allowed, as in the bound of a sentence: smaller delays are ignored.
const granted = 500 * time.Millisecond

// Late reports whether a watchdog that fired that long after its last feed exceeded the delay that every driver is
// allowed.
func Late(timeout, fired time.Duration) bool { return fired-timeout > granted }

// Latest returns the longest time from the last feed until a watchdog with this timeout fires. It is the later of two
// values: the known one for the driver's name, and the one measured on this machine. The earliest time is the timeout
// itself, which feeding uses.
//
// Invariant: no measurement makes the result earlier than the table's. One reset shows how late a watchdog may be, but
// does not bound all later resets. A delay is applied both as a factor and as an offset, and the later result counts,
// because one reset does not show which of the two it is.
func (d Driver) Latest(timeout time.Duration) time.Duration {
	known := d.known(timeout)
	latest := max(known, known+d.Measured.Offset, time.Duration(float64(known)*d.Measured.Factor))
	if Late(timeout, latest) {
		return latest
	}
	return timeout
}

// known is Latest by the driver's name alone, without measurements.
func (d Driver) known(timeout time.Duration) time.Duration {
	if f := late[d.Identity].latest; f != nil {
		return f(timeout)
	}
	return timeout
}

// LongestTimeout is the longest watchdog timeout that a configuration may have.
const LongestTimeout = time.Hour

// LatestOfAny returns the longest Latest of all known drivers, for a node whose driver is not known.
func LatestOfAny(timeout time.Duration) time.Duration {
	latest := timeout
	for identity := range late {
		latest = max(latest, Driver{Identity: identity}.Latest(timeout))
	}
	return latest
}

// Shortest is Latest for the countdown of a sentence. If the driver does not accept so short a timeout, the shortest
// one that it accepts is used. No sentence is told where the result is longer than [netgossip.MaxSentence].
func (d Driver) Shortest(timeout time.Duration) time.Duration {
	return d.Latest(max(timeout, late[d.Identity].least))
}

// Latest returns the latest firing time of the driver for the timeout that was read back; 0: unknown.
func (i *Info) Latest() time.Duration { return i.Driver.Latest(i.Timeout) }

// Named is a Device that may know its driver before it is armed. The zero Driver: it does not know it.
type Named interface{ Known() Driver }
