package rawdev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

// throttledIOPS is the number of I/Os per second of a throttled device.
const throttledIOPS = 2

// TestThrottledDevice lets the kernel slow a real block device down, like an overloaded storage: the engine keeps one
// I/O in flight, refuses the next one until it has ended, and reports each once, with its data, however late.
func TestThrottledDevice(t *testing.T) {
	dev := diskquorumtest.LoopDevice(t, diskquorumtest.File(t, 1<<20), 512)
	d := open(t, dev, Options{})
	ended := make(chan diskquorum.Completion, 1)
	e := NewEngine(d, boottime.Now, func(c diskquorum.Completion) { ended <- c })
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	free := throttle(t, d.number)
	begun := time.Now()
	const rounds = 4
	for i := range uint64(rounds) {
		data := bytes.Repeat([]byte{byte(i + 1)}, block)
		for _, op := range []diskquorum.Op{
			{ID: 2 * i, Kind: diskquorum.OpWrite, Offset: 3 * block, Data: data},
			{ID: 2*i + 1, Kind: diskquorum.OpRead, Offset: 3 * block, Length: block},
		} {
			if err := e.Submit(op); err != nil {
				t.Fatal(err)
			}
			refused := e.Submit(diskquorum.Op{ID: 99, Kind: diskquorum.OpRead, Length: block})
			c := <-ended
			if !errors.Is(refused, ErrBusy) && refused != nil {
				t.Errorf("a second I/O: %v", refused)
			}
			taken := refused == nil // the first I/O had already ended, and its buffer is the second's now
			if taken {
				<-ended
			}
			if c.ID != op.ID || c.Err != nil || c.Ended < c.Started {
				t.Fatalf("op %d: %+v", op.ID, c)
			}
			if op.Kind == diskquorum.OpRead && !taken && !bytes.Equal(c.Data, data) {
				t.Fatalf("round %d: read back %d", i, c.Data[0])
			}
		}
		if i == rounds-2 {
			if took := time.Since(begun); took < time.Second {
				t.Skipf("blkio does not throttle this device: %d writes and reads took %v", i+1, took)
			}
			free()
		}
	}
}

// throttle limits this process's I/O on a block device, until free is called or the test ends. It skips the test if
// control groups cannot do that.
func throttle(t *testing.T, device uint64) (free func()) {
	t.Helper()
	number := fmt.Sprintf("%d:%d", unix.Major(device), unix.Minor(device))
	name := fmt.Sprintf("fencing-agent-test-%d", os.Getpid())
	v1 := filepath.Join("/sys/fs/cgroup/blkio", name)
	v2 := filepath.Join("/sys/fs/cgroup", name)
	limits := map[string]string{}
	dir := v1
	iops := strconv.Itoa(throttledIOPS)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir = v2
		limits["io.max"] = number + " riops=" + iops + " wiops=" + iops
	} else {
		limits["blkio.throttle.read_iops_device"] = number + " " + iops
		limits["blkio.throttle.write_iops_device"] = number + " " + iops
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no control group for I/O here: %v", err)
	}
	inside := false
	free = func() {
		if dir == "" {
			return
		}
		if inside {
			if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "cgroup.procs"), []byte("0"), 0); err != nil {
				t.Error(err)
			}
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
		dir = ""
	}
	t.Cleanup(free)
	for file, limit := range limits {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(limit), 0); err != nil {
			t.Skipf("control groups cannot limit I/O here (CONFIG_BLK_DEV_THROTTLING, and the io controller in cgroup.subtree_control): %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
		t.Skipf("this process cannot enter a control group for I/O: %v", err)
	}
	inside = true
	return free
}
