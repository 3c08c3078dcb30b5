package diskquorumtest

import (
	"bytes"
	"errors"
	"reflect"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

func TestMemDeviceConformance(t *testing.T) {
	for _, c := range DeviceCases() {
		t.Run(c.Name, func(t *testing.T) {
			l := NewLUN(ConformanceBlocks*block, 1)
			c.Run(t, l.Client(), l.Client())
		})
	}
}

func TestFormattedLUN(t *testing.T) {
	sb := diskquorum.Superblock{Version: diskquorum.FormatVersion, ID: [16]byte{1}, Cluster: "c", NodeGroup: "g", Slots: 4}
	l, err := NewFormattedLUN(&sb, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := diskquorum.ReadSuperblock(mustRead(t, l.Client(), 2, 0)); err != nil || got != sb {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := NewFormattedLUN(&diskquorum.Superblock{Slots: 4}, 1); err == nil {
		t.Error("a superblock without id was accepted")
	}
}

// after runs f and returns the virtual time it took.
func after(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLUN(ConformanceBlocks*block, 1)
		a, b := l.Client(), l.Client()
		a.SetFaults(Faults{WriteDelay: Span{time.Second, time.Second}, ReadDelay: Span{time.Minute, 2 * time.Minute}})
		if d := after(func() { mustWrite(t, a, pattern(1, 1), 0) }); d != time.Second {
			t.Errorf("write took %v", d)
		}
		if d := after(func() { mustRead(t, a, 1, 0) }); d < time.Minute || d > 2*time.Minute {
			t.Errorf("read took %v", d)
		}
		if d := after(func() { mustRead(t, b, 1, 0) }); d != 0 {
			t.Errorf("the faults of one client delayed another by %v", d)
		}
	})
}

// TestSplit checks that others see a split write torn, but only at the boundary of sectors.
func TestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLUN(ConformanceBlocks*block, 1)
		a, b := l.Client(), l.Client()
		a.SetFaults(Faults{WriteDelay: Span{time.Second, time.Second}, Split: 1})
		result := make(chan error, 1)
		go func() {
			_, err := a.WriteAt(pattern(1, 1), 0)
			result <- err
		}()
		time.Sleep(time.Second - 1)
		got := mustRead(t, b, 1, 0)
		n := bytes.IndexByte(got, 0)
		if n <= 0 || n%diskquorum.SectorSize != 0 || !bytes.Equal(got[:n], pattern(1, 1)[:n]) || !bytes.Equal(got[n:], make([]byte, block-n)) {
			t.Errorf("in the middle of the write the block changes at byte %d", n)
		}
		if err := <-result; err != nil {
			t.Fatal(err)
		}
		if got := mustRead(t, b, 1, 0); !bytes.Equal(got, pattern(1, 1)) {
			t.Error("after the write the block is not complete")
		}
	})
}

func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLUN(ConformanceBlocks*block, 1)
		a := l.Client()
		mustWrite(t, a, pattern(1, 1), 0)
		write := func(f Faults) {
			t.Helper()
			a.SetFaults(f)
			if _, err := a.WriteAt(pattern(2, 1), 0); !errors.Is(err, syscall.EIO) {
				t.Errorf("%+v: error %v", f, err)
			}
			a.SetFaults(Faults{})
		}
		if write(Faults{WriteError: 1}); mustRead(t, a, 1, 0)[0] != 1 {
			t.Error("a write that did not happen is there")
		}
		if write(Faults{TornWrite: 1}); mustRead(t, a, 1, 0)[0] != 2 || mustRead(t, a, 1, 0)[block-1] != 1 {
			t.Error("a torn write is not torn")
		}
		mustWrite(t, a, pattern(1, 1), 0)
		write(Faults{LateWrite: 1, Late: Span{time.Minute, time.Minute}})
		mustWrite(t, a, pattern(3, 1), 0)
		time.Sleep(time.Minute - 1)
		if mustRead(t, a, 1, 0)[0] != 3 {
			t.Error("the late write came early")
		}
		time.Sleep(time.Nanosecond)
		if mustRead(t, a, 1, 0)[0] != 2 || l.Bytes()[0] != 2 {
			t.Error("the late write did not land over the newer one")
		}
		a.SetFaults(Dead())
		if _, err := a.ReadAt(make([]byte, block), 0); !errors.Is(err, syscall.EIO) {
			t.Errorf("read: %v", err)
		}
		want := Stats{Reads: 6, Writes: 6, Errors: 4, Torn: 1, LateLandings: 1}
		if got := a.Stats(); got != want {
			t.Errorf("stats %+v, want %+v", got, want)
		}
	})
}

