package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// errContent marks a device that can be read and is not this group's LUN. At start that
// is a mistake to be corrected; a device that is merely away is not.
var errContent = errors.New("not the LUN of this group")

const superblockSize = 2 * diskquorum.BlockSize

// errNotOpen completes operations while there is no device.
var errNotOpen = errors.New("the LUN is not open")

// reopenAfter is how many operations must fail in a row before the device is opened anew.
const reopenAfter = 3

// lunOpened is the keeper's report to the loop.
type lunOpened struct {
	sb      *diskquorum.Superblock
	warning string
}

// lunKeeper opens the LUN, and opens it again when it was away. It never closes a device
// with an I/O in flight: that I/O may still land.
type lunKeeper struct {
	path      string
	cluster   string
	group     string
	members   int
	retry     time.Duration
	clock     boottime.Clock
	log       *slog.Logger
	box       *mailbox
	metrics   *rawdev.Metrics
	open      func(path string) (LUN, error)
	reopen    chan struct{} // capacity 1
	onOpening func(error)   // first result, for the start of the agent

	mu     sync.Mutex // guards what follows
	dev    LUN
	engine *rawdev.Engine
	locked bool // the own slot is locked on the present device
	fault  error

	slot   int      // own slot, -1 before it is known; the loop's
	lastID [16]byte // of the LUN this agent began with; the keeper's
	known  bool

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
	first := true
	for {
		err := k.openOnce()
		if first {
			k.onOpening(err)
			first = false
		}
		k.noteFault(err)
		wait := k.retry
		if err == nil {
			wait = 0
		}
		if !k.waitForWork(ctx, err == nil, wait) {
			k.close()
			return
		}
	}
}

// waitForWork waits until the device has to be opened again; false when ctx ended.
func (k *lunKeeper) waitForWork(ctx context.Context, open bool, retry time.Duration) bool {
	if !open {
		t := time.NewTimer(retry)
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
		return false
	case <-k.reopen:
		k.log.Warn("opening the LUN again after repeated failures", "device", k.path)
		k.close()
		return true
	}
}

func (k *lunKeeper) noteFault(err error) {
	k.mu.Lock()
	changed := (k.fault == nil) != (err == nil) || (err != nil && k.fault.Error() != err.Error())
	k.fault = err
	k.mu.Unlock()
	if changed && err != nil {
		k.log.Error("LUN not usable; equal splits cannot be arbitrated by this node until it is back",
			"device", k.path, "error", err, "retry", k.retry)
	}
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
	k.mu.Lock()
	k.dev, k.locked, k.fault = dev, false, nil
	k.engine = rawdev.NewEngine(dev, k.clock, k.metrics.Instrument(k.path, func(c diskquorum.Completion) {
		k.box.put(func(b *batch) { b.completions = append(b.completions, c) })
	}))
	k.mu.Unlock()
	k.lastID, k.known = sb.ID, true
	k.box.put(func(b *batch) { b.lun = append(b.lun, lunOpened{sb: sb, warning: dev.Warning()}) })
	return nil
}

// identify reads the superblock and compares it with the configuration.
func (k *lunKeeper) identify(dev LUN) (*diskquorum.Superblock, error) {
	if dev.Size() < superblockSize {
		return nil, fmt.Errorf("lun %s: %w: it has only %d bytes; was it truncated?", k.path, errContent, dev.Size())
	}
	data := make([]byte, superblockSize)
	if _, err := dev.ReadAt(data, 0); err != nil {
		return nil, fmt.Errorf("read superblock of %s: %w", k.path, err)
	}
	sb, err := diskquorum.ReadSuperblock(data)
	if err != nil {
		return nil, fmt.Errorf("lun %s: %w: %w; format it once with: fencectl lun init %s --cluster %s --node-group %s",
			k.path, errContent, err, k.path, k.cluster, k.group)
	}
	switch {
	case sb.Cluster != k.cluster || sb.NodeGroup != k.group:
		return nil, fmt.Errorf("lun %s: %w: it is formatted for cluster %q, node group %q, and this agent belongs to cluster %q, node group %q; correct lun.devices, cluster or nodeGroup",
			k.path, errContent, sb.Cluster, sb.NodeGroup, k.cluster, k.group)
	case sb.Slots < k.members:
		return nil, fmt.Errorf("lun %s: %w: it has %d slots for %d members; format it with more --slots", k.path, errContent, sb.Slots, k.members)
	case k.known && sb.ID != k.lastID:
		return nil, fmt.Errorf("lun %s: %w: it was formatted anew since this agent started; restart the agents of this group one by one", k.path, errContent)
	case dev.Size() < diskquorum.DeviceSize(sb.Slots):
		return nil, fmt.Errorf("lun %s: %w: it is formatted for %d slots, which need %d bytes, but has only %d; was it truncated?",
			k.path, errContent, sb.Slots, diskquorum.DeviceSize(sb.Slots), dev.Size())
	}
	return &sb, nil
}

// close gives the device up, unless an I/O is stuck in it: then device, engine and lock
// stay until it has ended.
func (k *lunKeeper) close() {
	k.mu.Lock()
	dev, engine := k.dev, k.engine
	k.dev, k.engine = nil, nil
	k.mu.Unlock()
	if engine == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := engine.Close(ctx); err != nil {
		k.log.Warn("leaving the LUN with an I/O under way", "device", k.path, "error", err)
	}
	if err := dev.Close(); err != nil {
		k.log.Warn("closing the LUN", "device", k.path, "error", err)
	}
}

// submit hands one operation to the engine; without a device it fails at once.
func (k *lunKeeper) submit(now boottime.Instant, op diskquorum.Op) {
	err := k.trySubmit(op)
	if err != nil {
		done := diskquorum.Completion{ID: op.ID, Kind: op.Kind, Started: now, Ended: now, Err: err}
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
		// A device that was opened anew: no write before the slot's lock is held again.
		if err := k.dev.LockSlot(k.slot); err != nil {
			return err
		}
		k.locked = true
	}
	return k.engine.Submit(op)
}

// lock locks a slot against other agents of this host and reports the outcome. The call
// does not wait.
func (k *lunKeeper) lock(slot int) {
	k.slot = slot
	k.mu.Lock()
	err := errNotOpen
	if k.dev != nil {
		if err = k.dev.LockSlot(slot); err == nil {
			k.locked = true
		}
	}
	k.mu.Unlock()
	k.box.put(func(b *batch) { b.locked = append(b.locked, err) })
}

// observe follows completions for latency and for the decision to open the device anew.
// It belongs to the loop.
func (k *lunKeeper) observe(c *diskquorum.Completion) {
	if c.Err != nil {
		k.failures++
		if k.failures >= reopenAfter && !errors.Is(c.Err, errNotOpen) {
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

// trouble says why the device is not open, or "".
func (k *lunKeeper) trouble() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fault != nil {
		return k.fault.Error()
	}
	return ""
}

// away reports whether an error means that the device is missing or does not answer, in
// contrast to being the wrong one.
func away(err error) bool {
	return err != nil && !errors.Is(err, errContent) && !errors.Is(err, fs.ErrPermission)
}
