package diskquorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// slotStatus is the state of a slot in the latest read.
type slotStatus uint8

const (
	slotUnknown slotStatus = iota // not read yet, or a copy failed its checksum (B9)
	slotBlank                     // neither copy has ever been written
	slotKnown
)

// sighting holds what the latest read of one device shows of a slot.
type sighting struct {
	status  slotStatus
	copies  [copiesPerSlot]Slot
	current int    // index of the newest valid copy
	tearing uint64 // sequence of a write that has only partly landed in one copy, or 0
	unread  int    // consecutive reads in which the slot was unknown
	past    past
	astray  bool // see noteAstray
}

func (s *sighting) record() *Slot { return &s.copies[s.current] }

// deviceTable is the latest read of one device.
type deviceTable struct {
	id     [16]byte
	slots  []sighting
	looked boottime.Instant // START of that read
}

// entry follows one slot over the reads of a majority. Liveness is "the record changed,
// seen on this node's clock"; nothing written by a peer is ever compared with a clock.
type entry struct {
	status  slotStatus
	newest  Slot   // the newest valid record
	tearing uint64 // the greatest sequence of a write that has only partly landed, or 0

	last  identity         // identity of the newest record read so far
	shown boottime.Instant // START of the latest read that showed that record, or showed the slot blank
	since boottime.Instant // END of the first read that showed that record
	after boottime.Instant // START of the last read that showed an older record; zero: none did
	beats int              // consecutive records seen with the same token and view

	unread int // consecutive reads in which the slot was unknown
}

func (e *entry) record() *Slot { return &e.newest }

// arrived returns when, by this node's clock, the record was seen to change, and whether it was.
func (e *entry) arrived() (boottime.Instant, bool) { return e.since, e.after != 0 }

// Table holds what this node knows about the LUN. It is updated by reads of the whole table from a majority of its
// devices.
type Table struct {
	devices []deviceTable
	entries []entry
	owners  map[string]int // slots by the name of their owner

	start, end boottime.Instant // of the latest completed read
	reads      uint64
	from       deviceSet // the devices of that read
}

// NewTable returns the table of a LUN that has not been read yet. A device that is not known yet is nil; all others
// belong to one set.
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

