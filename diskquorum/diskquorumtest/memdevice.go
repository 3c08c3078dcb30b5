package diskquorumtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// Span is a range of durations to draw from, both ends included.
type Span struct{ Min, Max time.Duration }

// Faults holds the faults of one client's operations. Numbers without a unit are probabilities per operation.
type Faults struct {
	ReadDelay, WriteDelay Span
	// Split splits a delayed operation into two steps, a prefix of its sectors some time before the rest: other clients
	// see a torn block, and a read is older in its first part.
	Split float64

	ReadError, WriteError float64 // EIO, nothing happened
	TornWrite             float64 // EIO, a prefix of the sectors was written
	LateWrite             float64 // EIO, but the write lands after a time out of Late
	Late                  Span

	LostWrite float64 // reported as done, not written
	StaleRead float64 // each sector as it was before its last write
}

// Dead returns the faults of a lost path: every operation fails at once.
func Dead() Faults { return Faults{ReadError: 1, WriteError: 1} }

// HangPoint is the point at which a hang holds an operation.
type HangPoint uint8

const (
	HangBefore HangPoint = iota + 1 // on the way to the LUN: the write has not landed, the read has not read the data
	HangAfter                       // on the way back: the write is on the LUN, the read has its data
)

// Outcome is the result of the operations that a hang held.
type Outcome uint8

const (
	Land       Outcome = iota + 1 // they are carried out now, late
	Lose                          // they fail, and do not reach the LUN
	Tear                          // they fail; a prefix of each write lands
	LandFailed                    // they fail, but each write lands
)

// Stats counts operations and their faults.
type Stats struct {
	Reads, Writes                                 int
	Errors, Torn, LateLandings, Lost, Stale, Held int
}

// MemDevice is one client of a LUN. It implements diskquorum.Device.
type MemDevice struct {
	lun *LUN

	mu     sync.Mutex
	rng    *rand.Rand
	faults Faults
	hang   *hang // nil: none
	held   int
	closed bool
	stats  Stats
}

type hang struct {
	point    HangPoint
	released chan struct{}
	outcome  Outcome // valid once released is closed
}

var _ diskquorum.Device = (*MemDevice)(nil)

// SetFaults replaces the faults for operations that start from now on.
func (d *MemDevice) SetFaults(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = f
}

// Hang holds every operation that starts after it, until Release.
func (d *MemDevice) Hang(at HangPoint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hang == nil {
		d.hang = &hang{point: at, released: make(chan struct{})}
	}
}

// Release ends the hang with one outcome for all held operations.
func (d *MemDevice) Release(o Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hang != nil {
		d.hang.outcome = o
		close(d.hang.released)
		d.hang = nil
	}
}

// Held returns the number of operations that a hang holds now.
func (d *MemDevice) Held() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held
}

// Stats returns the counts so far.
func (d *MemDevice) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Size returns the size of the LUN in bytes.
func (d *MemDevice) Size() int64 { return int64(len(d.lun.image)) }

// Close makes later operations fail. A hanging operation goes on hanging, as in a kernel.
func (d *MemDevice) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

// plan holds the faults of one operation, drawn when it starts.
type plan struct {
	hang          *hang
	before, after time.Duration // the operation takes place in between
	split         int           // bytes of the first step; 0: one step
	torn          int           // bytes that land before the error, if tear
	err, tear     bool
	late          time.Duration
	lands         bool // late
	ignore        bool // lost write, stale read
}

func (d *MemDevice) plan(op string, p []byte, off int64, write bool) (plan, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return plan{}, fmt.Errorf("%s LUN: %w", op, os.ErrClosed)
	}
	if len(p) == 0 || len(p)%diskquorum.BlockSize != 0 || off < 0 || off%diskquorum.BlockSize != 0 || off > d.Size()-int64(len(p)) {
		return plan{}, fmt.Errorf("%s LUN: %d bytes at %d of %d: not in whole blocks within the device", op, len(p), off, d.Size())
	}
	f, delay := &d.faults, d.faults.ReadDelay
	if write {
		delay = f.WriteDelay
	}
	total := d.draw(delay)
	pl := plan{hang: d.hang, torn: d.sectors(len(p))}
	pl.before = time.Duration(d.rng.Float64() * float64(total))
	pl.after = total - pl.before
	if d.chance(f.Split) {
		pl.split = d.sectors(len(p))
	}
	if !write {
		d.stats.Reads++
		pl.err, pl.ignore = d.chance(f.ReadError), d.chance(f.StaleRead)
		return pl, nil
	}
	d.stats.Writes++
	pl.err, pl.tear, pl.lands, pl.ignore = d.chance(f.WriteError), d.chance(f.TornWrite), d.chance(f.LateWrite), d.chance(f.LostWrite)
	pl.late = d.draw(f.Late)
	return pl, nil
}

