package rawdev

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

const block = diskquorum.BlockSize

func open(t testing.TB, path string, o Options) *Device {
	t.Helper()
	d, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestFileConformance(t *testing.T) {
	for _, c := range diskquorumtest.DeviceCases() {
		t.Run(c.Name, func(t *testing.T) {
			path := diskquorumtest.File(t, diskquorumtest.ConformanceBlocks*block)
			c.Run(t, open(t, path, Options{}), open(t, path, Options{}))
		})
	}
}

// TestLoopConformance runs the contract on real block devices: one device opened twice, and two devices over one file,
// like those of two nodes.
func TestLoopConformance(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		for _, c := range diskquorumtest.DeviceCases() {
			t.Run(c.Name, func(t *testing.T) {
				file := diskquorumtest.File(t, diskquorumtest.ConformanceBlocks*block)
				one := diskquorumtest.LoopDevice(t, file, sector)
				c.Run(t, open(t, one, Options{}), open(t, one, Options{}))
			})
			t.Run(c.Name+" on two nodes", func(t *testing.T) {
				file := diskquorumtest.File(t, diskquorumtest.ConformanceBlocks*block)
				one, two := diskquorumtest.LoopDevice(t, file, sector), diskquorumtest.LoopDevice(t, file, sector)
				c.Run(t, open(t, one, Options{}), open(t, two, Options{}))
			})
		}
	}
}

func TestLoopGeometry(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		path := diskquorumtest.LoopDevice(t, diskquorumtest.File(t, 64*block), sector)
		d := open(t, path, Options{})
		if d.SectorSize() != sector || d.Size() != 64*block || d.Kind() != KindLoop || d.Number() == 0 {
			t.Errorf("sectors %d, size %d, %v, number %d", d.SectorSize(), d.Size(), d.Kind(), d.Number())
		}
		if !strings.Contains(d.Warning(), "is a loop device") {
			t.Errorf("warning %q", d.Warning())
		}
	}
}

func TestFileGeometry(t *testing.T) {
	d := open(t, diskquorumtest.File(t, 3*block+100), Options{})
	if d.Size() != 3*block+100 || d.Kind() != KindFile || d.Number() != 0 || !strings.Contains(d.Warning(), "is a regular file") {
		t.Errorf("size %d, %v, number %d, warning %q", d.Size(), d.Kind(), d.Number(), d.Warning())
	}
	if (&Device{kind: KindBlock}).Warning() != "" {
		t.Error("a block device gets a warning")
	}
}

// TestBuffersAreAligned: some drivers need less alignment for O_DIRECT, but none needs more.
func TestBuffersAreAligned(t *testing.T) {
	var d Device
	for _, n := range []int{block, 3 * block, 2 * block, 512 * block} {
		b := d.take(n)
		if at := uintptr(unsafe.Pointer(&b[0])); at%block != 0 || len(b) != n {
			t.Errorf("%d bytes at %#x", len(b), at)
		}
		c := d.take(block)
		if &b[0] == &c[0] {
			t.Error("a buffer in use was handed out again")
		}
		d.give(b)
		d.give(c)
	}
}

func TestConcurrentIO(t *testing.T) {
	d := open(t, diskquorumtest.File(t, 64*block), Options{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			off := int64(g) * 8 * block
			for i := range 20 {
				n := (1 + i%8) * block
				want, got := bytes.Repeat([]byte{byte(g*20 + i)}, n), make([]byte, n)
				_, werr := d.WriteAt(want, off)
				_, rerr := d.ReadAt(got, off)
				if werr != nil || rerr != nil || !bytes.Equal(got, want) {
					t.Errorf("goroutine %d round %d: %v, %v", g, i, werr, rerr)
				}
			}
		})
	}
	wg.Wait()
}

func TestReadOnly(t *testing.T) {
	path := diskquorumtest.File(t, block)
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	d := open(t, path, Options{ReadOnly: true})
	if _, err := d.ReadAt(make([]byte, block), 0); err != nil {
		t.Error(err)
	}
	if _, err := d.WriteAt(make([]byte, block), 0); err == nil {
		t.Error("a read-only device was written")
	}
}

func TestShrunkFile(t *testing.T) {
	path := diskquorumtest.File(t, 4*block)
	d := open(t, path, Options{})
	if err := os.Truncate(path, block); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ReadAt(make([]byte, 2*block), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short read is %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := diskquorumtest.DirectDir(t)
	fifo, socketless := filepath.Join(dir, "fifo"), filepath.Join(dir, "missing")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, want string
		is         error
	}{
		{socketless, "logged in to the storage", os.ErrNotExist},
		{dir, "neither a block device nor a regular file", unix.ENOTBLK},
		{fifo, "neither a block device nor a regular file", unix.ENOTBLK},
		{"/dev/null", "neither a block device nor a regular file", unix.ENOTBLK},
	} {
		_, err := Open(c.path, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "open "+c.path+": ") {
			t.Errorf("open %s: %v", c.path, err)
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("open %s: %v is not %v", c.path, err, c.is)
		}
	}
}

// TestOpenHints checks the texts for errors that a test cannot provoke everywhere.
func TestOpenHints(t *testing.T) {
	for _, c := range []struct {
		err  error
		o    Options
		want string
	}{
		{unix.EINVAL, Options{}, "direct I/O is not supported"},
		{unix.EACCES, Options{ReadOnly: true}, "run as root"},
		{unix.EPERM, Options{}, "run as root"},
		{unix.EROFS, Options{}, "read-only"},
		{unix.EBUSY, Options{Exclusive: true}, "mounted, or held"},
		{unix.ENXIO, Options{}, "no device answers"},
		{unix.EIO, Options{}, "no device answers"},
		{unix.EMFILE, Options{}, "too many open files"},
	} {
		err := openError("/dev/none", c.o, &os.PathError{Op: "open", Path: "/dev/none", Err: c.err})
		if c.err != unix.EINVAL && !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "/dev/none") != 1 {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// TestNoDirectIO needs a file system without O_DIRECT; procfs is one that always exists.
func TestNoDirectIO(t *testing.T) {
	if _, err := Open("/proc/version", Options{ReadOnly: true}); !errors.Is(err, ErrNoDirectIO) {
		t.Errorf("open /proc/version: %v", err)
	}
}

func TestReadOnlyLoop(t *testing.T) {
	path := diskquorumtest.LoopDevice(t, diskquorumtest.File(t, 8*block), 512, "--read-only")
	if _, err := Open(path, Options{}); err == nil || !strings.Contains(err.Error(), "the device is read-only") {
		t.Errorf("open for writing: %v", err)
	}
	open(t, path, Options{ReadOnly: true})
}

func TestExclusive(t *testing.T) {
	path := diskquorumtest.LoopDevice(t, diskquorumtest.File(t, 8*block), 512)
	first := open(t, path, Options{Exclusive: true})
	if _, err := Open(path, Options{Exclusive: true}); !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "mounted, or held") {
		t.Errorf("second exclusive open: %v", err)
	}
	open(t, path, Options{})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path, Options{Exclusive: true})
}

// An NVMe namespace whose controller was given up reads as if it had no bytes: it is away, and has to be opened again.
func TestBlockDeviceThatIsGone(t *testing.T) {
	path := diskquorumtest.File(t, 4*block)
	d := open(t, path, Options{})
	d.kind = KindBlock
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ReadAt(make([]byte, block), 0); !errors.Is(err, unix.ENXIO) || !strings.Contains(err.Error(), "the device is gone") {
		t.Errorf("%v, want an error of a device that is away", err)
	}
}
