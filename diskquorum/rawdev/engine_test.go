package rawdev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

// virtual returns a clock that follows the bubble's time.
func virtual() boottime.Clock {
	start := time.Now()
	return func() boottime.Instant { return boottime.Instant(time.Since(start) + time.Hour) }
}

func bubble(t *testing.T, f func(t *testing.T, e *Engine, dev *diskquorumtest.MemDevice, done chan diskquorum.Completion)) {
	synctest.Test(t, func(t *testing.T) {
		dev := diskquorumtest.NewLUN(16*block, 1).Client()
		done := make(chan diskquorum.Completion, 1)
		e := NewEngine(dev, virtual(), func(c diskquorum.Completion) { done <- c })
		f(t, e, dev, done)
		dev.Release(diskquorumtest.Lose)
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func write(id uint64, c byte) diskquorum.Op {
	return diskquorum.Op{ID: id, Kind: diskquorum.OpWrite, Offset: block, Data: bytes.Repeat([]byte{c}, block)}
}

func read(id uint64) diskquorum.Op {
	return diskquorum.Op{ID: id, Kind: diskquorum.OpRead, Length: 2 * block}
}

func submit(t *testing.T, e *Engine, op diskquorum.Op) {
	t.Helper()
	if err := e.Submit(op); err != nil {
		t.Fatal(err)
	}
}

func TestEngineReadsAndWrites(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine, dev *diskquorumtest.MemDevice, done chan diskquorum.Completion) {
		dev.SetFaults(diskquorumtest.Faults{WriteDelay: diskquorumtest.Span{Min: time.Second, Max: time.Second}})
		op := write(1, 7)
		submit(t, e, op)
		clear(op.Data) // the engine has its copy
		c := <-done
		if c.ID != 1 || c.Kind != diskquorum.OpWrite || c.Err != nil || c.Data != nil || c.Ended.Sub(c.Started) != time.Second {
			t.Errorf("write: %+v", c)
		}
		submit(t, e, read(2))
		c = <-done
		want := append(make([]byte, block), bytes.Repeat([]byte{7}, block)...)
		if c.ID != 2 || c.Kind != diskquorum.OpRead || c.Err != nil || !bytes.Equal(c.Data, want) || c.Started == 0 {
			t.Errorf("read: %d, %v, %v", c.ID, c.Kind, c.Err)
		}
	})
}

// Two writes of one operation take as long as one, and each has its own result.
func TestEngineWritesABlockBeside(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine, dev *diskquorumtest.MemDevice, done chan diskquorum.Completion) {
		dev.SetFaults(diskquorumtest.Faults{WriteDelay: diskquorumtest.Span{Min: time.Second, Max: time.Second}})
		op := write(1, 7)
		op.Beside, op.BesideAt = bytes.Repeat([]byte{8}, block), 0
		submit(t, e, op)
		clear(op.Beside)
		if c := <-done; c.Err != nil || c.BesideErr != nil || c.Ended.Sub(c.Started) != time.Second {
			t.Errorf("write: %+v", c)
		}
		submit(t, e, read(2))
		if c, want := <-done, append(bytes.Repeat([]byte{8}, block), bytes.Repeat([]byte{7}, block)...); !bytes.Equal(c.Data, want) {
			t.Errorf("read %v", c.Data)
		}
		dev.SetFaults(diskquorumtest.Dead())
		op.ID, op.Beside = 3, bytes.Repeat([]byte{8}, block)
		submit(t, e, op)
		if c := <-done; c.Err == nil || c.BesideErr == nil {
			t.Errorf("write to a dead device: %+v", c)
		}
	})
}

// The superblock is read at the same time as a write; the completion reports when that read ended.
func TestEngineSaysWhenTheSuperblockWasRead(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine, dev *diskquorumtest.MemDevice, done chan diskquorum.Completion) {
		dev.SetFaults(diskquorumtest.Faults{WriteDelay: diskquorumtest.Span{Min: time.Second, Max: time.Second}})
		op := write(1, 7)
		op.Own = true
		submit(t, e, op)
		if c := <-done; c.Own == nil || c.OwnEnded != c.Started || c.Ended.Sub(c.Started) != time.Second {
			t.Errorf("%d bytes, read at %v of %v to %v", len(c.Own), c.OwnEnded, c.Started, c.Ended)
		}
	})
}

