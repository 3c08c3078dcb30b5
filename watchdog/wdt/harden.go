package wdt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What keeps a loaded or starved host from starving the feeder. Each measure needs a
// privilege of its own; a missing one costs calm, never safety: a feeder that runs late
// lets a healthy node be reset.
const (
	measureMemory    = "memory"    // no page of the process is swapped or evicted
	measureScheduler = "scheduler" // the feeder's thread runs before all ordinary ones
	measureIO        = "io"        // the process's I/O goes first among its class
	measureOOM       = "oom"       // the OOM killer takes others first
)

var measures = [...]string{measureMemory, measureScheduler, measureIO, measureOOM}

const (
	// realtimePriority is low for SCHED_RR: kernel threads that drive interrupts and watchdogs are at 50 and above.
	realtimePriority = 10
	// oomScoreAdj makes the agent the last but not an impossible victim: with -1000 a leak of
	// its own would take everything else down before.
	oomScoreAdj = -999
	// ioPriority is best effort, level 0, the highest that needs no privilege.
	ioPriority = 2 << 13
)

var errMemlock = errors.New("RLIMIT_MEMLOCK is finite and there is no CAP_IPC_LOCK")

// host is the system calls of hardening; tests have one that refuses.
type host interface {
	lockMemory() error
	scheduleRealtime(priority int) error
	prioritizeIO(priority int) error
	adjustOOM(score int) error
}

// harden takes all measures for the process and the calling thread, which must be locked to
// its goroutine. It returns what could not be done, by measure.
func harden(h host) map[string]error {
	failed := map[string]error{}
	note := func(measure string, err error) {
		if err != nil {
			failed[measure] = err
		}
	}
	note(measureMemory, h.lockMemory())
	note(measureScheduler, h.scheduleRealtime(realtimePriority))
	note(measureIO, h.prioritizeIO(ioPriority))
	note(measureOOM, h.adjustOOM(oomScoreAdj))
	return failed
}

// linuxHost is the real host.
type linuxHost struct{ proc string }

// lockMemory keeps pages in memory from the first touch on (MCL_ONFAULT): the runtime
// reserves far more address space than it uses, which must not be filled. Without the
// privilege the kernel would count all of the reservation against RLIMIT_MEMLOCK, and refuse
// memory to a running agent; so nothing is tried then.
func (linuxHost) lockMemory() error {
	if err := mayLockMemory(); err != nil {
		return err
	}
	return unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT)
}

func mayLockMemory() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err == nil && limit.Cur == unix.RLIM_INFINITY {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	if data[0].Effective&(1<<unix.CAP_IPC_LOCK) == 0 {
		return errMemlock
	}
	return nil
}

// scheduleRealtime concerns the calling thread. Threads that the runtime makes from it
// start as ordinary ones.
func (linuxHost) scheduleRealtime(priority int) error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: uint32(priority),
	}, 0)
}

// prioritizeIO affects all present threads; later ones inherit it from them.
func (h linuxHost) prioritizeIO(priority int) error {
	threads, err := os.ReadDir(filepath.Join(h.proc, "self/task"))
	if err != nil {
		return err
	}
	const whoProcess = 1 // IOPRIO_WHO_PROCESS, which means one thread
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		_, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, uintptr(id), uintptr(priority))
		if errno != 0 && errno != unix.ESRCH { // a thread may have ended
			return errno
		}
	}
	return nil
}

// adjustOOM leaves a score alone that protects the process better already.
func (h linuxHost) adjustOOM(score int) error {
	path := filepath.Join(h.proc, "self/oom_score_adj")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if now, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && now <= score {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.Itoa(score))
	return errors.Join(err, f.Close())
}
