package agentsim

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
	"github.com/fencing-agent/fencing-agent/diskquorum/keeper"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// leash is a process's descriptor of the machine's watchdog.
type leash struct {
	p    *process
	dead atomic.Bool
}

var (
	errKilled      = errors.New("the process was killed")
	errInterrupted = errors.New("interrupted before it took effect")
)

func (l *leash) Arm(timeout time.Duration) (watchdog.Info, error) {
	l.p.stop.pass()
	if l.dead.Load() {
		return watchdog.Info{}, errKilled
	}
	info, err := l.p.m.dog.Arm(timeout)
	if err == nil {
		l.p.m.w.fed(l.p)
	}
	return info, err
}

// Feed has no effect if the process is stopped, not even later: a feeder that was stopped before it looked at the clock
// looks again first (see the package doc).
func (l *leash) Feed() error {
	if l.p.stop.isShut() {
		l.p.stop.pass()
		return errInterrupted
	}
	if l.dead.Load() {
		return errKilled
	}
	err := l.p.m.dog.Feed()
	if err == nil {
		l.p.m.w.fed(l.p)
	}
	return err
}

func (l *leash) Shorten(timeout time.Duration) (time.Duration, error) {
	l.p.stop.pass()
	if l.dead.Load() {
		return 0, errKilled
	}
	return l.p.m.dog.Shorten(timeout)
}

// Known implements watchdog.Named.
func (l *leash) Known() watchdog.Driver { return l.p.m.dog.Known() }

// Look implements watchdog.Looker.
func (l *leash) Look() (watchdog.Countdown, bool) { return l.p.m.dog.Look() }

func (l *leash) Disarm() error {
	l.p.stop.pass()
	if l.dead.Load() {
		return errKilled
	}
	return l.p.m.dog.Disarm()
}

// lunClient is a process's descriptor of the LUN.
type lunClient struct {
	*diskquorumtest.MemDevice
	p      *process
	slot   int      // locked, or -1
	breaks breaking // the LUN that it leads to
	dead   atomic.Bool
}

var _ keeper.LUN = (*lunClient)(nil)

// openLUN opens the LUN for a process, with the faults that the machine's path has at that moment.
func (p *process) openLUN(string) (keeper.LUN, error) {
	p.stop.pass()
	w := p.m.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.ended {
		return nil, errKilled
	}
	c := &lunClient{MemDevice: p.m.lunOf().Client(), p: p, slot: -1, breaks: p.m.breaks}
	p.m.path.apply(c.MemDevice)
	p.m.clients = append(p.m.clients, c)
	return c, nil
}

func (c *lunClient) Warning() string { return "" }

// LockSlot excludes other processes of the machine, like a lock of the kernel. The lock is held until the descriptor is
// closed, and a descriptor with an I/O in flight stays open.
func (c *lunClient) LockSlot(slot int) error {
	c.p.m.w.mu.Lock()
	defer c.p.m.w.mu.Unlock()
	if holder := c.p.m.slots[slot]; holder != nil && holder != c {
		return fmt.Errorf("slot %d: held by another process of this machine", slot)
	}
	c.p.m.slots[slot], c.slot = c, slot
	return nil
}

func (c *lunClient) ReadAt(b []byte, off int64) (int, error) {
	if c.dead.Load() {
		return 0, errKilled
	}
	n, err := c.MemDevice.ReadAt(b, off)
	c.ended()
	return n, err
}

func (c *lunClient) WriteAt(b []byte, off int64) (int, error) {
	if c.dead.Load() {
		return 0, errKilled
	}
	n, err := c.MemDevice.WriteAt(b, off)
	c.ended()
	return n, err
}

func (c *lunClient) Close() error {
	c.p.m.w.mu.Lock()
	c.unlock()
	c.p.m.w.mu.Unlock()
	return c.MemDevice.Close()
}

// ended is called after each operation. A process in the kernel waits for its operations before it can die, and only
// then are its descriptors closed.
func (c *lunClient) ended() {
	c.p.stop.pass()
	c.p.m.w.mu.Lock()
	defer c.p.m.w.mu.Unlock()
	if c.p.ended {
		c.unlock()
	}
}

// The caller of unlock holds the world's mu.
func (c *lunClient) unlock() {
	if c.slot >= 0 && c.p.m.slots[c.slot] == c {
		delete(c.p.m.slots, c.slot)
	}
}

// lunPath is the state of the way from a machine to the LUN.
type lunPath struct {
	faults diskquorumtest.Faults
	hung   bool
	bad    bool // differs from a healthy path
}

func (l *lunPath) apply(d *diskquorumtest.MemDevice) {
	d.SetFaults(l.faults)
	if l.hung {
		d.Hang(diskquorumtest.HangBefore)
	}
}
