package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// slotView holds what can be read of one slot.
type slotView struct {
	index   int
	record  *diskquorum.Slot // the newest readable copy; nil: none
	copies  [2]string        // "valid", "blank", "torn", "corrupt", "newer format"
	unknown bool             // the slot is unknown to agents
}

func (v *slotView) blank() bool { return v.copies == [2]string{copyBlank, copyBlank} }

// hides reports whether an unreadable copy may be newer than the record.
func (v *slotView) hides() bool { return v.unknown || v.record == nil && !v.blank() }

const (
	copyValid   = "valid"
	copyBlank   = "blank"
	copyTorn    = "torn"
	copyCorrupt = "corrupt"
	copyNewer   = "newer format"
)

// copyHealth returns the name of the result of decoding a copy.
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

// readSlots evaluates all slots that are within table, which begins at the superblock.
func readSlots(table []byte, sb *diskquorum.Superblock) (views []slotView) {
	for i, s := range diskquorum.ReadSlots(table, sb) {
		v := slotView{index: i, record: s.Record, unknown: s.Unknown}
		for which, err := range s.Copies {
			if v.copies[which] = copyHealth(err); v.copies[which] == copyBlank && s.Unknown && s.Record != nil {
				v.copies[which] = copyCorrupt // it has been written, and zeroed later (lease.md B9)
			}
		}
		views = append(views, v)
	}
	return views
}

// readAttempts bounds the reading of a table that is being written.
const readAttempts = 20

// readTable reads superblocks and slots. An unreadable slot may be written at this moment, so it is read again.
func readTable(ctx context.Context, dev diskquorum.Device, sb *diskquorum.Superblock) ([]byte, error) {
	for n := 1; ; n++ {
		table, err := readOnce(ctx, dev, sb)
		if err != nil || n == readAttempts || !slices.ContainsFunc(readSlots(table, sb), func(v slotView) bool { return v.unknown }) {
			return table, err
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func readOnce(_ context.Context, dev diskquorum.Device, sb *diskquorum.Superblock) ([]byte, error) {
	return readAll(dev, int64(diskquorum.TableSize(sb.Slots)))
}

// damage lists the parts of superblock and slots that agents cannot read, as texts.
func damage(table []byte, sb *diskquorum.Superblock) []string {
	out := []string{}
	for which, health := range superblockCopies(table) {
		if health != copyValid {
			out = append(out, fmt.Sprintf("superblock copy %c is %s", 'A'+which, health))
		}
	}
	for _, v := range readSlots(table, sb) {
		name := ""
		if !v.unknown {
			continue
		}
		if v.record != nil && v.record.NodeName != "" {
			name = " of " + clean(v.record.NodeName)
		}
		out = append(out, fmt.Sprintf("the state of slot %d%s is unknown: its copies are %s and %s", v.index, name, v.copies[0], v.copies[1]))
	}
	return out
}

// superblockCopies returns the health of both superblock copies, at the start of head.
func superblockCopies(head []byte) (health [2]string) {
	for which := range health {
		_, err := diskquorum.DecodeSuperblock(head[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], which)
		health[which] = copyHealth(err)
	}
	return health
}

// clean makes a name from the LUN safe for a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
