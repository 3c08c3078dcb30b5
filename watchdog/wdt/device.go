package wdt

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

var (
	_ watchdog.Device = (*Device)(nil)

	feedByte  = []byte{0}   // any byte but the magic one
	magicByte = []byte{'V'} // "the close that follows is meant"
)

// Device is a watchdog of the kernel. Its methods belong to one goroutine.
type Device struct {
	path   string
	spec   string // what names it; empty: path does
	kernel kernel
	sysfs  string
	proc   string

	fd        int    // -1: not armed
	name      string // in sysfs; empty if it is not there
	feedsByIO bool
	measured  func(identity string) watchdog.Measured // nil: nothing is known
	nowayout  bool

	store     Store       // nil: there is none
	gone      func() bool // the agent before this one has ended
	inherited heirloom    // descriptor that was left by it
	kept      bool        // the store was given a copy of fd, or gave it
}

// understated are drivers that can do more than their options say, by what they call themselves. ipmi_watchdog sets none at all (its
// struct watchdog_info has options 0), and takes timeouts, keepalives and the magic close: seen with Linux 6.1 and 6.12.
var understated = map[string]uint32{"IPMI": unix.WDIOF_MAGICCLOSE | unix.WDIOF_KEEPALIVEPING}

// NewDevice describes the watchdog at path, e.g. /dev/watchdog, without touching it.
func NewDevice(path string) *Device {
	return &Device{path: path, kernel: linux{}, sysfs: "/sys", proc: "/proc", fd: -1}
}

// Measured gives the device what was measured of the watchdogs of this machine, by what their drivers call themselves.
// It is called before anything else.
func (d *Device) Measured(of func(identity string) watchdog.Measured) { d.measured = of }

func (d *Device) driver(identity string) watchdog.Driver {
	driver := watchdog.Driver{Identity: identity}
	if d.measured != nil {
		driver.Measured = d.measured(identity)
	}
	return driver
}

// Arm opens the device, which starts its countdown, sets the timeout, rounded up to whole
// seconds, and reads it back. A driver with a fixed timeout keeps its own: the caller
// compares. After an error the device is closed and disarmed, or the error is a
// *watchdog.StillArmedError, the device stays open and has to be fed.
func (d *Device) Arm(timeout time.Duration) (watchdog.Info, error) {
	if d.fd >= 0 {
		return watchdog.Info{}, fmt.Errorf("arm %s: %w", d.path, errAlreadyArmed)
	}
	if err := d.resolve(); err != nil {
		return watchdog.Info{}, err
	}
	before, err := d.survey()
	if err != nil {
		return watchdog.Info{}, err
	}
	if err := before.check(d.path, timeout); err != nil {
		return watchdog.Info{}, err
	}
	if err := unbelieved(d.driver(before.identity)); err != nil {
		return watchdog.Info{}, fmt.Errorf("arm %s: %w", d.path, err)
	}
	succeeds, err := d.succeeds(before)
	if err != nil {
		return watchdog.Info{}, fmt.Errorf("arm %s: %w", d.path, err)
	}
	// The agent before this one may have condemned this boot after this one began. To open the device would give the node
	// another countdown, and peers know when the last one ends.
	if c, known := d.Look(); known && c.Condemns(timeout) {
		return watchdog.Info{}, fmt.Errorf("arm %s: %w", d.path, watchdog.ErrCondemned)
	}
	fd, taken := -1, false
	if succeeds {
		fd, taken = d.take(before)
	}
	if !taken {
		if fd, err = d.kernel.open(d.path); err != nil {
			d.dropStale(err)
			return watchdog.Info{}, d.explainOpen(err, before)
		}
	}
	// From here on the countdown runs, with whatever timeout the driver had.
	d.fd, d.name, d.nowayout, d.feedsByIO, d.kept = fd, before.name, before.nowayout, false, taken
	info, err := d.configure(timeout, before)
	if err == nil && taken && !d.runs(d.name) {
		err = errNotStarted
	}
	if err == nil {
		d.keep()
		return info, nil
	}
	err = fmt.Errorf("arm %s: %w", d.path, err)
	if errors.Is(err, errNotWatchdog) {
		// Writing 'V' may not be harmless to a device that is not a watchdog.
		return watchdog.Info{}, errors.Join(err, d.close())
	}
	if undo := d.release(); undo != nil {
		if seconds, gone := d.kernel.timeout(fd); gone == nil && seconds > 0 {
			info.Timeout = time.Duration(seconds) * time.Second
		} else {
			info.Timeout = before.timeout
		}
		return info, &watchdog.StillArmedError{Cause: err, Disarm: undo}
	}
	return watchdog.Info{}, err
}

