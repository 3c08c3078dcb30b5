package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

func TestMissingLUNIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := fmt.Errorf("open /dev/lun: %w", unix.ENOENT)
		r := startKeeper(t, func(r *lunRig) { r.openErr = missing })
		defer r.end()
		if err := <-r.keeper.first; !errors.Is(err, unix.ENOENT) || !Away(err) {
			t.Fatalf("first result %v: the start of the agent must not end with it", err)
		}
		time.Sleep(10*retry + time.Millisecond)
		if n := r.errors(); n != 1 {
			t.Errorf("%d errors logged for one trouble", n)
		}
		if got := r.keeper.Trouble(); got != missing.Error() {
			t.Errorf("trouble %q", got)
		}
		r.set(func(r *lunRig) { r.openErr = nil })
		time.Sleep(retry)
		r.last(1)
		if b := r.taken(); len(b.opened) != 1 || b.opened[0].Superblock.Slots != 4 {
			t.Errorf("reported %+v", b.opened)
		}
		if got := r.keeper.Trouble(); got != "" {
			t.Errorf("trouble %q", got)
		}
	})
}

// If a device can be read but is not the group's LUN, the start fails with an error of one line, and the device is not
// changed.
func TestWrongLUNIsFatalAtStart(t *testing.T) {
	format := func(edit func(*diskquorum.Superblock)) func(*lunRig) {
		return func(r *lunRig) {
			sb := superblock()
			edit(sb)
			lun, err := diskquorumtest.NewFormattedLUN(sb, 1)
			if err != nil {
				r.t.Fatal(err)
			}
			r.lun = lun
		}
	}
	for _, c := range []struct {
		name string
		edit func(*lunRig)
		want string
	}{
		{"other cluster", format(func(sb *diskquorum.Superblock) { sb.Cluster = "test" }), `it is formatted for cluster "test"`},
		{"other group", format(func(sb *diskquorum.Superblock) { sb.NodeGroup = "test" }), `node group "test", and this agent belongs to`},
		{"too few slots", func(r *lunRig) { r.keeper.Members = 5 }, "it has 4 slots for 5 members"},
		{"permission", func(r *lunRig) { r.openErr = fmt.Errorf("open: %w", unix.EACCES) }, "permission denied"},
		{"no direct I/O", func(r *lunRig) { r.openErr = unix.EINVAL }, "invalid argument"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startKeeper(t, c.edit)
				before := r.lun.Bytes()
				err := <-r.keeper.first
				if err == nil || !strings.Contains(err.Error(), c.want) || Away(err) {
					t.Errorf("%v, want a fatal error with %q", err, c.want)
				}
				select {
				case <-r.done: // by itself
				case <-time.After(time.Hour):
					r.end()
					t.Fatal("tries on")
				}
				if r.errors() != 0 || len(r.taken().opened) != 0 {
					t.Errorf("logged or reported as well:\n%s", r.log.String())
				}
				for _, o := range r.opens {
					if !o.closed || len(o.locked) > 0 {
						t.Errorf("left open or locked: %+v", o)
					}
				}
				if !bytes.Equal(before, r.lun.Bytes()) {
					t.Error("the device was written")
				}
			})
		})
	}
}

// The agent's start may stop waiting at the very moment when the first result is there.
func TestWrongLUNThatWasFoundTooLateIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sound := diskquorumtest.NewLUN(1, 1)
		r := startKeeper(t, func(r *lunRig) {
			sound = r.lun
			r.lun = diskquorumtest.NewLUN(1<<20, 1)
		})
		defer r.end()
		synctest.Wait() // the result waits for a receiver
		r.keeper.StartWithout(time.Second)
		synctest.Wait()
		if got := r.keeper.Trouble(); !strings.Contains(got, "not the LUN of this group") {
			t.Errorf("trouble %q", got)
		}
		r.set(func(r *lunRig) { r.lun = sound })
		time.Sleep(retry)
		synctest.Wait()
		if b := r.taken(); len(b.opened) != 1 {
			t.Errorf("reported %+v: the LUN is sound by now", b.opened)
		}
	})
}

// A wrong device whose first answer comes too late for the start is not fatal any more.
func TestWrongLUNAfterTheStartIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startKeeper(t, func(r *lunRig) { close(r.keeper.notFirst); r.keeper.Group = "other" })
		defer r.end()
		time.Sleep(3 * retry)
		synctest.Wait()
		if r.errors() != 1 || !strings.Contains(r.keeper.Trouble(), "not the LUN of this group") {
			t.Errorf("trouble %q, log:\n%s", r.keeper.Trouble(), r.log.String())
		}
	})
}

func TestReopensAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startKeeper(t, nil)
		defer r.end()
		if err := <-r.keeper.first; err != nil {
			t.Fatal(err)
		}
		old := r.last(1)
		// Failures that are not consecutive, or of a missing device, do not count.
		for range 10 {
			r.keeper.Observe(&diskquorum.Completion{Err: unix.EIO})
			r.keeper.Observe(&diskquorum.Completion{Err: errNotOpen})
			r.keeper.Observe(&diskquorum.Completion{Err: unix.EIO})
			r.keeper.Observe(&diskquorum.Completion{})
		}
		if r.last(1).closed {
			t.Error("closed without need")
		}
		r.set(func(r *lunRig) { r.openErr = unix.ENXIO })
		r.fail()
		time.Sleep(retry / 2)
		if !r.last(1).closed || !strings.Contains(r.keeper.Trouble(), unix.ENXIO.Error()) {
			t.Errorf("closed %v, trouble %q", old.closed, r.keeper.Trouble())
		}
		r.set(func(r *lunRig) { r.openErr = nil })
		time.Sleep(retry)
		r.last(2)
		if b := r.taken(); len(b.opened) != 2 {
			t.Errorf("reported %d opens", len(b.opened))
		}
	})
}

// A device of a set that was formatted alone does not belong to any set: all devices have to be formatted, and a
// restart does not help.
func TestDeviceOfASetFormattedByItself(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*diskquorum.Superblock)
		wants string
	}{
		"by itself": {func(*diskquorum.Superblock) {}, "formatted by itself since this agent started, and is one of a set; format all devices of the set together"},
		"the set":   {func(sb *diskquorum.Superblock) { sb.SetID, sb.Devices = [16]byte{9}, 3 }, "formatted again since this agent started; restart the agents"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := startKeeper(t, func(r *lunRig) { r.keeper.Set = true })
			defer r.end()
			if err := <-r.keeper.first; err != nil {
				t.Fatal(err)
			}
			sb := superblock()
			sb.ID = [16]byte{2}
			c.edit(sb)
			again, err := diskquorumtest.NewFormattedLUN(sb, 1)
			if err != nil {
				t.Fatal(err)
			}
			r.set(func(r *lunRig) { r.lun = again })
			r.fail()
			if o := r.last(2); !o.closed || !strings.Contains(r.keeper.Trouble(), c.wants) {
				t.Errorf("%s: closed %v, trouble %q", name, o.closed, r.keeper.Trouble())
			}
		})
	}
}

// A LUN that was formatted again has other slots: the arbiter's knowledge belongs to the old LUN.
func TestReformattedLUNIsRefusedUntilRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startKeeper(t, nil)
		defer r.end()
		if err := <-r.keeper.first; err != nil {
			t.Fatal(err)
		}
		r.taken()
		original := r.lun
		sb := superblock()
		sb.ID = [16]byte{2}
		again, err := diskquorumtest.NewFormattedLUN(sb, 1)
		if err != nil {
			t.Fatal(err)
		}
		r.set(func(r *lunRig) { r.lun = again })
		r.fail()
		if o := r.last(2); !o.closed || !strings.Contains(r.keeper.Trouble(), "formatted again") || len(r.taken().opened) != 0 {
			t.Errorf("closed %v, trouble %q", o.closed, r.keeper.Trouble())
		}
		r.set(func(r *lunRig) { r.lun = original })
		time.Sleep(retry)
		if r.last(3).closed || len(r.taken().opened) != 1 || r.keeper.Trouble() != "" {
			t.Errorf("the original was not taken back: trouble %q", r.keeper.Trouble())
		}
	})
}

// Guard: the storage's name of the device. A clone of the LUN has the same superblock, but the other nodes do not write
// to it.
func TestCloneIsNotTheLUN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startKeeper(t, nil) // the device has no name at the first open
		defer r.end()
		if err := <-r.keeper.first; err != nil {
			t.Fatal(err)
		}
		for opens, c := range []struct {
			wwid string
			ok   bool
		}{{"naa.6001", true}, {"", true}, {"naa.6002", false}, {"naa.6001", true}} {
			r.taken()
			r.set(func(r *lunRig) { r.wwid = c.wwid })
			if opens < 3 {
				r.fail()
			} else {
				time.Sleep(retry) // no device is open, so no I/O can fail
			}
			o, told := r.last(opens+2), len(r.taken().opened)
			if o.closed == c.ok || (told == 1) != c.ok || strings.Contains(r.keeper.Trouble(), "another device, naa.6002, than when this agent started, naa.6001") == c.ok {
				t.Errorf("%q: closed %v, told %d times, trouble %q", c.wwid, o.closed, told, r.keeper.Trouble())
			}
		}
	})
}

// An I/O in flight may still land: until it has ended, no device is closed or opened and no other I/O begins. Its end
// is reported.
func TestReopenWaitsForIOInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startKeeper(t, nil)
		defer r.end()
		if err := <-r.keeper.first; err != nil {
			t.Fatal(err)
		}
		dev := r.last(1)
		r.keeper.Lock(1)
		dev.Hang(diskquorumtest.HangBefore)
		r.keeper.Submit(1, write(7))
		r.fail()
		time.Sleep(time.Hour)
		if r.last(1).closed || dev.Held() != 1 {
			t.Fatalf("closed %v with %d operations in flight", dev.closed, dev.Held())
		}
		r.taken()
		r.keeper.Submit(1, write(8))
		if b := r.taken(); len(b.completed) != 1 || b.completed[0].ID != 8 || !errors.Is(b.completed[0].Err, errNotOpen) {
			t.Errorf("a second write was not refused: %+v", b.completed)
		}
		dev.Release(diskquorumtest.Land)
		r.last(2)
		if !dev.closed || dev.heldAtClose != 0 {
			t.Errorf("closed %v, with %d in flight", dev.closed, dev.heldAtClose)
		}
		if b := r.taken(); len(b.completed) != 1 || b.completed[0].ID != 7 || b.completed[0].Err != nil {
			t.Errorf("the end of the hanging write: %+v", b.completed)
		}
	})
}

