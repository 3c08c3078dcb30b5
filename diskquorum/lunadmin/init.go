package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// InitOptions defines what to format and how.
type InitOptions struct {
	Path      string
	Cluster   string
	NodeGroup string
	Slots     int
	Force     bool          // overwrite a device with signatures or data, but never one that is in use
	Create    bool          // create Path as a new file of the required size
	Watch     time.Duration // how long to look for signs of life under Force; 0: three heartbeats, at least 3 s
	Progress  func(text string)

	kernel kernel // zero: this machine
}

// InitResult describes what was done.
type InitResult struct {
	Path       string
	Kind       string
	Bytes      int64 // size of the format
	Superblock diskquorum.Superblock
	Wiped      []Finding // findings that were overwritten under Force
	// WipedBehind is the number of bytes after the end of the format that were overwritten with zeros for this purpose.
	WipedBehind int
	Warnings    []string
}

// RefusedError tells why a device was not changed.
type RefusedError struct {
	Op     string // the verb; empty: init
	Path   string
	Reason string
	Forced bool // Force would not help, or was given
	Advice string
}

func (e *RefusedError) Error() string {
	if !e.Forced {
		return fmt.Sprintf("init %s: %s; nothing was written; if these data are not needed any more, --force overwrites them", e.Path, e.Reason)
	}
	op := e.Op
	if op == "" {
		op = "init"
	}
	return fmt.Sprintf("%s %s: %s; nothing was written; %s", op, e.Path, e.Reason, e.Advice)
}

// createFile creates a new file. It refuses paths in /dev: a file there would be on the root file system, or in memory,
// but would look like a device.
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

// idle is an open and locked device that has no other user on this host, with the other devices that are locked
// together with it.
type idle struct {
	*rawdev.Device
	relatives []*rawdev.Device
}

// Close closes the device and releases all locks.
func (d *idle) Close() error {
	closeAll(d.relatives)
	return d.Device.Close()
}

// openIdle opens the device exclusively, or returns an error that names the users of the device, of one of its
// partitions, or of the disk that it is a partition of.
func openIdle(o *InitOptions) (*idle, error) {
	refuse := func(reason string) error {
		return &RefusedError{Path: o.Path, Reason: reason, Forced: true, Advice: "release it first; --force does not override that"}
	}
	if users := pathUsers(o); len(users) > 0 {
		return nil, refuse(strings.Join(users, ", "))
	}
	dev, err := rawdev.Open(o.Path, rawdev.Options{Exclusive: true})
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%w For a lab, --create makes a file of the right size", err)
	case err != nil:
		return nil, err
	}
	d := &idle{Device: dev}
	err = dev.LockAll()
	if err == nil && dev.Number() != 0 {
		d.relatives, err = o.kernel.lockRelatives(devnoOf(dev.Number()))
	}
	if err != nil {
		_ = d.Close()
		if errors.Is(err, rawdev.ErrInUse) { // this error tells what to do
			return nil, &RefusedError{Path: o.Path, Reason: strings.TrimPrefix(err.Error(), "lock "+o.Path+": "), Forced: true, Advice: "--force does not override that"}
		}
		return nil, fmt.Errorf("init: %w", err)
	}
	if writers := o.kernel.writers(o.kernel.storage(o.Path)); len(writers) > 0 {
		_ = d.Close()
		return nil, refuse(strings.Join(writers, ", "))
	}
	return d, nil
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
	end   int64     // end of the area that will be overwritten
	found []Finding // findings that Force would overwrite
	looks []look    // pieces that must not change before the format
	rest  []byte    // bytes after the last whole block, as first read
	wiped []int64   // blocks after the area that were overwritten
}

// check reads the device and decides. It only reads.
func (f *formatter) check(ctx context.Context, number devno) error {
	if size := f.dev.Size(); size < f.end {
		return &RefusedError{Path: f.o.Path, Forced: true, Reason: fmt.Sprintf("is too small: %d bytes, %d slots need %d", size, f.sb.Slots, f.end),
			Advice: tooSmallAdvice(size, f.end)}
	}
	im := newImage(f.dev)
	im.addRest(f.o.Path)
	found, err := scan(im)
	if err != nil {
		return fmt.Errorf("init %s: look for signatures: %w", f.o.Path, err)
	}
	if names := f.o.kernel.partitionNames(number); len(names) > 0 {
		found = append(found, Finding{Name: "partitions " + strings.Join(names, ", ")})
	}
	old, oldErr := diskquorum.ReadSuperblock(im.at(0, 2*diskquorum.BlockSize))
	if oldErr == nil {
		f.end = max(f.end, min(diskquorum.DeviceSize(old.Slots), f.dev.Size()&^(diskquorum.BlockSize-1)))
	}
	at, err := f.survey(number, found, im)
	if err != nil {
		return fmt.Errorf("init %s: look for data: %w", f.o.Path, err)
	}
	if at >= 0 && len(found) == 0 {
		found = append(found, Finding{unknownData, []int64{at}})
	}
	f.found = found
	switch {
	case len(found) == 0:
		return nil
	case !f.o.Force:
		return &RefusedError{Path: f.o.Path, Reason: "carries " + f.describe(found, &old, oldErr)}
	}
	return f.watch(ctx)
}

// fits returns the greatest number of slots for which a device of that size is large enough; less than 2: none.
func fits(size int64) int {
	return int(min(diskquorum.MaxSlots, (size/diskquorum.BlockSize-3)/3))
}

func tooSmallAdvice(size, need int64) string {
	if n := fits(size); n >= 2 {
		return fmt.Sprintf("enlarge it to at least %d bytes, or use --slots %d", need, n)
	}
	return fmt.Sprintf("enlarge it to at least %d bytes; fewer slots need less, 2 slots only %d", need, diskquorum.DeviceSize(2))
}

// describe names the findings; for our own format, it also names the owner.
func (f *formatter) describe(found []Finding, old *diskquorum.Superblock, oldErr error) string {
	text := findingNames(found)
	if oldErr == nil {
		text += fmt.Sprintf(" (cluster %s, node group %s, %d slots, id %x)", clean(old.Cluster), clean(old.NodeGroup), old.Slots, old.ID)
	}
	if len(found) == 1 && found[0].Name == unknownData {
		text += fmt.Sprintf(" (wipefs -n %s may know it)", f.o.Path)
	}
	return text
}

const chunk = mib

// format writes and verifies. The superblocks are written last: without them no agent takes the device for a LUN of
// ours.
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
	if err := f.wipe(zero); err != nil {
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
		return fmt.Errorf("byte %d reads back differently: the device loses writes, or another program writes to it", at)
	}
	return f.checkWiped()
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
	boottime.Wait(ctx, d)
	return ended(ctx)
}
