package wdt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/procfs"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// findHolder says, as an error, who has the watchdog open, under any of its device numbers.
// It is nil if no visible process has, apart from those to skip.
func (d *Device) findHolder(f facts, but ...int) error {
	processes, _ := os.ReadDir(d.proc)
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || slices.Contains(but, pid) {
			continue
		}
		dir := filepath.Join(d.proc, p.Name())
		program := func() string {
			comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
			return strings.TrimSpace(string(comm))
		}
		descriptors, err := os.ReadDir(filepath.Join(dir, "fd"))
		switch {
		case err != nil: // it ended, or we may not look
		case len(descriptors) > 0:
			switch {
			case !d.opened(filepath.Join(dir, "fd"), descriptors, f):
			case procfs.Killed(d.proc, pid): // a thread of it hangs, and keeps everything open
				return stuck(pid, program(), p.Name())
			default:
				return busy(pid, program())
			}
		default:
			if thread := d.leftBehind(dir, f); thread != "" {
				return stuck(pid, program(), thread)
			}
		}
	}
	return nil
}

// opened reports whether one of the descriptors in a folder of /proc is the watchdog.
func (d *Device) opened(folder string, descriptors []os.DirEntry, f facts) bool {
	return slices.ContainsFunc(descriptors, func(fd os.DirEntry) bool {
		mode, rdev, err := d.kernel.stat(filepath.Join(folder, fd.Name()))
		return err == nil && mode&unix.S_IFMT == unix.S_IFCHR && slices.Contains(f.rdevs, rdev)
	})
}

// leftBehind is the thread that has the watchdog open in a process that shows no descriptor, or "".
// A killed process is like that while a thread other than its first hangs in the kernel: the first is gone, and with
// it what /proc shows of the process, but all descriptors stay open.
func (d *Device) leftBehind(process string, f facts) string {
	threads, _ := os.ReadDir(filepath.Join(process, "task"))
	for _, t := range threads {
		folder := filepath.Join(process, "task", t.Name(), "fd")
		if descriptors, err := os.ReadDir(folder); err == nil && d.opened(folder, descriptors, f) {
			return t.Name()
		}
	}
	return ""
}

// heldError says which program holds a watchdog.
type heldError struct {
	error
	program string
}

func (e *heldError) Unwrap() error { return e.error }

// HeldBy is the name of the program that holds the watchdog, by an error of Probe; "": the error is another one.
func HeldBy(err error) string {
	if held := (*heldError)(nil); errors.As(err, &held) {
		return held.program
	}
	return ""
}

func busy(pid int, program string) error {
	if pid == 1 && program == "systemd" {
		return &heldError{fmt.Errorf("%w, %q (pid 1): set RuntimeWatchdogSec=off in /etc/systemd/system.conf and run `systemctl daemon-reexec`; "+
			"if it keeps the descriptor of an agent that was killed (FileDescriptorStoreMax), let it start the agent: `systemctl restart fencing-agent`", watchdog.ErrBusy, program), program}
	}
	held := &heldError{fmt.Errorf("%w, %q (pid %d): stop it; a watchdog has one owner", watchdog.ErrBusy, program, pid), program}
	if program == agentProgram {
		return &WrongError{held} // Invariant: a node has one agent. It is not waited for.
	}
	return held
}

// agentProgram is the name under which the kernel knows an agent.
const agentProgram = "fencing-agent"

func stuck(pid int, program, thread string) error {
	return &WrongError{fmt.Errorf("%w, %q (pid %d), which was killed and cannot end: its thread %s hangs in the kernel (see /proc/%d/task/%s/stack), most likely in an I/O to the LUN; "+
		"it ends when the storage answers or gives up, and the watchdog resets the node if its timeout is over first", watchdog.ErrBusy, program, pid, thread, pid, thread)}
}
