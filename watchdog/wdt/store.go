package wdt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Store keeps a copy of the watchdog's descriptor outside of this process, so that the kernel sees no close when the
// process is killed: the countdown does not restart, and no other program can open the watchdog. Its methods do not
// block.
type Store interface {
	// Inherited is the descriptor that an agent before this one left; -1: there is none.
	Inherited() int
	// Keep leaves a copy. Whether it was taken is not known.
	Keep(fd int) error
	// Drop gives up the copy.
	Drop() error
}

// Use makes the device keep its descriptor in a store, and take over the one that it finds there when it is armed.
// gone reports whether the agent before this one has ended, and is called from any goroutine. Use comes before
// everything else.
func (d *Device) Use(s Store, gone func() bool) {
	d.store, d.gone = s, gone
	d.inherited.set(s.Inherited())
}

// heirloom is a descriptor, or none. [Device.Look] asks for it on any goroutine.
type heirloom struct{ next atomic.Int64 }

func (h *heirloom) set(fd int) { h.next.Store(int64(fd) + 1) }

// fd is -1 for none.
func (h *heirloom) fd() int { return int(h.next.Load()) - 1 }

// storeHolder is the process that keeps the store: systemd, in the same PID namespace.
const storeHolder = 1

var (
	errPredecessor = fmt.Errorf("%w: the agent before this one has not ended, and could still feed it", watchdog.ErrBusy)
	errNotStarted  = errors.New("the watchdog does not run by the descriptor that the agent before this one left")
)

// succeeds reports whether to arm the device with the descriptor that an earlier agent left. If there
// is none for this watchdog, or none that can be used, the device is opened.
//
// Invariant: two agents never feed one watchdog. If each opens the device itself, the kernel lets the second in only
// when the first is gone. A descriptor that is handed on gets round that. An agent that was killed can hang in a
// feed and finish it later, when this one has lost, too. So the lock that both take has to show that the first is
// gone, and no other process may be seen to have the device.
func (d *Device) succeeds(f facts) (bool, error) {
	if d.inherited.fd() < 0 {
		return false, nil
	}
	if !d.gone() {
		return false, errPredecessor
	}
	if !d.left(f) {
		// Another watchdog, which counts down, and which systemd keeps: it is not this agent's to stop.
		d.inherited.set(-1)
		return false, nil
	}
	if holder := d.findHolder(f, os.Getpid(), storeHolder); holder != nil {
		return false, holder
	}
	return true, nil
}

// left reports whether the descriptor that was left is of this watchdog.
func (d *Device) left(f facts) bool {
	fd := d.inherited.fd()
	if fd < 0 {
		return false
	}
	_, rdev, err := d.kernel.descriptor(fd)
	return err == nil && slices.Contains(f.rdevs, rdev)
}

// take is open for a descriptor that was left.
//
// Invariant: only if sysfs shows that the watchdog runs. To feed one that was stopped has no effect, and peers would
// take the node for guarded. An agent can be killed after it has stopped its watchdog and before systemd has dropped
// the descriptor.
func (d *Device) take(f facts) (fd int, ok bool) {
	if d.runs(f.name) {
		fd = d.inherited.fd()
		d.inherited.set(-1)
		return fd, true
	}
	d.dropInherited()
	return -1, false
}

// runs reports whether sysfs shows that a watchdog runs. Of one without a name it shows nothing.
func (d *Device) runs(name string) bool {
	state, _ := d.attribute(name, "state")
	return state == "active"
}

// dropInherited gives up a descriptor that is of no use. Until systemd has done so, too, the device is busy.
func (d *Device) dropInherited() {
	_ = d.store.Drop() // if it fails the device stays busy, and Arm says so
	fd := d.inherited.fd()
	d.inherited.set(-1)
	_ = d.kernel.close(fd)
}

// keep leaves a copy of the descriptor of a watchdog that was armed.
//
// Invariant: only if sysfs shows whether the watchdog runs, and the lock of this agent is held. The agent that
// takes the descriptor over must be able to know both. A watchdog that does not run would be taken for one that does,
// and peers would count on it.
func (d *Device) keep() {
	if d.store == nil || d.kept || !d.gone() || !d.runs(d.name) {
		return
	}
	d.kept = d.store.Keep(d.fd) == nil
}

// drop gives up the copy. It comes after the watchdog was stopped: the copy is then of no use, and its close of no
// effect.
func (d *Device) drop() {
	if d.kept {
		d.kept = false
		_ = d.store.Drop() // the device then stays busy, and the next Arm says so
	}
}

// dropStale gives up what systemd may have kept of an agent before this one and not handed over, where the device is
// busy. If that is why, it can be opened the next time, as it could if the agent before had had no store.
func (d *Device) dropStale(open error) {
	if d.store != nil && errors.Is(open, unix.EBUSY) && d.gone() {
		_ = d.store.Drop() // Arm fails either way
	}
}

// Kept reports whether systemd has the watchdog open. That can only be the copy of the descriptor: a watchdog can be
// opened only once. It may be called from any goroutine, and blocks for as long as reading /proc does.
func (d *Device) Kept() bool {
	f, err := d.survey()
	if err != nil || os.Getpid() == storeHolder {
		return false
	}
	folder := filepath.Join(d.proc, fmt.Sprint(storeHolder), "fd")
	descriptors, err := os.ReadDir(folder)
	return err == nil && d.opened(folder, descriptors, f)
}

// lookLeft is Look by the descriptor that was left, if sysfs does not show the state. To ask is not to feed.
func (d *Device) lookLeft(f facts) (c watchdog.Countdown, known bool) {
	if !d.left(f) {
		return c, false
	}
	seconds, err := d.kernel.timeout(d.inherited.fd())
	if err != nil || seconds <= 0 {
		return c, false
	}
	return watchdog.Countdown{Running: true, Timeout: time.Duration(seconds) * time.Second}, true
}