// take records the read of one device. The same read has shown the device's superblock: so a LUN that was exchanged or
// formatted again is noticed in the very read that would be misleading ([Arbiter.showed]).
func (t *Table) take(c *Completion) error {
	if want := TableSize(len(t.entries)); len(c.Data) < want {
		return fmt.Errorf("read slot table: only %d of %d bytes were read", len(c.Data), want)
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

// noteAstray records that the slot on this device is written with sequences below the newest known record. The owner's
// agent was started while it could not reach the device with that record, and on the other devices late writes had
// overwritten the records of earlier agents. So it continued from an older state. Such a device does not count for the
// slot (B8): otherwise the record of an agent that has ended would hide the promises and decisions of the running one.
// A record that does not change is different: an earlier agent left it on a device that the newest agent does not
// reach. before is the record in the last read, which began at looked.
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

// merge updates the table from the reads of a majority of devices.
func (t *Table) merge(from deviceSet, start, end boottime.Instant) {
	clear(t.owners)
	for i := len(t.entries) - 1; i >= 0; i-- { // if one node has two slots, the lower one counts
		t.mergeEntry(i, from, start, end)
		if e := &t.entries[i]; e.owned() {
			t.owners[e.record().NodeName] = i
		}
	}
	t.start, t.end, t.from = start, end, from
	t.reads++
}

// update decodes slot i from a read of the device with that id, and returns the errors of its copies.
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

// combine returns the state of slot i according to all devices that were read (B8): unknown unless it is known on a
// majority of all devices, otherwise the record with the greatest sequence.
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
			return slotUnknown, nil // two agents write it
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

// resolved reports whether every slot is known from these devices.
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
		// These devices missed a record that another device showed before. Its owner wrote it, so it stays the newest
		// known record. Otherwise a record that reached only one device would appear and disappear with each read, and
		// a dead owner's slot would seem to change.
		status, newest = slotKnown, &e.newest
	}
	if status == slotBlank && e.last != (identity{}) {
		status = slotUnknown // it was read before, and no agent makes a slot blank again (B9)
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

// changed records that a read which ended at end was the first to show the record now.
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

// judge picks the newest copy. A torn copy, whose sectors all verify but belong to two writes, is a write that has not
// completed. A regular register may return the other copy, if that is the record right before the incomplete write. If
// it is older, it was read before the torn copy, and a record may have existed between the two reads; only if the
// previous read showed the same torn copy (seen), there was none. Even then the newest whole record may be lost: if the
// other copy is from before a series of failed writes (retries), an old write that landed late may have overwritten it.
// A copy that fails its checksum may hide a completed write, so the whole slot is unknown (B9). The same applies to a
// copy that is blank although it must have been written: it was zeroed.
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

// besideBlank reports whether the other copy may be blank: this record is the first that ever landed in its slot. The
// copies are written in turns, so the first record has sequence 1, or another odd sequence if writes to the same copy
// had failed before, which the record states (B3).
func besideBlank(s *Slot) bool {
	return s.Sequence == 1 || s.Late != 0 && s.Sequence%copiesPerSlot == 1 && s.Sequence < retries
}

// SlotView shows a slot in a read of one device, for tools.
type SlotView struct {
	Copies  [copiesPerSlot]error // errors of DecodeSlot, by copy
	Record  *Slot                // the newest copy that can be read; nil: none
	Unknown bool                 // the slot is unknown to agents, even after more reads with the same result (B9)
}

// ReadSlots evaluates, like an agent, the slots that are within table, which begins at the superblock.
func ReadSlots(table []byte, sb *Superblock) (views []SlotView) {
	for i := 0; i < sb.Slots && SlotOffset(i+1, 0) <= int64(len(table)); i++ {
		s, v := &sighting{}, SlotView{}
		for range 2 { // a torn copy can be evaluated at the second read
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

// Slots returns the number of slots.
func (t *Table) Slots() int { return len(t.entries) }

// Slot returns the latest readable record of a slot and how long, by this node's clock, it has been unchanged at now;
// ok is false while the slot is blank or unknown.
func (t *Table) Slot(i int, now boottime.Instant) (s *Slot, unchanged time.Duration, ok bool) {
	e := &t.entries[i]
	if e.status != slotKnown {
		return nil, 0, false
	}
	return e.record(), now.Sub(e.since), true
}

// find returns the index of the slot that belongs to a node name. It must be fast: the core calls it in each step for
// each peer that it does not see.
func (t *Table) find(name string) (int, bool) {
	i, ok := t.owners[name]
	return i, ok && t.entries[i].owned() // forget may have removed it
}

// owned reports whether the slot is known to belong to a node.
func (e *entry) owned() bool { return e.status == slotKnown && e.record().State != SlotFree }

// torn reports whether a slot was unknown in the latest read that belongs to the named node, or had no owner when it
// was last readable.
func (t *Table) torn(name string) bool {
	return slices.ContainsFunc(t.entries, func(e entry) bool {
		return e.status == slotUnknown && (e.newest.NodeName == name || e.newest.NodeName == "" || e.newest.State == SlotFree)
	})
}

// unreadableAfter is the number of consecutive reads after which an unreadable slot counts as damaged, and not as a
// write under way.
const unreadableAfter = 3

// unreadable returns a slot that stays unreadable, or -1. Such a slot blocks every decision (B9), no matter who owns
// it, so it must raise an alarm before the next split.
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

// logState holds the latest decision (B7).
type logState struct {
	latest  uint64 // instance; 0: nothing decided yet
	grant   *Grant // its value
	pending bool   // a value may be decided in latest+1: no node may rely on latest
	unknown bool   // some slot cannot be read
	differs int    // slot that shows another value of latest, so the decision is not known; -1: none does
}

// log finds the latest decision in the table and in this node's ballot, which may be newer.
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
