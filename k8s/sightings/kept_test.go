package sightings

import (
	"strings"
	"testing"
	"time"
)

const (
	bootA = "024bc581b3a34be3"
	bootB = "124bc581b3a34be3"
)

func TestNamesOfWhatIsKept(t *testing.T) {
	long := strings.Repeat("n", 253)
	if KeptName("n1") != "fencing-sightings-n1" || len(KeptName(long)) > 253 || KeptName(long) == KeptName(long[1:]+"m") {
		t.Errorf("%s, %s", KeptName("n1"), KeptName(long))
	}
}

// Guards: of one boot only the later report counts; a report from another boot, or an invalid one, does not.
func TestOneAgentIsOneVoice(t *testing.T) {
	s := func(boot string, number uint64) *Sighting { return &Sighting{Boot: boot, Number: number} }
	first, second, other := s(bootA, 1), s(bootA, 2), s(bootB, 9)
	for i, c := range []struct{ written, told, want *Sighting }{
		{nil, nil, nil}, {first, nil, first}, {nil, first, first}, {first, second, second}, {second, first, second},
		{other, first, first}, {first, other, first}, {other, nil, nil}, {nil, other, nil}, {other, other, nil},
	} {
		if got := Of(bootA, c.written, c.told); got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
	if !first.After(nil) || !second.After(first) || first.After(second) || first.After(first) || !first.After(other) {
		t.Error("what is later is not")
	}
}

func TestWhatIsNotKept(t *testing.T) {
	good := Encode(Sighting{Boot: bootA, Number: 1, SlotMoves: []string{"n4"}})
	labels := map[string]string{KeptLabel: KeptValue}
	if s := Kept(labels, map[string]string{KeptKey: good}); s == nil || s.SlotMoves[0] != "n4" {
		t.Errorf("%v", s)
	}
	for _, c := range []struct{ labels, data map[string]string }{
		{nil, map[string]string{KeptKey: good}}, {map[string]string{KeptLabel: "deaths"}, map[string]string{KeptKey: good}},
		{labels, nil}, {labels, map[string]string{KeptKey: "{"}}, {labels, map[string]string{"deaths.json": good}},
	} {
		if s := Kept(c.labels, c.data); s != nil {
			t.Errorf("%v: %v", c, s)
		}
	}
}

func TestWhatWasHeardLongAgo(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for ago, want := range map[time.Duration]bool{0: true, Fresh: true, -Fresh: true, Fresh + time.Second: false, -Fresh - time.Second: false} {
		if got := IsFresh(map[string]string{HeardKey: now.Add(-ago).Format(time.RFC3339)}, now); got != want {
			t.Errorf("heard %v ago: %v", ago, got)
		}
	}
	if IsFresh(nil, now) || IsFresh(map[string]string{HeardKey: "noon"}, now) {
		t.Error("nobody knows when it was heard")
	}
}
