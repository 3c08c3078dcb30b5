package lunadmin

import (
	"errors"
	"strings"
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
		views = append(views, v)
	}
	return views
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
