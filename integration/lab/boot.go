package lab

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// bootID is the file in which the kernel publishes the identifier of its boot.
const bootID = "/proc/sys/kernel/random/boot_id"

// boots contains, for each node, a file that replaces the kernel's boot id.
type boots struct {
	dir      string
	launcher []string
}

func (b *boots) path(node string) string { return filepath.Join(b.dir, node+".boot_id") }

// renew gives the node another boot. A process that has the old file mounted keeps it.
func (b *boots) renew(node string) error {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails (crypto/rand)
	text := fmt.Sprintf("%x-%x-%x-%x-%x\n", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	fresh := b.path(node) + ".new"
	if err := os.WriteFile(fresh, []byte(text), 0o644); err != nil {
		return fmt.Errorf("lab: boot of node %s: %w", node, err)
	}
	return os.Rename(fresh, b.path(node))
}

// argv returns the command that runs a node's agent in the node's boot.
func (b *boots) argv(node string, argv []string) []string {
	return append(append(append([]string{}, b.launcher...), b.path(node)), argv...)
}

// ownMounts gives this thread a separate mount namespace. The thread must then execute a program. It stays locked,
// because a parent-death signal also depends on the thread that executes.
func ownMounts() error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("lab: create mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("lab: make the mounts private: %w", err)
	}
	return nil
}

// ExecInBoot replaces this process by the command args[1:]. The file args[0] becomes the command's boot id: it is
// mounted over the kernel's file in a separate mount namespace. ExecInBoot returns only if that fails. It needs root,
// which may be root of a user namespace.
func ExecInBoot(args []string) error {
	if len(args) < 2 {
		return errors.New("lab: exec in boot: give a file and a command")
	}
	if err := ownMounts(); err != nil {
		return err
	}
	if err := unix.Mount(args[0], bootID, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("lab: mount %s over %s: %w", args[0], bootID, err)
	}
	parent := unix.Getppid()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("lab: set parent-death signal: %w", err)
	}
	if unix.Getppid() != parent {
		return errors.New("lab: the lab has ended")
	}
	return fmt.Errorf("lab: execute %s: %w", args[1], unix.Exec(args[1], args[1:], os.Environ()))
}
