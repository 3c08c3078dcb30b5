package wdt

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

func TestDeviceConforms(t *testing.T) {
	for _, c := range []struct {
		name  string
		sysfs bool
		edit  func(*driver)
	}{
		{"with sysfs", true, func(*driver) {}},
		{"without sysfs", false, func(*driver) {}},
		{"fed by writing", true, func(d *driver) { d.options &^= unix.WDIOF_KEEPALIVEPING }},
		{"without sysfs and WDIOS_DISABLECARD", false, func(d *driver) { d.disableErr = unix.ENOTTY }},
		{"fixed timeout", true, func(d *driver) { d.fixed = true }},
		{"fixed timeout, flag missing", true, func(d *driver) { d.options &^= unix.WDIOF_SETTIMEOUT }},
		{"rounding up", true, func(d *driver) { d.round = func(s int) int { return s + 7 } }},
	} {
		t.Run(c.name, func(t *testing.T) {
			watchdogtest.Conform(t, func(t *testing.T, want watchdogtest.Driver) watchdogtest.Rig {
				if want.NoWayOut && !c.sysfs {
					t.Skip("Info.NoWayOut is known from sysfs only; see TestNoWayOutWithoutSysfs")
				}
				d := softdog()
				c.edit(d)
				d.nowayout = want.NoWayOut
				dev := d.device(t)
				if c.sysfs {
					d.sysfs(t, dev, nil)
				}
				return watchdogtest.Rig{
					Device: dev, Running: d.counting, Left: d.left,
					Advance:   func(by time.Duration) { d.now = d.now.Add(by) },
					FailFeeds: func(err error) { d.feedErr = err },
					Hold:      func() { d.openErr = unix.EBUSY },
				}
			})
		})
	}
}

func TestNoneConforms(t *testing.T) {
	watchdogtest.Conform(t, func(t *testing.T, want watchdogtest.Driver) watchdogtest.Rig {
		if want.NoWayOut {
			t.Skip("there is always a way out of nothing")
		}
		return watchdogtest.Rig{Device: &None{}, Advance: func(time.Duration) {}}
	})
}

func TestArmInfo(t *testing.T) {
	d := softdog()
	d.status = unix.WDIOF_CARDRESET
	d.round = func(s int) int { return s + 1 }
	dev := d.device(t)
	d.sysfs(t, dev, nil)
	info, err := dev.Arm(9500 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if info.Identity != "Software Watchdog" || info.Timeout != 11*time.Second || info.NoWayOut || !info.MagicClose || !info.BootFencing {
		t.Errorf("Info %+v: want 9.5s rounded up to 10s and by the driver to 11s, magic close, boot fencing", info)
	}
}

// A pretimeout is told as the driver has it, by those drivers alone that know one.
func TestPretimeoutIsTold(t *testing.T) {
	for _, options := range []uint32{0, unix.WDIOF_PRETIMEOUT} {
		d := softdog()
		d.early, d.options = 4, d.options|options
		info, err := d.device(t).Arm(10 * time.Second)
		want := time.Duration(0)
		if options != 0 {
			want = 4 * time.Second
		}
		if err != nil || info.Pretimeout != want {
			t.Errorf("pretimeout %v, %v; want %v", info.Pretimeout, err, want)
		}
	}
}

// A device that cannot serve is closed by magic, so that looking at it does not reset the
// node (guard: release after a failed configure), and the error says what to do.
func TestArmFailuresDisarm(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*driver)
		want string
	}{
		{"value refused", func(d *driver) { d.accept = func(s int) bool { return s > 60 } }, "choose a watchdog.timeout that the driver accepts"},
		{"set fails", func(d *driver) { d.accept = func(int) bool { return false } }, "WDIOC_SETTIMEOUT 10s"},
		{"no read-back", func(d *driver) { d.getErr = unix.EOPNOTSUPP }, "cannot be relied on"},
		{"zero read back", func(d *driver) { d.round = func(int) int { return 0 } }, "timeout of 0 s"},
		{"negative read back", func(d *driver) { d.round = func(int) int { return -5 } }, "timeout of -5 s"},
		{"support fails", func(d *driver) { d.supportErr = unix.EIO }, "WDIOC_GETSUPPORT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := softdog()
			c.edit(d)
			dev := d.device(t)
			d.sysfs(t, dev, nil)
			_, err := dev.Arm(10 * time.Second)
			if err == nil || !strings.Contains(err.Error(), c.want) || watchdog.StillArmed(err) {
				t.Fatalf("Arm: %v, want %q", err, c.want)
			}
			if d.running || d.held || !d.called("V") || d.called("disable") {
				t.Errorf("running %v, held %v after %v, want a magic close", d.running, d.held, d.calls)
			}
			if err := dev.Feed(); !errors.Is(err, errNotArmed) {
				t.Errorf("Feed: %v", err)
			}
		})
	}
}

