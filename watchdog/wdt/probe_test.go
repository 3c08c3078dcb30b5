package wdt

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Whatever the answer, the device is not opened: that would arm it.
func TestProbe(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(t *testing.T, d *driver, dev *Device)
		is   error
		want string // part of the error; "": there is none

		wrong bool // no waiting mends it: the agent does not start
	}{
		{"good", func(*testing.T, *driver, *Device) {}, nil, "", false},
		{"held by nobody but left running", func(t *testing.T, _ *driver, dev *Device) {
			put(t, filepath.Join(dev.sysfs, "class/watchdog/watchdog0/state"), "active\n")
		}, nil, "", false},
		{"missing", func(_ *testing.T, d *driver, _ *Device) { d.statErr = unix.ENOENT }, fs.ErrNotExist, "the kernel has watchdog0, but", false},
		{"no character device", func(_ *testing.T, d *driver, _ *Device) { d.mode = unix.S_IFREG | 0o600 }, errNotWatchdog, "set watchdog.device to", true},
		{"another character device", func(_ *testing.T, d *driver, _ *Device) { d.rdev = unix.Mkdev(1, 3) }, errNotWatchdog, "set watchdog.device to", false},
		{"forbidden", func(_ *testing.T, d *driver, _ *Device) { d.accessErr = unix.EACCES }, fs.ErrPermission, "run as root", true},
		{"held", func(t *testing.T, _ *driver, dev *Device) { holds(t, dev, 1, "systemd", "/dev/watchdog0") }, watchdog.ErrBusy, "RuntimeWatchdogSec=off", false},
		{"held by a process that was killed and hangs", func(t *testing.T, _ *driver, dev *Device) {
			hangs(t, dev, 98, 99, "/dev/null")
			hangs(t, dev, 100, 107, "/dev/watchdog0")
		}, watchdog.ErrBusy, `"fencing-agent" (pid 100), which was killed and cannot end: its thread 107 hangs in the kernel`, true},
		{"held by a process that was killed and hangs in its first thread", func(t *testing.T, _ *driver, dev *Device) {
			holds(t, dev, 100, "fencing-agent", "/dev/watchdog0")
			put(t, filepath.Join(dev.proc, "100/status"), "Name:\tfencing-agent\nState:\tD (disk sleep)\nSigPnd:\t0000000000000100\n")
		}, watchdog.ErrBusy, `"fencing-agent" (pid 100), which was killed and cannot end: its thread 100 hangs in the kernel`, true},
		{"held by another program", func(t *testing.T, _ *driver, dev *Device) { holds(t, dev, 77, "watchdogd", "/dev/watchdog0") }, watchdog.ErrBusy, "stop it", false},
		{"held by another agent", func(t *testing.T, _ *driver, dev *Device) { holds(t, dev, 77, "fencing-agent", "/dev/watchdog0") }, watchdog.ErrBusy, "stop it", true},
		{"timeout too short", func(t *testing.T, _ *driver, dev *Device) {
			put(t, filepath.Join(dev.sysfs, "class/watchdog/watchdog0/min_timeout"), "60\n")
		}, nil, "raise watchdog.timeout", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := softdog()
			dev := d.device(t)
			d.sysfs(t, dev, nil)
			c.edit(t, d, dev)
			err := dev.Probe(30 * time.Second)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("Probe: %v", err)
			case errors.As(err, new(*WrongError)) != c.wrong:
				t.Errorf("Probe: %v: no waiting mends it: %v, want %v", err, !c.wrong, c.wrong)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is)):
				t.Errorf("Probe: %v, want %q", err, c.want)
			}
			if len(d.calls) > 0 {
				t.Errorf("Probe touched the device: %v", d.calls)
			}
		})
	}
}

// Without sysfs nothing says what a device is; Arm will ask it.
func TestProbeWithoutSysfs(t *testing.T) {
	d := softdog()
	d.rdev = unix.Mkdev(1, 3)
	if err := d.device(t).Probe(30 * time.Second); err != nil || len(d.calls) > 0 {
		t.Errorf("Probe: %v after %v", err, d.calls)
	}
}

// The real kernel: nothing here is a watchdog, and permissions count as for the open.
func TestProbeRealKernel(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	put(t, file, "")
	if err := NewDevice(file).Probe(time.Minute); !errors.Is(err, errNotWatchdog) {
		t.Errorf("regular file: %v", err)
	}
	if err := NewDevice(filepath.Join(dir, "none")).Probe(time.Minute); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if err := NewDevice("/dev/null").Probe(time.Minute); !errors.Is(err, errNotWatchdog) {
		t.Errorf("/dev/null: %v", err)
	}
	if err := (linux{}).access("/dev/null"); err != nil {
		t.Errorf("access to /dev/null: %v", err)
	}
	if os.Getuid() == 0 {
		t.Log("runs as root, to whom nothing is forbidden: that part was left out")
		return
	}
	if err := os.Chmod(file, 0); err != nil {
		t.Fatal(err)
	}
	if err := (linux{}).access(file); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("access to a forbidden file: %v", err)
	}
}
