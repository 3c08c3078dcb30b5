package history

import (
	"math/rand/v2"
	"testing"
	"time"
)

// cabinet is a file as the recorder keeps it: a shelf, and the contents of the slots. The oracle of the tests only uses
// the slots.
type cabinet struct {
	shelf *Shelf
	slots []*Record
	seq   uint64
}

func newCabinet(slots int) *cabinet {
	return &cabinet{shelf: NewShelf(slots, &File{}), slots: make([]*Record, slots)}
}

// put stores a record and returns the overwritten one.
func (c *cabinet) put(r Record) (was *Record, ok bool) {
	c.seq++
	r.Seq = c.seq
	at, ok := c.shelf.Place(&r)
	if !ok {
		return nil, false
	}
	was, c.slots[at] = c.slots[at], &r
	return was, true
}

func (c *cabinet) file(t *testing.T) File {
	t.Helper()
	b := make([]byte, Size(len(c.slots)))
	copy(b, Header(len(c.slots)))
	for at, r := range c.slots {
		if r != nil {
			copy(b[Offset(at):], Encode(r))
		}
	}
	f, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestThirtyDays: a month of samples and 80 events a day in the default 4 MiB. All events are kept, and all samples of
// the last hour, one sample per minute for a day, and before that at least one in 20 minutes.
func TestThirtyDays(t *testing.T) {
	const days, every = 30, 24 * time.Hour / 80
	c := newCabinet(SlotsFor(4 << 20))
	end, events := noon.Add(days*24*time.Hour), 0
	event := noon
	for now := noon; now.Before(end); now = now.Add(SampleEvery) {
		slack, write := 25*time.Second, time.Millisecond
		if now.Sub(noon)%(6*time.Hour) == 0 {
			write = time.Second // a spike, which is kept
		}
		c.put(Record{Boot: 1, Kind: Sample, Wall: now, Armed: true, Slack: slack, Write: write})
		if !now.Before(event) {
			event, events = event.Add(every), events+1
			c.put(Record{Boot: 1, Kind: Decision, Wall: now})
		}
	}
	f := c.file(t)
	found, spikes := 0, 0
	last := noon
	for i := range f.Records {
		r := &f.Records[i]
		if r.Kind != Sample {
			found++
			continue
		}
		if r.Write == time.Second {
			spikes++
		}
		gap, most := r.Wall.Sub(last), 20*time.Minute
		switch age := end.Sub(last); {
		case age < closeFor:
			most = SampleEvery
		case age < minuteFor:
			most = 2 * minute
		}
		if gap > most {
			t.Errorf("%v without a sample, %v before the end", gap, end.Sub(last))
		}
		last = r.Wall
	}
	if found != events || spikes != 4*days {
		t.Errorf("%d of %d events and %d of %d spikes are there, of %d records", found, events, spikes, 4*days, len(f.Records))
	}
	t.Logf("%d events and %d samples in %d slots", found, len(f.Records)-found, len(c.slots))
}

// TestEventsComeFirst: any records in any order, with restarts and clock jumps.
func TestEventsComeFirst(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 54))
		slots := 1 + rng.IntN(40)
		c := newCabinet(slots)
		now, boot := noon, uint64(1)
		for range 400 {
			if rng.IntN(50) == 0 { // another agent reads the file
				f := c.file(t)
				c.shelf, boot = NewShelf(slots, &f), boot+uint64(rng.IntN(2))
			}
			now = now.Add(time.Duration(rng.IntN(60)) * time.Second)
			if rng.IntN(30) == 0 {
				now = now.Add(time.Duration(rng.IntN(200)-100) * time.Hour)
			}
			r := Record{Boot: boot, Kind: Sample, Wall: now, Armed: true, Slack: time.Duration(rng.IntN(9)) * time.Second}
			if rng.IntN(3) == 0 {
				r.Kind = Decision
			}
			events, samples, oldest, latest := 0, 0, uint64(1<<63), uint64(0)
			for _, s := range c.slots {
				switch {
				case s == nil:
				case s.Kind == Sample:
					samples, latest = samples+1, max(latest, s.Seq)
				default:
					events, oldest = events+1, min(oldest, s.Seq)
				}
			}
			was, ok := c.put(r)
			switch {
			case !ok && (r.Kind != Sample || samples > 0 || events+samples < slots):
				t.Fatalf("seed %d: refused: %+v", seed, r)
			case was == nil:
			case was.Kind != Sample && (r.Kind == Sample || events < slots-slots/4 || was.Seq != oldest):
				t.Fatalf("seed %d: %d events, %d samples of %d: %+v made room for %+v", seed, events, samples, slots, was, r)
			case was.Kind == Sample && samples > 1 && was.Seq == latest:
				t.Fatalf("seed %d: the latest sample made room", seed)
			}
		}
	}
}

// TestAFileOfBefore: if all slots have events, they are replaced until events have only their share.
func TestAFileOfBefore(t *testing.T) {
	f, err := Decode(disk(8, numbered(20, 7)...))
	if err != nil {
		t.Fatal(err)
	}
	s := NewShelf(8, &f)
	for i := range 4 {
		_, ok := s.Place(&Record{Kind: Sample, Boot: 7, Wall: noon.Add(time.Hour)})
		if !ok || len(s.events) < 6 || len(s.events)+len(s.samples) != 8 {
			t.Errorf("%d: %v, %d events, %d samples", i, ok, len(s.events), len(s.samples))
		}
	}
}
