package diskquorum

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Guard: B8. An agent was started while it could not reach one device, and on the others late writes had overwritten
// the records of the agent before it. So it writes sequences below the record on the unreachable device. A node that
// reads both must not take the old record for the state of the slot.
func TestRecordOfAnEarlierAgentHidesNothing(t *testing.T) {
	r := startedSet(t)
	was := [][]byte{slices.Clone(r.images[0]), slices.Clone(r.images[1]), slices.Clone(r.images[2])}
	r.kill(1)
	r.start(1) // its sequence skips numbers
	r.run(20 * time.Second)
	r.kill(0)
	r.kill(1)
	r.restore(1, was[1])
	r.restore(2, was[2])
	r.start(1)
	r.hang(1, 0)
	r.run(20 * time.Second)
	r.start(0)
	r.run(20 * time.Second)
	table := r.nodes[0].arb.table
	old, entry := table.devices[0].slots[1].record(), &table.entries[1]
	if live := table.devices[1].slots[1].record(); live.Process != r.nodes[1].process || live.Sequence >= old.Sequence {
		t.Fatalf("device 1 shows %d of process %x, and device 0 %d: the agent writes above it", live.Sequence, live.Process, old.Sequence)
	}
	if entry.status != slotUnknown {
		t.Errorf("slot 1 is read as record %d of process %x, which has ended", entry.record().Sequence, entry.record().Process)
	}
	r.hang(1) // all paths work again
	r.kill(1)
	r.start(1)
	r.run(20 * time.Second)
	if entry.status != slotKnown || entry.record().Process != r.nodes[1].process {
		t.Errorf("slot 1, when its agent reaches all devices: status %d, process %x", entry.status, entry.record().Process)
	}
}

// Guard: B8. A device is ignored for a slot only if a record of another agent changes there, below the newest known
// record, after that record became known. A device that lags behind counts, and so does one on which an earlier agent
// left a record and which the newest agent does not reach.
func TestDeviceThatLagsBehindTellsItsSlot(t *testing.T) {
	type look struct {
		process, sequence uint64
		at                boottime.Instant
	}
	newest := &entry{last: identity{process: 2, sequence: 100}, since: 50}
	for name, c := range map[string]struct {
		looks  []look
		astray bool
	}{
		"another agent writes below it":     {[]look{{3, 10, 60}, {3, 11, 70}}, true},
		"and has two copies of one record":  {[]look{{3, 10, 60}, {3, 11, 70}, {3, 11, 80}}, true},
		"until it comes past it":            {[]look{{3, 10, 60}, {3, 11, 70}, {3, 101, 80}}, false},
		"the device has caught up":          {[]look{{3, 10, 60}, {3, 11, 70}, {2, 100, 80}}, false},
		"an earlier agent left it":          {[]look{{1, 10, 60}, {1, 10, 70}}, false},
		"it wrote on, before":               {[]look{{1, 10, 40}, {1, 11, 60}, {1, 11, 70}}, false},
		"the same agent, on a slow device":  {[]look{{2, 10, 60}, {2, 12, 70}, {2, 14, 80}}, false},
		"a write of it lands late":          {[]look{{1, 10, 60}, {2, 14, 70}}, false},
		"the first look at it is no change": {[]look{{3, 10, 60}}, false},
	} {
		s, looked := &sighting{status: slotKnown}, boottime.Instant(0)
		for _, l := range c.looks {
			before := identityOf(s.record())
			s.copies[0] = Slot{Process: l.process, Sequence: l.sequence}
			s.noteAstray(before, looked, newest)
			looked = l.at
		}
		if s.astray != c.astray {
			t.Errorf("%s: astray %v", name, s.astray)
		}
	}
}
