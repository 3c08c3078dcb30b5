package lunadmin

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

// oldLUN is a LUN of before there were echo blocks, of which one slot is written.
func oldLUN(t *testing.T) *diskquorumtest.LUN {
	t.Helper()
	l := newLUN(t)
	put(t, l, node(1, 40))
	return l
}

func TestUpgradeAddsEchoBlocksAndChangesNothingElse(t *testing.T) {
	l := oldLUN(t)
	before := l.Bytes()
	r, err := Upgrade(t.Context(), l.Client(), "lun", UpgradeOptions{})
	if err != nil || !r.Changed || r.Bytes != diskquorum.DeviceSize(testSB.Slots) {
		t.Fatalf("%+v, %v", r, err)
	}
	after := l.Bytes()
	sb, err := diskquorum.ReadSuperblock(after)
	if want := testSB; err != nil || !sb.Echoes || func() bool { sb.Echoes = false; return sb != want }() {
		t.Errorf("superblock %+v, %v", sb, err)
	}
	if head := 2 * diskquorum.BlockSize; !bytes.Equal(before[head:], after[head:]) {
		t.Error("more than the superblock differs")
	}
	if r, err := Upgrade(t.Context(), l.Client(), "lun", UpgradeOptions{}); err != nil || r.Changed {
		t.Errorf("a second time: %+v, %v", r, err)
	}
}

func TestUpgradeRefusesAndWritesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		lun  func() *diskquorumtest.LUN
		want string
	}{
		{"too small", func() *diskquorumtest.LUN {
			small, old := diskquorumtest.NewLUN(testSB.Bytes(), 1), oldLUN(t)
			small.Modify(func(b []byte) { copy(b, old.Bytes()) })
			return small
		}, "is too small: 77824 bytes, 8 slots with echo blocks need 110592; nothing was written; enlarge it to at least 110592 bytes"},
		{"data", func() *diskquorumtest.LUN {
			l := oldLUN(t)
			l.Modify(func(b []byte) { b[diskquorum.EchoOffset(testSB.Slots, 3)+17] = 1 })
			return l
		}, "carries data behind the slots, at byte 90129; nothing was written; if nobody needs that, --force overwrites it"},
		{"no LUN", func() *diskquorumtest.LUN { return diskquorumtest.NewLUN(1<<20, 1) }, "not formatted yet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.lun()
			before := l.Bytes()
			if r, err := Upgrade(t.Context(), l.Client(), "lun", UpgradeOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v, want %q", r, err, c.want)
			}
			if !bytes.Equal(before, l.Bytes()) {
				t.Error("it was written")
			}
		})
	}
}

// withoutMBR makes of a superblock one of before there was a protective MBR in it.
func withoutMBR(image []byte) {
	table := crc32.MakeTable(crc32.Castagnoli)
	clear(image[440:462])
	binary.LittleEndian.PutUint32(image[508:], crc32.Update(crc32.Checksum(make([]byte, 24), table), table, image[:508]))
}

// A LUN of before gets its MBR by a write that changes one sector, in bytes that no reader looks at.
func TestUpgradeAddsTheProtectiveMBR(t *testing.T) {
	l := diskquorumtest.NewLUN(1<<20, 1)
	sb := testSB
	sb.Echoes = true
	l.Modify(func(b []byte) {
		for which := range 2 {
			if err := diskquorum.EncodeSuperblock(b[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], &sb, which); err != nil {
				t.Fatal(err)
			}
		}
		withoutMBR(b)
	})
	put(t, l, node(1, 40))
	before := l.Bytes()
	if got, err := diskquorum.ReadSuperblock(before); err != nil || got != sb || diskquorum.IsProtective(before) {
		t.Fatalf("%+v, %v", got, err)
	}
	r, err := Upgrade(t.Context(), l.Client(), "lun", UpgradeOptions{})
	if err != nil || !r.Changed || !slices.Equal(r.Added, []string{"protective MBR"}) {
		t.Fatalf("%+v, %v", r, err)
	}
	after := l.Bytes()
	if !diskquorum.IsProtective(after) || !bytes.Equal(before[512:], after[512:]) {
		t.Error("there is no MBR, or more than one sector was changed")
	}
	if got, err := diskquorum.DecodeSuperblock(after[:diskquorum.BlockSize], 0); err != nil || got != sb {
		t.Errorf("%+v, %v", got, err)
	}
	if r, err := Upgrade(t.Context(), l.Client(), "lun", UpgradeOptions{}); err != nil || r.Changed {
		t.Errorf("a second time: %+v, %v", r, err)
	}
}

// With a protective MBR in front, tools would restore a partition table that was forgotten at the end.
func TestUpgradeRevivesNoPartitionTable(t *testing.T) {
	l, old := diskquorumtest.NewLUN(1<<20, 1), oldLUN(t)
	l.Modify(func(b []byte) {
		copy(b, old.Bytes())
		withoutMBR(b)
		copy(b[len(b)-512:], "EFI PART")
	})
	before := l.Bytes()
	want := "carries the copy of an old partition table at its end, at byte 1048064"
	if r, err := Upgrade(t.Context(), l.Client(), "lun", UpgradeOptions{}); err == nil || !strings.Contains(err.Error(), want) || !bytes.Equal(before, l.Bytes()) {
		t.Errorf("%+v, %v", r, err)
	}
	r, err := Upgrade(t.Context(), l.Client(), "lun", UpgradeOptions{Force: true})
	if err != nil || !slices.Equal(r.Added, []string{"protective MBR", "echo blocks"}) {
		t.Errorf("%+v, %v", r, err)
	}
	if after := l.Bytes(); !diskquorum.IsProtective(after) || firstNonZero(after[len(after)-512:]) >= 0 {
		t.Error("it got no MBR, or kept the table")
	}
}

// Data of something else is overwritten under force, and never read as an echo.
func TestForcedUpgrade(t *testing.T) {
	l := oldLUN(t)
	at := diskquorum.EchoOffset(testSB.Slots, 3)
	l.Modify(func(b []byte) { copy(b[at:], "rubbish") })
	if r, err := Upgrade(t.Context(), l.Client(), "lun", UpgradeOptions{Force: true}); err != nil || !r.Changed {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := firstNonZero(l.Bytes()[at : at+diskquorum.BlockSize]); got >= 0 {
		t.Errorf("byte %d of the echo block is left", got)
	}
}

// One copy of the superblock has the flag and the other has not: so it is in the middle of an upgrade, and after one
// that was interrupted. Agents and tools go on, and the next run ends it.
func TestInterruptedUpgrade(t *testing.T) {
	l := oldLUN(t)
	half := testSB
	half.Echoes = true
	l.Modify(func(b []byte) {
		if err := diskquorum.EncodeSuperblock(b[:diskquorum.BlockSize], &half, 0); err != nil {
			t.Error(err)
		}
	})
	if sb, err := diskquorum.ReadSuperblock(l.Bytes()); err != nil || sb.Echoes {
		t.Fatalf("%+v, %v", sb, err)
	}
	if r, err := Upgrade(t.Context(), l.Client(), "lun", UpgradeOptions{}); err != nil || !r.Changed {
		t.Fatalf("%+v, %v", r, err)
	}
	if sb, err := diskquorum.ReadSuperblock(l.Bytes()); err != nil || !sb.Echoes {
		t.Errorf("%+v, %v", sb, err)
	}
}
