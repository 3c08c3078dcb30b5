package wdt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// The legacy node /dev/watchdog is a misc device for watchdog0.
const (
	miscMajor     = 10
	watchdogMinor = 130
)

// longestTimeout is what 16-bit hardware counters of seconds hold; a node that is given
// longer to die is of no use to anybody.
const longestTimeout = (1<<16 - 1) * time.Second

// facts is what can be learnt about a watchdog without opening it. Opening arms, and with
// nowayout that cannot be taken back, so whatever can be refused is refused on these.
type facts struct {
	rdev       uint64
	isWatchdog bool     // by its device number, if that could be judged
	name       string   // watchdog0; empty if sysfs does not describe the device
	rdevs      []uint64 // all device numbers under which the same watchdog can be opened
	identity   string
	nowayout   bool
	timeout    time.Duration
	minTimeout time.Duration // zero: not stated
	maxTimeout time.Duration // zero: not stated
	cardReset  bool
}

// survey identifies the device at path by its number and reads its sysfs directory.
func (d *Device) survey() (facts, error) {
	mode, rdev, err := d.kernel.stat(d.path)
	if err != nil {
		return facts{}, d.explainOpen(err, facts{})
	}
	if mode&unix.S_IFMT != unix.S_IFCHR {
		return facts{}, fmt.Errorf("open %s: %w", d.path, errNotWatchdog)
	}
	f := facts{rdev: rdev, rdevs: []uint64{rdev}}
	legacy := unix.Mkdev(miscMajor, watchdogMinor)
	f.isWatchdog = rdev == legacy
	for _, name := range d.class() {
		number, ok := d.attribute(name, "dev")
		if !ok {
			continue
		}
		own, ok := parseDev(number)
		if !ok || !(own == rdev || rdev == legacy && name == "watchdog0") {
			continue
		}
		f.isWatchdog, f.name = true, name
		f.rdevs = append(f.rdevs, own)
		if name == "watchdog0" {
			f.rdevs = append(f.rdevs, legacy)
		}
		d.read(&f)
		break
	}
	return f, nil
}

func (d *Device) read(f *facts) {
	f.identity, _ = d.attribute(f.name, "identity")
	f.nowayout = d.number(f.name, "nowayout") == 1
	f.timeout = time.Duration(d.number(f.name, "timeout")) * time.Second
	f.minTimeout = time.Duration(d.number(f.name, "min_timeout")) * time.Second
	f.maxTimeout = time.Duration(d.number(f.name, "max_timeout")) * time.Second
	f.cardReset = d.number(f.name, "bootstatus")&unix.WDIOF_CARDRESET != 0
}

// class lists the watchdogs of the kernel, also those whose device node is not visible here.
func (d *Device) class() []string {
	entries, err := os.ReadDir(filepath.Join(d.sysfs, "class/watchdog"))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (d *Device) attribute(name, attr string) (string, bool) {
	b, err := os.ReadFile(filepath.Join(d.sysfs, "class/watchdog", name, attr))
	if err != nil {
		return "", false // CONFIG_WATCHDOG_SYSFS is optional, and so is every attribute
	}
	return strings.TrimSpace(string(b)), true
}

// number reads a small unsigned attribute; what cannot be read counts as zero, "not stated".
func (d *Device) number(name, attr string) int {
	s, _ := d.attribute(name, attr)
	n, err := strconv.ParseUint(s, 0, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

func parseDev(s string) (uint64, bool) {
	major, minor, ok := strings.Cut(s, ":")
	if !ok {
		return 0, false
	}
	ma, err1 := strconv.ParseUint(major, 10, 32)
	mi, err2 := strconv.ParseUint(minor, 10, 32)
	if err1 != nil || err2 != nil {
		return 0, false
	}
	return unix.Mkdev(uint32(ma), uint32(mi)), true
}

// check refuses, before the device is opened, what could not be put right afterwards.
func (f facts) check(path string, timeout time.Duration) error {
	if timeout < time.Second || timeout > longestTimeout {
		return fmt.Errorf("arm %s: timeout %v: the kernel takes whole seconds from 1s to %v: change watchdog.timeout", path, timeout, longestTimeout)
	}
	if timeout < f.minTimeout {
		return fmt.Errorf("arm %s: timeout %v: %s accepts no less than %v: raise watchdog.timeout", path, timeout, f.identity, f.minTimeout)
	}
	// Some drivers have a hardware maximum that the kernel bridges, and sysfs does not distinguish it from a real
	// one. So without nowayout the driver's answer decides.
	if f.nowayout && f.maxTimeout > 0 && timeout > f.maxTimeout {
		return fmt.Errorf("arm %s: timeout %v: %s accepts no more than %v, and with nowayout a refused try would reset the node: lower watchdog.timeout",
			path, timeout, f.identity, f.maxTimeout)
	}
	return nil
}

// explainOpen turns the errno of an open into one sentence that says what to do.
func (d *Device) explainOpen(err error, f facts) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		if names := d.class(); len(names) > 0 {
			return fmt.Errorf("open %s: %w: the kernel has %s, but the device node is not visible here: mount it into the container (hostPath) or correct watchdog.device",
				d.path, err, strings.Join(names, ", "))
		}
		return fmt.Errorf("open %s: %w: load the driver of the hardware or run `modprobe softdog`; in a container also mount the device (hostPath)", d.path, err)
	case errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO):
		return fmt.Errorf("open %s: %w: no driver stands behind the device node: load one or run `modprobe softdog`", d.path, err)
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		return fmt.Errorf("open %s: %w: run as root, in a container privileged or with access to character devices of this number", d.path, err)
	case errors.Is(err, unix.EBUSY):
		holder := d.findHolder(f)
		if holder == nil {
			holder = fmt.Errorf("%w, which is not visible from here (no hostPID, or not root): find it with `fuser -v %s` on the node and stop it", watchdog.ErrBusy, d.path)
		}
		return fmt.Errorf("open %s: %w: %w", d.path, err, holder)
	}
	return fmt.Errorf("open %s: %w", d.path, err)
}
