package wdt

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/boottime"
)

const devicePath = "/dev/watchdog"

// driver is a kernel with one watchdog that behaves like drivers/watchdog/watchdog_dev.c:
// opening arms, nowayout ignores every way to stop, a close that does not stop the
// watchdog restarts the countdown, and a magic character outlives the close of a watchdog
// that is not running (seen with softdog on Linux 6.1).
type driver struct {
	now boottime.Instant

	mode     uint32
	rdev     uint64
	identity string
	options  uint32
	nowayout bool
	early    int            // pretimeout
	outside  bool           // of the watchdog core, as ib700wdt: whatever feeds starts it, and so does a close that does not stop it
	stale    bool           // SETTIMEOUT does not begin the countdown again
	leftErr  error          // of GETTIMELEFT
	seconds  int            // timeout before anybody sets it
	fixed    bool           // SETTIMEOUT is answered with ENOTTY
	accept   func(int) bool // values that SETTIMEOUT takes; others get EINVAL
	round    func(int) int
	status   int

	statErr, accessErr, openErr, supportErr, getErr, statusErr, disableErr, stopErr, feedErr, writeErr error

	held, running, magic bool
	last                 boottime.Instant
	calls                []string
	state                string            // path of the sysfs attribute
	links                map[string]uint64 // what /proc/PID/fd/N may point to
}

func softdog() *driver {
	return &driver{
		now: 1000, mode: unix.S_IFCHR | 0o600, rdev: unix.Mkdev(miscMajor, watchdogMinor), identity: "Software Watchdog",
		options: unix.WDIOF_SETTIMEOUT | unix.WDIOF_KEEPALIVEPING | unix.WDIOF_MAGICCLOSE, seconds: 60,
		links: map[string]uint64{devicePath: unix.Mkdev(miscMajor, watchdogMinor), "/dev/watchdog0": unix.Mkdev(245, 0), "/dev/null": unix.Mkdev(1, 3)},
	}
}

// device puts the driver behind a Device with a sysfs and a proc of its own.
func (d *driver) device(t *testing.T) *Device {
	t.Helper()
	dev := NewDevice(devicePath)
	dev.kernel, dev.sysfs, dev.proc = d, t.TempDir(), t.TempDir()
	return dev
}