// The same failures under nowayout keep the descriptor, which is the only way to keep the
// node alive (guard: StillArmedError instead of closing).
func TestArmFailuresUnderNoWayOut(t *testing.T) {
	for _, sysfs := range []bool{true, false} {
		for _, getErr := range []error{nil, unix.EIO} {
			d := softdog()
			d.nowayout, d.getErr = true, getErr
			d.accept = func(s int) bool { return s > 60 }
			dev := d.device(t)
			if sysfs {
				d.sysfs(t, dev, nil)
			}
			info, err := dev.Arm(10 * time.Second)
			if !watchdog.StillArmed(err) || !errors.Is(err, watchdog.ErrNoWayOut) || !strings.Contains(err.Error(), "WILL reset") {
				t.Fatalf("Arm: %v, want StillArmed", err)
			}
			if want := sysfs || getErr == nil; (info.Timeout == time.Minute) != want {
				t.Errorf("sysfs %v, %v: Info.Timeout %v", sysfs, getErr, info.Timeout)
			}
			if !d.running || !d.held || d.called("close") {
				t.Errorf("after %v the descriptor is not held", d.calls)
			}
			d.now = d.now.Add(time.Second)
			if err := dev.Feed(); err != nil || d.left() != time.Minute {
				t.Errorf("Feed: %v, %v left", err, d.left())
			}
		}
	}
}

// Opening arms, so these must be refused without an open (guard: survey and check).
func TestRefusedBeforeOpen(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		edit    func(*driver)
		sysfs   map[string]string
		want    string
	}{
		{"regular file", time.Minute, func(d *driver) { d.mode = unix.S_IFREG }, nil, "not a watchdog device"},
		{"missing, none loaded", time.Minute, func(d *driver) { d.statErr = unix.ENOENT }, nil, "modprobe softdog"},
		{"missing in the container", time.Minute, func(d *driver) { d.statErr = unix.ENOENT }, map[string]string{}, "the kernel has watchdog0, but"},
		{"not permitted to look", time.Minute, func(d *driver) { d.statErr = unix.EACCES }, nil, "privileged"},
		{"below a second", time.Second / 2, func(*driver) {}, nil, "whole seconds"},
		{"beyond reason", 100 * time.Hour, func(*driver) {}, nil, "whole seconds"},
		{"below the minimum", 4 * time.Second, func(*driver) {}, map[string]string{"min_timeout": "5"}, "no less than 5s"},
		{"above the maximum, no way out", time.Minute, func(d *driver) { d.nowayout = true }, map[string]string{"max_timeout": "30"}, "no more than 30s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := softdog()
			c.edit(d)
			dev := d.device(t)
			if c.sysfs != nil {
				d.sysfs(t, dev, c.sysfs)
			}
			_, err := dev.Arm(c.timeout)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("Arm: %v, want %q", err, c.want)
			}
			if d.called("open") {
				t.Error("the device was opened, which arms it")
			}
		})
	}
}

func TestMaximumIsTriedWhereItCanBeTakenBack(t *testing.T) {
	d := softdog()
	dev := d.device(t)
	d.sysfs(t, dev, map[string]string{"max_timeout": "30"})
	if info, err := dev.Arm(time.Minute); err != nil || info.Timeout != time.Minute {
		t.Fatalf("Arm: %v, %v", info.Timeout, err)
	}
}

func TestOpenErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{unix.ENODEV, "no driver stands behind"},
		{unix.ENXIO, "no driver stands behind"},
		{unix.EPERM, "privileged"},
		{unix.EINVAL, "invalid argument"},
	} {
		d := softdog()
		d.openErr = c.err
		_, err := d.device(t).Arm(time.Minute)
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.err, err, c.want)
		}
	}
}

