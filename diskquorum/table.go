package diskquorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// slotStatus is what the latest read says about a slot.
type slotStatus uint8

const (
	slotUnknown slotStatus = iota // not read yet, or a copy failed its checksum (B9)
	slotBlank                     // both copies never written
	slotKnown
)

// sighting is what the latest read of one device says of a slot.
type sighting struct {
	status  slotStatus
	copies  [copiesPerSlot]Slot
	current int    // index of the newest valid copy
	tearing uint64 // sequence of a write that has landed in one copy only in part, or 0
	unread  int    // reads in a row that could make nothing of the slot
	past    past
	astray  bool // see noteAstray
}

func (s *sighting) record() *Slot { return &s.copies[s.current] }

// deviceTable is the latest read of one device.
type deviceTable struct {
	id     [16]byte
	slots  []sighting
	looked boottime.Instant // START of it
}

// entry follows one slot over the reads of a majority. Liveness is "the record changed,
// seen on this node's clock"; nothing written by a peer is ever compared with a clock.
type entry struct {
	status  slotStatus
	newest  Slot   // the newest valid record
	tearing uint64 // the greatest sequence of a write that has landed in part, or 0

	last  identity         // of the newest record read so far
	shown boottime.Instant // START of the latest read that showed it, or showed the slot blank
	since boottime.Instant // END of the first read that showed it
	after boottime.Instant // START of the last read that showed an older one; zero: none did
	beats int              // records seen in a row with the same token and view

	unread int // reads in a row that could make nothing of the slot
}

func (e *entry) record() *Slot { return &e.newest }

// arrived reports whether the record was seen to change on this node's clock, and when.
func (e *entry) arrived() (boottime.Instant, bool) { return e.since, e.after != 0 }

// Table is what this node knows of the LUN, updated by whole-table reads of a majority of its
// devices.
type Table struct {
	devices []deviceTable
	entries []entry
	owners  map[string]int // slots by the node that they belong to

	start, end boottime.Instant // of the latest completed read
	reads      uint64
	from       deviceSet // the devices it read
}

// NewTable returns the table of a LUN that nobody has read yet. A device that is not known
// yet is nil; all others belong to one set.
func NewTable(devices ...*Superblock) *Table {
	t := &Table{devices: make([]deviceTable, len(devices)), owners: map[string]int{}}
	for _, sb := range devices {
		if sb != nil {
			t.entries = make([]entry, sb.Slots)
			break
		}
	}
	for d, sb := range devices {
		t.devices[d].slots = make([]sighting, len(t.entries))
		if sb != nil {
			t.devices[d].id = sb.ID
		}
	}
	return t
}

// take notes what one device says that has shown its superblock in the same read: a LUN that was exchanged or
// formatted again is noticed by the read that would mislead ([Arbiter.showed]).
func (t *Table) take(c *Completion) error {
	if want := TableSize(len(t.entries)); len(c.Data) < want {
		return fmt.Errorf("read slot table: %d of %d bytes", len(c.Data), want)
	}
	dev := &t.devices[c.Device]
	for i := range dev.slots {
		s := &dev.slots[i]
		before := identityOf(s.record())
		s.update(i, dev.id, c.Data)
		if len(t.devices) > 1 {
			s.noteAstray(before, dev.looked, &t.entries[i])
		}
	}
	dev.looked = c.Started
	return nil
}

// noteAstray notes that somebody writes the slot on this device with sequences below the newest known record. The
// owner's agent was started while it could not reach the device with that record. On the other devices late writes
// had taken back what earlier agents had written. So it continued from an older state than theirs. Such a device does
// not tell the slot (B8); otherwise the record of an agent that has ended would hide the promises and decisions of
// the running one. A record that does not change was left by an earlier agent on a device that the newest one does
// not reach. before is what the last read showed, which began at looked.
func (s *sighting) noteAstray(before identity, looked boottime.Instant, e *entry) {
	if s.status != slotKnown {
		return
	}
	switch now := identityOf(s.record()); {
	case now.sequence >= e.last.sequence || now.process == e.last.process:
		s.astray = false
	case looked >= e.since && now != before:
		s.astray = true
	}
}

// merge makes what a majority of devices says the valid state of the table.
func (t *Table) merge(from deviceSet, start, end boottime.Instant) {
	clear(t.owners)
	for i := len(t.entries) - 1; i >= 0; i-- { // of two slots of one node the lower one counts
		t.mergeEntry(i, from, start, end)
		if e := &t.entries[i]; e.owned() {
			t.owners[e.record().NodeName] = i
		}
	}
	t.start, t.end, t.from = start, end, from
	t.reads++
}