// configure runs with the countdown started.
func (d *Device) configure(timeout time.Duration, before facts) (watchdog.Info, error) {
	support, err := d.kernel.support(d.fd)
	if err != nil {
		if !before.isWatchdog {
			return watchdog.Info{}, errNotWatchdog
		}
		return watchdog.Info{NoWayOut: d.nowayout}, fmt.Errorf("WDIOC_GETSUPPORT: %w", err)
	}
	identity := strings.TrimSpace(unix.ByteSliceToString(support.Identity[:]))
	if before.identity != "" && before.identity != identity {
		// A driver from before the watchdog core (ipmi_watchdog) took the legacy node, and
		// sysfs described another watchdog: what was read there is worth nothing.
		d.name, d.nowayout = "", false
		before = facts{}
	}
	// A magic character that an earlier holder left behind would let our crash disarm the
	// watchdog. Any other byte takes it back; it is also a feed.
	if err := d.kernel.write(d.fd, feedByte); err != nil {
		return watchdog.Info{NoWayOut: d.nowayout}, fmt.Errorf("first feed of %q: %w", identity, err)
	}
	options := support.Options | understated[identity]
	info := watchdog.Info{
		Driver:     d.driver(identity),
		NoWayOut:   d.nowayout,
		MagicClose: options&unix.WDIOF_MAGICCLOSE != 0,
	}
	d.feedsByIO = options&unix.WDIOF_KEEPALIVEPING == 0
	if err := d.setTimeout(timeout, identity); err != nil {
		return info, err
	}
	seconds, err := d.kernel.timeout(d.fd)
	if err != nil {
		return info, fmt.Errorf("WDIOC_GETTIMEOUT on %q: %w: a timeout that cannot be read back cannot be relied on, choose another driver", identity, err)
	}
	if seconds <= 0 {
		return info, fmt.Errorf("WDIOC_GETTIMEOUT on %q: timeout of %d s: choose another driver", identity, seconds)
	}
	info.Timeout = time.Duration(seconds) * time.Second
	if support.Options&unix.WDIOF_PRETIMEOUT != 0 {
		// It is left as the node's administrator set it: its use is a dump before the reset.
		if seconds, err := d.kernel.pretimeout(d.fd); err == nil && seconds > 0 {
			info.Pretimeout = time.Duration(seconds) * time.Second
		}
	}
	// This is only a hint: a driver that does not report it is not refused.
	if status, err := d.kernel.bootStatus(d.fd); err == nil {
		info.BootFencing = status&unix.WDIOF_CARDRESET != 0
	} else {
		info.BootFencing = before.cardReset
	}
	return info, nil
}

// setTimeout is tried whatever the driver's options say.
func (d *Device) setTimeout(timeout time.Duration, identity string) error {
	seconds := int((timeout + time.Second - 1) / time.Second)
	err := d.kernel.setTimeout(d.fd, seconds)
	// A driver without this call has a fixed timeout; EINVAL is a refusal of the value.
	if err != nil && !errors.Is(err, unix.ENOTTY) && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("WDIOC_SETTIMEOUT %ds on %q: %w: choose a watchdog.timeout that the driver accepts", seconds, identity, err)
	}
	return nil
}

// Feed restarts the countdown. It returns the bare errno: wrapping it would allocate.
func (d *Device) Feed() error {
	if d.fd < 0 {
		return errNotArmed
	}
	if d.feedsByIO {
		return d.kernel.write(d.fd, feedByte)
	}
	return d.kernel.keepAlive(d.fd)
}