func TestEngineHungDevice(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine, dev *diskquorumtest.MemDevice, done chan diskquorum.Completion) {
		if _, ok := e.InFlight(); ok {
			t.Error("in flight before the first operation")
		}
		dev.Hang(diskquorumtest.HangBefore)
		submit(t, e, write(1, 7))
		since, ok := e.InFlight()
		if !ok || since != e.clock() {
			t.Errorf("in flight since %v, %v", since, ok)
		}
		time.Sleep(time.Hour)
		for range 3 {
			if err := e.Submit(read(2)); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "1h0m0s") {
				t.Errorf("submit while hung: %v", err)
			}
		}
		if s := dev.Stats(); s.Writes != 1 || s.Reads != 0 {
			t.Errorf("the engine did something on its own: %+v", s)
		}
		dev.Release(diskquorumtest.Land)
		if c := <-done; c.ID != 1 || c.Err != nil || c.Ended.Sub(c.Started) != time.Hour || c.Started != since {
			t.Errorf("completion %+v", c)
		}
		if _, ok := e.InFlight(); ok {
			t.Error("in flight after the completion")
		}
		submit(t, e, read(3))
		if c := <-done; c.Err != nil || c.Data[block] != 7 {
			t.Errorf("read after the hang: %v", c.Err)
		}
	})
}

func TestEngineErrors(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine, dev *diskquorumtest.MemDevice, done chan diskquorum.Completion) {
		dev.SetFaults(diskquorumtest.Dead())
		for i, op := range []diskquorum.Op{write(0, 1), read(1)} {
			submit(t, e, op)
			if c := <-done; c.ID != uint64(i) || c.Err == nil || c.Data != nil {
				t.Errorf("completion %+v", c)
			}
		}
		for name, op := range map[string]diskquorum.Op{
			"no kind":             {},
			"empty read":          {Kind: diskquorum.OpRead},
			"half block":          {Kind: diskquorum.OpRead, Length: 512},
			"negative length":     {Kind: diskquorum.OpRead, Length: -block},
			"unaligned offset":    {Kind: diskquorum.OpRead, Length: block, Offset: 512},
			"negative offset":     {Kind: diskquorum.OpWrite, Data: make([]byte, block), Offset: -block},
			"half block write":    {Kind: diskquorum.OpWrite, Data: make([]byte, 512)},
			"half block beside":   {Kind: diskquorum.OpWrite, Data: make([]byte, block), Beside: make([]byte, 512)},
			"block beside, askew": {Kind: diskquorum.OpWrite, Data: make([]byte, block), Beside: make([]byte, block), BesideAt: 512},
			"empty write":         {Kind: diskquorum.OpWrite, Length: block},
		} {
			if err := e.Submit(op); err == nil {
				t.Errorf("%s was accepted", name)
			}
		}
	})
}

// short is a device that transfers half of the requested bytes.
type short struct{ *diskquorumtest.MemDevice }

func (s short) ReadAt(p []byte, off int64) (int, error)  { return len(p) / 2, nil }
func (s short) WriteAt(p []byte, off int64) (int, error) { return len(p) / 2, nil }

func TestEngineShortIO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan diskquorum.Completion, 1)
		e := NewEngine(short{}, virtual(), func(c diskquorum.Completion) { done <- c })
		for _, op := range []diskquorum.Op{read(1), write(2, 1)} {
			submit(t, e, op)
			if c := <-done; c.Err == nil || c.Data != nil {
				t.Errorf("a short I/O is no error: %+v", c)
			}
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestEngineSubmitFromCallback: the arbiter answers a completion with its next operation.
func TestEngineSubmitFromCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev := diskquorumtest.NewLUN(16*block, 1).Client()
		dev.SetFaults(diskquorumtest.Faults{ReadDelay: diskquorumtest.Span{Min: time.Second, Max: time.Second}})
		var e *Engine
		var got []uint64
		finished := make(chan struct{})
		e = NewEngine(dev, virtual(), func(c diskquorum.Completion) {
			got = append(got, c.ID)
			if c.ID == 5 {
				close(finished)
				return
			}
			if err := e.Submit(read(c.ID + 1)); err != nil {
				t.Error(err)
			}
		})
		submit(t, e, read(1))
		<-finished
		if fmt.Sprint(got) != "[1 2 3 4 5]" {
			t.Errorf("order %v", got)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestEngineClose(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine, dev *diskquorumtest.MemDevice, done chan diskquorum.Completion) {
		dev.SetFaults(diskquorumtest.Faults{WriteDelay: diskquorumtest.Span{Min: time.Second, Max: time.Second}})
		submit(t, e, write(1, 7))
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c := <-done; c.ID != 1 || c.Err != nil {
			t.Errorf("the operation in flight was not delivered: %+v", c)
		}
		if err := e.Submit(read(2)); !errors.Is(err, ErrClosed) {
			t.Errorf("submit after close: %v", err)
		}
	})
}