// sectors draws the length of a proper, non-empty prefix of n bytes, in whole sectors. The caller holds d.mu.
func (d *MemDevice) sectors(n int) int {
	return (1 + d.rng.IntN(n/diskquorum.SectorSize-1)) * diskquorum.SectorSize
}

func (d *MemDevice) chance(p float64) bool { return d.rng.Float64() < p }

func (d *MemDevice) draw(s Span) time.Duration {
	return s.Min + time.Duration(d.rng.Int64N(int64(max(0, s.Max-s.Min))+1))
}

// wait holds the operation if the hang is at this point, and returns the outcome if it was held.
func (d *MemDevice) wait(h *hang, at HangPoint) Outcome {
	if h == nil || h.point != at {
		return 0
	}
	d.mu.Lock()
	d.held++
	d.stats.Held++
	d.mu.Unlock()
	<-h.released
	d.mu.Lock()
	d.held--
	d.mu.Unlock()
	return h.outcome
}

func (d *MemDevice) count(n *int) {
	d.mu.Lock()
	*n++
	d.mu.Unlock()
}

func (d *MemDevice) fail(op string, off int64) error {
	d.count(&d.stats.Errors)
	return fmt.Errorf("%s LUN: at %d: %w", op, off, syscall.EIO)
}

// ReadAt fills p from offset off.
func (d *MemDevice) ReadAt(p []byte, off int64) (int, error) {
	pl, err := d.plan("read", p, off, false)
	if err != nil {
		return 0, err
	}
	if o := d.wait(pl.hang, HangBefore); o != 0 && o != Land {
		return 0, d.fail("read", off)
	}
	pause(pl.before)
	if pl.err {
		pause(pl.after)
		return 0, d.fail("read", off)
	}
	if pl.ignore {
		d.count(&d.stats.Stale)
	}
	first := len(p)
	if pl.split > 0 {
		first = pl.split
	}
	d.lun.read(off, p[:first], pl.ignore)
	pause(pl.after)
	d.lun.read(off+int64(first), p[first:], pl.ignore)
	if o := d.wait(pl.hang, HangAfter); o != 0 && o != Land {
		return 0, d.fail("read", off)
	}
	return len(p), nil
}

// WriteAt writes p at offset off.
func (d *MemDevice) WriteAt(p []byte, off int64) (int, error) {
	pl, err := d.plan("write", p, off, true)
	if err != nil {
		return 0, err
	}
	switch d.wait(pl.hang, HangBefore) {
	case Lose:
		return 0, d.fail("write", off)
	case Tear:
		d.count(&d.stats.Torn)
		d.lun.write(off, p[:pl.torn])
		return 0, d.fail("write", off)
	case LandFailed:
		d.lun.write(off, p)
		return 0, d.fail("write", off)
	}
	pause(pl.before)
	if pl.err || pl.tear || pl.lands {
		d.halfWrite(&pl, p, off)
		pause(pl.after)
		return 0, d.fail("write", off)
	}
	switch {
	case pl.ignore:
		d.count(&d.stats.Lost)
		pause(pl.after)
	case pl.split > 0:
		d.lun.write(off, p[:pl.split])
		pause(pl.after)
		d.lun.write(off+int64(pl.split), p[pl.split:])
	default:
		d.lun.write(off, p)
		pause(pl.after)
	}
	if o := d.wait(pl.hang, HangAfter); o != 0 && o != Land {
		return 0, d.fail("write", off)
	}
	return len(p), nil
}

// halfWrite carries out the effect of a write that will be reported as failed.
func (d *MemDevice) halfWrite(pl *plan, p []byte, off int64) {
	switch {
	case pl.tear:
		d.count(&d.stats.Torn)
		d.lun.write(off, p[:pl.torn])
	case pl.lands:
		d.count(&d.stats.LateLandings)
		d.lun.writeLater(pl.after+pl.late, off, p)
	}
}

func pause(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}
