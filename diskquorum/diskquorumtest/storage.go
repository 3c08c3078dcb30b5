package diskquorumtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ncw/directio"
)

// DirectDir returns a temporary directory whose file system supports O_DIRECT, or skips the test. The candidates are
// the test's temporary directory (TMPDIR), /var/tmp and the package's directory.
func DirectDir(t testing.TB) string {
	t.Helper()
	var tried []string
	for _, parent := range []string{t.TempDir(), "/var/tmp", "."} {
		dir, err := os.MkdirTemp(parent, "direct")
		if err != nil {
			tried = append(tried, err.Error())
			continue
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		if err := tryDirect(filepath.Join(dir, "probe")); err != nil {
			tried = append(tried, err.Error())
			continue
		}
		if dir, err = filepath.Abs(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Skipf("no directory with direct I/O, set TMPDIR to one: %s", strings.Join(tried, "; "))
	return ""
}

func tryDirect(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_DIRECT, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = f.WriteAt(directio.AlignedBlock(block), 0)
	return err
}

// File returns the path of a new file of zeros that supports O_DIRECT, or skips the test.
func File(t testing.TB, size int64) string {
	t.Helper()
	path := filepath.Join(DirectDir(t), "lun")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	return path
}

// loopAttempts is the number of devices that are tried.
const loopAttempts = 8

// LoopDevice returns a loop device over a file, with that logical sector size, or skips the test. Several calls over
// the same file simulate several nodes with the same LUN: each loop device has a separate page cache. It needs root.
//
// Other programs also use loop devices, and detach them by name: a device that is held open here stays attached to the
// file until the test ends. Partitions that its last user has left in the kernel are dropped (--partscan).
func LoopDevice(t testing.TB, file string, sector int, extra ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loop devices need root")
	}
	losetup, err := exec.LookPath("losetup")
	if err != nil {
		t.Skip("losetup is not installed")
	}
	args := append([]string{"--find", "--show", "--direct-io=on", "--partscan", "--sector-size", strconv.Itoa(sector)}, extra...)
	for range loopAttempts {
		out, err := exec.Command(losetup, append(args, file)...).CombinedOutput()
		if err != nil {
			t.Skipf("no loop device with sectors of %d bytes here: %v: %s", sector, err, strings.TrimSpace(string(out)))
		}
		dev := strings.TrimSpace(string(out))
		problem := hold(t, losetup, dev, file)
		if problem == "" {
			return dev
		}
		t.Logf("%s is not used: %s", dev, problem)
	}
	t.Skipf("%d loop devices, and none of them for this test alone", loopAttempts)
	return ""
}

// hold keeps the device open until the test ends, or returns why it cannot. Until then no other program gets the
// device.
func hold(t testing.TB, losetup, dev, file string) (problem string) {
	t.Helper()
	f, err := os.Open(dev)
	if err != nil {
		return err.Error()
	}
	name := filepath.Base(dev)
	backing := func() string {
		path, _ := os.ReadFile(filepath.Join("/sys/block", name, "loop/backing_file"))
		return strings.TrimSuffix(strings.TrimSpace(string(path)), " (deleted)")
	}
	if path, err := filepath.EvalSymlinks(file); err != nil || backing() != path {
		_ = f.Close()
		return fmt.Sprintf("it is over %q, and was detached before it could be held (%v)", backing(), err)
	}
	t.Cleanup(func() {
		// The device is open here, so the name still belongs to it: the detach takes effect when it is closed.
		if out, err := exec.Command(losetup, "--detach", dev).CombinedOutput(); err != nil {
			t.Error(fmt.Errorf("detach %s: %w: %s", dev, err, out))
		}
		_ = f.Close()
	})
	return ""
}
