package diskquorum

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// photo is a hand-made image of a LUN with three slots.
type photo struct {
	t     *testing.T
	image []byte
	table *Table
}

func newPhoto(t *testing.T) *photo {
	t.Helper()
	sb := &Superblock{Version: FormatVersion, ID: sampleID, Cluster: "c", NodeGroup: "g", Slots: 3}
	p := &photo{t: t, image: make([]byte, TableSize(sb.Slots)), table: NewTable(sb)}
	for which := range superblockBlocks {
		if err := EncodeSuperblock(p.block(which), sb, which); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *photo) block(n int) []byte { return p.image[n*BlockSize : (n+1)*BlockSize] }

// copy returns copy 0 or 1 of slot 1, which the tests examine.
func (p *photo) copy(which int) []byte { return p.block(superblockBlocks + copiesPerSlot + which) }

// write writes a record with that sequence to its copy.
func (p *photo) write(sequence uint64, change func(*Slot)) {
	p.t.Helper()
	s := Slot{Index: 1, State: SlotActive, Sequence: sequence, NodeName: "n1", Process: 7, RosterSize: 3}
	s.Statement.Token = Token{Nonce: 9, Counter: 1}
	if change != nil {
		change(&s)
	}
	if err := EncodeSlot(p.copy(int(sequence%2)), sampleID, &s, int(sequence%2)); err != nil {
		p.t.Fatal(err)
	}
}

// written writes a record with that sequence to its copy, and the record before it to the other copy.
func (p *photo) written(sequence uint64, change func(*Slot)) {
	p.t.Helper()
	p.write(sequence-1, change)
	p.write(sequence, change)
}

// tear overwrites its copy with half of a record with that sequence.
func (p *photo) tear(sequence uint64) {
	p.t.Helper()
	which := int(sequence % 2)
	was := bytes.Clone(p.copy(which))
	p.write(sequence, nil)
	copy(p.copy(which)[BlockSize/2:], was[BlockSize/2:])
}

// read lets the table read the photo; the read takes from start to end, in seconds.
func (p *photo) read(start, end float64) *entry {
	p.t.Helper()
	c := p.completion(start, end)
	if err := p.table.take(c); err != nil {
		p.t.Fatal(err)
	}
	p.table.merge(1<<c.Device, c.Started, c.Ended)
	return &p.table.entries[1]
}

func (p *photo) completion(start, end float64) *Completion {
	at := func(s float64) boottime.Instant { return boottime.Instant(s * float64(time.Second)) }
	return &Completion{Kind: OpRead, Started: at(start), Ended: at(end), Data: p.image}
}

// Guard: B9. The state of a slot, for each combination of its copies.
func TestCopiesOfASlot(t *testing.T) {
	spoil := func(p *photo, which int) { p.copy(which)[700] ^= 1 }
	late := func(s *Slot) { s.Late = 1 }
	for _, c := range []struct {
		name  string
		make  func(p *photo)
		want  slotStatus
		seq   uint64
		again slotStatus // in a second read of the same photo
	}{
		{"never written", func(*photo) {}, slotBlank, 0, slotBlank},
		{"written once", func(p *photo) { p.write(1, nil) }, slotKnown, 1, slotKnown},
		{"the newer copy counts", func(p *photo) { p.write(41, nil); p.write(42, nil) }, slotKnown, 42, slotKnown},
		{"whichever it is", func(p *photo) { p.write(43, nil); p.write(42, nil) }, slotKnown, 43, slotKnown},
		{"the newer fails its checksum", func(p *photo) { p.write(41, nil); p.write(42, nil); spoil(p, 0) }, slotUnknown, 0, slotUnknown},
		{"the older fails its checksum", func(p *photo) { p.write(41, nil); p.write(42, nil); spoil(p, 1) }, slotUnknown, 0, slotUnknown},
		{"one fails, the other is blank", func(p *photo) { p.write(41, nil); spoil(p, 1) }, slotUnknown, 0, slotUnknown},
		{"the next write is torn", func(p *photo) { p.write(40, nil); p.write(41, nil); p.tear(42) }, slotKnown, 41, slotKnown},
		{"an earlier one is torn", func(p *photo) { p.write(40, nil); p.write(45, nil); p.tear(42) }, slotKnown, 45, slotKnown},
		{"a write came and went between the looks at the copies", func(p *photo) { p.write(40, nil); p.write(41, nil); p.tear(44) }, slotUnknown, 0, slotKnown},
		{"the very first write is torn", func(p *photo) { p.tear(1) }, slotBlank, 0, slotBlank},
		{"a torn write beside a copy that was blank when it was looked at", func(p *photo) { p.write(1, nil); p.tear(3) }, slotUnknown, 0, slotBlank},
		{"torn after a series of failed writes", func(p *photo) { p.write(40, nil); p.write(41, nil); p.tear(60) }, slotUnknown, 0, slotKnown},
		{"torn after a later write than the other copy", func(p *photo) { p.write(40, nil); p.write(41, nil); p.tear(44 + retries) }, slotUnknown, 0, slotUnknown},
		{"a copy was zeroed that must have been written", func(p *photo) { p.write(41, nil) }, slotUnknown, 0, slotUnknown},
		{"the newest copy was zeroed, and an even record is left", func(p *photo) { p.write(2, nil) }, slotUnknown, 0, slotUnknown},
		{"the third record is alone, and no write had failed", func(p *photo) { p.write(3, nil) }, slotUnknown, 0, slotUnknown},
		{"the first record landed at the third attempt", func(p *photo) { p.write(5, late) }, slotKnown, 5, slotKnown},
		{"alone long after the first attempts, while writes failed", func(p *photo) { p.write(retries+1, late) }, slotUnknown, 0, slotUnknown},
		{"both are torn", func(p *photo) { p.write(40, nil); p.write(41, nil); p.tear(42); p.tear(43) }, slotUnknown, 0, slotUnknown},
		{"one torn, one fails", func(p *photo) { p.write(40, nil); p.write(41, nil); p.tear(42); spoil(p, 1) }, slotUnknown, 0, slotUnknown},
	} {
		p := newPhoto(t)
		c.make(p)
		e := p.read(1, 2)
		if e.status != c.want || c.want == slotKnown && e.record().Sequence != c.seq {
			t.Errorf("%s: status %d sequence %d, want %d and %d", c.name, e.status, e.record().Sequence, c.want, c.seq)
		}
		if e = p.read(3, 4); e.status != c.again {
			t.Errorf("%s: status %d in the second read, want %d", c.name, e.status, c.again)
		}
	}
}

// Guard: B9. A slot that had a record never counts as blank again.
func TestAWrittenSlotIsNeverBlank(t *testing.T) {
	p := newPhoto(t)
	p.write(41, nil)
	p.write(42, nil)
	p.read(1, 2)
	clear(p.copy(0))
	clear(p.copy(1))
	if e := p.read(3, 4); e.status != slotUnknown {
		t.Errorf("both copies zeroed: status %d, want %d", e.status, slotUnknown)
	}
	p.write(43, nil)
	p.write(44, nil)
	if e := p.read(5, 6); e.status != slotKnown || e.record().Sequence != 44 {
		t.Errorf("written again: status %d, sequence %d", e.status, e.record().Sequence)
	}
}

// A torn copy counts in the second read only if it is torn by the same write.
func TestAnotherTornWriteIsLookedAtAgain(t *testing.T) {
	p := newPhoto(t)
	p.write(40, nil)
	p.write(41, nil)
	for i, sequence := range []uint64{44, 48, 52} {
		p.tear(sequence)
		if e := p.read(float64(2*i+1), float64(2*i+2)); e.status != slotUnknown {
			t.Fatalf("torn by %d: status %d", sequence, e.status)
		}
	}
}

// Guard: L5. The age of a record is the time from the END of the first read that showed it to the START of the latest;
// reads in which the slot is unknown neither end nor prolong it.
func TestAgeOfARecord(t *testing.T) {
	p := newPhoto(t)
	p.written(41, nil)
	e := p.read(1, 2)
	if _, moved := e.arrived(); moved {
		t.Error("the first read of all shows no change")
	}
	p.read(8, 9)
	want := func(since, start, after float64, moved bool) {
		t.Helper()
		at := func(s float64) boottime.Instant { return boottime.Instant(s * float64(time.Second)) }
		if _, m := e.arrived(); e.since != at(since) || p.table.start != at(start) || e.after != at(after) || m != moved {
			t.Errorf("since %v, start %v, after %v, moved %v; want %v, %v, %v, %v", e.since, p.table.start, e.after, m, since, start, after, moved)
		}
	}
	want(2, 8, 0, false)
	p.copy(1)[700] ^= 1 // unreadable for a while
	p.read(10, 11)
	p.copy(1)[700] ^= 1
	p.read(12, 13)
	want(2, 12, 0, false)
	p.write(42, nil)
	p.read(14, 15)
	want(15, 14, 12, true)
}

// Guard: L5. Beats are consecutive records of one process with one token and view.
func TestBeatsOfARecord(t *testing.T) {
	p := newPhoto(t)
	p.write(40, nil)
	for i, c := range []struct {
		sequence uint64
		process  uint64
		counter  uint32
		view     roster.Set
		want     int
	}{
		{41, 7, 1, roster.SetOf(1), 1}, {42, 7, 1, roster.SetOf(1), 2}, {42, 7, 1, roster.SetOf(1), 2}, {45, 7, 1, roster.SetOf(1), 3},
		{46, 7, 2, roster.SetOf(1), 1}, {47, 7, 2, roster.SetOf(1), 2},
		{48, 7, 2, roster.SetOf(1, 2), 1}, {49, 7, 2, roster.SetOf(1, 2), 2},
		{50, 8, 2, roster.SetOf(1, 2), 1}, {51, 8, 2, roster.SetOf(1, 2), 2},
	} {
		p.write(c.sequence, func(s *Slot) {
			s.Process, s.Statement.Token.Counter, s.Statement.View = c.process, c.counter, c.view
		})
		if e := p.read(float64(2*i+1), float64(2*i+2)); e.beats != c.want {
			t.Errorf("sequence %d: %d beats, want %d", c.sequence, e.beats, c.want)
		}
	}
}

// Guard: B9. A read that is not a complete read of this LUN changes nothing.
func TestShortReadIsRefused(t *testing.T) {
	p := newPhoto(t)
	p.write(41, nil)
	p.read(1, 2)
	before := *p.table
	before.entries = slices.Clone(p.table.entries)
	p.write(42, nil)
	short := p.completion(3, 4)
	short.Data = short.Data[:len(short.Data)-BlockSize]
	if err := p.table.take(short); err == nil || fmt.Sprintf("%+v", before) != fmt.Sprintf("%+v", *p.table) {
		t.Errorf("%v, or the table has changed", err)
	}
}

// Guard: B7. The state of the log, from the slots and this node's ballot.
func TestLog(t *testing.T) {
	g1, g2 := sampleGrant(1, 0), sampleGrant(1, 1)
	type slots = []Ballot
	for _, c := range []struct {
		name   string
		own    Ballot
		slots  slots
		latest uint64
		grant  *Grant
		pends  bool
	}{
		{"nothing", Ballot{}, slots{{}, {}}, 0, nil, false},
		{"the greatest decision", Ballot{}, slots{{DecidedInstance: 1, Decided: g1}, {DecidedInstance: 2, Decided: g2}}, 2, g2, false},
		{"in whatever slot", Ballot{}, slots{{DecidedInstance: 2, Decided: g2}, {DecidedInstance: 1, Decided: g1}}, 2, g2, false},
		{"this node's may be the greatest", Ballot{DecidedInstance: 2, Decided: g2}, slots{{DecidedInstance: 1, Decided: g1}, {}}, 2, g2, false},
		{"or not", Ballot{DecidedInstance: 1, Decided: g1}, slots{{DecidedInstance: 2, Decided: g2}, {}}, 2, g2, false},
		{"a value accepted after it", Ballot{}, slots{{DecidedInstance: 1, Decided: g1}, {Instance: 2, MBal: 4, Bal: 4, Value: g2}}, 1, g1, true},
		{"by this node", Ballot{Instance: 2, MBal: 4, Bal: 4, Value: g2, DecidedInstance: 1, Decided: g1}, slots{{}, {}}, 1, g1, true},
		{"before anything was decided", Ballot{}, slots{{Instance: 1, MBal: 4, Bal: 4, Value: g2}, {}}, 0, nil, true},
		{"entered, nothing accepted", Ballot{Instance: 2, MBal: 5}, slots{{DecidedInstance: 1, Decided: g1}, {Instance: 2, MBal: 4}}, 1, g1, false},
		{"accepted in the decided instance", Ballot{}, slots{{Instance: 1, MBal: 4, Bal: 4, Value: g1, DecidedInstance: 1, Decided: g1}, {Instance: 1, MBal: 3, Bal: 3, Value: g1}}, 1, g1, false},
	} {
		p := newPhoto(t)
		p.read(1, 2)
		for i := range c.slots {
			e := &p.table.entries[i]
			e.status, e.record().Ballot = slotKnown, c.slots[i]
		}
		if l := p.table.log(&c.own); l.latest != c.latest || l.grant != c.grant || l.pending != c.pends || l.unknown {
			t.Errorf("%s: %+v", c.name, l)
		}
		p.table.entries[2].status = slotUnknown
		if l := p.table.log(&c.own); !l.unknown {
			t.Errorf("%s: a slot cannot be read: %+v", c.name, l)
		}
	}
	if l := newPhoto(t).table.log(&Ballot{}); !l.unknown {
		t.Errorf("nothing was read yet: %+v", l)
	}
}

// Guard: damage that is not repaired must raise an alarm before the split that it would affect.
func TestDamagedSlotIsToldFromAWriteUnderWay(t *testing.T) {
	p := newPhoto(t)
	p.write(20, nil)
	p.write(21, nil)
	p.read(1, 2)
	copy(p.copy(1), bytes.Repeat([]byte{0xA5}, BlockSize))
	for n := range unreadableAfter {
		if got := p.table.unreadable(); got != -1 {
			t.Fatalf("after %d unreadable reads: slot %d is called damaged", n, got)
		}
		p.read(float64(3+2*n), float64(4+2*n))
	}
	if got := p.table.unreadable(); got != 1 {
		t.Fatalf("slot %d is called damaged, want 1", got)
	}
	p.write(23, nil)
	p.read(20, 21)
	if got := p.table.unreadable(); got != -1 {
		t.Fatalf("slot %d is called damaged after it was written again", got)
	}
}

// trio is three photos of one LUN that are read together.
type trio struct {
	t      *testing.T
	photos [3]*photo
	table  *Table
}

func newTrio(t *testing.T) *trio {
	tr := &trio{t: t}
	var sbs []*Superblock
	for d := range tr.photos {
		tr.photos[d] = newPhoto(t)
		sb := &Superblock{Version: FormatVersion, ID: sampleID, Cluster: "c", NodeGroup: "g", Slots: 3}
		sbs = append(sbs, sb)
	}
	tr.table = NewTable(sbs...)
	return tr
}

// read lets the table read these devices, in the given second.
func (tr *trio) read(second float64, devices ...int) *entry {
	tr.t.Helper()
	var from deviceSet
	for _, d := range devices {
		c := tr.photos[d].completion(second, second+0.1)
		c.Device = d
		if err := tr.table.take(c); err != nil {
			tr.t.Fatal(err)
		}
		from.add(d)
	}
	at := tr.photos[0].completion(second, second+0.1)
	tr.table.merge(from, at.Started, at.Ended)
	return &tr.table.entries[1]
}

// Guard: B8, B9. The state of one slot, for each combination of the devices' states.
func TestDevicesTogether(t *testing.T) {
	for _, c := range []struct {
		name     string
		make     func(a, b, c *photo)
		read     []int
		status   slotStatus
		sequence uint64
	}{
		{"all blank", func(a, b, c *photo) {}, []int{0, 1}, slotBlank, 0},
		{"the greatest counts", func(a, b, c *photo) { a.written(4, nil); b.written(5, nil); c.written(6, nil) }, []int{0, 1}, slotKnown, 5},
		{"also if it comes first", func(a, b, c *photo) { a.written(5, nil); b.written(4, nil) }, []int{0, 1}, slotKnown, 5},
		{"a blank device is older than any record", func(a, b, c *photo) { b.write(1, nil) }, []int{0, 1}, slotKnown, 1},
		{"one device tells nothing", func(a, b, c *photo) { a.written(4, nil) }, []int{0}, slotUnknown, 0},
		{"two, one of them damaged", func(a, b, c *photo) { a.written(4, nil); b.written(4, nil); b.copy(0)[700] ^= 1 }, []int{0, 1}, slotUnknown, 0},
		{"three, one of them damaged", func(a, b, c *photo) { a.written(4, nil); b.written(4, nil); b.copy(0)[700] ^= 1 }, []int{0, 1, 2}, slotKnown, 4},
		{"three, two damaged", func(a, b, c *photo) { a.copy(0)[7] = 1; b.copy(0)[7] = 1; c.written(4, nil) }, []int{0, 1, 2}, slotUnknown, 0},
		{"two agents write it", func(a, b, c *photo) { a.written(4, nil); b.written(4, func(s *Slot) { s.Process = 8 }) }, []int{0, 1}, slotUnknown, 0},
	} {
		tr := newTrio(t)
		c.make(tr.photos[0], tr.photos[1], tr.photos[2])
		e := tr.read(1, c.read...)
		if e.status != c.status || e.status == slotKnown && e.record().Sequence != c.sequence {
			t.Errorf("%s: status %d sequence %d, want %d %d", c.name, e.status, e.record().Sequence, c.status, c.sequence)
		}
	}
}

// A record that reached only one device does not appear and disappear with the choice of devices: otherwise a dead
// owner's slot would seem to change for ever.
func TestNewestKnownRecordStays(t *testing.T) {
	tr := newTrio(t)
	for _, p := range tr.photos {
		p.written(4, nil)
	}
	tr.photos[2].write(5, nil)
	tr.read(1, 0, 1)
	e := tr.read(2, 1, 2)
	since := e.since
	for i, devices := range [][]int{{0, 1}, {0, 2}, {1, 0}} {
		if tr.read(float64(3+i), devices...); e.status != slotKnown || e.record().Sequence != 5 || e.since != since || e.beats != 2 {
			t.Errorf("devices %v: status %d sequence %d since %v (was %v), %d beats", devices, e.status, e.record().Sequence, e.since, since, e.beats)
		}
	}
	tr.photos[0].write(6, nil)
	if tr.read(9, 0, 1); e.record().Sequence != 6 || e.since == since {
		t.Errorf("sequence %d since %v", e.record().Sequence, e.since)
	}
}
