package history

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// disk is a file in memory, as the recorder writes it.
func disk(slots int, records ...Record) []byte {
	b := make([]byte, Size(slots))
	copy(b, Header(slots))
	for i := range records {
		copy(b[Offset(int(records[i].Seq)%slots):], Encode(&records[i]))
	}
	return b
}

func numbered(n int, boot uint64) []Record {
	var out []Record
	for i := range n {
		out = append(out, Record{
			Seq: uint64(i + 1), Boot: boot, Up: time.Duration(i) * time.Second, Wall: noon.Add(time.Duration(i) * time.Second), Kind: Decision,
			Action: "feed", Reason: "network_quorum", Quorum: true, Armed: true, Text: fmt.Sprint("decision ", i), Nodes: []string{"n1", "n2"},
			Slack: 25 * time.Second, Write: time.Millisecond, Read: 2 * time.Millisecond,
		})
	}
	return out
}

func TestRoundTrip(t *testing.T) {
	want := numbered(5, 7)
	got, err := Decode(disk(8, want...))
	if err != nil || !reflect.DeepEqual(got.Records, want) || got.Damaged != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTheOldestMakesRoom(t *testing.T) {
	got, err := Decode(disk(8, numbered(20, 7)...))
	if err != nil || len(got.Records) != 8 || got.Records[0].Seq != 13 || got.Records[7].Seq != 20 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestATornRecordIsTheOnlyOneLost cuts the last slot at every byte, like a reset in the middle of a write.
func TestATornRecordIsTheOnlyOneLost(t *testing.T) {
	old := disk(4, numbered(6, 7)...)
	next := Record{Seq: 7, Boot: 7, Wall: noon, Kind: LastWords, Text: "quorum lost"}
	slot, at := Encode(&next), Offset(7%4)
	for n := 1; n < SlotSize; n++ {
		b := append([]byte(nil), old...)
		copy(b[at:], slot[:n])
		got, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got.Records {
			if r.Seq == 7 && r.Text != next.Text || r.Seq < 3 || r.Seq > 7 {
				t.Fatalf("cut at %d: %+v", n, r)
			}
		}
		if len(got.Records) < 3 {
			t.Fatalf("cut at %d: %d records are left", n, len(got.Records))
		}
	}
	// A file whose end is missing.
	if got, err := Decode(old[:Size(2)+100]); err != nil || len(got.Records) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	later := Header(4)
	later[8] = 2
	copy(later[16:], crcOf(later[:16]))
	damaged := Header(4)
	damaged[12] = 9
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{"empty": {nil, ErrForeign}, "text": {[]byte("{\"version\": 1, \"cluster\": \"prod\"}"), ErrForeign}, "later": {later, ErrLater}, "damaged": {damaged, ErrDamaged}} {
		if _, err := Decode(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestALaterVersionMayAddFields: unknown tags and kinds are skipped.
func TestALaterVersionMayAddFields(t *testing.T) {
	r := Record{Seq: 1, Boot: 7, Wall: noon, Kind: 99, Text: "what is to come"}
	b := Encode(&r)
	n := int(b[6])
	copy(b[slotHead+n:], []byte{200, 3, 0, 'x', 'y', 'z'})
	b[6] += 6
	copy(b, crcOf(b[4:]))
	got, ok := decodeSlot(b)
	if !ok || got.Text != r.Text || got.Kind.String() != "unknown" || !strings.Contains(got.Line(), "later version") {
		t.Errorf("%+v, %v", got, ok)
	}
}

// TestLengthsThatLie: lengths may be wrong even if the checksum is correct.
func TestLengthsThatLie(t *testing.T) {
	for name, lie := range map[string]func(b []byte){
		"a field longer than the fields": func(b []byte) { b[slotHead+1] = 200 },
		"fields longer than the slot":    func(b []byte) { b[6], b[7] = 255, 255 },
		"a field without a head":         func(b []byte) { b[6] = 1 },
	} {
		b := Encode(&Record{Seq: 1, Wall: noon, Text: "x"})
		lie(b)
		copy(b, crcOf(b[4:]))
		if r, ok := decodeSlot(b); ok {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
}

func crcOf(b []byte) []byte {
	v := checksum(b)
	return []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)}
}

func TestLongRecordsAreCut(t *testing.T) {
	r := Record{Seq: 1, Kind: Gone, Wall: noon, Text: strings.Repeat("x", 999), Action: strings.Repeat("a", 99), Reason: strings.Repeat("r", 99)}
	for i := range 300 {
		r.Nodes = append(r.Nodes, fmt.Sprintf("node-%d.example.com", i))
	}
	got, ok := decodeSlot(Encode(&r))
	if !ok || len(got.Nodes) < 2 || !strings.HasPrefix(got.Nodes[len(got.Nodes)-1], "+") {
		t.Errorf("%+v, %v", got, ok)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(disk(4, numbered(6, 7)...))
	f.Add(Header(1))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Decode(b)
		if err != nil {
			return
		}
		for i := range got.Records {
			r := got.Records[i]
			if i > 0 && got.Records[i-1].Seq > r.Seq {
				t.Fatal("not in order")
			}
			_ = r.Line()
			if back, ok := decodeSlot(Encode(&r)); !ok || back.Seq != r.Seq || back.Kind != r.Kind {
				t.Fatalf("%+v became %+v", r, back)
			}
		}
		Before(got.Records, 1)
	})
}

func TestEnding(t *testing.T) {
	feed := Record{Kind: Decision, Action: "feed", Reason: "network_quorum"}
	starve := Record{Kind: Decision, Action: "starve", Reason: "quorum_lost"}
	last := Record{Kind: LastWords, Reason: "quorum_lost", Text: "less than half of the group is reachable"}
	condemned := Record{Kind: Condemned, Reason: "condemned", Text: "this node has lost for certain"}
	for name, c := range map[string]struct {
		records []Record
		want    End
		reason  string
	}{
		"power":              {[]Record{{Kind: Started}, feed, {Kind: Sample, Slack: 25 * time.Second}}, EndSudden, ""},
		"starved":            {[]Record{{Kind: Started}, feed, starve, last}, EndStarved, "quorum_lost"},
		"starved and saved":  {[]Record{feed, starve, last, feed}, EndSudden, ""},
		"saved, then lost":   {[]Record{feed, starve, last, feed, starve, last}, EndStarved, "quorum_lost"},
		"condemned":          {[]Record{feed, starve, last, condemned}, EndCondemned, "condemned"},
		"condemned for good": {[]Record{feed, condemned, feed, {Kind: Stopped}}, EndCondemned, "condemned"},
		"taken down":         {[]Record{feed, starve, last, {Kind: Struck, Reason: "quorum_lost"}}, EndStruck, "quorum_lost"},
		"stopped":            {[]Record{feed, {Kind: Stopped}}, EndStopped, ""},
		"restarted":          {[]Record{feed, {Kind: Stopped}, {Kind: Started}, feed}, EndSudden, ""},
		"maintenance":        {[]Record{feed, {Kind: Decision, Action: "disarm", Reason: "maintenance"}}, EndDisarmed, "maintenance"},
		"a test":             {[]Record{feed, {Kind: Stopped}, {Kind: Tested, Text: "a test of the watchdog"}}, EndTested, ""},
		"a test that failed": {[]Record{feed, {Kind: Stopped}, {Kind: Tested}, {Kind: Tested, Action: ActionFailed}}, EndSudden, ""},
		"no reset by a test": {[]Record{{Kind: Stopped}, {Kind: Tested}, {Kind: Started}, feed}, EndSudden, ""},
		"a later kind":       {[]Record{feed, {Kind: 99}}, EndSudden, ""},
	} {
		for i := range c.records {
			c.records[i].Seq, c.records[i].Boot, c.records[i].Wall = uint64(i+1), 5, noon.Add(time.Duration(i)*time.Second)
		}
		now := Record{Seq: 99, Boot: 6, Kind: Started}
		e, ok := Before(append(c.records, now), 6)
		if !ok || e.End != c.want || e.Reason != c.reason || e.Boot != 5 || e.Text == "" {
			t.Errorf("%s: %+v, %v; want %s, %s", name, e, ok, c.want, c.reason)
		}
	}
	if e, ok := Before([]Record{{Boot: 6}}, 6); ok {
		t.Errorf("the present boot is told as the one before: %+v", e)
	}
}

// TestBeforeIsTheLatest: of many boots, in any order of their numbers, Before returns the one that wrote last.
func TestBeforeIsTheLatest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var records []Record
		var latest uint64
		for i := range 1 + rng.IntN(30) {
			boot := uint64(1 + rng.IntN(4))
			records = append(records, Record{Seq: uint64(i + 1), Boot: boot, Kind: Sample, Wall: noon})
			if boot != 4 {
				latest = boot
			}
		}
		e, ok := Before(records, 4)
		if ok != (latest != 0) || e.Boot != latest {
			t.Fatalf("%d, %v, want %d of %+v", e.Boot, ok, latest, records)
		}
	}
}

func TestSampler(t *testing.T) {
	var s Sampler
	if _, due := s.Note(0, true, 25*time.Second, 3*time.Millisecond, 0); due {
		t.Error("due at once")
	}
	s.Note(10*time.Second, true, 12*time.Second, time.Millisecond, 4*time.Millisecond)
	r, due := s.Note(30*time.Second, true, 26*time.Second, 0, 0)
	if !due || r.Slack != 12*time.Second || r.Write != 3*time.Millisecond || r.Read != 4*time.Millisecond {
		t.Errorf("%+v, %v", r, due)
	}
	if _, due := s.Note(31*time.Second, true, time.Second, 0, 0); due {
		t.Error("due again at once")
	}
}