// update takes slot i out of a read of the device with that id, and returns how its copies could be read.
func (s *sighting) update(i int, id [16]byte, data []byte) (errs [copiesPerSlot]error) {
	tearing := uint64(0)
	for copy := range copiesPerSlot {
		off := SlotOffset(i, copy)
		block := data[off : off+BlockSize]
		if errs[copy] = DecodeSlot(block, id, i, copy, &s.copies[copy]); errors.Is(errs[copy], ErrTorn) {
			tearing, _ = unseal(block, kindSlot, id, slotBlock(i, copy))
		}
	}
	s.past.follow(&errs, &s.copies)
	status, current := judge(errs, &s.copies, tearing, s.tearing)
	s.status, s.tearing = status, tearing
	switch status {
	case slotUnknown:
		s.unread++
		return errs
	case slotKnown:
		s.current = current
	}
	s.unread = 0
	return errs
}

// combine is what the devices that were read together say about slot i (B8): unknown unless a majority of all devices
// can tell it, else the record with the greatest sequence.
func (t *Table) combine(i int, from deviceSet) (status slotStatus, newest *Slot) {
	known := 0
	for d := range t.devices {
		s := &t.devices[d].slots[i]
		if !from.has(d) || s.status == slotUnknown || s.astray {
			continue
		}
		known++
		if s.status == slotBlank {
			continue
		}
		switch rec := s.record(); {
		case newest == nil || rec.Sequence > newest.Sequence:
			newest = rec
		case rec.Sequence == newest.Sequence && rec.Process != newest.Process:
			return slotUnknown, nil // two write it
		}
	}
	switch {
	case known < len(t.devices)/2+1:
		return slotUnknown, nil
	case newest == nil:
		return slotBlank, nil
	}
	return slotKnown, newest
}

// resolved reports whether these devices tell every slot.
func (t *Table) resolved(from deviceSet) bool {
	for i := range t.entries {
		if status, _ := t.combine(i, from); status == slotUnknown {
			return false
		}
	}
	return true
}

func (t *Table) mergeEntry(i int, from deviceSet, start, end boottime.Instant) {
	e := &t.entries[i]
	e.tearing = 0
	for d := range t.devices {
		e.tearing = max(e.tearing, t.devices[d].slots[i].tearing)
	}
	status, newest := t.combine(i, from)
	if len(t.devices) > 1 && status != slotUnknown && e.last.sequence > 0 && (newest == nil || newest.Sequence < e.last.sequence) {
		// These devices missed a record that another one showed before. Its owner wrote it, so it stays the newest
		// known; otherwise a record that reached only one device would come and go, and a dead owner's slot would
		// never stand still.
		status, newest = slotKnown, &e.newest
	}
	if status == slotBlank && e.last != (identity{}) {
		status = slotUnknown // it was read before, and nobody makes a slot blank again (B9)
	}
	e.status = status
	switch status {
	case slotUnknown:
		e.unread++
		return
	case slotBlank:
		e.beats = 0
	case slotKnown:
		e.newest = *newest
		if now := identityOf(newest); now != e.last {
			e.changed(now, end)
		}
	}
	e.shown, e.unread = start, 0
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

// identity is the part of a record that shows changes.
type identity struct {
	process, sequence uint64
	token             Token
	view              roster.Set
}

func identityOf(s *Slot) identity {
	return identity{s.Process, s.Sequence, s.Statement.Token, s.Statement.View}
}

// judge picks the newest copy. A torn copy, all of whose sectors verify but belong to
// two writes, is a write that has not completed: returning the other copy is what a
// regular register may do, if that one is the record right before the write that tears.
// Else it was looked at before the torn one, and a record may have come and gone between
// the two looks; only if the read before showed the same torn copy (seen) there was none.
// Even then the other copy may have been taken back by an old write that landed late, if
// it is from before a series of failed writes (retries): the newest whole record is lost.
// A copy that fails its checksum may hide a completed write, so the whole slot is unknown (B9).
// So may one that is blank although it must have been written: somebody has zeroed it.
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
	case valid == 1 && blank == 1 && !besideBlank(&copies[current]):
		return slotUnknown, 0
	case valid+blank == 0, tearing > newest+1 && tearing != seen, tearing > newest+retries:
		return slotUnknown, 0
	case valid > 0:
		return slotKnown, current
	default:
		return slotBlank, 0
	}
}

