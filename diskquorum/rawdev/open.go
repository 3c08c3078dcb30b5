package rawdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// Options defines how a device is opened.
type Options struct {
	ReadOnly bool
	// Exclusive claims a block device (O_EXCL): Open fails with EBUSY while the device is mounted, or held by LVM,
	// device mapper, RAID or swap, and these cannot use it until Close. It has no effect on a regular file.
	Exclusive bool
}

const loopMajor = 7

const readOnlyHint = "the device is read-only: map the LUN read-write to this node"

// ErrNoDirectIO means that the file system of the path does not support O_DIRECT.
var ErrNoDirectIO = errors.New("direct I/O is not supported by this file system: use a block device, or a file in another directory")

// Open opens a block device or regular file for direct, synchronous I/O.
func Open(path string, o Options) (*Device, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, openError(path, o, err)
	}
	if kind := info.Mode(); !kind.IsRegular() && (kind&fs.ModeDevice == 0 || kind&fs.ModeCharDevice != 0) {
		return nil, openError(path, o, notBlock(kind))
	}
	flags := unix.O_DIRECT | unix.O_CLOEXEC
	if o.ReadOnly {
		flags |= os.O_RDONLY
	} else {
		flags |= os.O_RDWR | unix.O_DSYNC
	}
	if o.Exclusive && !info.Mode().IsRegular() {
		flags |= os.O_EXCL
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, openError(path, o, err)
	}
	d := &Device{file: f, path: path}
	if err := d.inspect(o); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if d.kind == KindBlock {
		d.advice, d.wwid = thisHost.advice(path, d.number), thisHost.wwid(d.number)
	}
	return d, nil
}

// inspect reads kind, size and sector size from the open descriptor.
func (d *Device) inspect(o Options) error {
	return d.control(func(fd int) error {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return fmt.Errorf("stat: %w", err)
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			d.kind, d.size, d.sector = KindFile, st.Size, diskquorum.BlockSize
			return nil
		case unix.S_IFBLK:
			d.kind, d.number = KindBlock, uint64(st.Rdev)
			if unix.Major(d.number) == loopMajor {
				d.kind = KindLoop
			}
			ro, err := unix.IoctlGetUint32(fd, unix.BLKROGET)
			if d.readOnly = err == nil && ro != 0; d.readOnly && !o.ReadOnly {
				return fmt.Errorf("%w: %s", unix.EROFS, readOnlyHint) // some drivers refuse only the write
			}
			return d.geometry(fd)
		}
		return notBlock(fs.ModeIrregular)
	})
}

func (d *Device) geometry(fd int) error {
	size32, err := unix.IoctlGetUint32(fd, unix.BLKSSZGET)
	if err != nil {
		return fmt.Errorf("logical sector size: %w", err)
	}
	sector := int(size32)
	if sector < 1 || sector > diskquorum.BlockSize || diskquorum.BlockSize%sector != 0 {
		return fmt.Errorf("logical sectors of %d bytes: only sizes that divide %d are supported; export the LUN with 512 or 4096",
			sector, diskquorum.BlockSize)
	}
	var size uint64
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.BLKGETSIZE64, uintptr(unsafe.Pointer(&size))); errno != 0 {
		return fmt.Errorf("size: %w", errno)
	}
	d.sector, d.size = sector, int64(size)
	return nil
}

// control runs f on the descriptor, which stays open until f returns.
func (d *Device) control(f func(fd int) error) error {
	rc, err := d.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := rc.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// notBlock returns the error for a path that cannot be a LUN: while the LUN is missing, a container runtime may have
// created a folder for a hostPath. The device may come later.
func notBlock(kind fs.FileMode) error {
	return fmt.Errorf("%w: the path is neither a block device nor a regular file (%v)", unix.ENOTBLK, kind)
}

// openError adds to the error what to do.
func openError(path string, o Options, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	hint := ""
	switch {
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("open %s: %w", path, ErrNoDirectIO)
	case errors.Is(err, unix.ENOTBLK):
		hint = "correct the path, or remove what is there and find out why the device is missing"
	case errors.Is(err, unix.ENOENT):
		hint = "is the node logged in to the storage, and is the path stable (/dev/disk/by-id/...)?"
	case !o.ReadOnly && isReadOnly(path, err):
		hint = readOnlyHint
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		hint = "run as root, or give the process the device (in a pod: hostPath and privileged)"
	case errors.Is(err, unix.EBUSY):
		hint = "the device is mounted, or held by LVM, multipath, RAID or swap: name the device on top, or release it"
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENOMEDIUM), errors.Is(err, unix.EIO):
		hint = "the device node exists but no device answers: check paths and session to the storage"
	default:
		return fmt.Errorf("open %s: %w", path, err)
	}
	return fmt.Errorf("open %s: %w: %s", path, err, hint)
}

// isReadOnly reports whether opening for writing failed because no process can write the device. Depending on the
// driver that is EROFS, EACCES or EPERM.
func isReadOnly(path string, err error) bool {
	if errors.Is(err, unix.EROFS) {
		return true
	}
	if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		return false
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	ro, err := unix.IoctlGetUint32(fd, unix.BLKROGET)
	return err == nil && ro != 0
}
