package lunadmin

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

// usedLUN has three written slots; the second knows the latest decision.
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

func export(t *testing.T, l *diskquorumtest.LUN) *exported {
	t.Helper()
	var r ExportResult
	data, err := r.read(t.Context(), l.Client())
	if err != nil {
		t.Fatal(err)
	}
	e, err := decodeExport(data)
	if err != nil {
		t.Fatal(err)
	}
	if r.Slots != testSB.Slots || r.Bytes != int64(len(data)) || len(r.Warnings) > 0 {
		t.Errorf("%+v", r)
	}
	return e
}

func restore(t *testing.T, l *diskquorumtest.LUN, e *exported, o ImportOptions) (*ImportResult, error) {
	t.Helper()
	o.Path, o.Progress = "/dev/lun", func(string) {}
	return restoreTo(t.Context(), l.Client(), e, &o)
}

func TestImportRestoresWhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := usedLUN(t)
		e := export(t, l)
		newer := node(0, 150)
		put(t, l, newer)
		l.Modify(func(b []byte) {
			clear(b[:2*diskquorum.BlockSize])
			copy(b[diskquorum.SlotOffset(1, 0)+50:], "rubbish")
			copy(b[diskquorum.SlotOffset(1, 1)+50:], "rubbish")
			clear(b[diskquorum.SlotOffset(3, 0):diskquorum.SlotOffset(4, 0)])
		})
		before := l.Bytes()
		dry, err := restore(t, l, e, ImportOptions{DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(dry.Superblock, []string{"A", "B"}) || !slices.Equal(dry.Slots, []int{1, 3}) || dry.Kept != 1 || !bytes.Equal(before, l.Bytes()) {
			t.Errorf("dry run: %+v, written %v", dry, !bytes.Equal(before, l.Bytes()))
		}
		if _, err := restore(t, l, e, ImportOptions{}); err != nil {
			t.Fatal(err)
		}
		if sb, err := diskquorum.ReadSuperblock(l.Bytes()); err != nil || sb != testSB {
			t.Errorf("superblock %+v, %v", sb, err)
		}
		if s := slotNow(t, l, 0).record; s.Sequence != 150 || s.State != diskquorum.SlotActive {
			t.Errorf("a slot that could be read was changed: %+v", s)
		}
		for i, counter := range map[int]uint32{1: 5 + skippedTies, 3: 5 + skippedTies} {
			v := slotNow(t, l, i)
			if v.hides() || v.record.State != diskquorum.SlotFree || v.record.Statement.Token.Counter != counter || v.record.Ballot.DecidedInstance != 3 {
				t.Errorf("slot %d: %v %+v", i, v.copies, v.record)
			}
		}
		again, err := restore(t, l, e, ImportOptions{})
		if err != nil || len(again.Superblock)+len(again.Slots) != 0 {
			t.Errorf("again: %+v, %v", again, err)
		}
	})
}

// One copy of a slot is left, and newer than the export: it is what is restored.
func TestImportPrefersWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := usedLUN(t)
		e := export(t, l)
		s := node(0, 151)
		s.Statement.Token.Counter = math.MaxUint32 - 1
		s.Ballot = diskquorum.Ballot{Instance: 9, MBal: 8, Bal: 8, Value: grant(s.Statement.Token), DecidedInstance: 8, Decided: grant(s.Statement.Token)}
		put(t, l, s)
		l.Modify(func(b []byte) { copy(b[diskquorum.SlotOffset(0, 0)+50:], "rubbish") })
		if _, err := restore(t, l, e, ImportOptions{}); err != nil {
			t.Fatal(err)
		}
		got := slotNow(t, l, 0).record
		if got.Ballot.DecidedInstance != 8 || got.Ballot.Bal != 8 || got.Sequence <= 151 || got.Statement.Token.Counter != math.MaxUint32 {
			t.Errorf("%+v", got)
		}
	})
}

func TestImportRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func(t *testing.T, l *diskquorumtest.LUN, e *exported)
		want   string
		forced bool
	}{
		{"alive", func(t *testing.T, l *diskquorumtest.LUN, _ *exported) { alive(t, l, node(0, 100)) }, "is alive: n0 writes slot 0", false},
		{"size", func(t *testing.T, _ *diskquorumtest.LUN, e *exported) { e.deviceBytes++ }, "bytes, the exported device had", false},
		{"id", func(t *testing.T, l *diskquorumtest.LUN, _ *exported) {
			other := testSB
			other.ID[0]++
			l.Modify(func(b []byte) {
				clear(b[:diskquorum.BlockSize])
				if err := diskquorum.EncodeSuperblock(b[diskquorum.BlockSize:2*diskquorum.BlockSize], &other, 1); err != nil {
					t.Fatal(err)
				}
			})
		}, "carries the LUN ac01", false},
		{"blank", func(t *testing.T, l *diskquorumtest.LUN, _ *exported) { l.Modify(func(b []byte) { clear(b) }) }, "carries nothing by which it can be recognised", true},
		{"file system", func(t *testing.T, l *diskquorumtest.LUN, _ *exported) {
			l.Modify(func(b []byte) { clear(b[:diskquorum.BlockSize]); copy(b, "XFSB") })
		}, "carries xfs file system", true},
	} {
		for _, force := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := usedLUN(t)
					e := export(t, l)
					c.edit(t, l, e)
					before := l.Bytes()
					r, err := restore(t, l, e, ImportOptions{Force: force})
					if force && c.forced {
						if err != nil || len(r.Overridden) == 0 {
							t.Errorf("%+v, %v", r, err)
						}
						if sb, err := diskquorum.ReadSuperblock(l.Bytes()); err != nil || sb != testSB {
							t.Errorf("superblock %+v, %v", sb, err)
						}
						return
					}
					if refused := new(RefusedError); !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "import /dev/lun: ") {
						t.Errorf("%v, want a refusal with %q", err, c.want)
					}
					if c.name != "alive" && !bytes.Equal(before, l.Bytes()) {
						t.Error("the device was written")
					}
				})
			})
		}
	}
}

// Every byte of an export is covered: no flip of a bit gets through. Behind the header one
// hash covers all, so every 61st byte is enough there.
func TestExportFileFlips(t *testing.T) {
	data := encodeExport(export(t, usedLUN(t)))
	for i := 0; i < len(data); i++ {
		if i > diskquorum.BlockSize {
			i = min(i+60, len(data)-1)
		}
		data[i] ^= 1 << (i % 8)
		if _, err := decodeExport(data); !errors.Is(err, ErrExportFile) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		data[i] ^= 1 << (i % 8)
	}
	for _, n := range []int{0, 7, 4095, 4096, len(data) - 1} {
		if _, err := decodeExport(data[:n]); !errors.Is(err, ErrExportFile) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestExportWaitsForWriters(t *testing.T) {
	l := usedLUN(t)
	whole := l.Bytes()
	l.Modify(func(b []byte) { // slot 3 is being written: half of its sectors are newer
		at := int(diskquorum.SlotOffset(3, 0))
		next := make([]byte, diskquorum.BlockSize)
		if err := diskquorum.EncodeSlot(next, testSB.ID, node(3, 302), 0); err != nil {
			t.Fatal(err)
		}
		copy(b[at:at+2048], next)
	})
	r := ExportResult{Warnings: []string{}}
	if _, err := r.read(t.Context(), l.Client()); err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "[3]") {
		t.Errorf("stays torn: %v, %q", err, r.Warnings)
	}
	l.Modify(func(b []byte) { copy(b, whole) })
	export(t, l)
}

func TestExportFileIsNew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := writeNewFile(file, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := writeNewFile(file, []byte("y")); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Error(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
}

func FuzzExportFile(f *testing.F) {
	sb := testSB
	sb.Slots = 2
	image := make([]byte, diskquorum.TableSize(2))
	for which := range 2 {
		if err := diskquorum.EncodeSuperblock(image[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], &sb, which); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(encodeExport(&exported{superblock: sb, deviceBytes: 1 << 20, taken: 1, image: image}))
	f.Add([]byte(exportMagic))
	f.Fuzz(func(t *testing.T, file []byte) {
		e, err := decodeExport(file)
		if err != nil {
			if !errors.Is(err, ErrExportFile) {
				t.Errorf("%v is not ErrExportFile", err)
			}
			return
		}
		if again := encodeExport(e); !bytes.Equal(again, file) {
			t.Error("an accepted file is not what would be written")
		}
	})
}