// besideBlank reports whether the other copy may be blank if this is one copy: it is the first record that ever
// landed in its slot. The copies are written in turns, so that is sequence 1; or an odd one, where writes of the same
// copy had failed before it, which the record says (B3).
func besideBlank(s *Slot) bool {
	return s.Sequence == 1 || s.Late != 0 && s.Sequence%copiesPerSlot == 1 && s.Sequence < retries
}

// SlotView is what a read of one device shows of a slot, for tools.
type SlotView struct {
	Copies  [copiesPerSlot]error // as DecodeSlot has read them
	Record  *Slot                // the newest copy that can be read; nil: none
	Unknown bool                 // agents cannot tell the slot, however often they read the same (B9)
}

// ReadSlots judges the slots that are within table, which begins at the superblock, as an agent does.
func ReadSlots(table []byte, sb *Superblock) (views []SlotView) {
	for i := 0; i < sb.Slots && SlotOffset(i+1, 0) <= int64(len(table)); i++ {
		s, v := &sighting{}, SlotView{}
		for range 2 { // a torn copy can be told at the second read
			v.Copies = s.update(i, sb.ID, table)
		}
		v.Unknown = s.status == slotUnknown
		for which, err := range v.Copies {
			if err == nil && (v.Record == nil || s.copies[which].Sequence > v.Record.Sequence) {
				v.Record = &s.copies[which]
			}
		}
		views = append(views, v)
	}
	return views
}

// Slots is the number of slots.
func (t *Table) Slots() int { return len(t.entries) }

// Slot returns the latest readable record of a slot and how long this node's clock has seen
// it unchanged at now; ok is false while the slot is blank or unknown.
func (t *Table) Slot(i int, now boottime.Instant) (s *Slot, unchanged time.Duration, ok bool) {
	e := &t.entries[i]
	if e.status != slotKnown {
		return nil, 0, false
	}
	return e.record(), now.Sub(e.since), true
}

// find returns the index of the slot that belongs to a node name. The core looks for each peer that it does not see with each step.
func (t *Table) find(name string) (int, bool) {
	i, ok := t.owners[name]
	return i, ok && t.entries[i].owned() // forget may have taken it
}

// owned reports whether the slot is known to belong to a node.
func (e *entry) owned() bool { return e.status == slotKnown && e.record().State != SlotFree }

// torn reports whether the latest read could not tell a slot that is this node's, or was nobody's when it was read last.
func (t *Table) torn(name string) bool {
	return slices.ContainsFunc(t.entries, func(e entry) bool {
		return e.status == slotUnknown && (e.newest.NodeName == name || e.newest.NodeName == "" || e.newest.State == SlotFree)
	})
}

// unreadableAfter is the number of reads in a row after which a slot that cannot be read
// is damage and not a write under way.
const unreadableAfter = 3

// unreadable returns a slot that stays unreadable, or -1. It blocks every decision (B9),
// no matter whose it is, so it must be an alarm before the next split.
func (t *Table) unreadable() int {
	for i := range t.entries {
		if t.entries[i].unread >= unreadableAfter {
			return i
		}
	}
	return -1
}

// unreadable returns the same as [Table.unreadable] for one device, where an unreadable slot need not block anything.
func (t *deviceTable) unreadable() int {
	for i := range t.slots {
		if t.slots[i].unread >= unreadableAfter {
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
	differs int    // slot that shows another value of latest, and so nothing is known; -1: none does
}

// log reads the decisions out of the table and this node's ballot, which may be newer.
func (t *Table) log(own *Ballot) logState {
	l := logState{latest: own.DecidedInstance, grant: own.Decided, unknown: t.reads == 0 || t.anyUnknown(), differs: -1}
	for i := range t.entries {
		if e := &t.entries[i]; e.status == slotKnown {
			if b := &e.record().Ballot; b.DecidedInstance > l.latest {
				l.latest, l.grant = b.DecidedInstance, b.Decided
			}
		}
	}
	for i := range t.entries {
		if e := &t.entries[i]; e.status == slotKnown {
			if b := &e.record().Ballot; l.latest != 0 && b.DecidedInstance == l.latest && !b.Decided.Equal(l.grant) {
				l.unknown, l.differs = true, i
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