// Shorten implements watchdog.Device. Drivers of the watchdog core restart the countdown with the new timeout; older
// ones may continue with what was left, which only WDIOC_GETTIMELEFT shows.
func (d *Device) Shorten(timeout time.Duration) (time.Duration, error) {
	if d.fd < 0 {
		return 0, errNotArmed
	}
	switch err := d.kernel.setTimeout(d.fd, int((timeout+time.Second-1)/time.Second)); {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOTTY), errors.Is(err, unix.EOPNOTSUPP):
		// The driver has not been called, or has checked the value first. Only then is it certain that this did not
		// feed it.
		return 0, fmt.Errorf("WDIOC_SETTIMEOUT %v: %w: %w", timeout, watchdog.ErrRefused, err)
	case err != nil:
		return 0, fmt.Errorf("WDIOC_SETTIMEOUT %v: %w", timeout, err)
	}
	seconds, err := d.kernel.timeout(d.fd)
	if err != nil {
		return 0, fmt.Errorf("WDIOC_GETTIMEOUT: %w", err)
	}
	if seconds <= 0 {
		return 0, fmt.Errorf("WDIOC_GETTIMEOUT: timeout of %d s", seconds)
	}
	left, err := d.kernel.timeLeft(d.fd)
	switch {
	case err == nil && left > seconds:
		return 0, fmt.Errorf("WDIOC_GETTIMELEFT: %d s are left of %d s", left, seconds)
	case err != nil && d.name == "":
		return 0, fmt.Errorf("WDIOC_GETTIMELEFT: %w, and sysfs does not show the watchdog", err)
	}
	return time.Duration(seconds) * time.Second, nil
}

// Look implements watchdog.Looker, by sysfs.
func (d *Device) Look() (c watchdog.Countdown, known bool) {
	if d.resolve() != nil {
		return c, false
	}
	f, err := d.survey()
	if err != nil {
		return c, false
	}
	state, ok := d.attribute(f.name, "state")
	if f.name == "" || !ok || f.timeout == 0 {
		return d.lookLeft(f)
	}
	return watchdog.Countdown{Running: state != "inactive", Timeout: f.timeout}, true
}

// Disarm stops the countdown and closes the device. After an error the device is open and
// counts on. It does nothing when the device is not armed.
func (d *Device) Disarm() error {
	if d.fd < 0 {
		return nil
	}
	if err := d.release(); err != nil {
		return fmt.Errorf("disarm %s: %w", d.path, err)
	}
	return nil
}

// release stops the countdown with the descriptor still at hand if the driver refuses, since
// a close cannot fail visibly: a driver that does not stop merely logs.
//
// The magic character is written only where the close that follows consumes it. The
// kernel keeps it across a close of a watchdog that is not running, and it would then turn
// a crash of the next holder into a disarm; so there it never follows WDIOS_DISABLECARD. A driver outside of the watchdog
// core forgets it with each close, and some (ib700wdt) start again at a close without it, whatever was disabled before.
//
// A close stops nothing while systemd has a copy of the descriptor. Then the watchdog is stopped first, and the copy given up after
// it: an agent that is killed in between leaves a watchdog that does not run, and knows it by sysfs.
func (d *Device) release() error {
	if d.nowayout {
		return watchdog.ErrNoWayOut
	}
	if d.name == "" || d.kept {
		// Without sysfs the driver itself has to be asked about nowayout: it answers EBUSY.
		switch err := d.kernel.disable(d.fd); {
		case err == nil && !d.outside():
			d.drop()
			return d.close()
		case err == nil:
		case errors.Is(err, unix.EBUSY):
			d.nowayout = true
			return watchdog.ErrNoWayOut
		case errors.Is(err, unix.ENOTTY), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
			// An old driver that knows the magic character alone.
		default:
			return fmt.Errorf("WDIOS_DISABLECARD: %w", err)
		}
	}
	if d.kept { // the last close consumes the magic character, so the copy goes first: else the close that follows is not the last
		if err := d.store.Drop(); err != nil {
			return fmt.Errorf("ask systemd to close its copy of the descriptor: %w", err)
		}
		d.kept = false
	}
	if err := d.kernel.write(d.fd, magicByte); err != nil {
		return fmt.Errorf("magic close: %w", err)
	}
	if err := d.close(); err != nil {
		return err
	}
	if state, _ := d.attribute(d.name, "state"); d.name == "" || state != "active" {
		return nil
	}
	fd, err := d.kernel.open(d.path)
	if errors.Is(err, unix.EBUSY) {
		return nil // running for another holder, who came at once
	}
	if err != nil {
		return fmt.Errorf("magic close: the driver did not stop, and cannot be fed any more: %w", err)
	}
	d.fd = fd
	return errors.New("magic close: the driver did not stop")
}

// outside reports whether the driver does not use the kernel's watchdog core: sysfs is there, and does not show it.
func (d *Device) outside() bool { return d.name == "" && d.seesClasses() }

// close closes the descriptor; Linux frees it whatever close returns.
func (d *Device) close() error {
	fd := d.fd
	d.fd = -1
	if err := d.kernel.close(fd); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}
