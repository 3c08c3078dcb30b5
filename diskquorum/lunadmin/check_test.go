package lunadmin

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLUN(t)
		put(t, l, node(1, 2))
		before := l.Bytes()
		dev := l.Client()
		dev.SetFaults(diskquorumtest.Faults{
			ReadDelay: diskquorumtest.Span{Min: time.Millisecond, Max: time.Millisecond}, WriteDelay: diskquorumtest.Span{Min: 3 * time.Second, Max: 3 * time.Second},
		})
		var told []int
		r, err := check(t.Context(), dev, CheckOptions{Count: 5, Progress: func(done int) { told = append(told, done) }})
		if err != nil {
			t.Fatal(err)
		}
		if r.Count != 5 || r.Read != (Latency{1, 1, 1, 1}) || r.Write != (Latency{3000, 3000, 3000, 3000}) || r.Decision != 18006 || len(told) != 5 || r.Others != 0 {
			t.Errorf("report %+v, progress %v", r, told)
		}
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "took 3000 ms: beyond lun.ioTimeout") {
			t.Errorf("warnings %q", r.Warnings)
		}
		after := l.Bytes()
		scratch := int(diskquorum.ScratchOffset(testSB.Slots))
		if at := firstDifference(before[:scratch], after[:scratch]); at >= 0 {
			t.Errorf("byte %d outside the scratch block was written", at)
		}
		if at := firstDifference(before, after); at < scratch {
			t.Error("the scratch block was not written")
		}
	})
}

func TestLatency(t *testing.T) {
	var ds []time.Duration
	for i := 200; i > 0; i-- {
		ds = append(ds, time.Duration(i)*time.Millisecond)
	}
	if got := latency(ds); got != (Latency{100, 180, 198, 200}) {
		t.Errorf("of 1..200 ms: %+v", got)
	}
	if got := latency(ds[:1]); got != (Latency{1, 1, 1, 1}) {
		t.Errorf("of 1 ms: %+v", got)
	}
	if got := latency(nil); got != (Latency{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestCheckFindsFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults diskquorumtest.Faults
		want   string
	}{
		{"lost write", diskquorumtest.Faults{LostWrite: 1}, "round 1 of 9: read back other data than was written"},
		{"write error", diskquorumtest.Faults{WriteError: 1}, "round 1 of 9: write LUN"},
	} {
		dev := newLUN(t).Client()
		dev.SetFaults(c.faults)
		if _, err := check(t.Context(), dev, CheckOptions{Count: 9}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	t.Run("cache", func(t *testing.T) {
		dev := newLUN(t).Client()
		_, err := check(t.Context(), dev, CheckOptions{Count: 9, Progress: func(int) { dev.SetFaults(diskquorumtest.Faults{StaleRead: 1}) }})
		if err == nil || !strings.Contains(err.Error(), "read back write 0 instead of 1: there is a cache") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("path lost", func(t *testing.T) {
		dev := newLUN(t).Client()
		_, err := check(t.Context(), dev, CheckOptions{Count: 9, Progress: func(done int) {
			if done == 3 {
				dev.SetFaults(diskquorumtest.Dead())
			}
		}})
		if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "round 4 of 9") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := check(ctx, newLUN(t).Client(), CheckOptions{Count: 9, Progress: func(int) { cancel() }})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

// meddler is a check on another node that writes between our write and our read.
type meddler struct {
	diskquorum.Device
	t    *testing.T
	part int // bytes of its block that have landed
}

func (m *meddler) ReadAt(p []byte, off int64) (int, error) {
	if off == diskquorum.ScratchOffset(testSB.Slots) {
		theirs, mixed := make([]byte, diskquorum.BlockSize), make([]byte, diskquorum.BlockSize)
		if err := diskquorum.EncodeScratch(theirs, &testSB, 12345, 6); err != nil {
			m.t.Error(err)
		}
		if _, err := m.Device.ReadAt(mixed, off); err != nil {
			return 0, err
		}
		copy(mixed, theirs[:m.part])
		if _, err := m.Device.WriteAt(mixed, off); err != nil {
			return 0, err
		}
	}
	return m.Device.ReadAt(p, off)
}

func TestCheckOnSeveralNodes(t *testing.T) {
	m := &meddler{Device: newLUN(t).Client(), t: t, part: diskquorum.BlockSize}
	r, err := check(t.Context(), m, CheckOptions{Count: 4, Progress: func(done int) {
		if done == 3 {
			m.part = 1024
		}
	}})
	if err != nil || r.Others != 4 {
		t.Errorf("report %+v, %v", r, err)
	}
	m.part = 1024
	if _, err := check(t.Context(), m, CheckOptions{Count: 4}); err == nil || !strings.Contains(err.Error(), "tears single writes") {
		t.Errorf("torn blocks without another check: %v", err)
	}
}

// Two simultaneous checks on one LUN read each other's blocks; with a cache in between, or on two LUNs, they do not.
func TestChecksAtOnceShowWhoSharesTheLUN(t *testing.T) {
	for _, c := range []struct {
		name   string
		other  func(*diskquorumtest.LUN) *diskquorumtest.MemDevice
		shared bool
	}{
		{"one LUN", (*diskquorumtest.LUN).Client, true},
		{"a clone", func(l *diskquorumtest.LUN) *diskquorumtest.MemDevice {
			clone := diskquorumtest.NewLUN(int64(len(l.Bytes())), 1)
			clone.Modify(func(b []byte) { copy(b, l.Bytes()) })
			return clone.Client()
		}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLUN(t)
			devices := [2]*diskquorumtest.MemDevice{l.Client(), c.other(l)}
			var wg sync.WaitGroup
			for i, dev := range devices {
				dev.SetFaults(diskquorumtest.Faults{
					ReadDelay:  diskquorumtest.Span{Min: time.Millisecond, Max: 5 * time.Millisecond},
					WriteDelay: diskquorumtest.Span{Min: time.Millisecond, Max: 9 * time.Millisecond},
				})
				wg.Go(func() {
					if r, err := check(t.Context(), dev, CheckOptions{Count: 200}); err != nil || r.Others > 0 != c.shared {
						t.Errorf("%s, node %d: %+v, %v", c.name, i, r, err)
					}
				})
			}
			wg.Wait()
		})
	}
}
