package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// InspectOptions defines how to inspect a LUN.
type InspectOptions struct {
	Count    int              // reads until the end; 0: until the context ends
	Interval time.Duration    // between two reads, which show the slots that change; 0: two of the slowest heartbeats
	Now      func() time.Time // to compute ages; nil: the wall clock
	Progress func(text string)
}

// maxInspect bounds the wait for a slot that states a long heartbeat interval.
const maxInspect = 30 * time.Second

// Inspect opens a device read-only, reads it repeatedly and passes each report to show. It writes nothing. Without a
// Count the end of the context is not an error.
func Inspect(ctx context.Context, path string, o InspectOptions, show func(*Report) error) error {
	err := onDevice(ctx, "inspect", path, rawdev.Options{ReadOnly: true}, func(dev *rawdev.Device, opened Opened) error {
		return inspect(ctx, dev, o, func(r *Report) error {
			r.add(opened)
			return show(r)
		})
	})
	if o.Count == 0 && ctx.Err() != nil {
		return nil
	}
	return err
}

// inspect is Inspect on an open device. A slot counts as moving if it was seen to change within two of its heartbeats,
// or within two intervals if that is longer.
func inspect(ctx context.Context, raw diskquorum.Device, o InspectOptions, show func(*Report) error) error {
	dev := &interruptible{ctx: ctx, Device: raw}
	if o.Now == nil {
		o.Now = time.Now
	}
	sb, err := openLUN(dev)
	if err != nil {
		return err
	}
	f := follower{sb: sb, seen: map[int]sighting{}}
	for n := 1; ; n++ {
		read := readOnce
		if n == 1 || n == o.Count { // only the damage in these reports counts
			read = readTable
		}
		table, err := read(ctx, dev, sb)
		if err != nil {
			return err
		}
		if now, err := diskquorum.ReadSuperblock(table); err != nil || now != *sb {
			return errors.New("the superblock changed while the LUN was watched: is an init running?")
		}
		if o.Interval <= 0 {
			o.Interval = min(maxInspect, 2*slowestHeartbeat(table, sb))
		}
		r := f.look(table, o.Now(), time.Now(), o.Interval)
		if err := show(r); err != nil || n == o.Count || o.Interval == 0 { // Interval 0: no slot has ever been written
			return err
		}
		if o.Progress != nil {
			o.Progress(fmt.Sprintf("watching for %v which slots move", o.Interval))
		}
		if err := sleep(ctx, o.Interval); err != nil {
			return err
		}
	}
}

// follower remembers when each slot was seen to change.
type follower struct {
	sb    *diskquorum.Superblock
	first time.Time
	seen  map[int]sighting
}

type sighting struct {
	sequence, process uint64
	at                time.Time // zero: it could not be read
	changed           bool      // the slot had another record before
}

// look returns the report of a table. wall is used for ages, clock is this machine's monotonic time.
func (f *follower) look(table []byte, wall, clock time.Time, interval time.Duration) *Report {
	if f.first.IsZero() {
		f.first = clock
	}
	r := report(table, f.sb, wall)
	r.WatchedSeconds = clock.Sub(f.first).Seconds()
	for i := range r.Slots {
		s := &r.Slots[i]
		before, known := f.seen[s.Slot]
		if s.record == nil {
			f.seen[s.Slot] = sighting{}
			continue // an unknown slot counts neither as moving nor as unchanged
		}
		unread := known && before.at.IsZero()
		if !known || before.sequence != s.record.Sequence || before.process != s.record.Process {
			before = sighting{s.record.Sequence, s.record.Process, clock, !unread && (known || clock != f.first)}
			f.seen[s.Slot] = before
		}
		age := clock.Sub(before.at)
		moving := before.changed && age <= 2*max(interval, min(s.record.HeartbeatInterval, maxWatch))
		if r.WatchedSeconds > 0 && !unread {
			s.Moving = &moving
		}
		if before.changed {
			seconds := age.Seconds()
			s.Unchanged = &seconds
		}
	}
	return r
}

// openLUN reads the superblock, or returns an error that describes the device's contents.
func openLUN(dev diskquorum.Device) (*diskquorum.Superblock, error) {
	const head = 2 * diskquorum.BlockSize
	if dev.Size() < head {
		return nil, fmt.Errorf("the device has %d bytes, too few for a LUN: the smallest LUN has %d", dev.Size(), diskquorum.DeviceSize(2))
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

// explain returns an error that describes the contents of a device without a usable superblock.
func explain(dev diskquorum.Device, cause error) error {
	if errors.Is(cause, diskquorum.ErrVersion) || errors.Is(cause, diskquorum.ErrSuperblocksDiffer) {
		return cause
	}
	stands, err := Stands(dev)
	switch {
	case err != nil:
		return fmt.Errorf("%w; what is there instead cannot be read: %w", cause, err)
	case stands == zeros:
		return fmt.Errorf("not formatted yet: run `fencectl lun init` (%w)", cause)
	}
	return fmt.Errorf("no usable fencing-agent superblock (%w): it holds %s; is the path right?", cause, stands)
}
