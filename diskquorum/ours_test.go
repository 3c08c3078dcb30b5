package diskquorum

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// replaced returns data that may be at the start of a device instead of the group's superblock.
func replaced(r *rig, d, kind int) []byte {
	start := make([]byte, OwnSize)
	switch kind {
	case 0: // zeros
	case 1: // another LUN of the same group
		sb := *r.sbs[d]
		sb.ID[3] ^= 1
		for which := range superblockBlocks {
			if err := EncodeSuperblock(start[which*BlockSize:(which+1)*BlockSize], &sb, which); err != nil {
				panic(err)
			}
		}
	case 2: // a file system
		copy(start[1024+56:], "\x53\xEF")
		copy(start[BlockSize:], "group descriptors")
	case 3: // a partition table, which does not change the second copy
		copy(start[BlockSize:], r.own[d][BlockSize:])
		copy(start[510:], "\x55\xAA")
	case 4: // data that does not change the first copy
		copy(start, r.own[d][:BlockSize])
		copy(start[BlockSize:], "\xFC\x4E\x2B\xA9")
	}
	return start
}

const replacements = 5

// replace gives a device another owner, or restores it.
func (r *rig) replace(d, kind int) {
	copy(r.images[d], replaced(r, d, kind))
	r.trace("device %d is somebody else's, kind %d", d, kind)
}

func (r *rig) giveBack(d int) {
	copy(r.images[d], r.own[d])
}

// replace gives a device another owner and restores it, in some schedules.
func (e *explorer) replace() {
	if e.foreign == nil || e.foreign.IntN(60) > 0 {
		return
	}
	if d := e.foreign.IntN(len(e.rig.images)); e.foreign.IntN(2) == 0 {
		e.rig.replace(d, e.foreign.IntN(replacements))
	} else {
		e.rig.giveBack(d)
		e.rig.trace("device %d is ours again", d)
	}
}

// Guard: B10. A LUN that has got another owner is not written, neither at rest nor in a tie, and is used again when it
// shows the right superblock. The oracle checks each write.
func TestNoWriteOnAForeignLUN(t *testing.T) {
	for kind := range replacements {
		for _, tied := range []bool{false, true} {
			r := startedRig(t, 2)
			if tied {
				r.settle([]int{0}, []int{1})
			}
			r.run(700 * time.Millisecond)
			r.replace(0, kind)
			stands := slices.Clone(r.images[0])
			r.run(2 * time.Second) // I/O that began before a read showed it
			seen := slices.Clone(r.images[0])
			r.run(time.Minute)
			if !slices.Equal(seen, r.images[0]) || !slices.Equal(stands[:OwnSize], seen[:OwnSize]) {
				t.Fatalf("kind %d, tied %v: somebody else's blocks were written", kind, tied)
			}
			for i, n := range r.nodes {
				if n.out.Healthy || !errors.Is(n.arb.Foreign(0), ErrNotOurs) || n.arb.DeviceTrouble(0, r.now) == "" || n.out.Split == tie.Won {
					t.Errorf("kind %d, tied %v, n%d: healthy %v, %v, %v", kind, tied, i, n.out.Healthy, n.arb.Foreign(0), n.out.Split)
				}
			}
			r.giveBack(0)
			r.run(12 * time.Second)
			for i, n := range r.nodes {
				if !tied && !n.out.Healthy || n.arb.Foreign(0) != nil || r.now.Sub(n.arb.writeStart) > 2*time.Second {
					t.Errorf("kind %d, tied %v, n%d after it is ours again: healthy %v, %s", kind, tied, i, n.out.Healthy, n.arb.trouble(r.now))
				}
			}
		}
	}
}

// Guard: B9. A read that shows another superblock proves nothing about the slots.
func TestTableOfAForeignLUNIsNotTaken(t *testing.T) {
	for kind := range replacements {
		r := startedRig(t, 2)
		arb := r.nodes[0].arb
		data := slices.Clone(r.images[0])
		copy(data, replaced(r, 0, kind))
		clear(data[OwnSize:])
		before := fmt.Sprintf("%+v", arb.table.devices[0])
		c := &Completion{Kind: OpRead, Started: r.now, Ended: r.now, Data: data}
		if arb.laneRead(c); !errors.Is(c.Err, ErrNotOurs) || fmt.Sprintf("%+v", arb.table.devices[0]) != before {
			t.Errorf("kind %d: %v, or its slots count", kind, c.Err)
		}
	}
}