// TestEngineCloseStuck: Close gives up on a hanging I/O, which neither ends earlier nor is delivered later, but does
// land.
func TestEngineCloseStuck(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine, dev *diskquorumtest.MemDevice, done chan diskquorum.Completion) {
		dev.Hang(diskquorumtest.HangBefore)
		submit(t, e, write(1, 7))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		err := e.Close(ctx)
		if !errors.Is(err, ErrStuck) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		dev.Release(diskquorumtest.Land)
		synctest.Wait()
		select {
		case c := <-done:
			t.Errorf("delivered after Close: %+v", c)
		default:
		}
		p := make([]byte, block)
		if _, err := dev.ReadAt(p, block); err != nil || p[0] != 7 {
			t.Errorf("the write did not land: %d, %v", p[0], err)
		}
	})
}

// TestEngineOnFile runs an engine on real direct I/O.
func TestEngineOnFile(t *testing.T) {
	d := open(t, diskquorumtest.File(t, 16*block), Options{})
	done := make(chan diskquorum.Completion, 1)
	e := NewEngine(d, boottime.Now, func(c diskquorum.Completion) { done <- c })
	for i := range uint64(20) {
		submit(t, e, write(2*i, byte(i)))
		if c := <-done; c.Err != nil || c.Ended < c.Started {
			t.Fatalf("%+v", c)
		}
		submit(t, e, read(2*i+1))
		if c := <-done; c.Err != nil || c.Data[block] != byte(i) {
			t.Fatalf("round %d: %d, %v", i, c.Data[block], c.Err)
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestEngineConcurrentSubmit is for the race detector; of all submissions exactly the accepted ones complete.
func TestEngineConcurrentSubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev := diskquorumtest.NewLUN(16*block, 1).Client()
		var mu sync.Mutex
		completed := map[uint64]int{}
		e := NewEngine(dev, virtual(), func(c diskquorum.Completion) {
			mu.Lock()
			defer mu.Unlock()
			completed[c.ID]++
		})
		accepted := make([][]uint64, 4)
		var wg sync.WaitGroup
		for g := range accepted {
			wg.Go(func() {
				for i := range 200 {
					id := uint64(g*1000 + i)
					if err := e.Submit(write(id, 1)); err == nil {
						accepted[g] = append(accepted[g], id)
					} else if !errors.Is(err, ErrBusy) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		total := 0
		for _, ids := range accepted {
			total += len(ids)
			for _, id := range ids {
				if completed[id] != 1 {
					t.Errorf("operation %d completed %d times", id, completed[id])
				}
			}
		}
		if total == 0 || total != len(completed) {
			t.Errorf("%d accepted, %d completed", total, len(completed))
		}
	})
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	var passed int
	record := NewMetrics(reg).Instrument("/dev/lun", func(diskquorum.Completion) { passed++ })
	if n, err := testutil.GatherAndCount(reg, "fencing_agent_lun_io_errors_total", "fencing_agent_lun_io_seconds"); err != nil || n != 4 {
		t.Errorf("%d series before the first I/O, %v", n, err)
	}
	at := boottime.Instant(time.Hour)
	record(diskquorum.Completion{Kind: diskquorum.OpWrite, Started: at, Ended: at.Add(3 * time.Second), Err: errors.New("broken")})
	record(diskquorum.Completion{Kind: diskquorum.OpRead, Started: at, Ended: at.Add(time.Millisecond)})
	if passed != 2 {
		t.Errorf("%d completions passed on", passed)
	}
	err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP fencing_agent_lun_io_errors_total I/Os on the LUN that ended with an error, by device and operation.
# TYPE fencing_agent_lun_io_errors_total counter
fencing_agent_lun_io_errors_total{device="/dev/lun",op="read"} 0
fencing_agent_lun_io_errors_total{device="/dev/lun",op="write"} 1
`), "fencing_agent_lun_io_errors_total")
	if err != nil {
		t.Error(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := ""
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); h != nil {
				sums += fmt.Sprintf("%s %d %g;", m.GetLabel()[1].GetValue(), h.GetSampleCount(), h.GetSampleSum())
			}
		}
	}
	if sums != "read 1 0.001;write 1 3;" {
		t.Errorf("histograms %q", sums)
	}
}

// InFlight returns when the operation that is in flight was submitted; ok is false
// while there is none.
func (e *Engine) InFlight() (since boottime.Instant, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.since, e.inFlight
}
