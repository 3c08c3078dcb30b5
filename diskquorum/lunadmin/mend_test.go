package lunadmin

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

// usedLUN returns a LUN with three written slots; the second has the latest decision.
func usedLUN(t *testing.T) *diskquorumtest.LUN {
	l := newLUN(t)
	put(t, l, node(0, 100))
	one := node(1, 200)
	one.Ballot = diskquorum.Ballot{DecidedInstance: 3, Decided: grant(one.Statement.Token)}
	put(t, l, one)
	put(t, l, node(1, 201))
	one.Sequence = 202
	put(t, l, one)
	put(t, l, node(3, 300))
	return l
}

// otherSB is the superblock of another LUN, of another cluster.
func otherSB() *diskquorum.Superblock {
	sb := testSB
	sb.ID[0], sb.Cluster = 0xCD, "stage"
	return &sb
}

// overwrite replaces one superblock copy of a LUN with a copy of another superblock.
func overwrite(t *testing.T, sb *diskquorum.Superblock, which int) func([]byte) {
	return func(b []byte) {
		if err := diskquorum.EncodeSuperblock(b[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], sb, which); err != nil {
			t.Error(err)
		}
	}
}

// TestMend: the slots show which copy is the LUN's, the administrator has to name the same id, and nothing else is
// written.
func TestMend(t *testing.T) {
	id := fmt.Sprintf("%x", testSB.ID)
	for _, c := range []struct {
		name   string
		damage func([]byte)
		id     string
		want   string // a refusal; empty: it is mended
	}{
		{"copy A of another LUN", overwrite(t, otherSB(), 0), id, ""},
		{"copy B of another LUN", overwrite(t, otherSB(), 1), id, ""},
		{"a copy that is corrupt", func(b []byte) { b[100]++ }, id, ""},
		{"a copy that is blank", func(b []byte) { clear(b[diskquorum.BlockSize : 2*diskquorum.BlockSize]) }, id, ""},
		{"nobody has said which", overwrite(t, otherSB(), 0), "", "if main is the cluster and worker the group of this device, restore the copy with: fencectl lun repair restore-superblock /dev/lun --id " + id},
		{"the other one was named", overwrite(t, otherSB(), 0), fmt.Sprintf("%x", otherSB().ID), "the slots decide, not the copy that is read first"},
		{"rubbish was named", overwrite(t, otherSB(), 0), "xyz", "is not LUN xyz"},
		{"nothing is lost", func([]byte) {}, id, "has lost no copy of its superblock"},
		{"both are lost", func(b []byte) { b[100]++; b[diskquorum.BlockSize+100]++ }, id, "carries no superblock that can be read"},
		{"no slot was ever written", func(b []byte) { overwrite(t, otherSB(), 0)(b); clear(b[2*diskquorum.BlockSize:]) }, id, "carries no slot that says which copy is right"},
		{"slots of both", func(b []byte) {
			overwrite(t, otherSB(), 0)(b)
			s := node(2, 1)
			if err := diskquorum.EncodeSlot(b[diskquorum.SlotOffset(2, 1):][:diskquorum.BlockSize], otherSB().ID, s, 1); err != nil {
				t.Error(err)
			}
		}, id, "carries slots of two LUNs"},
	} {
		l := usedLUN(t)
		l.Modify(c.damage)
		before := l.Bytes()
		_, err := mend(t.Context(), l.Client(), "/dev/lun", c.id)
		if c.want == "" {
			if sb, serr := diskquorum.ReadSuperblock(l.Bytes()); err != nil || serr != nil || sb != testSB || len(damage(l.Bytes(), &sb)) != 0 {
				t.Errorf("%s: %v, %v", c.name, err, serr)
			}
			if head := 2 * diskquorum.BlockSize; !bytes.Equal(before[head:], l.Bytes()[head:]) {
				t.Errorf("%s: more than the superblock was written", c.name)
			}
			continue
		}
		if refused := new(RefusedError); !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if !bytes.Equal(before, l.Bytes()) {
			t.Errorf("%s: it was written", c.name)
		}
	}
}

// TestMendSeesAnInit: the device is formatted while Mend checks it.
func TestMendSeesAnInit(t *testing.T) {
	l := usedLUN(t)
	l.Modify(overwrite(t, otherSB(), 0))
	dev := &changing{Device: l.Client(), l: l}
	if _, err := mend(t.Context(), dev, "/dev/lun", fmt.Sprintf("%x", testSB.ID)); err == nil || !strings.Contains(err.Error(), "is being written") {
		t.Errorf("%v", err)
	}
}

// changing zeroes the superblock after it was first read.
type changing struct {
	diskquorum.Device
	l     *diskquorumtest.LUN
	reads int
}

func (c *changing) ReadAt(p []byte, off int64) (int, error) {
	if c.reads++; c.reads == 4 { // head, a table for each copy
		c.l.Modify(func(b []byte) { clear(b[:diskquorum.BlockSize]) })
	}
	return c.Device.ReadAt(p, off)
}
