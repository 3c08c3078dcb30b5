package wdt

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Probe tells at the start of an agent what will make Arm fail, as far as that can be
// seen without opening the device, which would arm it: that it is missing, no watchdog,
// forbidden, held by another process, or unable to take the timeout. A nil error promises
// nothing. It does not block.
func (d *Device) Probe(timeout time.Duration) error {
	f, err := d.survey()
	if err != nil {
		return err
	}
	if !f.isWatchdog && d.seesClasses() {
		return fmt.Errorf("open %s: %w", d.path, errNotWatchdog)
	}
	if err := d.kernel.access(d.path); err != nil {
		return d.explainOpen(err, f)
	}
	var mine []int
	if d.left(f) {
		mine = []int{os.Getpid(), storeHolder}
	}
	if err := d.findHolder(f, mine...); err != nil {
		return fmt.Errorf("open %s: %w", d.path, err)
	}
	return f.check(d.path, timeout)
}

// seesClasses reports whether sysfs is mounted. If it is, a device that is neither the
// legacy node nor listed there is no watchdog.
func (d *Device) seesClasses() bool {
	_, err := os.Stat(filepath.Join(d.sysfs, "class"))
	return err == nil
}
