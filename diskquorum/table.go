package diskquorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// slotStatus is what the latest read says of a slot.
type slotStatus uint8

const (
	slotUnknown slotStatus = iota // not read yet, or a copy failed its checksum (B9)
	slotBlank                     // both copies never written
	slotKnown
)

// entry follows one slot over the reads. Liveness is "the record changed, seen on the
// own clock"; nothing written by a peer is ever compared with a clock.
type entry struct {
	status  slotStatus
	copies  [copiesPerSlot]Slot
	current int    // index of the newest valid copy
	tearing uint64 // sequence of a write that has landed in one copy only in part, or 0

	last  identity         // of the newest record read so far
	shown boottime.Instant // START of the latest read that showed it, or showed the slot blank
	since boottime.Instant // END of the first read that showed it
	after boottime.Instant // START of the last read that showed an older one; zero: none did
	beats int              // records seen in a row with the same token and view

	unread int // reads in a row that could make nothing of the slot
}

func (e *entry) record() *Slot { return &e.copies[e.current] }

// arrived reports whether the record was seen to change on the own clock, and when.
func (e *entry) arrived() (boottime.Instant, bool) { return e.since, e.after != 0 }

// Table is the own picture of the LUN, updated by whole-table reads.
type Table struct {
	id      [16]byte
	entries []entry

	start, end boottime.Instant // of the latest completed read
	reads      uint64
}

// NewTable returns the picture of a LUN nobody has read yet.
func NewTable(sb *Superblock) *Table {
	return &Table{id: sb.ID, entries: make([]entry, sb.Slots)}
}

// ErrIdentity says that the device under the path is not the LUN it was.
var ErrIdentity = errors.New("the LUN changed its identity under the same path")

// Update takes a completed read of the whole table. The superblock is part of it, so a
// LUN that was exchanged or formatted anew is noticed by the read that would mislead.
func (t *Table) Update(c *Completion) error {
	if want := TableSize(len(t.entries)); len(c.Data) < want {
		return fmt.Errorf("read slot table: %d of %d bytes", len(c.Data), want)
	}
	if err := t.checkIdentity(c.Data); err != nil {
		return err
	}
	for i := range t.entries {
		t.updateEntry(i, c)
	}
	t.start, t.end = c.Started, c.Ended
	t.reads++
	return nil
}

func (t *Table) checkIdentity(data []byte) error {
	var last error
	for copy := range superblockBlocks {
		sb, err := DecodeSuperblock(data[copy*BlockSize:(copy+1)*BlockSize], copy)
		if err != nil {
			last = err
			continue
		}
		if sb.ID != t.id || sb.Slots != len(t.entries) {
			return fmt.Errorf("%w: format id %x, expected %x", ErrIdentity, sb.ID, t.id)
		}
		return nil
	}
	return fmt.Errorf("read superblock: %w", last)
}

func (t *Table) updateEntry(i int, c *Completion) {
	e := &t.entries[i]
	var errs [copiesPerSlot]error
	tearing := uint64(0)
	for copy := range copiesPerSlot {
		off := SlotOffset(i, copy)
		block := c.Data[off : off+BlockSize]
		if errs[copy] = DecodeSlot(block, t.id, i, copy, &e.copies[copy]); errors.Is(errs[copy], ErrTorn) {
			tearing, _ = unseal(block, kindSlot, t.id, slotBlock(i, copy))
		}
	}
	status, current := judge(errs, &e.copies, tearing, e.tearing)
	e.status, e.tearing = status, tearing
	if status == slotKnown {
		e.current = current
	}
	switch status {
	case slotUnknown:
		e.unread++
		return
	case slotBlank:
		e.last, e.beats = identity{}, 0
	case slotKnown:
		if now := identityOf(e.record()); now != e.last {
			e.changed(now, c.Ended)
		}
	}
	e.shown, e.unread = c.Started, 0
}

// changed notes that a read which ended at end was the first to show the record now.
func (e *entry) changed(now identity, end boottime.Instant) {
	if now.process == e.last.process && now.token == e.last.token && now.view == e.last.view {
		e.beats++
	} else {
		e.beats = 1
	}
	e.last, e.since, e.after = now, end, e.shown
}

