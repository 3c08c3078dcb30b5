package wdt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Probe says at the start of an agent what will make Arm fail, as far as that can be seen without opening the device,
// which would arm it: that it is missing, no watchdog, forbidden, held by another process, or unable to take the
// timeout. A nil error promises nothing. It does not block. If waiting cannot help, the error is a [*WrongError].
func (d *Device) Probe(timeout time.Duration) error {
	if err := d.resolve(); err != nil {
		return err
	}
	f, err := d.survey()
	switch {
	case errors.Is(err, errNotWatchdog):
		return &WrongError{err} // a file, or a folder
	case err != nil:
		return err
	}
	if !f.isWatchdog && d.seesClasses() {
		// The node of a driver that is not loaded looks like that, too.
		return fmt.Errorf("open %s: the kernel has no watchdog of this device number: load its driver, or: %w", d.path, errNotWatchdog)
	}
	if err := d.kernel.access(d.path); err != nil {
		err := d.explainOpen(err, f)
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return &WrongError{err}
		}
		return err
	}
	var mine []int
	if d.left(f) {
		mine = []int{os.Getpid(), storeHolder}
	}
	if err := d.findHolder(f, mine...); err != nil {
		return fmt.Errorf("open %s: %w", d.path, err)
	}
	if err := f.check(d.path, timeout); err != nil {
		return &WrongError{err}
	}
	return nil
}

// WrongError is what Probe has found to be wrong in the configuration, as opposed to a device that may come.
type WrongError struct{ error }

// Unwrap returns what is wrong.
func (e *WrongError) Unwrap() error { return e.error }

// seesClasses reports whether sysfs is mounted. If it is, a device that is neither the legacy node nor listed there
// is not a watchdog.
func (d *Device) seesClasses() bool {
	_, err := os.Stat(filepath.Join(d.sysfs, "class"))
	return err == nil
}
