package wdt

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Sysrq takes the node down at once, through the kernel's emergency calls. They run no
// shutdown code: an orderly reboot(2) would stop many watchdogs first and then wait for devices, for
// ever if the storage is gone, with the node's processes still running.
type Sysrq struct{ path string }

// NewSysrq is the kernel's own trigger.
func NewSysrq() *Sysrq { return &Sysrq{path: "/proc/sysrq-trigger"} }

// Probe says whether the trigger could be pulled, without pulling it.
func (s *Sysrq) Probe() error {
	if err := unix.Faccessat(unix.AT_FDCWD, s.path, unix.W_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("open %s: %w: run as root, in a container privileged; or set watchdog.onFence to expire", s.path, err)
	}
	return nil
}

// Reboot resets the node at once, as the watchdog would. It does not return if it works.
func (s *Sysrq) Reboot() error { return s.pull("b") }

// Crash makes the kernel panic, which starts kdump where it is set up; the watchdog runs on.
// It does not return if it works.
func (s *Sysrq) Crash() error { return s.pull("c") }

func (s *Sysrq) pull(command string) error {
	f, err := os.OpenFile(s.path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("sysrq %s: %w", command, err)
	}
	_, err = f.WriteString(command)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("sysrq %s: %w", command, err)
	}
	return nil
}
