package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// errContent marks a device that can be read and is not this group's LUN. At start that
// is a mistake to be corrected; a device that is merely away is not.
var errContent = errors.New("not the LUN of this group")

// wipedError is an errContent of a device that nobody's format can be read from. Two others of a
// set do without it.
type wipedError struct{ error }

func (e wipedError) Unwrap() error { return e.error }

const superblockSize = 2 * diskquorum.BlockSize

// errNotOpen completes operations while there is no device.
var errNotOpen = errors.New("the LUN is not open")

// closePatience is how long the end of the agent waits for an I/O in flight.
const closePatience = time.Second

// reopenAfter is how many operations must fail in a row before the device is opened again.
const reopenAfter = 3

// lunOpened is the keeper's report to the loop.
type lunOpened struct {
	device  int
	sb      *diskquorum.Superblock
	storage string // the storage's name of the device, "" unless it tells one
	warning string
}

// lunLocked is the outcome of a slot lock that was asked for.
type lunLocked struct {
	device int
	err    error
}

// lunKeeper opens one device of the LUN, and opens it again when it was away. It never
// closes a device with an I/O in flight: that I/O may still land.
type lunKeeper struct {
	device  int // position in lun.devices
	path    string
	cluster string
	group   string
	members int
	set     bool // one of three devices
	retry   time.Duration
	clock   boottime.Clock
	log     *slog.Logger
	box     *mailbox
	open    func(path string) (LUN, error)
	ended   func(diskquorum.Completion) // takes the end of each I/O
	reopen  chan struct{}               // capacity 1

	first    chan error    // takes the first result, for the start of the agent
	notFirst chan struct{} // closed when the start does not wait for it any more

	mu       sync.Mutex // guards what follows
	dev      LUN
	engine   *rawdev.Engine
	slot     int  // own slot, -1 before it is known
	wantLock bool // the lock of the slot was asked for while there was no device
	locked   bool // this node's slot is locked on the present device
	fault    error
	sb       *diskquorum.Superblock // of the LUN as it was opened last

	lastID [16]byte // of the LUN this agent began with; the keeper's
	wwid   string   // of its device, "" unless the storage tells one
	known  bool

	troubles     troubleLog    // the loop's
	failures     int           // of operations, in a row; the loop's
	writeLatency time.Duration // the loop's
	readLatency  time.Duration
}

// LUN is a device that can lock a slot against other agents of this host.
type LUN interface {
	diskquorum.Device
	LockSlot(slot int) error
	Warning() string
}

// OpenLUN opens the real device.
func OpenLUN(path string) (LUN, error) { return rawdev.Open(path, rawdev.Options{}) }