// identity is the part of a record by which changes are told.
type identity struct {
	process, sequence uint64
	token             Token
	view              netgossip.Set
}

func identityOf(s *Slot) identity {
	return identity{s.Process, s.Sequence, s.Statement.Token, s.Statement.View}
}

// judge picks the newest copy. A torn copy, all of whose sectors verify but belong to
// two writes, is a write that has not completed: returning the other copy is what a
// regular register may do, if that one is the record right before the write that tears.
// Else it was looked at before the torn one, and a record may have come and gone between
// the two looks; only if the read before showed the same torn copy (seen) there was none.
// A copy that fails its checksum may hide a completed write, so the whole slot is unknown (B9).
func judge(errs [copiesPerSlot]error, copies *[copiesPerSlot]Slot, tearing, seen uint64) (status slotStatus, current int) {
	valid, blank := 0, 0
	newest := uint64(0) // a blank copy is older than any record
	for i, err := range errs {
		switch {
		case err == nil:
			if valid++; copies[i].Sequence > newest {
				newest, current = copies[i].Sequence, i
			}
		case errors.Is(err, ErrBlank):
			blank++
		case errors.Is(err, ErrTorn):
		default:
			return slotUnknown, 0
		}
	}
	switch {
	case valid+blank == 0, tearing > newest+1 && tearing != seen:
		return slotUnknown, 0
	case valid > 0:
		return slotKnown, current
	default:
		return slotBlank, 0
	}
}

// Slots is the number of slots.
func (t *Table) Slots() int { return len(t.entries) }

// Slot returns the latest readable record of a slot and how long the own clock has seen
// it unchanged at now; ok is false while the slot is blank or unknown.
func (t *Table) Slot(i int, now boottime.Instant) (s *Slot, unchanged time.Duration, ok bool) {
	e := &t.entries[i]
	if e.status != slotKnown {
		return nil, 0, false
	}
	return e.record(), now.Sub(e.since), true
}

// find returns the index of the slot that belongs to a node name.
func (t *Table) find(name string) (int, bool) {
	for i := range t.entries {
		if e := &t.entries[i]; e.status == slotKnown && e.record().State != SlotFree && e.record().NodeName == name {
			return i, true
		}
	}
	return 0, false
}

// unreadableAfter is the number of reads in a row after which a slot that cannot be read
// is damage and not a write under way.
const unreadableAfter = 3

// unreadable returns a slot that stays unreadable, or -1. It blocks every decision (B9),
// whoever owns it, so it must be an alarm before the next split.
func (t *Table) unreadable() int {
	for i := range t.entries {
		if t.entries[i].unread >= unreadableAfter {
			return i
		}
	}
	return -1
}

// anyUnknown reports whether some slot could not be read.
func (t *Table) anyUnknown() bool {
	for i := range t.entries {
		if t.entries[i].status == slotUnknown {
			return true
		}
	}
	return false
}

// logState is the answer to "what was decided last" (B7).
type logState struct {
	latest  uint64 // instance; 0: nothing decided yet
	grant   *Grant // its value
	pending bool   // a value may be decided in latest+1: nobody may rely on latest
	unknown bool   // some slot cannot be read
}

// log reads the decisions out of the table and the own ballot, which may be newer.
func (t *Table) log(own *Ballot) logState {
	l := logState{latest: own.DecidedInstance, grant: own.Decided, unknown: t.reads == 0 || t.anyUnknown()}
	for i := range t.entries {
		if e := &t.entries[i]; e.status == slotKnown {
			if b := &e.record().Ballot; b.DecidedInstance > l.latest {
				l.latest, l.grant = b.DecidedInstance, b.Decided
			}
		}
	}
	l.pending = own.Instance > l.latest && own.Bal != 0
	for i := range t.entries {
		if e := &t.entries[i]; e.status == slotKnown {
			if b := &e.record().Ballot; b.Instance > l.latest && b.Bal != 0 {
				l.pending = true
			}
		}
	}
	return l
}
