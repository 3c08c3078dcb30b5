package sightings

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const boot = "024bc581b3a34be3"

func TestForm(t *testing.T) {
	s := Sighting{Boot: boot, Number: 7, QuorumLost: true, SlotMoves: []string{"n4"}, SlotStill: []string{"n5", "n6"}}
	const want = `{"boot":"024bc581b3a34be3","number":7,"quorumLost":true,"slotMoves":["n4"],"slotStill":["n5","n6"]}`
	if text := Encode(s); text != want {
		t.Errorf("%s, want %s", text, want)
	}
	if got, err := Decode(want); err != nil || !reflect.DeepEqual(*got, s) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Decode(`{"boot":"024bc581b3a34be3","number":8,"later":{"x":1}}`); err != nil || !got.Empty() {
		t.Errorf("a later version: %+v, %v", got, err)
	}
	for _, bad := range []string{"", "[]", "{}", "7", `{"boot":"024BC581B3A34BE3"}`, `{"boot":"02"}`, `{"boot":"024bc581b3a34be3","slotMoves":7}`, want + strings.Repeat(" ", MostBytes)} {
		if got, err := Decode(bad); err == nil {
			t.Errorf("taken: %.60s: %+v", bad, got)
		}
	}
	later := s
	if later.Number = 8; !s.Same(&later) || s.Empty() || !(&Sighting{Boot: boot}).Empty() {
		t.Error("the number is what is said")
	}
	for _, other := range []Sighting{{}, {QuorumLost: true, SlotMoves: s.SlotMoves}, {QuorumLost: true, SlotStill: s.SlotStill}} {
		if s.Same(&other) {
			t.Errorf("%+v says the same", other)
		}
	}
}

// Guard: the admission policy refuses a longer annotation, and then nothing would be reported at all.
func TestSightingsAreBounded(t *testing.T) {
	for _, length := range []int{2, 40, 253} {
		s := Sighting{Boot: boot, Number: 1 << 63, QuorumLost: true}
		for i := range 500 {
			s.SlotMoves = append(s.SlotMoves, fmt.Sprintf("%0*d", length, i))
			if i%3 == 0 {
				s.SlotStill = append(s.SlotStill, fmt.Sprintf("%0*d", length, i))
			}
		}
		text := Encode(s)
		got, err := Decode(text)
		if err != nil || len(text) > MostBytes || len(got.SlotMoves) < 10 || len(got.SlotMoves) > Most || !got.QuorumLost {
			t.Errorf("names of %d bytes: %d bytes, %v", length, len(text), err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(Sighting{Boot: boot, Number: 1, SlotMoves: []string{"n4"}}))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Decode(text)
		if err != nil {
			return
		}
		if again := Encode(*s); len(again) > MostBytes || len(s.SlotMoves) > Most || len(s.SlotStill) > Most {
			t.Errorf("%d bytes", len(again))
		}
	})
}
