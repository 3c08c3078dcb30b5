package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// slotView is what can be read of one slot.
type slotView struct {
	index  int
	record *diskquorum.Slot // the newest readable copy; nil: none
	copies [2]string        // "valid", "blank", "torn", "corrupt", "newer format"
}

func (v *slotView) blank() bool { return v.copies == [2]string{copyBlank, copyBlank} }

// hides reports whether a copy that cannot be read may be newer than the record.
func (v *slotView) hides() bool {
	for _, c := range v.copies {
		if c != copyValid && c != copyBlank && c != copyTorn {
			return true
		}
	}
	return v.record == nil && !v.blank()
}

const (
	copyValid   = "valid"
	copyBlank   = "blank"
	copyTorn    = "torn"
	copyCorrupt = "corrupt"
	copyNewer   = "newer format"
)

// copyHealth is the word for the result of decoding a copy.
func copyHealth(err error) string {
	switch {
	case err == nil:
		return copyValid
	case errors.Is(err, diskquorum.ErrBlank):
		return copyBlank
	case errors.Is(err, diskquorum.ErrTorn):
		return copyTorn
	case errors.Is(err, diskquorum.ErrVersion):
		return copyNewer
	}
	return copyCorrupt
}

// readSlots decodes all slots that are within table, which begins at the superblock.
func readSlots(table []byte, sb *diskquorum.Superblock) []slotView {
	var views []slotView
	for i := range sb.Slots {
		v := slotView{index: i}
		for which := range 2 {
			off := diskquorum.SlotOffset(i, which)
			if off+diskquorum.BlockSize > int64(len(table)) {
				return views
			}
			var s diskquorum.Slot
			err := diskquorum.DecodeSlot(table[off:off+diskquorum.BlockSize], sb.ID, i, which, &s)
			v.copies[which] = copyHealth(err)
			if err == nil && (v.record == nil || s.Sequence > v.record.Sequence) {
				v.record = &s
			}
		}
		if v.record != nil && !diskquorum.BesideBlank(v.record) {
			for which := range v.copies {
				if v.copies[which] == copyBlank {
					v.copies[which] = copyCorrupt // it was written, and somebody has zeroed it (lease.md B9)
				}
			}
		}
		views = append(views, v)
	}
	return views
}

// readTable reads superblocks and slots. A slot that cannot be told may be under way: it is looked at again.
func readTable(ctx context.Context, dev diskquorum.Device, sb *diskquorum.Superblock) ([]byte, error) {
	for n := 1; ; n++ {
		table, err := readAll(dev, int64(diskquorum.TableSize(sb.Slots)))
		if err != nil || n == exportAttempts || len(diskquorum.UnreadableSlots(table, sb)) == 0 {
			return table, err
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// damage says what of superblock and slots agents cannot read, in words.
func damage(table []byte, sb *diskquorum.Superblock) []string {
	out := damagedCopies(table, sb)
	views := readSlots(table, sb)
	for _, i := range diskquorum.UnreadableSlots(table, sb) {
		name := ""
		if r := views[i].record; r != nil && r.NodeName != "" {
			name = " of " + clean(r.NodeName)
		}
		out = append(out, fmt.Sprintf("slot %d%s cannot be told, its copies are %s and %s", i, name, views[i].copies[0], views[i].copies[1]))
	}
	return out
}

// damagedCopies says which copies of the superblock, with which head begins, do not say what sb says.
func damagedCopies(head []byte, sb *diskquorum.Superblock) []string {
	out := []string{}
	for which := range 2 {
		found, err := diskquorum.DecodeSuperblock(head[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], which)
		switch {
		case err != nil:
			out = append(out, fmt.Sprintf("superblock copy %c is %s", 'A'+which, copyHealth(err)))
		case found != *sb:
			out = append(out, fmt.Sprintf("superblock copy %c is of another LUN", 'A'+which))
		}
	}
	return out
}

// clean makes a name from the LUN fit for a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
