package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// LiveOptions say how to follow a LUN.
type LiveOptions struct {
	Interval time.Duration    // between two reads; 0: one second
	Count    int              // reads until the end; 0: until the context ends
	Now      func() time.Time // for the ages; nil: the wall clock
}

// LivePath opens a device read-only and follows it until ctx ends, which is no error.
func LivePath(ctx context.Context, path string, o LiveOptions, show func(*Report) error) error {
	dev, err := rawdev.Open(path, rawdev.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = dev.Close() }() // opened for reading: nothing can be lost
	err = Live(ctx, dev, o, func(r *Report) error {
		r.Device = deviceReport(path, dev)
		if w := dev.Warning(); w != "" {
			r.Warnings = append(r.Warnings, w)
		}
		return show(r)
	})
	switch {
	case err == nil, ctx.Err() != nil:
		return nil
	}
	return fmt.Errorf("inspect %s: %w", path, err)
}

// Live reads a LUN again and again and hands each picture to show. A slot moves if it was
// seen to change within two of its heartbeats, or two intervals if those are longer. It
// writes nothing.
func Live(ctx context.Context, raw diskquorum.Device, o LiveOptions, show func(*Report) error) error {
	dev := &interruptible{ctx: ctx, Device: raw}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	sb, err := openLUN(dev)
	if err != nil {
		return err
	}
	f := follower{sb: sb, seen: map[int]sighting{}}
	for n := 1; ; n++ {
		table, err := readAll(dev, int64(diskquorum.TableSize(sb.Slots)))
		if err != nil {
			return err
		}
		if now, err := diskquorum.ReadSuperblock(table); err != nil || now != *sb {
			return errors.New("the superblock changed while the LUN was watched: is an init running?")
		}
		if err := show(f.look(table, o.Now(), time.Now(), o.Interval)); err != nil {
			return err
		}
		if n == o.Count {
			return nil
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
	at                time.Time
	changed           bool // it was another one before
}

// look reports what a table shows. wall is for the ages, clock is this machine's, monotonic.
func (f *follower) look(table []byte, wall, clock time.Time, interval time.Duration) *Report {
	if f.first.IsZero() {
		f.first = clock
	}
	r := report(table, f.sb, wall)
	r.WatchedSeconds = clock.Sub(f.first).Seconds()
	for i := range r.Slots {
		s := &r.Slots[i]
		if s.record == nil {
			continue // unknown is neither moving nor still
		}
		before, known := f.seen[s.Slot]
		if !known || before.sequence != s.record.Sequence || before.process != s.record.Process {
			before = sighting{s.record.Sequence, s.record.Process, clock, known || clock != f.first}
			f.seen[s.Slot] = before
		}
		age := clock.Sub(before.at)
		moving := before.changed && age <= 2*max(interval, min(s.record.HeartbeatInterval, maxWatch))
		if r.WatchedSeconds > 0 {
			s.Moving = &moving
		}
		if before.changed {
			seconds := age.Seconds()
			s.Unchanged = &seconds
		}
	}
	return r
}