// run keeps the LUN open until ctx ends.
func (k *lunKeeper) run(ctx context.Context) {
	err := k.openOnce()
	select {
	case k.first <- err:
		if err != nil && !away(err) && !k.spares(err) {
			return // the start of the agent ends with it
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
func (k *lunKeeper) waitForWork(ctx context.Context, open bool) bool {
	if !open {
		t := time.NewTimer(k.retry)
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
		k.log.Warn("opening the LUN again after repeated failures", "device", k.path)
	}
	k.close(ctx)
	return ctx.Err() == nil
}

func (k *lunKeeper) noteFault(err error) {
	k.mu.Lock()
	changed := (k.fault == nil) != (err == nil) || (err != nil && k.fault.Error() != err.Error())
	k.fault = err
	k.mu.Unlock()
	if !changed || err == nil {
		return
	}
	what := "LUN not usable; equal splits cannot be arbitrated by this node until it is back"
	if k.set {
		what = "LUN device not usable; both others of the set have to do until it is back"
	}
	k.log.Error(what, "device", k.path, "error", err, "retry", k.retry)
}

// spares reports whether the agent may start although opening the device ended with err: one of
// a set that was wiped. Nothing is written to it while its format cannot be read.
func (k *lunKeeper) spares(err error) bool {
	var wiped wipedError
	return k.set && errors.As(err, &wiped)
}

// openOnce opens the device, checks that it is the group's LUN and starts its engine.
func (k *lunKeeper) openOnce() error {
	dev, err := k.open(k.path)
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
	k.engine = rawdev.NewEngine(dev, k.clock, k.ended)
	wantLock, slot := k.wantLock, k.slot
	k.mu.Unlock()
	k.box.put(func(b *batch) {
		b.lun = append(b.lun, lunOpened{device: k.device, sb: sb, storage: k.wwid, warning: dev.Warning()})
	})
	if wantLock {
		k.lock(slot)
	}
	return nil
}

// identify reads the superblock and compares it with the configuration.
func (k *lunKeeper) identify(dev LUN) (*diskquorum.Superblock, error) {
	if dev.Size() < superblockSize {
		return nil, wipedError{fmt.Errorf("lun %s: %w: it has only %d bytes; was it truncated?", k.path, errContent, dev.Size())}
	}
	data := make([]byte, superblockSize)
	if _, err := dev.ReadAt(data, 0); err != nil {
		return nil, fmt.Errorf("read superblock of %s: %w", k.path, err)
	}
	sb, err := diskquorum.ReadSuperblock(data)
	if err != nil {
		err = fmt.Errorf("lun %s: %w: %w; %s", k.path, errContent, err, k.formatAdvice())
		if !errors.Is(err, diskquorum.ErrVersion) {
			err = wipedError{err}
		}
		return nil, err
	}
	switch {
	case sb.Cluster != k.cluster || sb.NodeGroup != k.group:
		return nil, fmt.Errorf("lun %s: %w: it is formatted for cluster %q, node group %q, and this agent belongs to cluster %q, node group %q; correct lun.devices, cluster or nodeGroup",
			k.path, errContent, sb.Cluster, sb.NodeGroup, k.cluster, k.group)
	case sb.Slots < k.members:
		return nil, fmt.Errorf("lun %s: %w: it has %d slots for %d members; format it with more --slots", k.path, errContent, sb.Slots, k.members)
	case k.known && sb.ID != k.lastID:
		return nil, fmt.Errorf("lun %s: %w: it was formatted again since this agent started; restart the agents of this group one by one", k.path, errContent)
	case k.wwid != "" && wwid(dev) != "" && wwid(dev) != k.wwid:
		// A clone or a snapshot has the same superblock, and nobody else writes to it: each half
		// of the group could be granted on a copy of its own.
		return nil, fmt.Errorf("lun %s: %w: the path leads to another device, %s, than when this agent started, %s; map the LUN itself to this node, or restart all agents of the group where it was replaced",
			k.path, errContent, wwid(dev), k.wwid)
	case dev.Size() < diskquorum.DeviceSize(sb.Slots):
		return nil, fmt.Errorf("lun %s: %w: it is formatted for %d slots, which need %d bytes, but has only %d; was it truncated?",
			k.path, errContent, sb.Slots, diskquorum.DeviceSize(sb.Slots), dev.Size())
	}
	return &sb, nil
}

// wwid is the storage's name of a device, or "".
func wwid(dev LUN) string {
	if d, ok := dev.(interface{ WWID() string }); ok {
		return d.WWID()
	}
	return ""
}

// formatAdvice says how a device without a readable format gets one. One device of a set must
// not be formatted by itself: the others would not know it, and an export could not restore it.
func (k *lunKeeper) formatAdvice() string {
	if k.set {
		return fmt.Sprintf("format all devices of the set together, once, with fencectl lun init, "+
			"or restore this one from its export with: fencectl lun import %s FILE", k.path)
	}
	return fmt.Sprintf("format it once with: fencectl lun init %s --cluster %s --node-group %s --slots N, N at least %d",
		k.path, k.cluster, k.group, max(2, k.members))
}

// close gives the device up as soon as no I/O is in flight: one that hangs may still
// land, and the arbiter waits for its end. Only when ctx has ended it does not wait for
// long, and leaves device, engine and lock to an I/O that hangs.
func (k *lunKeeper) close(ctx context.Context) {
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
		k.log.Warn("leaving the LUN with an I/O under way", "device", k.path, "error", err)
		return
	}
	if err := dev.Close(); err != nil {
		k.log.Warn("closing the LUN", "device", k.path, "error", err)
	}
}

// submit hands one operation to the engine; without a device it fails at once.
func (k *lunKeeper) submit(now boottime.Instant, op diskquorum.Op) {
	err := k.trySubmit(op)
	if err != nil {
		done := diskquorum.Completion{ID: op.ID, Device: k.device, Kind: op.Kind, Started: now, Ended: now, Err: err}
		k.box.put(func(b *batch) { b.completions = append(b.completions, done) })
	}
}

func (k *lunKeeper) trySubmit(op diskquorum.Op) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.engine == nil {
		return errNotOpen
	}
	if op.Kind == diskquorum.OpWrite && !k.locked {
		// A device that was opened again: no write before the slot's lock is held again.
		if err := k.dev.LockSlot(k.slot); err != nil {
			return err
		}
		k.locked = true
	}
	return k.engine.Submit(op)
}

// lock locks a slot against other agents of this host and reports the outcome, as soon as
// there is a device. The call does not wait.
func (k *lunKeeper) lock(slot int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.slot, k.wantLock = slot, k.dev == nil
	if k.wantLock {
		return // no answer is better than one that reads as if another agent had the slot
	}
	err := k.dev.LockSlot(slot)
	k.locked = err == nil
	k.box.put(func(b *batch) { b.locked = append(b.locked, lunLocked{k.device, err}) })
}

// observe follows completions for latency and for the decision to open the device again.
// It belongs to the loop.
func (k *lunKeeper) observe(c *diskquorum.Completion) {
	if errors.Is(c.Err, errNotOpen) {
		return
	}
	if c.Err != nil {
		k.failures++
		if k.failures >= reopenAfter {
			k.failures = 0
			select {
			case k.reopen <- struct{}{}:
			default:
			}
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

// superblock is that of the device as it was opened last, or nil.
func (k *lunKeeper) superblock() *diskquorum.Superblock {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sb
}

// trouble says why the device is not open, or "".
func (k *lunKeeper) trouble() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fault != nil {
		return k.fault.Error()
	}
	return ""
}

// away reports whether an error means that the device is missing or does not answer, which
// passes, in contrast to being something else than the LUN, which somebody has to correct.
func away(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.EINVAL && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errContent)
}
