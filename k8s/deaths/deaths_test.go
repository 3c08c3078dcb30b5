package deaths

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func TestListsComeBackNewestFirst(t *testing.T) {
	text := Encode([]Death{
		{Node: "n4", Boot: "024bc581b3a34be3", Proof: "time", At: noon, Said: "324bc581b3a34be3"},
		{Node: "n5", Boot: "124bc581b3a34be3", Proof: "boot", At: noon.Add(time.Minute + time.Millisecond), Said: ""},
	})
	const want = `[{"node":"n5","boot":"124bc581b3a34be3","proof":"boot","at":"2026-05-04T12:01:00Z"},` +
		`{"node":"n4","boot":"024bc581b3a34be3","proof":"time","at":"2026-05-04T12:00:00Z","said":"324bc581b3a34be3"}]`
	if text != want {
		t.Errorf("%s, want %s", text, want)
	}
	list, err := Decode(text)
	if err != nil || len(list) != 2 || list[1] != (Death{Node: "n4", Boot: "024bc581b3a34be3", Proof: "time", At: noon, Said: "324bc581b3a34be3"}) {
		t.Errorf("%v, %v", list, err)
	}
	if got := Encode(nil); got != "[]" {
		t.Errorf("nothing is %s", got)
	}
}

// Guard: the admission policy refuses a longer annotation, and then no death would be reported at all.
func TestListsAreBounded(t *testing.T) {
	for _, length := range []int{2, 253} {
		var list []Death
		for i := range 100 {
			list = append(list, Death{Node: fmt.Sprintf("%0*d", length, i), Boot: "024bc581b3a34be3", Proof: "time", At: noon.Add(time.Duration(i) * time.Second), Said: "324bc581b3a34be3"})
		}
		text := Encode(list)
		if len(text) > MostBytes {
			t.Errorf("%d bytes", len(text))
		}
		got, err := Decode(text)
		if err != nil || len(got) == 0 || len(got) > Most || got[0].Node != list[99].Node {
			t.Errorf("names of %d bytes: %d deaths, %v", length, len(got), err)
		}
	}
}

// Guard: if a death is missing in a list, its reader must be able to tell whether it was withdrawn or had no room.
func TestListsThatLackRoomSaySo(t *testing.T) {
	for _, length := range []int{2, 20, 40, 63, 253} {
		var list []Death
		for i := range 100 {
			fits := decoded(t, Encode(list))
			if full := Full(Encode(list)); len(fits) < len(list) && !full || len(list) < 10 && full {
				t.Fatalf("names of %d bytes: %d of %d fit, full: %v", length, len(fits), len(list), full)
			}
			list = append(list, Death{Node: fmt.Sprintf("%0*d", length, i), Boot: "024bc581b3a34be3", Proof: "sentence", At: noon.Add(time.Duration(i) * time.Second), Said: "324bc581b3a34be3"})
		}
		if n := len(decoded(t, Encode(list))); length <= 20 && n < 50 {
			t.Errorf("names of %d bytes: %d deaths fit", length, n)
		}
	}
	if Full("") || Full("[]") || Full("no list") {
		t.Error("what says nothing is full")
	}
}

func decoded(t *testing.T, text string) []Death {
	t.Helper()
	list, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestWhatNamesNoBootIsLeftOut(t *testing.T) {
	const good = `{"node":"n4","boot":"024bc581b3a34be3","proof":"sentence","later":{"x":1}}`
	for _, c := range []struct {
		text string
		want int
	}{
		{"[" + good + "]", 1},
		{"[]", 0},
		{`[{"node":"n4","boot":""},{"boot":"024bc581b3a34be3"},{"node":"n4","boot":"024BC581B3A34BE3"},7,` + good + "]", 1},
		{"", -1}, {"{}", -1}, {"[" + strings.Repeat(" ", MostBytes) + "]", -1},
	} {
		got, err := Decode(c.text)
		if (err != nil) != (c.want < 0) || err == nil && len(got) != c.want {
			t.Errorf("%.60s: %v, %v, want %d", c.text, got, err, c.want)
		}
	}
}

func TestBootOfABootID(t *testing.T) {
	for id, want := range map[string]string{
		"024bc581-b3a3-4be2-9d1c-000000000000": "024bc581b3a34be3",
		"024bc581-b3a3-4be3-9d1c-000000000000": "024bc581b3a34be3",
		"":                                     "", "none": "", "024bc581": "",
	} {
		if got := Boot(id); got != want {
			t.Errorf("%q is boot %q, want %q", id, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`[{"node":"n4","boot":"024bc581b3a34be3","proof":"time","at":"2026-05-04T12:00:00Z"}]`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Decode(text)
		if err != nil {
			return
		}
		if again := Encode(list); len(again) > MostBytes || len(list) > Most {
			t.Errorf("%d deaths, %d bytes", len(list), len(again))
		}
	})
}
