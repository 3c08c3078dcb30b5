package keeper

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

// A LUN that was enlarged on the array is the same LUN: it is opened, stays open, and the space after the blocks of its
// format is not touched.
func TestGrownLUN(t *testing.T) {
	for _, before := range []bool{true, false} { // the agent starts
		synctest.Test(t, func(t *testing.T) {
			grow := func(r *lunRig) { // like spoil, but the LUN stays valid
				image := r.lun.Bytes()
				r.lun = diskquorumtest.NewLUN(10*int64(len(image)), 1)
				r.lun.Modify(func(b []byte) { copy(b, image) })
			}
			r := startKeeper(t, func(r *lunRig) {
				if before {
					grow(r)
				}
			})
			defer r.end()
			if err := <-r.keeper.first; err != nil {
				t.Fatal(err)
			}
			opened := len(r.taken().opened)
			if !before {
				r.set(grow)
				r.keeper.LookAgain()
				time.Sleep(retry)
			}
			if b := r.taken(); r.keeper.Trouble() != "" || r.errors() != 0 || before && opened+len(b.opened) != 1 {
				t.Errorf("grown before the start %v: opened %d and %d times, trouble %q", before, opened, len(b.opened), r.keeper.Trouble())
			}
			r.keeper.Lock(1)
			r.keeper.Submit(1, write(7))
			if b := r.taken(); len(b.completed) != 1 || b.completed[0].Err != nil {
				t.Errorf("grown before the start %v: %+v", before, b.completed)
			}
		})
	}
}