// Guard: B10, B9. An unreadable LUN does not count as another one, but is not written either. With one damaged or
// zeroed copy of the superblock, the LUN is still ours.
func TestOwnSuperblock(t *testing.T) {
	r := newRig(2, rigTiming())
	damaged := func(change func(start []byte)) []byte {
		start := slices.Clone(r.own[0])
		change(start)
		return start
	}
	for _, c := range []struct {
		name          string
		start         []byte
		ours, foreign bool
	}{
		{"ours", r.own[0], true, false},
		{"one copy damaged", damaged(func(b []byte) { b[100] ^= 1 }), true, false},
		{"the other copy zeroed", damaged(func(b []byte) { clear(b[BlockSize:]) }), true, false},
		{"both damaged", damaged(func(b []byte) { b[100] ^= 1; b[BlockSize+100] ^= 1 }), false, false},
		{"one damaged, one zeroed", damaged(func(b []byte) { clear(b[:BlockSize]); b[BlockSize+100] ^= 1 }), false, false},
		{"too short", r.own[0][:BlockSize], false, false},
		{"zeros", replaced(r, 0, 0), false, true},
		{"another LUN", replaced(r, 0, 1), false, true},
		{"a file system", replaced(r, 0, 2), false, true},
		{"a partition table over the first copy", replaced(r, 0, 3), false, true},
		{"something over the second copy", replaced(r, 0, 4), false, true},
	} {
		worn, err := OwnSuperblock(c.start, r.sb.ID, r.sb.Slots)
		if (err == nil) != c.ours || errors.Is(err, ErrNotOurs) != c.foreign || (worn != nil) != (c.ours && c.name != "ours") {
			t.Errorf("%s: %v, %v", c.name, worn, err)
		}
	}
	if _, err := OwnSuperblock(r.own[0], r.sb.ID, 3); !errors.Is(err, ErrNotOurs) {
		t.Errorf("another number of slots: %v", err)
	}
}

// Guard: B10, B8. If one of three devices has another owner, it is not written, even if it missed records, and the
// others go on.
func TestForeignDeviceOfASet(t *testing.T) {
	r := startedSet(t)
	r.replace(1, 2)
	r.run(2 * time.Second)
	seen := slices.Clone(r.images[1])
	r.setView(0, 0)
	r.setView(1, 1)
	r.run(8 * time.Second)
	won := 0
	for _, n := range r.nodes {
		if n.out.Split == tie.Won {
			won++
		}
	}
	if won != 1 || !slices.Equal(seen, r.images[1]) {
		t.Errorf("%d have won, the foreign device is untouched: %v", won, slices.Equal(seen, r.images[1]))
	}
}

// Guard: B10. A path on which reads fail gets no writes: they could overwrite another owner's blocks.
func TestNoWriteWhereReadsFail(t *testing.T) {
	r := startedRig(t, 2)
	n := r.nodes[0]
	end := r.now.Add(10 * time.Second)
	writes := 0
	for r.now < end {
		r.now = r.now.Add(r.timing.Heartbeat / 10)
		for r.step(0); n.ios[0] != nil; r.step(0) {
			r.now = r.now.Add(time.Millisecond)
			if n.ios[0].op.Kind == OpRead {
				r.lose(0, false)
				continue
			}
			n.ios[0].op.Own = false // that read also fails
			writes++
			r.complete(0)
		}
	}
	if writes > 1 || n.arb.Foreign(0) != nil || n.out.Healthy {
		t.Errorf("%d writes, %v, healthy %v", writes, n.arb.Foreign(0), n.out.Healthy)
	}
}

