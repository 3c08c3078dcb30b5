// Package keeper keeps one device of the LUN open: it opens the device, checks that it is the group's LUN, starts its
// engine, takes the lock of this node's slot, and opens the device again after an outage.
//
// A device that is missing, does not answer or has no superblock of ours is tried again for ever, and is written to
// only when it has our superblock. A device that can be read but is another group's LUN, or does not fit this group, is
// an error at the start that an operator has to correct.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// errContent marks a device that can be read but is not this group's LUN. At the start that is a mistake to be
// corrected, unlike a device that is only missing.
var errContent = errors.New("not the LUN of this group")

// absentError is an errContent of a device that has neither our superblock nor another group's: it was formatted for
// another purpose, zeroed or truncated, or has not been formatted yet. The configuration may be right, so the agent
// starts without the device (adr/0076).
type absentError struct{ error }

func (e absentError) Unwrap() error { return e.error }

// errEmpty is for a device without a size: the storage has mapped it but has not reported its size yet.
var errEmpty = fmt.Errorf("it has no bytes yet: %w", syscall.ENODATA)

const superblockSize = 2 * diskquorum.BlockSize

// errNotOpen completes operations while there is no device.
var errNotOpen = errors.New("the LUN is not open")

// closePatience is the time for which the agent's shutdown waits for an I/O in flight.
const closePatience = time.Second

// stopPatience is the time for which Run waits for a device that hangs in the kernel.
const stopPatience = 5 * time.Second

// reopenAfter is the number of operations that must fail in a row before the device is opened again.
const reopenAfter = 3

// Opened reports that the device has been opened.
type Opened struct {
	Device     int // position among the devices
	Superblock *diskquorum.Superblock
	Storage    string // the storage's name for the device, "" if it has none
	Warning    string
}

// Config holds the settings of a Keeper. The functions are called from the keeper's and the engine's goroutines, and
// from Lock and Submit; they must not block.
type Config struct {
	Device  int    // position among the devices of the LUN
	Path    string // of the device
	Cluster string
	Group   string
	Members int           // number of nodes that need slots
	Set     bool          // the device is one of three
	Retry   time.Duration // between two attempts to open it
	Clock   boottime.Clock
	Log     *slog.Logger
	Open    func(path string) (LUN, error) // Open
	Metrics *rawdev.Metrics                // nil: none
	// Stands describes, for people, the contents of a device that has no superblock of ours; nil: no description.
	Stands func(diskquorum.Device) (string, error)

	Opened func(Opened)
	Locked func(device int, err error) // the outcome of Lock
	Ended  func(diskquorum.Completion) // called for each operation that Submit accepted
}

// Keeper opens one device of the LUN, and opens it again after an outage. It never closes a device with an I/O in
// flight: that I/O may still land.
type Keeper struct {
	Config
	ended    func(diskquorum.Completion) // called at the end of each I/O
	reopen   boottime.Wake
	first    chan error    // receives the result of the first attempt, for the start of the agent
	notFirst chan struct{} // closed when the start no longer waits for that result

	mu       sync.Mutex // guards the fields below
	dev      LUN
	engine   *rawdev.Engine
	slot     int  // this node's slot, -1 before it is known
	wantLock bool // the lock of the slot was requested while there was no device
	locked   bool // this node's slot is locked on the present device
	fault    error
	sb       *diskquorum.Superblock // of the LUN when it was last opened

	lastID [16]byte // of the LUN with which this agent started; owned by Run
	wwid   string   // of that LUN's device; "": the storage has none
	known  bool

	failures     int // consecutive failed operations; this and the fields below are owned by Observe
	writeLatency time.Duration
	readLatency  time.Duration
}

// New returns a keeper of a device. Run opens the device.
func New(c Config) *Keeper {
	if c.Open == nil {
		c.Open = Open
	}
	k := &Keeper{Config: c, reopen: boottime.NewWake(), first: make(chan error), notFirst: make(chan struct{}), slot: -1}
	k.ended = func(done diskquorum.Completion) {
		done.Device = c.Device
		c.Ended(done)
	}
	if c.Metrics != nil {
		k.ended = c.Metrics.Instrument(c.Path, k.ended)
	}
	return k
}

