package lab

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ncw/directio"
	"golang.org/x/sys/unix"
)

// TestSlowFile: an I/O on a loop device over the file takes the delay once, whether it reads a block or a table of
// slots. Several I/Os at once take it together.
func TestSlowFile(t *testing.T) {
	const delay = 300 * time.Millisecond
	lun, err := NewLUNFile(t.TempDir(), 1<<20)
	if err != nil {
		t.Skip(err)
	}
	defer lun.Close()
	slow, err := NewSlowFile(lun.Path)
	if err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := slow.Close(); err != nil {
			t.Error(err)
		}
	}()
	loops, err := LoopDevices(slow.Path, 2, 512)
	if err != nil {
		t.Skipf("no loop devices: %v", err)
	}
	defer loops.Close()
	device, err := os.OpenFile(loops.Paths[0], os.O_RDWR|unix.O_DIRECT|unix.O_DSYNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	other, err := os.OpenFile(loops.Paths[1], os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	slow.SetDelay(delay)

	block, table := directio.AlignedBlock(4096), directio.AlignedBlock(256<<10)
	for i := range block {
		block[i] = byte(i)
	}
	write := func() error { _, err := device.WriteAt(block, 8192); return err }
	read := func() error { _, err := other.ReadAt(table, 0); return err }
	// A busy machine makes I/Os slower, but never makes I/Os that wait for each other fast: one fast attempt of several
	// is enough.
	timed := func(what string, ios ...func() error) {
		t.Helper()
		var took time.Duration
		for range 20 {
			var all sync.WaitGroup
			began := time.Now()
			for _, io := range ios {
				all.Go(func() {
					if err := io(); err != nil {
						t.Error(what, err)
					}
				})
			}
			all.Wait()
			if took = time.Since(began); took < delay {
				t.Errorf("%s took %v, want %v", what, took, delay)
			}
			if took <= delay*3/2 {
				return
			}
		}
		t.Errorf("%s took %v, want %v", what, took, delay)
	}
	if err := errors.Join(write(), read()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(table[8192:][:4096], block) {
		t.Error("the other device does not show what was written")
	}
	if n := slow.IOs.Load(); n != 2 {
		t.Errorf("%d requests for two I/Os, those of the partition table's search included", n)
	}
	timed("a write", write)
	timed("a read of a table", read)
	timed("two writes and a read at once", write, func() error { _, err := device.WriteAt(block, 16384); return err }, read)
}
