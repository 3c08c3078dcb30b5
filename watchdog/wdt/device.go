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
	kernel kernel
	sysfs  string
	proc   string

	fd        int // -1: not armed
	feedsByIO bool
	nowayout  bool
}

// NewDevice describes the watchdog at path, e.g. /dev/watchdog, without touching it.
func NewDevice(path string) *Device {
	return &Device{path: path, kernel: linux{}, sysfs: "/sys", proc: "/proc", fd: -1}
}

// Arm opens the device, which starts its countdown, sets the timeout, rounded up to whole
// seconds, and reads it back. A driver with a fixed timeout keeps its own: the caller
// compares. After an error the device is closed and disarmed, or the error is a
// *StillArmedError, the device stays open and has to be fed.
func (d *Device) Arm(timeout time.Duration) (watchdog.Info, error) {
	if d.fd >= 0 {
		return watchdog.Info{}, fmt.Errorf("arm %s: %w", d.path, errAlreadyArmed)
	}
	before, err := d.survey()
	if err != nil {
		return watchdog.Info{}, err
	}
	if err := before.check(d.path, timeout); err != nil {
		return watchdog.Info{}, err
	}
	fd, err := d.kernel.open(d.path)
	if err != nil {
		return watchdog.Info{}, d.explainOpen(err, before)
	}
	// From here on the countdown runs, with whatever timeout the driver had.
	d.fd, d.nowayout, d.feedsByIO = fd, before.nowayout, false
	info, err := d.configure(timeout, before)
	if err == nil {
		return info, nil
	}
	err = fmt.Errorf("arm %s: %w", d.path, err)
	if errors.Is(err, errNotWatchdog) {
		// Nothing says that 'V' is harmless to a device that is no watchdog.
		fd, d.fd = d.fd, -1
		return watchdog.Info{}, errors.Join(err, d.kernel.close(fd))
	}
	if undo := d.release(); undo != nil {
		if seconds, gone := d.kernel.timeout(fd); gone == nil && seconds > 0 {
			info.Timeout = time.Duration(seconds) * time.Second
		} else {
			info.Timeout = before.timeout
		}
		return info, &StillArmedError{Cause: err, Disarm: undo}
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
		d.nowayout = false
		before = facts{}
	}
	info := watchdog.Info{
		Identity:   identity,
		NoWayOut:   d.nowayout,
		MagicClose: support.Options&unix.WDIOF_MAGICCLOSE != 0,
	}
	d.feedsByIO = support.Options&unix.WDIOF_KEEPALIVEPING == 0
	if support.Options&unix.WDIOF_SETTIMEOUT != 0 {
		seconds := int((timeout + time.Second - 1) / time.Second)
		err := d.kernel.setTimeout(d.fd, seconds)
		// A driver without this call has a fixed timeout; EINVAL is a refusal of the value.
		if err != nil && !errors.Is(err, unix.ENOTTY) && !errors.Is(err, unix.EOPNOTSUPP) {
			return info, fmt.Errorf("WDIOC_SETTIMEOUT %ds on %q: %w: choose a watchdog.timeout that the driver accepts", seconds, identity, err)
		}
	}
	seconds, err := d.kernel.timeout(d.fd)
	if err != nil {
		return info, fmt.Errorf("WDIOC_GETTIMEOUT on %q: %w: a timeout that cannot be read back cannot be relied on, choose another driver", identity, err)
	}
	if seconds <= 0 {
		return info, fmt.Errorf("WDIOC_GETTIMEOUT on %q: timeout of %d s: choose another driver", identity, seconds)
	}
	info.Timeout = time.Duration(seconds) * time.Second
	// Evidence only, so a driver that does not say is no reason to refuse it.
	if status, err := d.kernel.bootStatus(d.fd); err == nil {
		info.BootFencing = status&unix.WDIOF_CARDRESET != 0
	} else {
		info.BootFencing = before.cardReset
	}
	return info, nil
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

// release asks the driver to stop before it closes anything. Closing cannot fail visibly:
// a driver that does not stop merely logs, and the descriptor to feed it with is gone.
// WDIOS_DISABLECARD, in contrast, has an answer, and the answer is EBUSY with nowayout,
// also where there is no sysfs to ask. Drivers that lack it get the magic character alone.
func (d *Device) release() error {
	if d.nowayout {
		return ErrNoWayOut
	}
	stopped := true
	switch err := d.kernel.disable(d.fd); {
	case err == nil:
	case errors.Is(err, unix.EBUSY):
		d.nowayout = true
		return ErrNoWayOut
	case errors.Is(err, unix.ENOTTY), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		stopped = false
	default:
		return fmt.Errorf("WDIOS_DISABLECARD: %w", err)
	}
	if err := d.kernel.write(d.fd, magicByte); err != nil && !stopped {
		return fmt.Errorf("magic close: %w", err)
	}
	fd := d.fd
	d.fd = -1
	// Linux frees the descriptor whatever close returns.
	if err := d.kernel.close(fd); err != nil && !stopped {
		return fmt.Errorf("close after the magic character: %w", err)
	}
	return nil
}