// LUN is a device that can lock a slot against other agents of this host.
type LUN interface {
	diskquorum.Device
	LockSlot(slot int) error
	Warning() string
}

// Open opens the real device.
func Open(spec string) (LUN, error) {
	path, err := rawdev.Find(spec)
	if err != nil {
		return nil, err
	}
	return rawdev.Open(path, rawdev.Options{})
}

// Run keeps the device open until ctx ends, and then waits for a hanging I/O, but not for ever. It returns earlier if
// its first attempt ends with an error that is neither Away nor Absent, which First delivers.
func (k *Keeper) Run(ctx context.Context) { patiently(ctx, k.run) }

// First delivers the result of the first attempt to open the device. Run waits until the result has been received, or
// StartWithout has been called.
func (k *Keeper) First() <-chan error { return k.first }

// StartWithout tells the keeper to continue without a reader of First: the agent's start no longer waits.
func (k *Keeper) StartWithout(after time.Duration) {
	// A result that comes at this very moment is not received here: if it named a wrong LUN, Run would end, and the
	// device would never be checked again.
	close(k.notFirst)
	k.Log.Error("LUN does not answer; going on without the LUN until it answers", "device", k.Path, "after", after)
}

func (k *Keeper) run(ctx context.Context) {
	err := k.openOnce()
	select {
	case k.first <- err:
		if err != nil && !Away(err) && !Absent(err) {
			return // the start of the agent fails with this error
		}
	case <-k.notFirst:
	case <-ctx.Done(): // the start has failed for another reason
		if err == nil {
			k.close(ctx)
		}
		return
	}
	for {
		k.noteFault(err)
		if !k.waitForWork(ctx, err == nil) {
			return
		}
		err = k.openOnce()
	}
}

// waitForWork waits until the device has to be opened again; false when ctx ended.
func (k *Keeper) waitForWork(ctx context.Context, open bool) bool {
	if !open {
		t := time.NewTimer(k.Retry)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
			return true
		}
	}
	select {
	case <-ctx.Done():
	case <-k.reopen:
		k.Log.Warn("opening the LUN again: I/O failed repeatedly, or a read returned something other than our superblock", "device", k.Path)
	}
	k.close(ctx)
	return ctx.Err() == nil
}

func (k *Keeper) noteFault(err error) {
	k.mu.Lock()
	changed := (k.fault == nil) != (err == nil) || (err != nil && k.fault.Error() != err.Error())
	k.fault = err
	k.mu.Unlock()
	if !changed || err == nil {
		return
	}
	what := "LUN is not usable; equal splits cannot be arbitrated by this node until it is back"
	if k.Set {
		what = "LUN device is not usable; the other two of the set have to suffice until it is back"
	}
	k.Log.Error(what, "device", k.Path, "error", err, "retry", k.Retry)
}

// Absent reports whether the agent may start although opening the device failed with err: the device has neither our
// superblock nor another group's. Nothing is written to the device until it has our superblock.
func Absent(err error) bool {
	var absent absentError
	return errors.As(err, &absent)
}

// openOnce opens the device, checks that it is the group's LUN and starts its engine.
func (k *Keeper) openOnce() error {
	dev, err := k.Open(k.Path)
	if err != nil {
		return err
	}
	sb, err := k.identify(dev)
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	k.lastID, k.known = sb.ID, true
	if k.wwid == "" {
		k.wwid = wwid(dev)
	}
	k.mu.Lock()
	k.dev, k.locked, k.fault, k.sb = dev, false, nil, sb
	k.engine = rawdev.NewEngine(dev, k.Clock, k.ended)
	wantLock, slot := k.wantLock, k.slot
	k.mu.Unlock()
	k.Opened(Opened{Device: k.Device, Superblock: sb, Storage: k.wwid, Warning: dev.Warning()})
	if wantLock {
		k.Lock(slot)
	}
	return nil
}

