package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// InspectOptions say how to look at a LUN.
type InspectOptions struct {
	// Interval is the time between two reads, which shows whose slot moves. 0: two of the
	// slowest heartbeats; negative: read once.
	Interval time.Duration
	Now      func() time.Time // for the ages; nil: the wall clock
	Progress func(text string)
}

// maxInspect bounds the waiting for a slot that claims a long heartbeat interval.
const maxInspect = 30 * time.Second

// InspectPath opens a device read-only and inspects it.
func InspectPath(ctx context.Context, path string, o InspectOptions) (*Report, error) {
	dev, err := rawdev.Open(path, rawdev.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = dev.Close() }() // opened for reading: nothing can be lost
	r, err := Inspect(ctx, dev, o)
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", path, err)
	}
	r.Device = deviceReport(path, dev)
	if w := dev.Warning(); w != "" {
		r.Warnings = append(r.Warnings, w)
	}
	return r, nil
}

// Inspect reads a LUN, once or twice. It writes nothing.
func Inspect(ctx context.Context, dev diskquorum.Device, o InspectOptions) (*Report, error) {
	dev = &interruptible{ctx: ctx, Device: dev}
	if o.Now == nil {
		o.Now = time.Now
	}
	sb, err := openLUN(dev)
	if err != nil {
		return nil, err
	}
	first, err := readTable(ctx, dev, sb)
	if err != nil {
		return nil, err
	}
	before := report(first, sb, o.Now())
	wait := o.Interval
	if wait == 0 {
		wait = min(maxInspect, 2*slowestHeartbeat(first, sb))
	}
	if wait <= 0 || len(before.Slots) == 0 {
		return before, nil
	}
	if o.Progress != nil {
		o.Progress(fmt.Sprintf("watching for %v which slots move", wait))
	}
	started := time.Now()
	if err := sleep(ctx, wait); err != nil {
		return nil, err
	}
	watched := time.Since(started)
	second, err := readTable(ctx, dev, sb)
	if err != nil {
		return nil, err
	}
	now, err := diskquorum.ReadSuperblock(second)
	if err != nil || now != *sb {
		return nil, errors.New("the superblock changed while the LUN was watched: is an init running?")
	}
	after := report(second, sb, o.Now())
	after.WatchedSeconds = watched.Seconds()
	after.markMoving(before)
	return after, nil
}

// openLUN reads the superblock, or says what is there instead.
func openLUN(dev diskquorum.Device) (*diskquorum.Superblock, error) {
	const head = 2 * diskquorum.BlockSize
	if dev.Size() < head {
		return nil, fmt.Errorf("%d bytes are no LUN: the smallest has %d", dev.Size(), diskquorum.DeviceSize(2))
	}
	data, err := readAll(dev, head)
	if err != nil {
		return nil, err
	}
	sb, err := diskquorum.ReadSuperblock(data)
	if err != nil {
		return nil, explain(dev, err)
	}
	if need := diskquorum.DeviceSize(sb.Slots); dev.Size() < need {
		return nil, fmt.Errorf("truncated: %d bytes, the format's %d slots need %d; enlarge it again", dev.Size(), sb.Slots, need)
	}
	return &sb, nil
}

// Identity is the superblock of a LUN, which is opened for reading and soon given up, and which copies of it are damaged.
func Identity(ctx context.Context, spec string) (sb *diskquorum.Superblock, damaged []string, err error) {
	path, err := Find(spec)
	if err != nil {
		return nil, nil, err
	}
	type result struct {
		sb      *diskquorum.Superblock
		damaged []string
		err     error
	}
	done := make(chan result, 1)
	go func() { // to open a device can take as long as to read it
		dev, err := rawdev.Open(path, rawdev.Options{ReadOnly: true})
		if err != nil {
			done <- result{err: err}
			return
		}
		defer func() { _ = dev.Close() }() // opened for reading: nothing can be lost
		sb, err := openLUN(dev)
		if err != nil {
			done <- result{err: err}
			return
		}
		head, err := readAll(dev, int64(diskquorum.TableSize(0)))
		if err != nil {
			done <- result{err: err}
			return
		}
		done <- result{sb: sb, damaged: damagedCopies(head, sb)}
	}()
	select {
	case r := <-done:
		return r.sb, r.damaged, r.err
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("read %s: %w", path, ctx.Err())
	}
}

// explain says what is on a device without a usable superblock.
func explain(dev diskquorum.Device, cause error) error {
	if errors.Is(cause, diskquorum.ErrVersion) || errors.Is(cause, diskquorum.ErrSuperblocksDiffer) {
		return cause
	}
	stands, err := Stands(dev)
	switch {
	case err != nil:
		return fmt.Errorf("%w; what stands there instead cannot be read: %w", cause, err)
	case stands == zeros:
		return fmt.Errorf("not formatted yet: run `fencectl lun init` (%w)", cause)
	}
	return fmt.Errorf("no usable fencing-agent superblock (%w): it holds %s; is the path right?", cause, stands)
}

// markMoving compares with an earlier report of the same LUN.
func (r *Report) markMoving(before *Report) {
	earlier := map[int]*SlotReport{}
	for i := range before.Slots {
		earlier[before.Slots[i].Slot] = &before.Slots[i]
	}
	for i := range r.Slots {
		s := &r.Slots[i]
		if s.record == nil {
			continue // unknown is neither moving nor still
		}
		old := earlier[s.Slot]
		if old != nil && old.record == nil {
			continue
		}
		moving := old == nil || old.Sequence != s.Sequence || old.Process != s.Process
		s.Moving = &moving
	}
}
