package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// InitOptions say what to format and how.
type InitOptions struct {
	Path      string
	Cluster   string
	NodeGroup string
	Slots     int
	Force     bool          // overwrite what carries a signature or data; never what is in use
	Create    bool          // make Path a new file of the size that is needed
	Watch     time.Duration // how long to look for signs of life under Force; 0: three heartbeats, at least 3 s
	Progress  func(text string)

	kernel kernel // zero: this machine
}

// InitResult says what was done.
type InitResult struct {
	Path       string
	Kind       string
	Bytes      int64 // that the format takes
	Superblock diskquorum.Superblock
	Wiped      []Finding // overwritten under Force
	Warnings   []string
}

// RefusedError says why a device was left as it is.
type RefusedError struct {
	Op     string // the verb; empty: init
	Path   string
	Reason string
	Forced bool // Force would not help, or was given
	Advice string
}

func (e *RefusedError) Error() string {
	if !e.Forced {
		return fmt.Sprintf("init %s: %s; nothing was written; if nobody needs that any more, --force overwrites it", e.Path, e.Reason)
	}
	op := e.Op
	if op == "" {
		op = "init"
	}
	return fmt.Sprintf("%s %s: %s; nothing was written; %s", op, e.Path, e.Reason, e.Advice)
}

// createFile makes a new file. In /dev it would be a file of the root file system, or in
// memory, that looks like a device.
func createFile(path string, size int64) error {
	if abs, err := filepath.Abs(path); err != nil || strings.HasPrefix(abs, "/dev/") {
		return fmt.Errorf("create %s: a path in /dev is for devices; choose another directory for a file", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("create %s: it exists already; leave out --create to format it", path)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

// openIdle opens the device for this process alone, or says who uses it.
func openIdle(o *InitOptions) (*rawdev.Device, error) {
	refuse := func(reason string) error {
		return &RefusedError{Path: o.Path, Reason: reason, Forced: true, Advice: "release it first, --force does not override that"}
	}
	if users := pathUsers(o); len(users) > 0 {
		return nil, refuse(strings.Join(users, ", "))
	}
	dev, err := rawdev.Open(o.Path, rawdev.Options{Exclusive: true})
	switch {
	case errors.Is(err, os.ErrNotExist) && o.Cluster != "": // to be formatted, not to be mended
		return nil, fmt.Errorf("%w For a lab, --create makes a file of the right size", err)
	case err != nil:
		return nil, err
	}
	if err := dev.LockAll(); err != nil {
		_ = dev.Close()
		if errors.Is(err, rawdev.ErrInUse) {
			return nil, refuse(rawdev.ErrInUse.Error())
		}
		return nil, fmt.Errorf("init: %w", err)
	}
	return dev, nil
}

func pathUsers(o *InitOptions) []string {
	abs, err := filepath.Abs(o.Path)
	if err != nil {
		return nil
	}
	if number := o.kernel.numberOf(abs); number != "" {
		return o.kernel.users(number)
	}
	return o.kernel.fileUsers(abs, "")
}

// formatter is one run of Init on an open, locked device.
type formatter struct {
	o     *InitOptions
	dev   diskquorum.Device
	sb    *diskquorum.Superblock
	end   int64     // of what will be overwritten
	found []Finding // what Force is to overwrite
}

// check reads the device and decides. It only reads.
func (f *formatter) check(ctx context.Context, number devno) error {
	if size := f.dev.Size(); size < f.end {
		return &RefusedError{Path: f.o.Path, Forced: true, Reason: fmt.Sprintf("is too small: %d bytes, %d slots need %d", size, f.sb.Slots, f.end),
			Advice: tooSmallAdvice(size)}
	}
	im := newImage(f.dev)
	found, err := scan(im)
	if err != nil {
		return fmt.Errorf("init %s: look for signatures: %w", f.o.Path, err)
	}
	if names := f.o.kernel.partitionNames(number); len(names) > 0 {
		found = append(found, Finding{Name: "partitions " + strings.Join(names, ", ")})
	}
	old, oldErr := diskquorum.ReadSuperblock(im.at(0, 2*diskquorum.BlockSize))
	if oldErr == nil {
		f.end = max(f.end, min(old.Bytes(), f.dev.Size()&^(diskquorum.BlockSize-1)))
	}
	before, err := readAll(f.dev, f.end)
	if err != nil {
		return fmt.Errorf("init %s: look for data: %w", f.o.Path, err)
	}
	if at := firstNonZero(before); at >= 0 && len(found) == 0 {
		found = append(found, Finding{"data of an unknown format", []int64{int64(at)}})
	}
	f.found = found
	switch {
	case len(found) == 0:
		return nil
	case !f.o.Force:
		return &RefusedError{Path: f.o.Path, Reason: "carries " + f.describe(found, &old, oldErr)}
	}
	return f.watch(ctx, before, &old, oldErr == nil)
}

func tooSmallAdvice(size int64) string {
	fits := int(size/diskquorum.BlockSize-3) / 3
	if fits < 2 {
		return fmt.Sprintf("enlarge it to at least %d bytes", diskquorum.DeviceSize(2))
	}
	return fmt.Sprintf("enlarge it, or use --slots %d", fits)
}

// describe names the findings, our own format with its owner.
func (f *formatter) describe(found []Finding, old *diskquorum.Superblock, oldErr error) string {
	text := findingNames(found)
	if oldErr == nil {
		text += fmt.Sprintf(" (cluster %s, node group %s, %d slots, id %x)", clean(old.Cluster), clean(old.NodeGroup), old.Slots, old.ID)
	}
	return text
}

// minWatch is how long a forced init looks for signs of life at least; maxWatch bounds
// what a broken slot may claim as its heartbeat interval.
const (
	minWatch = 3 * time.Second
	maxWatch = 30 * time.Second
)

// watch refuses a device that somebody writes: a cluster that lives on it, or whatever
// else does. The whole area is compared, so it works without a readable superblock, too.
func (f *formatter) watch(ctx context.Context, before []byte, old *diskquorum.Superblock, readable bool) error {
	if firstNonZero(before) < 0 {
		return nil
	}
	duration := f.o.Watch
	if duration == 0 {
		duration = minWatch
		if readable {
			duration = max(duration, min(maxWatch, 3*slowestHeartbeat(before, old)))
		}
	}
	f.o.Progress(fmt.Sprintf("watching %s for %v for signs of life", f.o.Path, duration))
	step := max(1, min(duration/3, 500*time.Millisecond))
	for waited := time.Duration(0); waited < duration; waited += step {
		if err := sleep(ctx, step); err != nil {
			return stoppedOnTheWay(err, "init", f.o.Path, untouched)
		}
		now, err := readAll(f.dev, f.end)
		if err != nil {
			return fmt.Errorf("init %s: look for signs of life: %w", f.o.Path, err)
		}
		if at := firstDifference(before, now); at >= 0 {
			return &RefusedError{Path: f.o.Path, Forced: true, Reason: "is alive: " + whoWrites(now, int64(at), old, readable),
				Advice: "stop the program that writes it, --force does not override that"}
		}
	}
	return nil
}

// slowestHeartbeat is the greatest heartbeat interval that a slot announces.
func slowestHeartbeat(table []byte, sb *diskquorum.Superblock) time.Duration {
	var slowest time.Duration
	for _, s := range readSlots(table, sb) {
		if s.record != nil {
			slowest = max(slowest, s.record.HeartbeatInterval)
		}
	}
	return slowest
}

func whoWrites(table []byte, at int64, sb *diskquorum.Superblock, readable bool) string {
	slot := int(at/diskquorum.BlockSize-2) / 2
	if readable && at >= diskquorum.SlotOffset(0, 0) && slot < sb.Slots {
		name := "somebody"
		if s := readSlots(table, sb)[slot]; s.record != nil {
			name = clean(s.record.NodeName)
		}
		return fmt.Sprintf("%s writes slot %d", name, slot)
	}
	return fmt.Sprintf("somebody writes at byte %d", at)
}

const chunk = mib

// format writes and verifies. The superblocks come last: without them nobody takes the
// device for a LUN of ours.
func (f *formatter) format(ctx context.Context) error {
	f.o.Progress(fmt.Sprintf("writing %d bytes", f.end))
	zero := make([]byte, chunk)
	for off := int64(0); off < f.end; off += chunk {
		if err := ended(ctx); err != nil {
			return err
		}
		if _, err := f.dev.WriteAt(zero[:min(chunk, f.end-off)], off); err != nil {
			return err
		}
	}
	wiped, err := f.wipe(zero)
	if err != nil {
		return err
	}
	want := make([]byte, f.end)
	for which := range 2 {
		block := want[which*diskquorum.BlockSize : (which+1)*diskquorum.BlockSize]
		if err := diskquorum.EncodeSuperblock(block, f.sb, which); err != nil {
			return err
		}
		if _, err := f.dev.WriteAt(block, int64(which)*diskquorum.BlockSize); err != nil {
			return err
		}
	}
	f.o.Progress("reading it back")
	got, err := readAll(f.dev, f.end)
	if err != nil {
		return err
	}
	if at := firstDifference(want, got); at >= 0 {
		return fmt.Errorf("byte %d reads back differently: the device loses writes, or somebody else writes it", at)
	}
	for _, off := range wiped {
		block := make([]byte, diskquorum.BlockSize)
		if _, err := f.dev.ReadAt(block, off); err != nil {
			return err
		}
		if firstNonZero(block) >= 0 {
			return fmt.Errorf("byte %d reads back differently", off)
		}
	}
	return nil
}

// wipe zeroes the blocks of signatures behind the format, or the next scan, by us or by
// udev, would still find what is no longer there.
func (f *formatter) wipe(zero []byte) (wiped []int64, err error) {
	for _, finding := range f.found {
		for _, off := range finding.Offsets {
			start := off &^ (diskquorum.BlockSize - 1)
			if start < f.end {
				continue
			}
			if _, err := f.dev.WriteAt(zero[:diskquorum.BlockSize], start); err != nil {
				return nil, err
			}
			wiped = append(wiped, start)
		}
	}
	return wiped, nil
}

func readAll(dev diskquorum.Device, n int64) ([]byte, error) {
	out := make([]byte, n)
	for off := int64(0); off < n; off += chunk {
		if _, err := dev.ReadAt(out[off:min(n, off+chunk)], off); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func firstNonZero(b []byte) int {
	for i, c := range b {
		if c != 0 {
			return i
		}
	}
	return -1
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}