// identify reads the superblock and compares it with the configuration.
func (k *Keeper) identify(dev LUN) (*diskquorum.Superblock, error) {
	switch size := dev.Size(); {
	case size == 0:
		return nil, fmt.Errorf("lun %s: %w", k.Path, errEmpty)
	case size < superblockSize:
		return nil, k.absent("it has only %d bytes; was it truncated?", size)
	}
	data := make([]byte, superblockSize)
	if _, err := dev.ReadAt(data, 0); err != nil {
		return nil, fmt.Errorf("read superblock of %s: %w", k.Path, err)
	}
	sb, err := diskquorum.ReadSuperblock(data)
	switch {
	case errors.Is(err, diskquorum.ErrVersion):
		return nil, fmt.Errorf("lun %s: %w: %w; %s", k.Path, errContent, err, k.formatAdvice())
	case err != nil:
		return nil, k.replaced(dev, err)
	case sb.Cluster != k.Cluster || sb.NodeGroup != k.Group:
		return nil, k.wrong("it is formatted for cluster %q, node group %q, and this agent belongs to cluster %q, node group %q; correct lun.devices, cluster or nodeGroup",
			sb.Cluster, sb.NodeGroup, k.Cluster, k.Group)
	case sb.Slots < k.Members:
		return nil, k.wrong("it has %d slots for %d members; format it with more --slots", sb.Slots, k.Members)
	case k.known && sb.ID != k.lastID && k.Set && sb.SetSize() == 1:
		return nil, k.wrong("it was formatted by itself since this agent started, and is one of a set; %s, and restart the agents one by one", k.formatAdvice())
	case k.known && sb.ID != k.lastID:
		return nil, k.wrong("it was formatted again since this agent started; restart the agents of this group one by one")
	case k.wwid != "" && wwid(dev) != "" && wwid(dev) != k.wwid:
		// A clone or a snapshot has the same superblock, but the other nodes do not write to it: each half of the group
		// could get a grant on a different copy.
		return nil, k.wrong("the path leads to another device, %s, than when this agent started, %s; map the LUN itself to this node, or restart all agents of the group where it was replaced",
			wwid(dev), k.wwid)
	case dev.Size() < diskquorum.DeviceSize(sb.Slots):
		return nil, k.absent("it is formatted for %d slots, which need %d bytes, but has only %d; was it truncated?", sb.Slots, diskquorum.DeviceSize(sb.Slots), dev.Size())
	}
	// If one copy of the superblock is ours and the other is overwritten, the device is not ours (B10).
	if _, err := diskquorum.OwnSuperblock(data, sb.ID, sb.Slots); err != nil {
		return nil, k.replaced(dev, err)
	}
	return &sb, nil
}

// wrong describes a readable device that is not the LUN of this group.
func (k *Keeper) wrong(format string, args ...any) error {
	what := errContent
	if k.known {
		what = diskquorum.ErrNotOurs
	}
	return fmt.Errorf("lun %s: %w: %w", k.Path, what, fmt.Errorf(format, args...))
}

// absent is like wrong, for a device whose LUN may come back.
func (k *Keeper) absent(format string, args ...any) error {
	return absentError{k.wrong(format, args...)}
}

// replaced is like absent, for a device that has other data instead of the superblock.
func (k *Keeper) replaced(dev LUN, err error) error {
	reason := strings.TrimPrefix(err.Error(), diskquorum.ErrNotOurs.Error()+": ")
	what := "something else"
	if k.Stands != nil {
		stands, err := k.Stands(dev)
		if err != nil {
			return k.absent("%s, and the rest of it cannot be read (%w); see to the storage first", reason, err)
		}
		what = stands
	}
	return k.absent("it now holds %s (%s); %s", what, reason, k.formatAdvice())
}

// wwid returns the storage's name of a device, or "".
func wwid(dev LUN) string {
	if d, ok := dev.(interface{ WWID() string }); ok {
		return d.WWID()
	}
	return ""
}

