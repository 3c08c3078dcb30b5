package history

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"
)

// The layout, little-endian. Header: magic 8, version 2, slot size 2, slots 4, CRC32C 4 of all before. Slot: CRC32C 4
// of the rest of the slot, version 1, kind 1, length of the fields 2, number 8, boot 8, clock 8, wall clock 8, then the
// fields: tag 1, length 2, bytes. A reader skips tags that it does not know.
const (
	HeaderSize = 4096
	SlotSize   = 512

	magic       = "FENCHIST"
	Version     = 1 // of the file
	headerBytes = 20
	slotHead    = 40
	fieldHead   = 3
)

// MaxSlots bounds the number of slots that a reader accepts from a header.
const MaxSlots = 1 << 20

const (
	tagAction byte = iota + 1
	tagReason
	tagText
	tagNodes
	tagFlags
	tagSlack
	tagWrite
	tagRead
)

const (
	flagQuorum = 1 << iota
	flagArmed
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// SlotsFor returns the number of slots of a file of this many bytes, at least one.
func SlotsFor(size int64) int {
	return int(min(MaxSlots, max(1, (size-HeaderSize)/SlotSize)))
}

// Size returns the length of a file of this many slots.
func Size(slots int) int64 { return HeaderSize + int64(slots)*SlotSize }

// Offset returns the offset of a slot in the file; slots count from 0.
func Offset(slot int) int64 { return HeaderSize + int64(slot)*SlotSize }

// Header returns the beginning of a file of this many slots.
func Header(slots int) []byte {
	b := make([]byte, HeaderSize)
	copy(b, magic)
	binary.LittleEndian.PutUint16(b[8:], Version)
	binary.LittleEndian.PutUint16(b[10:], SlotSize)
	binary.LittleEndian.PutUint32(b[12:], uint32(slots))
	binary.LittleEndian.PutUint32(b[16:], checksum(b[:16]))
	return b
}

// Encode returns the slot of a record. A record that does not fit is shortened: first the names of the nodes, then the
// text.
func Encode(r *Record) []byte {
	b := make([]byte, slotHead, SlotSize)
	b[4], b[5] = 1, byte(r.Kind)
	binary.LittleEndian.PutUint64(b[8:], r.Seq)
	binary.LittleEndian.PutUint64(b[16:], r.Boot)
	binary.LittleEndian.PutUint64(b[24:], uint64(r.Up))
	binary.LittleEndian.PutUint64(b[32:], uint64(r.Wall.UnixNano()))
	flags := byte(0)
	if r.Quorum {
		flags |= flagQuorum
	}
	if r.Armed {
		flags |= flagArmed
	}
	b = append(b, tagFlags, 1, 0, flags)
	b = number(number(number(b, tagSlack, r.Slack), tagWrite, r.Write), tagRead, r.Read)
	b = text(text(b, tagAction, r.Action, 40), tagReason, r.Reason, 60)
	b = text(b, tagText, r.Text, 200)
	b = text(b, tagNodes, fitting(r.Nodes, SlotSize-len(b)-fieldHead), SlotSize)
	binary.LittleEndian.PutUint16(b[6:], uint16(len(b)-slotHead))
	b = b[:SlotSize]
	binary.LittleEndian.PutUint32(b, checksum(b[4:]))
	return b
}

func number(b []byte, tag byte, d time.Duration) []byte {
	if d == 0 {
		return b
	}
	return binary.LittleEndian.AppendUint64(append(b, tag, 8, 0), uint64(d))
}

func text(b []byte, tag byte, s string, most int) []byte {
	s = s[:min(len(s), most, SlotSize-len(b)-fieldHead)]
	if s == "" {
		return b
	}
	return append(append(b, tag, byte(len(s)), byte(len(s)>>8)), s...)
}

// fitting joins as many names as fit, and appends the number of the others.
func fitting(names []string, room int) string {
	all := strings.Join(names, " ")
	if len(all) <= room {
		return all
	}
	const tail = 8 // room for "+1000"
	out := ""
	for i, n := range names {
		if len(out)+1+len(n) > room-tail {
			return strings.TrimSpace(fmt.Sprintf("%s +%d", out, len(names)-i))
		}
		out = strings.TrimSpace(out + " " + n)
	}
	return out
}

// File is the content of a history file.
type File struct {
	Slots   int
	Records []Record // by number
	Places  []int    // the slot of each record
	Damaged int      // slots that are neither empty nor whole
}

// Errors of Decode. The caller adds what to do.
var (
	ErrForeign = errors.New("it is not a history of fencing-agent")
	ErrDamaged = errors.New("its header is damaged")
	ErrLater   = errors.New("it was written by a later version")
)

// Decode reads a whole file. In a file that is too short, the last slots are missing. Decode never panics, whatever the
// bytes are.
func Decode(b []byte) (File, error) {
	if len(b) < headerBytes || string(b[:len(magic)]) != magic {
		return File{}, ErrForeign
	}
	if binary.LittleEndian.Uint32(b[16:]) != checksum(b[:16]) {
		return File{}, ErrDamaged
	}
	if v := binary.LittleEndian.Uint16(b[8:]); v != Version {
		return File{}, fmt.Errorf("%w: the file has format %d, but this version only knows %d", ErrLater, v, Version)
	}
	slots := binary.LittleEndian.Uint32(b[12:])
	if binary.LittleEndian.Uint16(b[10:]) != SlotSize || slots == 0 || slots > MaxSlots {
		return File{}, ErrDamaged
	}
	f := File{Slots: int(slots)}
	var found []placed
	for at := HeaderSize; at+SlotSize <= len(b) && at < int(Size(f.Slots)); at += SlotSize {
		slot := b[at : at+SlotSize]
		r, ok := decodeSlot(slot)
		switch {
		case ok:
			found = append(found, placed{r, (at - HeaderSize) / SlotSize})
		case len(bytes.Trim(slot, "\x00")) > 0:
			f.Damaged++
		}
	}
	slices.SortFunc(found, func(a, b placed) int { return cmp.Compare(a.Seq, b.Seq) })
	for i := range found {
		f.Records, f.Places = append(f.Records, found[i].Record), append(f.Places, found[i].slot)
	}
	return f, nil
}

// placed is a record and its slot.
type placed struct {
	Record
	slot int
}

// decodeSlot decodes a slot with a correct checksum, which does not prove that the lengths inside are right.
func decodeSlot(b []byte) (r Record, ok bool) {
	if binary.LittleEndian.Uint32(b) != checksum(b[4:]) || b[4] == 0 {
		return r, false
	}
	n := int(binary.LittleEndian.Uint16(b[6:]))
	if n > SlotSize-slotHead {
		return r, false
	}
	r.Kind = Kind(b[5])
	r.Seq, r.Boot = binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	r.Up = time.Duration(binary.LittleEndian.Uint64(b[24:]))
	r.Wall = time.Unix(0, int64(binary.LittleEndian.Uint64(b[32:]))).UTC()
	for rest := b[slotHead : slotHead+n]; len(rest) > 0; {
		if len(rest) < fieldHead {
			return Record{}, false
		}
		tag, size := rest[0], int(binary.LittleEndian.Uint16(rest[1:]))
		if len(rest)-fieldHead < size {
			return Record{}, false
		}
		r.take(tag, rest[fieldHead:fieldHead+size])
		rest = rest[fieldHead+size:]
	}
	return r, true
}

func (r *Record) take(tag byte, v []byte) {
	switch {
	case tag == tagAction:
		r.Action = string(v)
	case tag == tagReason:
		r.Reason = string(v)
	case tag == tagText:
		r.Text = string(v)
	case tag == tagNodes:
		r.Nodes = strings.Fields(string(v))
	case tag == tagFlags && len(v) == 1:
		r.Quorum, r.Armed = v[0]&flagQuorum != 0, v[0]&flagArmed != 0
	case tag == tagSlack && len(v) == 8:
		r.Slack = time.Duration(binary.LittleEndian.Uint64(v))
	case tag == tagWrite && len(v) == 8:
		r.Write = time.Duration(binary.LittleEndian.Uint64(v))
	case tag == tagRead && len(v) == 8:
		r.Read = time.Duration(binary.LittleEndian.Uint64(v))
	}
}