// sysfs writes the attributes that the kernel would show for watchdog0.
func (d *driver) sysfs(t *testing.T, dev *Device, extra map[string]string) {
	t.Helper()
	attributes := map[string]string{"dev": "245:0", "identity": d.identity, "nowayout": "0", "timeout": fmt.Sprint(d.seconds), "state": "inactive", "bootstatus": "0"}
	if d.nowayout {
		attributes["nowayout"] = "1"
	}
	for k, v := range extra {
		attributes[k] = v
	}
	dir := filepath.Join(dev.sysfs, "class/watchdog/watchdog0")
	d.state = filepath.Join(dir, "state")
	for k, v := range attributes {
		put(t, filepath.Join(dir, k), v+"\n")
	}
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// holds makes a process of the simulated proc that has target open.
func holds(t *testing.T, dev *Device, pid int, comm, target string) {
	t.Helper()
	dir := filepath.Join(dev.proc, fmt.Sprint(pid))
	put(t, filepath.Join(dir, "comm"), comm+"\n")
	if err := os.MkdirAll(filepath.Join(dir, "fd"), 0o755); err != nil {
		t.Fatal(err)
	}
	for fd, path := range []string{"/dev/null", "/gone", target} {
		if err := os.Symlink(path, filepath.Join(dir, "fd", fmt.Sprint(fd))); err != nil {
			t.Fatal(err)
		}
	}
}

// hangs makes /proc show a process that was killed while a thread of it hangs in the kernel: the first
// thread is a zombie without descriptors, and the one that hangs has them all.
func hangs(t *testing.T, dev *Device, pid, thread int, target string) {
	t.Helper()
	dir := filepath.Join(dev.proc, fmt.Sprint(pid))
	put(t, filepath.Join(dir, "comm"), "fencing-agent\n")
	for _, empty := range []string{"fd", fmt.Sprintf("task/%d/fd", pid), fmt.Sprintf("task/%d/fd", thread)} {
		if err := os.MkdirAll(filepath.Join(dir, empty), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(target, filepath.Join(dir, fmt.Sprintf("task/%d/fd/8", thread))); err != nil {
		t.Fatal(err)
	}
}

func (d *driver) left() time.Duration {
	return d.last.Add(time.Duration(d.seconds) * time.Second).Sub(d.now)
}

func (d *driver) counting() bool { return d.running && d.left() > 0 }

func (d *driver) called(name string) bool {
	return strings.Contains(" "+strings.Join(d.calls, " ")+" ", " "+name+" ")
}

func (d *driver) note(name string) { d.calls = append(d.calls, name) }

func (d *driver) stat(path string) (uint32, uint64, error) {
	if path == devicePath {
		return d.mode, d.rdev, d.statErr
	}
	target, err := os.Readlink(path)
	if err != nil {
		return 0, 0, err
	}
	rdev, ok := d.links[target]
	if !ok {
		return 0, 0, unix.ENOENT
	}
	return unix.S_IFCHR, rdev, nil
}

func (d *driver) descriptor(fd int) (uint32, uint64, error) { return d.mode, d.rdev, d.check(fd) }

func (d *driver) access(string) error { return d.accessErr }

const driverFD = 7

func (d *driver) open(string) (int, error) {
	d.note("open")
	if d.openErr != nil {
		return -1, d.openErr
	}
	if d.held {
		return -1, unix.EBUSY
	}
	d.held, d.running, d.last = true, true, d.now
	if d.state != "" {
		if err := os.WriteFile(d.state, []byte("active\n"), 0o644); err != nil {
			return -1, err
		}
	}
	return driverFD, nil
}

func (d *driver) stop() error {
	if d.nowayout {
		return unix.EBUSY
	}
	if d.stopErr != nil {
		return d.stopErr
	}
	d.running = false
	if d.state != "" {
		return os.WriteFile(d.state, []byte("inactive\n"), 0o644)
	}
	return nil
}

func (d *driver) check(fd int) error {
	if fd != driverFD || !d.held {
		return unix.EBADF
	}
	return nil
}

func (d *driver) close(fd int) error {
	d.note("close")
	if err := d.check(fd); err != nil {
		return err
	}
	d.held = false
	if !d.running && !d.outside {
		return nil
	}
	magic := d.magic
	d.magic = false
	if (magic || d.options&unix.WDIOF_MAGICCLOSE == 0) && d.stop() == nil {
		return nil
	}
	d.feed()
	return nil
}

func (d *driver) feed() {
	d.last = d.now
	d.running = d.running || d.outside
}

func (d *driver) write(fd int, p []byte) error {
	if err := d.check(fd); err != nil {
		return err
	}
	if d.writeErr != nil {
		return d.writeErr
	}
	d.magic = false
	for _, c := range p {
		if c == 'V' {
			d.magic = true
			d.note("V")
		}
	}
	if d.feedErr != nil && !d.magic {
		return d.feedErr
	}
	d.feed()
	return nil
}

func (d *driver) keepAlive(fd int) error {
	if err := d.check(fd); err != nil {
		return err
	}
	if d.options&unix.WDIOF_KEEPALIVEPING == 0 {
		return unix.EOPNOTSUPP
	}
	if d.feedErr != nil {
		return d.feedErr
	}
	d.feed()
	return nil
}

func (d *driver) support(fd int) (*unix.WatchdogInfo, error) {
	if err := d.check(fd); err != nil {
		return nil, err
	}
	info := unix.WatchdogInfo{Options: d.options}
	copy(info.Identity[:], d.identity)
	return &info, d.supportErr
}

func (d *driver) setTimeout(fd, seconds int) error {
	d.note("settimeout")
	if err := d.check(fd); err != nil {
		return err
	}
	if d.fixed {
		return unix.ENOTTY
	}
	if d.accept != nil && !d.accept(seconds) {
		return unix.EINVAL
	}
	if d.round != nil {
		seconds = d.round(seconds)
	}
	d.seconds, d.last = seconds, d.now
	return nil
}

func (d *driver) timeout(fd int) (int, error) {
	if err := d.check(fd); err != nil {
		return 0, err
	}
	return d.seconds, d.getErr
}

func (d *driver) timeLeft(fd int) (int, error) {
	if err := d.check(fd); err != nil {
		return 0, err
	}
	if d.stale {
		return 60, nil
	}
	return int((d.left() + time.Second - 1) / time.Second), d.leftErr
}

func (d *driver) pretimeout(fd int) (int, error) { return d.early, d.check(fd) }

func (d *driver) bootStatus(fd int) (int, error) { return d.status, d.statusErr }

func (d *driver) disable(fd int) error {
	d.note("disable")
	if err := d.check(fd); err != nil {
		return err
	}
	if d.disableErr != nil {
		return d.disableErr
	}
	return d.stop()
}
