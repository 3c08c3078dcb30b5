package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

// interruptedAt runs f and ends its context after d.
func interruptedAt(t *testing.T, d time.Duration, f func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(d, cancel).Stop()
	return f(ctx)
}

func wantInterrupted(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "context") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
		return
	}
	for _, part := range append(parts, "interrupted: ") {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}

// Guard: a person who ends a command is told the state of the LUN.
func TestInterruptedMendTellsTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := usedLUN(t)
		l.Modify(func(b []byte) { clear(b[:diskquorum.BlockSize]) })
		dev := &hangsAtWrite{Device: l.Client(), hang: make(chan struct{})}
		defer close(dev.hang)
		err := interruptedAt(t, 10*time.Minute, func(ctx context.Context) error {
			_, err := mend(ctx, dev, "/dev/lun", fmt.Sprintf("%x", testSB.ID))
			return err
		})
		wantInterrupted(t, err, "restore-superblock /dev/lun: ", "whether the copy was restored is not known; repeat the command")
	})
}

// hangsAtWrite lets some writes through.
type hangsAtWrite struct {
	diskquorum.Device
	left  int
	hang  chan struct{}
	wrote func(n int) // called when the nth write is done; may be nil
	n     int
}

func (d *hangsAtWrite) WriteAt(p []byte, off int64) (int, error) {
	if d.left--; d.left < 0 {
		<-d.hang
	}
	n, err := d.Device.WriteAt(p, off)
	if d.n++; d.wrote != nil {
		d.wrote(d.n)
	}
	return n, err
}

// deadOwner returns a LUN on which the owner of slot 2 is gone, and another node is alive.
func deadOwner(t *testing.T) *diskquorumtest.LUN {
	l := newLUN(t)
	put(t, l, node(2, 100))
	alive(t, l, lonely(1, 50))
	return l
}

func TestInterruptedReleaseTellsTheState(t *testing.T) {
	for _, c := range []struct {
		name   string
		after  time.Duration
		writes int // number of writes that succeed
		want   string
	}{
		{"in the watch", 5 * time.Second, 9, "nothing was written, the device is as it was"},
		{"amid the writes", 10 * time.Minute, 1, "the slot may be half released; repeat the command"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := deadOwner(t)
				dev := &hangsAtWrite{Device: l.Client(), left: c.writes, hang: make(chan struct{})}
				defer close(dev.hang)
				err := interruptedAt(t, c.after, func(ctx context.Context) error {
					_, err := release(ctx, unlocked{dev}, "/dev/lun", ReleaseOptions{Node: "n2", Slot: -1})
					return err
				})
				wantInterrupted(t, err, "release-slot /dev/lun: ", c.want)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		l := deadOwner(t)
		done := make(chan struct{})
		dev := &hangsAtWrite{Device: l.Client(), left: 1 << 30, wrote: func(n int) {
			if n == 2 {
				close(done)
			}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-done
			time.Sleep(100 * time.Millisecond)
			cancel()
		}()
		_, err := release(ctx, unlocked{dev}, "/dev/lun", ReleaseOptions{Node: "n2", Slot: -1})
		wantInterrupted(t, err, "slot 2 was released; whether its owner takes it back was not watched to the end")
	})
}

// unlocked is a device whose slots no other process on the host uses.
type unlocked struct{ diskquorum.Device }

func (unlocked) LockSlot(int) error { return nil }
