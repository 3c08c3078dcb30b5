package deaths

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	bootA = "024bc581b3a34be3"
	bootB = "124bc581b3a34be3"
	bootX = "00000000000000ab"
)

func death(node string) Death {
	return Death{Node: node, Boot: bootX, Proof: "time", At: noon, Said: bootA}
}

func TestAccept(t *testing.T) {
	was := &Report{Boot: bootA, At: 10}
	for _, c := range []struct {
		name string
		was  *Report
		now  Report
		boot string
		want error
	}{
		{"the first", nil, Report{Boot: bootA, At: 1}, bootA, nil},
		{"a later one", was, Report{Boot: bootA, At: 11}, bootA, nil},
		{"the same once more", was, Report{Boot: bootA, At: 10}, bootA, ErrOld},
		{"one that was on its way for long", was, Report{Boot: bootA, At: 9}, bootA, ErrOld},
		{"of the next boot", was, Report{Boot: bootB, At: 1}, bootB, nil},
		{"of the boot before", &Report{Boot: bootB, At: 1}, Report{Boot: bootA, At: 12}, bootB, ErrOtherBoot},
		{"of a boot that the Node does not show yet", was, Report{Boot: bootB, At: 1}, bootA, ErrOtherBoot},
		{"the Node shows none", nil, Report{Boot: bootA, At: 1}, "", ErrOtherBoot},
		{"of no boot", nil, Report{At: 1}, "", ErrOtherBoot},
	} {
		if err := Accept(c.was, c.now, c.boot); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	annotated := Encode([]Death{death("n1")})
	later := Encode([]Death{death("n3")})
	told := &Report{Boot: bootA, Over: Digest(annotated), Heard: noon, Deaths: []Death{death("n2")}}
	empty := &Report{Boot: bootA, Over: Digest(annotated), Heard: noon}
	first := &Report{Boot: bootA, Heard: noon, Deaths: []Death{death("n2")}}
	for _, c := range []struct {
		name       string
		annotation string
		told       *Report
		after      time.Duration
		want       string
		full       bool
	}{
		{"nothing", "", nil, 0, "", false},
		{"written only", annotated, nil, 0, "n1", false},
		{"told only", "", first, 0, "n2", false},
		{"told, and written before", annotated, told, 0, "n2", false},
		{"told, and written after", later, told, 0, "n3", false},
		{"told, and what was written is gone", "", told, 0, "", false},
		{"taken back", annotated, empty, 0, "", false},
		{"taken back long ago", annotated, empty, 24 * time.Hour, "", false},
		{"just valid", "", first, Valid, "n2", false},
		{"no longer valid, and what was written before does not come to life", annotated, told, Valid + time.Second, "", true},
		{"from the future", "", first, -Valid - time.Second, "", true},
		{"cannot be read", "{", nil, 0, "", false},
	} {
		list, full := Words(c.annotation, c.told, noon.Add(c.after))
		names := ""
		for _, d := range list {
			names += d.Node
		}
		if names != c.want || full != c.full {
			t.Errorf("%s: %q, full %v; want %q, %v", c.name, names, full, c.want, c.full)
		}
	}
	if got := Last(annotated, told); len(got) != 1 || got[0].Node != "n2" {
		t.Errorf("last: %v", got)
	}
	if got := Last(annotated, nil); len(got) != 1 || got[0].Node != "n1" {
		t.Errorf("last without a word: %v", got)
	}
}

// If an annotation is removed again, or gets its earlier value, an older report counts again. It names no other boots
// than before, and does not count for longer than it would have.
func TestReportsThatAreUncovered(t *testing.T) {
	later := Encode([]Death{death("n3")})
	for _, over := range []string{"", "[]", Encode([]Death{death("n1")})} {
		told := &Report{Boot: bootA, Over: Digest(over), Heard: noon, Deaths: []Death{death("n2")}}
		for _, after := range []time.Duration{time.Second, Valid, Valid + time.Second, time.Hour} {
			if list, _ := Words(later, told, noon.Add(after)); len(list) != 1 || list[0] != death("n3") {
				t.Errorf("covered, after %v: %v", after, list)
			}
			list, full := Words(over, told, noon.Add(after))
			if after <= Valid && (len(list) != 1 || list[0] != death("n2")) || after > Valid && (len(list) > 0 || !full) {
				t.Errorf("over %q, uncovered after %v: %v, full %v", over, after, list, full)
			}
		}
		told.Deaths = nil // it has withdrawn all for good
		if list, full := Words(over, told, noon.Add(time.Hour)); len(list) > 0 || full {
			t.Errorf("over %q, taken back: %v, full %v", over, list, full)
		}
	}
}

func TestReportOnFile(t *testing.T) {
	want := Report{Node: "n1", Boot: bootA, At: 1 << 60, Over: Digest("x"), Heard: noon, Deaths: []Death{death("n2"), death("n3")}}
	text, err := EncodeReport(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeReport(text); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "{}", "[]", strings.Replace(text, `"version":1`, `"version":2`, 1), strings.Replace(text, `"n1"`, `""`, 1), strings.Replace(text, bootA, "024b", 1), strings.Replace(text, `"at"`, `"later"`, 1), text + strings.Repeat(" ", mostReport)} {
		if got, err := DecodeReport(bad); err == nil || len(got.Deaths) > 0 {
			t.Errorf("taken: %.80s", bad)
		}
	}
}

func FuzzDecodeReport(f *testing.F) {
	text, _ := EncodeReport(Report{Node: "n1", Boot: bootA, At: 1, Heard: noon, Deaths: []Death{death("n2")}})
	f.Add(text)
	f.Fuzz(func(t *testing.T, text string) {
		told, err := DecodeReport(text)
		if err != nil {
			return
		}
		again, err := EncodeReport(told)
		if err != nil {
			return // a year that JSON cannot express
		}
		if got, err := DecodeReport(again); err != nil || got.Node != told.Node || got.At != told.At || len(got.Deaths) > len(told.Deaths) {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

// An agent changes its reports, is restarted, and changes its source and back. Its reports are late, lost or repeated,
// and reach any replica in any order.
//
// Its Node never names a death that the agent has withdrawn by a report that has arrived and was not replaced. Nor does
// it name a death for longer than Valid that is missing in the last report by the present way.
func TestRandomTelling(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for run := range uint64(1000) {
		randomTelling(t, seed+run)
	}
}

// word is a report that was sent: by the relay, or as an annotation. The oracle has them in the order in which they
// were sent.
type word struct {
	told   Report
	number int
}

func randomTelling(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	now, at, boot, number := noon, uint64(0), bootA, 0
	annotation, annotated := "", -1 // the annotation, and the number of the report in it
	var stored *Report
	storedNumber, storedAt := -1, noon
	var onWay []word
	lists := map[int]string{-1: ""} // by number: the reported deaths
	relay := r.IntN(2) == 0
	for range 40 {
		now = now.Add(time.Duration(r.IntN(200)) * time.Second)
		at += 1 + r.Uint64N(100)
		switch r.IntN(6) {
		case 0:
			if r.IntN(4) == 0 {
				relay = !relay
			}
			if r.IntN(6) == 0 {
				boot, at = fmt.Sprintf("%016x", r.Uint64()|1), 0 // reports of the earlier boot may still be on their way
			}
		case 1, 2: // the agent changes its report
			var list []Death
			for _, n := range []string{"n1", "n2", "n3"} {
				if r.IntN(3) == 0 {
					list = append(list, death(n))
				}
			}
			number++
			lists[number] = names(list)
			if relay {
				w := word{Report{Node: "n0", Boot: boot, At: at, Deaths: list}, number}
				onWay = append(onWay, w)
				if r.IntN(4) == 0 {
					onWay = append(onWay, w)
				}
			} else {
				annotation, annotated = "", number
				if len(list) > 0 {
					annotation = Encode(list)
				}
				if annotation != "" {
					annotation += strings.Repeat(" ", number%7) // texts differ as those of other moments do
				}
			}
		default: // a replica gets one
			if len(onWay) == 0 {
				continue
			}
			i := r.IntN(len(onWay))
			w := onWay[i]
			onWay = append(onWay[:i:i], onWay[i+1:]...)
			w.told.Over, w.told.Heard = Digest(annotation), now
			if Accept(stored, w.told, boot) == nil {
				told := w.told
				stored, storedNumber, storedAt = &told, w.number, now
			}
		}
		got, _ := Words(annotation, stored, now)
		said := names(got)
		// Allowed results: the last report that arrived by the relay, while it is valid; or the annotation, if it is
		// later.
		ok := said == "" || said == lists[annotated] && annotated > storedNumber || stored != nil && said == lists[storedNumber] && now.Sub(storedAt) <= Valid
		if !ok {
			t.Fatalf("seed %d: it says %q; the annotation is word %d (%q), the relay %d (%q)", seed, said, annotated, lists[annotated], storedNumber, lists[storedNumber])
		}
	}
}

func names(list []Death) (out string) {
	for _, d := range list {
		out += fmt.Sprintf("%s ", d.Node)
	}
	return out
}

// A report only counts under the name of its node.
func TestReportIn(t *testing.T) {
	text, err := EncodeReport(Report{Node: "n1", Boot: bootA, Heard: noon, Deaths: []Death{death("n2")}})
	if err != nil {
		t.Fatal(err)
	}
	labels, data := map[string]string{ReportLabel: ReportValue}, map[string]string{ReportKey: text}
	if r, err := ReportIn(ReportName("n1"), labels, data); err != nil || len(r.Deaths) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	for name, bad := range map[string]func() (Report, error){
		"another name": func() (Report, error) { return ReportIn(ReportName("n3"), labels, data) },
		"no label":     func() (Report, error) { return ReportIn(ReportName("n1"), nil, data) },
		"label of a book": func() (Report, error) {
			return ReportIn(ReportName("n1"), map[string]string{ReportLabel: "true"}, data)
		},
		"nothing in it": func() (Report, error) { return ReportIn(ReportName("n1"), labels, nil) },
	} {
		if r, err := bad(); err == nil || len(r.Deaths) > 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	long := strings.Repeat("a", 253)
	if a, b := ReportName(long), ReportName(long[:252]+"b"); len(a) > 253 || a == b {
		t.Errorf("%s, %s", a, b)
	}
}
