package rawdev

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

const (
	hungWriterEnv  = "RAWDEV_TEST_HUNG_WRITER"
	hungWriterSlot = 3

	fiFreeze = 0xC0045877 // FIFREEZE and FITHAW of linux/fs.h, which x/sys/unix does not have
	fiThaw   = 0xC0045878
)

// TestHungWriterProcess is the earlier agent in TestLockProvesThatWritesHaveLanded.
func TestHungWriterProcess(t *testing.T) {
	path := os.Getenv(hungWriterEnv)
	if path == "" {
		t.Skip("runs only as a child of TestLockProvesThatWritesHaveLanded")
	}
	d := open(t, path, Options{})
	if err := d.LockSlot(hungWriterSlot); err != nil {
		t.Fatal(err)
	}
	fmt.Println("locked")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_, err := d.WriteAt(bytes.Repeat([]byte{7}, block), diskquorum.SlotOffset(hungWriterSlot, 0))
	t.Error("not killed", err)
}

// TestLockProvesThatWritesHaveLanded kills an agent whose write hangs in the kernel: its successor gets the slot's lock
// only when the write is on the device. A frozen file system makes the write hang, as uninterruptibly as a lost path.
func TestLockProvesThatWritesHaveLanded(t *testing.T) {
	dir := mountExt4(t)
	path := filepath.Join(dir, "lun")
	if err := os.WriteFile(path, make([]byte, 16*block), 0o600); err != nil {
		t.Fatal(err)
	}
	successor := open(t, path, Options{})

	child := exec.Command(os.Args[0], "-test.run=^TestHungWriterProcess$")
	child.Env = append(os.Environ(), hungWriterEnv+"="+path)
	stdin, err1 := child.StdinPipe()
	stdout, err2 := child.StdoutPipe()
	if err := errors.Join(err1, err2, child.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("child: %q, %v", line, err)
	}
	thaw := freeze(t, dir)
	if _, err := stdin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a thread of the child to hang", func() bool { return hangs(child.Process.Pid) })
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := successor.LockSlot(hungWriterSlot); !errors.Is(err, ErrSlotLocked) {
		t.Fatalf("the write hangs, its process is killed, and the slot's lock is: %v", err)
	}
	thaw()
	waitFor(t, "the lock", func() bool { return successor.LockSlot(hungWriterSlot) == nil })
	p := make([]byte, block)
	if _, err := successor.ReadAt(p, diskquorum.SlotOffset(hungWriterSlot, 0)); err != nil || p[0] != 7 {
		t.Errorf("the lock was free before the write had landed: %d, %v", p[0], err)
	}
	_ = child.Wait() // killed
}

// mountExt4 mounts a new small file system, or skips the test.
func mountExt4(t *testing.T) string {
	t.Helper()
	image := diskquorumtest.File(t, 32<<20)
	dev := diskquorumtest.LoopDevice(t, image, 512)
	if out, err := exec.Command("mkfs.ext4", "-q", dev).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v: %s", err, out)
	}
	dir := t.TempDir()
	if err := unix.Mount(dev, dir, "ext4", 0, ""); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// freeze makes all writes below dir hang until the returned function is called, which
// the end of the test does in any case.
func freeze(t *testing.T, dir string) (thaw func()) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetInt(int(f.Fd()), fiFreeze, 0); err != nil {
		t.Skipf("freeze: %v", err)
	}
	frozen := true
	thaw = func() {
		if frozen {
			frozen = false
			if err := unix.IoctlSetInt(int(f.Fd()), fiThaw, 0); err != nil {
				t.Errorf("thaw: %v", err)
			}
			_ = f.Close()
		}
	}
	t.Cleanup(thaw)
	return thaw
}

// hangs reports whether some thread of the process is in uninterruptible sleep in a write. It may briefly be in that
// state elsewhere, for example while a page of its program is read.
func hangs(pid int) bool {
	writes := strconv.Itoa(unix.SYS_PWRITE64) + " "
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(stat), ") D ") {
			continue
		}
		call, err := os.ReadFile(filepath.Join(filepath.Dir(path), "syscall"))
		if err != nil || strings.HasPrefix(string(call), writes) { // not every kernel shows the system call
			return true
		}
	}
	return false
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