// A device whose identity changes does not count until it has its own superblock again; the node goes on with two
// devices, and does not arbitrate with one.
func TestExchangedDeviceIsOut(t *testing.T) {
	r := startedSet(t)
	n := r.nodes[0]
	was := append([]byte(nil), r.images[2]...)
	copy(r.images[2], r.images[1]) // device 1 was copied over device 2
	r.setView(0, 0)
	r.run(3 * time.Second)
	if !n.out.Healthy || !errors.Is(n.arb.Foreign(2), ErrNotOurs) || n.under(OpWrite).has(2) {
		t.Fatalf("healthy %v, device 2: %v, under way %+v", n.out.Healthy, n.arb.Foreign(2), n.ios[2])
	}
	other := append([]byte(nil), r.images[1]...)
	copy(r.images[1], r.images[0])
	r.run(3 * time.Second)
	if n.out.Healthy || !errors.Is(n.arb.lost(), ErrNotOurs) {
		t.Errorf("healthy %v, lost %v", n.out.Healthy, n.arb.lost())
	}
	copy(r.images[1], other)
	copy(r.images[2], was) // both devices have also gone back (B11)
	r.setView(0, 0, 1)
	r.run(5 * time.Second)
	if !n.out.Healthy || n.arb.Foreign(1) != nil || n.arb.Foreign(2) != nil {
		t.Errorf("healthy %v with all devices as they were: %s, %v, %v", n.out.Healthy, n.arb.trouble(r.now), n.arb.Foreign(1), n.arb.Foreign(2))
	}
}

// Guard: B10. A read that shows another superblock ends the permission of an earlier read at once.
func TestForeignReadEndsThePermission(t *testing.T) {
	r := startedRig(t, 4)
	n := r.nodes[0]
	r.setView(0, 0, 1) // a tie: two reads per heartbeat
	r.hold(1 << 62)
	r.until(t, 0, OpWrite)
	r.until(t, 0, OpRead)
	r.complete(0)
	r.until(t, 0, OpRead) // the next read, half a heartbeat later
	r.replace(0, 0)
	r.complete(0)
	stands := slices.Clone(r.images[0])
	r.setView(0, 0) // a change that the others wait for
	if r.run(300 * time.Millisecond); !slices.Equal(stands, r.images[0]) || n.arb.Foreign(0) == nil {
		t.Errorf("written, or not seen: %v", n.arb.Foreign(0))
	}
}

// Guard: B10, B9. If both copies of the superblock are damaged, the LUN does not count as another one, but is not
// written.
func TestNoWriteOnADamagedSuperblock(t *testing.T) {
	r := startedRig(t, 2)
	r.images[0][100] ^= 1
	r.images[0][BlockSize+100] ^= 1
	r.run(2 * time.Second)
	seen := slices.Clone(r.images[0])
	r.run(20 * time.Second)
	for i, n := range r.nodes {
		if n.out.Healthy || n.arb.Foreign(0) != nil || !slices.Equal(seen, r.images[0]) {
			t.Errorf("n%d: healthy %v, %v, untouched %v", i, n.out.Healthy, n.arb.Foreign(0), slices.Equal(seen, r.images[0]))
		}
	}
}

// Guard: B10. If a write hangs for longer than a heartbeat, the superblock that was read when it began no longer counts
// for the next write.
func TestALookFromBeforeAWriteThatHungIsOld(t *testing.T) {
	r := startedRig(t, 2)
	n := r.nodes[0]
	n.arb.lanes[0].took = r.timing.Heartbeat
	r.hold(1 << 62)
	r.until(t, 0, OpWrite)
	io := n.ios[0]
	if !io.op.Own {
		t.Fatalf("nothing is read beside %+v", io.op)
	}
	looked := io.started.Add(time.Millisecond)
	r.now = looked.Add(r.timing.Heartbeat + 1)
	n.ios[0] = nil
	n.arb.Complete(r.now, &Completion{ID: io.op.ID, Kind: OpWrite, Started: io.started, Ended: r.now, Own: r.images[0][:OwnSize], OwnEnded: looked})
	if n.arb.mayWrite(r.now, 0) {
		t.Errorf("a write may follow a look from %v ago", r.now.Sub(looked))
	}
}
