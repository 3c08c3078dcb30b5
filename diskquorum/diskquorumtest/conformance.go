package diskquorumtest

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// ConformanceBlocks is the minimum size of a device under test, in blocks, all of them zero.
const ConformanceBlocks = 8

// DeviceCase is one clause of the contract of diskquorum.Device. a and b are two opens
// of one LUN.
type DeviceCase struct {
	Name string
	Run  func(t *testing.T, a, b diskquorum.Device)
}

// DeviceCases returns the contract. It is a list because subtests cannot be started
// inside a synctest bubble, while each case can be run in one of its own.
func DeviceCases() []DeviceCase {
	return []DeviceCase{
		{"a blank device reads as zero", testBlank},
		{"both opens have the same size", testSize},
		{"what one writes the other reads at once", testShared},
		{"neighbouring blocks are left alone", testNeighbours},
		{"buffers need no alignment and are not kept", testBuffers},
		{"only whole blocks within the device", testRange},
		{"after close everything fails", testClosed},
	}
}

const block = diskquorum.BlockSize

func pattern(c byte, blocks int) []byte { return bytes.Repeat([]byte{c}, blocks*block) }

func mustWrite(t *testing.T, d diskquorum.Device, p []byte, off int64) {
	t.Helper()
	if n, err := d.WriteAt(p, off); err != nil || n != len(p) {
		t.Fatalf("write at %d: %d bytes, %v", off, n, err)
	}
}

func mustRead(t *testing.T, d diskquorum.Device, n int, off int64) []byte {
	t.Helper()
	p := pattern(0xEE, n)
	if n, err := d.ReadAt(p, off); err != nil || n != len(p) {
		t.Fatalf("read at %d: %d bytes, %v", off, n, err)
	}
	return p
}

func testBlank(t *testing.T, a, _ diskquorum.Device) {
	if got := mustRead(t, a, ConformanceBlocks, 0); !bytes.Equal(got, pattern(0, ConformanceBlocks)) {
		t.Error("a blank device has data")
	}
}

func testSize(t *testing.T, a, b diskquorum.Device) {
	if a.Size() != b.Size() || a.Size() < ConformanceBlocks*block {
		t.Errorf("sizes %d and %d", a.Size(), b.Size())
	}
}

func testShared(t *testing.T, a, b diskquorum.Device) {
	for i := range byte(50) {
		w, r := a, b
		if i%2 == 1 {
			w, r = b, a
		}
		mustWrite(t, w, pattern(i, 1), 3*block)
		if got := mustRead(t, r, 1, 3*block); !bytes.Equal(got, pattern(i, 1)) {
			t.Fatalf("round %d: read %#x...", i, got[0])
		}
	}
}

func testNeighbours(t *testing.T, a, b diskquorum.Device) {
	mustWrite(t, a, pattern(1, ConformanceBlocks), 0)
	mustWrite(t, b, pattern(2, 2), 2*block)
	want := pattern(1, ConformanceBlocks)
	copy(want[2*block:], pattern(2, 2))
	if got := mustRead(t, a, ConformanceBlocks, 0); !bytes.Equal(got, want) {
		t.Error("a write changed more than its blocks")
	}
}

func testBuffers(t *testing.T, a, b diskquorum.Device) {
	room := make([]byte, block+8)
	p := room[1 : 1+block]
	copy(p, pattern(7, 1))
	mustWrite(t, a, p, block)
	clear(p)
	if got := mustRead(t, b, 1, block); !bytes.Equal(got, pattern(7, 1)) {
		t.Error("the device kept the writer's buffer")
	}
	if n, err := b.ReadAt(p, block); err != nil || n != block || !bytes.Equal(p, pattern(7, 1)) {
		t.Errorf("unaligned read: %d bytes, %v", n, err)
	}
	if room[0] != 0 || !bytes.Equal(room[1+block:], make([]byte, 7)) {
		t.Error("a read wrote beside its buffer")
	}
	mustWrite(t, a, pattern(8, 1), block)
	if !bytes.Equal(p, pattern(7, 1)) {
		t.Error("the device kept the reader's buffer")
	}
}

func testRange(t *testing.T, a, _ diskquorum.Device) {
	end := a.Size() / block * block
	for _, c := range []struct {
		n   int
		off int64
	}{{0, 0}, {512, 0}, {block, 512}, {block - 1, 0}, {block, -block}, {block, end}, {2 * block, end - block}, {block, 1<<62 - 1<<62%block}} {
		if n, err := a.ReadAt(make([]byte, c.n), c.off); err == nil || n != 0 {
			t.Errorf("read of %d bytes at %d: %d bytes, %v", c.n, c.off, n, err)
		}
		if n, err := a.WriteAt(make([]byte, c.n), c.off); err == nil || n != 0 {
			t.Errorf("write of %d bytes at %d: %d bytes, %v", c.n, c.off, n, err)
		}
	}
}

func testClosed(t *testing.T, a, b diskquorum.Device) {
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Errorf("close twice: %v", err)
	}
	if _, err := a.ReadAt(make([]byte, block), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	if _, err := a.WriteAt(make([]byte, block), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	mustRead(t, b, 1, 0)
}