func TestLies(t *testing.T) {
	l := NewLUN(ConformanceBlocks*block, 1)
	a, b := l.Client(), l.Client()
	mustWrite(t, a, pattern(1, 1), 0)
	mustWrite(t, a, pattern(2, 1), 0)
	b.SetFaults(Faults{StaleRead: 1})
	if got := mustRead(t, b, 1, 0); got[0] != 1 {
		t.Errorf("stale read shows %d", got[0])
	}
	a.SetFaults(Faults{LostWrite: 1})
	mustWrite(t, a, pattern(3, 1), 0)
	if got := mustRead(t, a, 1, 0); got[0] != 2 {
		t.Errorf("after a lost write the LUN shows %d", got[0])
	}
}

func TestHang(t *testing.T) {
	cases := []struct {
		name    string
		at      HangPoint
		outcome Outcome
		during  byte // what others read during the hang
		after   byte // what others read afterwards, in the first sector
		last    byte // what others read afterwards, in the last sector
		fails   bool
	}{
		{"lands late", HangBefore, Land, 1, 2, 2, false},
		{"is lost", HangBefore, Lose, 1, 1, 1, true},
		{"is torn", HangBefore, Tear, 1, 2, 1, true},
		{"lands and fails", HangBefore, LandFailed, 1, 2, 2, true},
		{"landed, answer late", HangAfter, Land, 2, 2, 2, false},
		{"landed, answer lost", HangAfter, Lose, 2, 2, 2, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewLUN(ConformanceBlocks*block, 1)
				a, b := l.Client(), l.Client()
				mustWrite(t, a, pattern(1, 1), 0)
				a.Hang(c.at)
				result := make(chan error, 1)
				go func() {
					_, err := a.WriteAt(pattern(2, 1), 0)
					result <- err
				}()
				time.Sleep(time.Hour)
				if a.Held() != 1 || mustRead(t, b, 1, 0)[0] != c.during {
					t.Errorf("held %d, others see %d", a.Held(), mustRead(t, b, 1, 0)[0])
				}
				a.Release(c.outcome)
				if err := <-result; (err != nil) != c.fails {
					t.Errorf("error %v", err)
				}
				if got := mustRead(t, b, 1, 0); got[0] != c.after || got[block-1] != c.last {
					t.Errorf("afterwards the LUN has %d..%d", got[0], got[block-1])
				}
				mustRead(t, a, 1, 0) // the hang is over
			})
		})
	}
}

// TestHeldRead: a read that is held on the way back delivers the data from the time of the read.
func TestHeldRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLUN(ConformanceBlocks*block, 1)
		a, b := l.Client(), l.Client()
		a.Hang(HangAfter)
		p := pattern(0xEE, 1)
		result := make(chan error, 1)
		go func() {
			_, err := a.ReadAt(p, 0)
			result <- err
		}()
		synctest.Wait()
		mustWrite(t, b, pattern(9, 1), 0)
		a.Release(Land)
		if err := <-result; err != nil || p[0] != 0 {
			t.Errorf("read %d, which was written after it looked; %v", p[0], err)
		}
	})
}

// TestSeed: the same operations of the same client have the same faults.
func TestSeed(t *testing.T) {
	run := func(seed uint64) (image []byte, s Stats) {
		synctest.Test(t, func(t *testing.T) {
			l := NewLUN(ConformanceBlocks*block, seed)
			a := l.Client()
			a.SetFaults(Faults{WriteDelay: Span{0, time.Second}, WriteError: .1, TornWrite: .2, LateWrite: .1, Late: Span{0, time.Minute}, LostWrite: .1, Split: .5})
			for i := range 200 {
				_, _ = a.WriteAt(pattern(byte(i), 1), int64(i%ConformanceBlocks)*block)
			}
			time.Sleep(time.Hour)
			image, s = l.Bytes(), a.Stats()
		})
		return image, s
	}
	image1, stats1 := run(7)
	image2, stats2 := run(7)
	image3, _ := run(8)
	if !bytes.Equal(image1, image2) || !reflect.DeepEqual(stats1, stats2) {
		t.Error("the same seed gave another run")
	}
	if bytes.Equal(image1, image3) {
		t.Error("another seed gave the same run")
	}
	if stats1.Errors == 0 || stats1.Torn == 0 || stats1.LateLandings == 0 || stats1.Lost == 0 {
		t.Errorf("some fault never happened: %+v", stats1)
	}
}