// The agent's shutdown waits for a hanging I/O, but not for ever, and then leaves the device open.
func TestEndLeavesDeviceToHangingIO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startKeeper(t, nil)
		if err := <-r.keeper.first; err != nil {
			t.Fatal(err)
		}
		dev := r.last(1)
		r.keeper.Lock(1)
		dev.Hang(diskquorumtest.HangBefore)
		r.keeper.Submit(1, write(7))
		synctest.Wait()
		began := time.Now()
		r.end()
		if waited := time.Since(began); waited != closePatience {
			t.Errorf("waited %v, want %v", waited, closePatience)
		}
		if dev.closed || dev.Held() != 1 {
			t.Errorf("closed %v with %d in flight", dev.closed, dev.Held())
		}
		dev.Release(diskquorumtest.Lose) // so that the bubble can end
	})
}

func TestEndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startKeeper(t, nil)
		if err := <-r.keeper.first; err != nil {
			t.Fatal(err)
		}
		dev := r.last(1)
		r.end()
		if !dev.closed {
			t.Error("left open")
		}
	})
}

// Without a device, the answer to Lock waits for one: a failure would look as if another agent had the slot, and end
// this agent.
func TestLockWaitsForDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startKeeper(t, func(r *lunRig) { r.openErr = unix.ENXIO })
		defer r.end()
		<-r.keeper.first
		r.keeper.Lock(2)
		time.Sleep(3 * retry)
		if b := r.taken(); len(b.locked) != 0 {
			t.Fatalf("answered without a device: %v", b.locked)
		}
		r.set(func(r *lunRig) { r.openErr = nil })
		time.Sleep(retry)
		dev := r.last(1)
		if b := r.taken(); len(b.locked) != 1 || b.locked[0] != nil || !slices.Equal(dev.locked, []int{2}) {
			t.Errorf("locked %v, answers %v", dev.locked, b.locked)
		}
	})
}

// A device that was opened again is not written before the slot is locked on it.
func TestWriteLocksNewDeviceFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startKeeper(t, nil)
		defer r.end()
		<-r.keeper.first
		r.keeper.Lock(1)
		r.keeper.Submit(1, write(1))
		if first := r.last(1); !slices.Equal(first.locked, []int{1}) || first.Stats().Writes != 1 {
			t.Fatalf("locked %v, %d writes", first.locked, first.Stats().Writes)
		}
		r.fail()
		dev := r.last(2)
		taken := errors.New("another agent on this host uses it")
		r.set(func(r *lunRig) { r.lockErr = taken })
		r.taken()
		r.keeper.Submit(1, write(2))
		if b := r.taken(); len(b.completed) != 1 || !errors.Is(b.completed[0].Err, taken) || dev.Stats().Writes != 0 {
			t.Errorf("written without the lock: %+v, %d writes", b.completed, dev.Stats().Writes)
		}
		r.set(func(r *lunRig) { r.lockErr = nil })
		r.keeper.Submit(1, write(3))
		r.taken()
		r.keeper.Submit(1, write(4))
		r.taken()
		if !slices.Equal(dev.locked, []int{1}) || dev.Stats().Writes != 2 {
			t.Errorf("locked %v, %d writes", dev.locked, dev.Stats().Writes)
		}
	})
}

func TestAway(t *testing.T) {
	for err, want := range map[error]bool{
		nil:                                false,
		errEmpty:                           true,
		diskquorum.ErrNotOurs:              false,
		unix.ENOENT:                        true,
		unix.EIO:                           true,
		unix.ENXIO:                         true,
		unix.ENOTBLK:                       true,
		fmt.Errorf("open: %w", unix.EBUSY): true,
		unix.EINVAL:                        false,
		fs.ErrPermission:                   false,
		unix.EPERM:                         false,
		errContent:                         false,
		errors.New("is a folder"):          false,
		errors.Join(errContent, unix.EIO):  false,
	} {
		if got := Away(err); got != want {
			t.Errorf("Away(%v) = %v", err, got)
		}
	}
}

func TestPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		release := make(chan struct{})
		time.AfterFunc(time.Minute, cancel)
		began := time.Now()
		patiently(ctx, func(context.Context) { <-release }) // hangs in the kernel
		if waited := time.Since(began); waited != time.Minute+stopPatience {
			t.Errorf("waited %v", waited)
		}
		close(release)
		began = time.Now()
		patiently(ctx, func(context.Context) { time.Sleep(time.Second) })
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("waited %v for what ends by itself", waited)
		}
	})
}