// formatAdvice tells how to format a device without a readable format. A single device of a set must not be formatted
// alone: the others would not know it.
func (k *Keeper) formatAdvice() string {
	if k.Set {
		return "format all devices of the set together, once, with fencectl lun init"
	}
	if k.known { // it was the LUN a moment ago, so another user writes to it now, by mistake or not
		return fmt.Sprintf("find out who uses it now; if nobody is allowed to, format it again with: "+
			"fencectl lun init --force %s --cluster %s --node-group %s --slots N, N at least %d, and restart the agents one by one",
			k.Path, k.Cluster, k.Group, max(2, k.Members))
	}
	return fmt.Sprintf("format it once with: fencectl lun init %s --cluster %s --node-group %s --slots N, N at least %d",
		k.Path, k.Cluster, k.Group, max(2, k.Members))
}

// close closes the device as soon as no I/O is in flight: an I/O that hangs may still land, and the arbiter waits for
// its end. When ctx has ended, it does not wait for long, and leaves device, engine and lock to an I/O that hangs.
func (k *Keeper) close(ctx context.Context) {
	k.mu.Lock()
	dev, engine := k.dev, k.engine
	k.dev, k.engine = nil, nil
	k.mu.Unlock()
	err := engine.Close(ctx)
	if err != nil {
		last, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		err = engine.Close(last)
	}
	if err != nil {
		k.Log.Warn("leaving the LUN with an I/O under way", "device", k.Path, "error", err)
		return
	}
	if err := dev.Close(); err != nil {
		k.Log.Warn("cannot close the LUN", "device", k.Path, "error", err)
	}
}

// Submit hands one operation to the engine; without a device it fails at once.
func (k *Keeper) Submit(now boottime.Instant, op diskquorum.Op) {
	err := k.trySubmit(op)
	if err != nil {
		k.Ended(diskquorum.Completion{ID: op.ID, Device: k.Device, Kind: op.Kind, Started: now, Ended: now, Err: err})
	}
}

func (k *Keeper) trySubmit(op diskquorum.Op) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.engine == nil {
		return errNotOpen
	}
	if op.Kind == diskquorum.OpWrite && !k.locked {
		// The device was opened again: no write before the slot's lock is held again.
		if err := k.dev.LockSlot(k.slot); err != nil {
			return err
		}
		k.locked = true
	}
	return k.engine.Submit(op)
}

// Lock locks a slot against other agents of this host and reports the outcome, as soon as
// there is a device. The call does not wait.
func (k *Keeper) Lock(slot int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.slot, k.wantLock = slot, k.dev == nil
	if k.wantLock {
		return // no report is better than one that looks as if another agent had the slot
	}
	err := k.dev.LockSlot(slot)
	k.locked = err == nil
	k.Locked(k.Device, err)
}

// Observe evaluates completions: it measures latency and decides whether to open the device again. Only one goroutine
// may call it, with the completions that Ended reports.
func (k *Keeper) Observe(c *diskquorum.Completion) {
	if errors.Is(c.Err, errNotOpen) {
		return
	}
	if c.Err != nil {
		k.failures++
		if k.failures >= reopenAfter {
			k.LookAgain()
		}
		return
	}
	k.failures = 0
	if d := c.Ended.Sub(c.Started); c.Kind == diskquorum.OpWrite {
		k.writeLatency = d
	} else {
		k.readLatency = d
	}
}

// LookAgain requests that the device is opened again, and so its superblock is read again, because I/O failed or showed
// another superblock.
func (k *Keeper) LookAgain() {
	k.failures = 0
	k.reopen.Signal()
}

// Latency returns how long the latest successful write and read took, of those that Observe has seen.
func (k *Keeper) Latency() (write, read time.Duration) { return k.writeLatency, k.readLatency }

// Superblock returns the device's superblock when it was last opened, or nil.
func (k *Keeper) Superblock() *diskquorum.Superblock {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sb
}

// Trouble returns why the device is not open, or "".
func (k *Keeper) Trouble() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fault != nil {
		return k.fault.Error()
	}
	return ""
}

// Away reports whether an error means that the device is missing or does not answer, which may pass by itself. If the
// device is something other than the LUN, an operator has to correct that.
func Away(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.EINVAL && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errContent) && !errors.Is(err, diskquorum.ErrNotOurs)
}

// patiently runs f, and waits for its end after the end of ctx, but not for ever: f may hang in the kernel.
func patiently(ctx context.Context, f func(context.Context)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	limit := time.NewTimer(stopPatience)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
	}
}