func TestBusyNamesTheHolder(t *testing.T) {
	for _, c := range []struct {
		name   string
		pid    int
		comm   string
		target string
		sysfs  bool
		want   string
	}{
		{"systemd under the other name", 1, "systemd", "/dev/watchdog0", true, "RuntimeWatchdogSec"},
		{"sbd under the same name", 4711, "sbd", devicePath, true, `"sbd" (pid 4711)`},
		{"without sysfs", 4711, "sbd", devicePath, false, `"sbd" (pid 4711)`},
		{"out of sight", 4711, "sbd", "/dev/null", true, "not visible from here"},
		{"under the legacy name, of watchdog0", 4711, "sbd", devicePath, true, `"sbd" (pid 4711)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := softdog()
			d.openErr = unix.EBUSY
			if strings.HasSuffix(c.name, "of watchdog0") {
				d.rdev = unix.Mkdev(245, 0)
			}
			dev := d.device(t)
			if c.sysfs {
				d.sysfs(t, dev, nil)
			}
			holds(t, dev, 99, "other", "/dev/null")
			holds(t, dev, c.pid, c.comm, c.target)
			put(t, dev.proc+"/uptime", "1 1\n")
			_, err := dev.Arm(time.Minute)
			if !errors.Is(err, watchdog.ErrBusy) || !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("Arm: %v, want %q", err, c.want)
			}
		})
	}
}

// Guard: the check of fd. The kernel would answer EBUSY, and the holder found be ourselves.
func TestArmedAlready(t *testing.T) {
	dev := softdog().device(t)
	if _, err := dev.Arm(time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := dev.Arm(time.Minute); !errors.Is(err, errAlreadyArmed) {
		t.Errorf("second Arm: %v", err)
	}
}

// A character device that is no watchdog gets neither a 'V' nor anything else written.
func TestNotAWatchdog(t *testing.T) {
	d := softdog()
	d.rdev, d.supportErr = unix.Mkdev(1, 3), unix.ENOTTY
	_, err := d.device(t).Arm(time.Minute)
	if !errors.Is(err, errNotWatchdog) || d.called("V") || d.called("disable") || d.held {
		t.Errorf("Arm: %v after %v", err, d.calls)
	}
}

// A legacy driver on /dev/watchdog must not be judged by the sysfs of watchdog0.
func TestSysfsOfAnotherDriverIsIgnored(t *testing.T) {
	d := softdog()
	dev := d.device(t)
	d.sysfs(t, dev, map[string]string{"identity": "iTCO_wdt", "nowayout": "1", "bootstatus": "32"})
	d.statusErr = unix.ENOTTY
	info, err := dev.Arm(time.Minute)
	if err != nil || info.NoWayOut || info.BootFencing || info.Identity != "Software Watchdog" {
		t.Fatalf("Arm: %+v, %v", info, err)
	}
	d.nowayout = true // which only the driver itself can tell
	if err := dev.Disarm(); !errors.Is(err, watchdog.ErrNoWayOut) || !d.held {
		t.Errorf("Disarm: %v, held %v", err, d.held)
	}
	d.nowayout, dev.nowayout = false, false
	if err := dev.Disarm(); err != nil || d.running {
		t.Errorf("Disarm: %v, running %v", err, d.running)
	}
}

// WDIOS_DISABLECARD answers where sysfs is silent (guard: it precedes the close, after
// which there would be no descriptor left to feed with).
func TestNoWayOutWithoutSysfs(t *testing.T) {
	d := softdog()
	d.nowayout = true
	dev := d.device(t)
	if _, err := dev.Arm(time.Minute); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := dev.Disarm(); !errors.Is(err, watchdog.ErrNoWayOut) {
			t.Fatalf("Disarm: %v, want watchdog.ErrNoWayOut", err)
		}
	}
	d.now = d.now.Add(time.Second)
	if err := dev.Feed(); err != nil || !d.held || d.left() != time.Minute {
		t.Errorf("Feed: %v, held %v, %v left", err, d.held, d.left())
	}
}

// Guard: a planned stop does not reset a node with a driver outside of the watchdog core. Seen on ib700wdt of Linux 6.1:
// a close without the magic character starts a watchdog that WDIOS_DISABLECARD has stopped.
func TestDisarmOutsideOfTheCore(t *testing.T) {
	for name, edit := range map[string]func(*driver){
		"it stops":       func(*driver) {},
		"magic fails":    func(d *driver) { d.writeErr = unix.EIO },
		"no DISABLECARD": func(d *driver) { d.disableErr = unix.ENOTTY },
	} {
		d := softdog()
		d.identity, d.outside = "IB700 WDT", true
		dev := d.device(t)
		put(t, filepath.Join(dev.sysfs, "class/misc/watchdog/dev"), "10:130")
		if _, err := dev.Arm(time.Minute); err != nil {
			t.Fatal(err)
		}
		edit(d)
		err := dev.Disarm()
		if d.writeErr != nil {
			if err == nil || !d.held {
				t.Errorf("%s: %v, held %v", name, err, d.held)
			}
			d.writeErr = nil
			err = dev.Disarm()
		}
		if err != nil || d.running || d.held || d.magic {
			t.Errorf("%s: Disarm: %v, running %v, held %v, magic %v after %v", name, err, d.running, d.held, d.magic, d.calls)
		}
	}
}

func TestDisarmErrorsKeepTheDevice(t *testing.T) {
	for name, c := range map[string]struct {
		sysfs bool
		edit  func(*driver)
	}{
		"disable fails":            {false, func(d *driver) { d.disableErr = unix.EIO }},
		"write fails":              {true, func(d *driver) { d.writeErr = unix.EIO }},
		"write fails, old driver":  {false, func(d *driver) { d.disableErr, d.writeErr = unix.ENOTTY, unix.EIO }},
		"hardware goes on":         {true, func(d *driver) { d.stopErr = unix.EIO }},
		"hardware goes on, silent": {false, func(d *driver) { d.stopErr = unix.EIO }},
	} {
		t.Run(name, func(t *testing.T) {
			d := softdog()
			dev := d.device(t)
			if c.sysfs {
				d.sysfs(t, dev, nil)
			}
			if _, err := dev.Arm(time.Minute); err != nil {
				t.Fatal(err)
			}
			c.edit(d)
			if err := dev.Disarm(); err == nil || !d.held || !d.running {
				t.Fatalf("Disarm: %v, held %v, running %v", err, d.held, d.running)
			}
			d.now = d.now.Add(time.Second)
			if err := dev.Feed(); err != nil || d.left() != time.Minute {
				t.Fatalf("Feed: %v, %v left", err, d.left())
			}
			d.disableErr, d.writeErr, d.stopErr = nil, nil, nil
			if err := dev.Disarm(); err != nil || d.held || d.running {
				t.Fatalf("second Disarm: %v, held %v, running %v after %v", err, d.held, d.running, d.calls)
			}
		})
	}
}

// Between our close and our look at sysfs another process took the watchdog: it is its now.
func TestDisarmYieldsToTheNextHolder(t *testing.T) {
	d := softdog()
	dev := d.device(t)
	d.sysfs(t, dev, nil)
	if _, err := dev.Arm(time.Minute); err != nil {
		t.Fatal(err)
	}
	d.openErr = unix.EBUSY
	d.stopErr = unix.EIO // leaves state at active, as the other holder would
	if err := dev.Disarm(); err != nil {
		t.Errorf("Disarm: %v", err)
	}
}

// Guard: the first write of Arm, and that no 'V' follows WDIOS_DISABLECARD. Seen on a real
// kernel: a 'V' left behind by one holder let the crash of the next one disarm the node.
func TestCrashFences(t *testing.T) {
	for _, sysfs := range []bool{true, false} {
		d := softdog()
		dev := d.device(t)
		if sysfs {
			d.sysfs(t, dev, nil)
		}
		d.magic = true // some earlier program's
		for round := range 2 {
			if _, err := dev.Arm(time.Minute); err != nil {
				t.Fatal(err)
			}
			if d.magic {
				t.Errorf("sysfs %v, round %d: armed with the permission to be released", sysfs, round)
			}
			if round == 0 {
				if err := dev.Disarm(); err != nil || d.magic {
					t.Errorf("sysfs %v: Disarm: %v, a magic character is left behind: %v", sysfs, err, d.magic)
				}
			}
		}
		_ = d.close(driverFD)
		if !d.running {
			t.Errorf("sysfs %v: the death of the process stopped the watchdog", sysfs)
		}
	}
}

func TestParseDev(t *testing.T) {
	for s, want := range map[string]uint64{"245:0": unix.Mkdev(245, 0), "10:130": unix.Mkdev(10, 130)} {
		if got, ok := parseDev(s); !ok || got != want {
			t.Errorf("parseDev(%q) = %v, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", ":", "10", "10:", "-1:2", "1:2:3", "99999999999:1"} {
		if _, ok := parseDev(s); ok {
			t.Errorf("parseDev(%q) succeeded", s)
		}
	}
}

// Guard: a watchdog that was seen not to fire is not opened where its driver is known before: to open it starts the
// countdown, which nowayout never stops.
func TestAFailedWatchdogIsNotOpened(t *testing.T) {
	d := softdog()
	dev := d.device(t)
	d.sysfs(t, dev, nil)
	dev.Measured(func(identity string) watchdog.Measured {
		return watchdog.Measured{Failed: identity == "Software Watchdog"}
	})
	if _, err := dev.Arm(10 * time.Second); err == nil || !strings.Contains(err.Error(), "did not reset this node when that was tried") || d.running {
		t.Errorf("it counts down: %v, %v", d.running, err)
	}
}
