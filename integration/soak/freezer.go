package soak

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/integration/lab"
)

// freezer is a directory for the LUN on a separate file system, which can be frozen: writes do not end then. The file
// system is on a loop device, and only this process and its children see its mount. Without mkfs.ext4 and fsfreeze it
// is an ordinary directory.
type freezer struct {
	dir   string
	loops *lab.LoopSet // nil: cannot be frozen
	guard closer

	mu     sync.Mutex
	frozen bool
}

// newFreezer makes the folder below dir.
func newFreezer(dir string) (*freezer, error) {
	f := &freezer{dir: filepath.Join(dir, "lun")}
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		return nil, err
	}
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		return f, nil
	}
	if _, err := exec.LookPath("fsfreeze"); err != nil {
		return f, nil
	}
	image, err := lab.NewLUNFile(dir, 32<<20)
	if err != nil {
		return nil, err
	}
	f.loops, err = lab.LoopDevices(image.Path, 1, 512)
	if err != nil {
		return nil, err
	}
	if out, err := exec.Command(mkfs, "-q", "-F", f.loops.Paths[0]).CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("mkfs.ext4: %w: %s", err, bytes.TrimSpace(out)), f.loops.Close())
	}
	if err := unix.Mount(f.loops.Paths[0], f.dir, "ext4", 0, ""); err != nil {
		return nil, errors.Join(fmt.Errorf("mount %s: %w", f.loops.Paths[0], err), f.loops.Close())
	}
	if err := f.startGuard(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// startGuard starts a process that thaws the file system if this one is killed: its standard input ends then.
func (f *freezer) startGuard() error {
	cmd := exec.Command("/bin/sh", "-c", `cat >/dev/null; fsfreeze --unfreeze "$0" 2>/dev/null; exit 0`, f.dir)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start the guard of the frozen LUN: %w", err)
	}
	f.guard = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	return nil
}

type closer func() error

// canFreeze reports whether freeze works.
func (f *freezer) canFreeze() bool { return f.guard != nil }

func (f *freezer) freeze() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.guard == nil || f.frozen {
		return errors.New("the LUN cannot be frozen, or is frozen already")
	}
	err := f.run("--freeze")
	f.frozen = err == nil
	return err
}

func (f *freezer) thaw() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.frozen {
		return nil
	}
	f.frozen = false
	return f.run("--unfreeze")
}

func (f *freezer) run(how string) error {
	if out, err := exec.Command("fsfreeze", how, f.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("fsfreeze %s: %w: %s", how, err, bytes.TrimSpace(out))
	}
	return nil
}

// close thaws, unmounts and detaches. What it cannot undo ends with this process: the mount namespace and the loop
// device belong to it.
func (f *freezer) close() {
	if f.loops == nil {
		return
	}
	if f.guard != nil {
		_ = f.thaw()
		_ = f.guard()
	}
	_ = unix.Unmount(f.dir, unix.MNT_DETACH)
	_ = f.loops.Close()
}

// ownMounts executes this program again in a mount namespace of its own, once.
func ownMounts() error {
	const done = "SOAK_OWN_MOUNTS"
	if os.Getenv(done) != "" {
		return nil
	}
	if err := lab.OwnMounts(); err != nil {
		return err
	}
	return fmt.Errorf("execute this program again: %w", unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), done+"=1")))
}
