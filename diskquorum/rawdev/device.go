package rawdev

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/ncw/directio"
	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// Kind is the kind of object that the path of a Device names.
type Kind uint8

const (
	KindBlock Kind = iota + 1
	KindLoop       // a loop device: a block device for labs
	KindFile       // a regular file, for labs
)

func (k Kind) String() string {
	switch k {
	case KindBlock:
		return "block device"
	case KindLoop:
		return "loop device"
	case KindFile:
		return "regular file"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// ErrBadRange means that an offset or length is not in whole blocks within the device.
var ErrBadRange = errors.New("not in whole blocks within the device")

// Device is an open LUN. It implements diskquorum.Device.
type Device struct {
	file   *os.File
	path   string
	kind   Kind
	number uint64 // st_rdev of a block device
	sector int
	size   int64
	// readOnly: the kernel lets nobody write it.
	readOnly bool
	advice   []Advice // about the way to a block device
	wwid     string

	mu    sync.Mutex
	spare []byte // aligned buffer that no call uses
}

var _ diskquorum.Device = (*Device)(nil)

// Path returns the path by which the device was opened.
func (d *Device) Path() string { return d.path }

// Kind returns the kind of object that was opened.
func (d *Device) Kind() Kind { return d.kind }

// Number returns the device number (st_rdev) of a block device, 0 for a regular file.
func (d *Device) Number() uint64 { return d.number }

// SectorSize returns the logical sector size in bytes; BlockSize for a regular file.
func (d *Device) SectorSize() int { return d.sector }

// Size returns the size in bytes when the device was opened.
func (d *Device) Size() int64 { return d.size }

// WWID returns the identity that the storage gives a block device, if the kernel knows it: it distinguishes a LUN from
// its clone, which has the same superblock. Empty: unknown.
func (d *Device) WWID() string { return d.wwid }

// ReadOnly reports whether the kernel lets nobody write the device.
func (d *Device) ReadOnly() bool { return d.readOnly }

// Advice lists settings of the paths to the device that make a lost path hang for longer
// than an equal split takes to be decided, or another device appear under its name.
func (d *Device) Advice() []Advice { return d.advice }

// Warning reports that no agent can use this device, that it is for labs only, or the Advice; it is empty if there is
// nothing to report.
func (d *Device) Warning() string {
	if d.readOnly {
		return d.path + ": no agent can use it here: " + readOnlyHint
	}
	if d.kind == KindBlock {
		var texts []string
		for _, a := range d.advice {
			texts = append(texts, a.String())
		}
		return strings.Join(texts, "; ")
	}
	return fmt.Sprintf("%s is a %s: good for labs and demos, but in production only a LUN shared by all nodes can arbitrate", d.path, d.kind)
}

// ReadAt fills p from offset off, both in whole blocks.
func (d *Device) ReadAt(p []byte, off int64) (int, error) {
	if err := d.check("read", p, off); err != nil {
		return 0, err
	}
	buf := d.take(len(p))
	defer d.give(buf)
	n, err := d.file.ReadAt(buf, off)
	if errors.Is(err, io.EOF) {
		err = d.ended()
	}
	if err != nil {
		return 0, d.ioError("read", len(p), off, err)
	}
	return copy(p, buf[:n]), nil
}

// ended returns the error of a read that met the end before the size at the opening. A file has shrunk. A block device
// is gone: an NVMe controller that was given up takes its namespaces with it, and they come back as other devices. Such
// a device is away; it does not hold something else.
func (d *Device) ended() error {
	if d.kind == KindFile {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the device is gone, it reads as if it had no bytes: %w", unix.ENXIO)
}

// WriteAt writes p at offset off, both in whole blocks, and returns when it is durable.
func (d *Device) WriteAt(p []byte, off int64) (int, error) {
	if err := d.check("write", p, off); err != nil {
		return 0, err
	}
	buf := d.take(len(p))
	defer d.give(buf)
	copy(buf, p)
	n, err := d.file.WriteAt(buf, off)
	if err != nil {
		return n, d.ioError("write", len(p), off, err)
	}
	return n, nil
}

// Close closes the device. A call that hangs in the kernel keeps the description, and
// with it the slot lock, until it returns.
func (d *Device) Close() error {
	if err := d.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

func (d *Device) check(op string, p []byte, off int64) error {
	if len(p) == 0 || len(p)%diskquorum.BlockSize != 0 || off < 0 || off%diskquorum.BlockSize != 0 || off > d.size-int64(len(p)) {
		return fmt.Errorf("%s %s: %d bytes at %d of %d: %w", op, d.path, len(p), off, d.size, ErrBadRange)
	}
	return nil
}

func (d *Device) ioError(op string, n int, off int64, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if errors.Is(err, unix.EINVAL) {
		err = fmt.Errorf("%w: direct I/O in blocks of %d bytes is refused here; use a block device with sectors of at most that size",
			err, diskquorum.BlockSize)
	}
	return fmt.Errorf("%s %s: %d bytes at %d: %w", op, d.path, n, off, err)
}

// take returns an aligned buffer that no other call uses.
func (d *Device) take(n int) []byte {
	d.mu.Lock()
	buf := d.spare
	d.spare = nil
	d.mu.Unlock()
	if cap(buf) >= n {
		return buf[:n]
	}
	return directio.AlignedBlock(n)
}

// give takes a buffer back once the kernel is done with it.
func (d *Device) give(buf []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cap(buf) > cap(d.spare) {
		d.spare = buf
	}
}
