package calibration

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

const (
	before = 17 // a boot
	now    = 18
)

func trial(timeout, ran time.Duration) Trial {
	return Trial{Identity: "dog", Firmware: "board 1", Timeout: timeout, Boot: before, Ran: ran, Next: ran + 2*Every}
}

// Guard: only a trial of an earlier boot in which the machine ran to the end of the timeout is a reset by the watchdog.
func TestResult(t *testing.T) {
	with := func(f func(*Trial)) Trial {
		x := trial(30*time.Second, 30*time.Second)
		f(&x)
		return x
	}
	for name, c := range map[string]struct {
		trial Trial
		want  Result
	}{
		"fired":             {with(func(*Trial) {}), Fired},
		"a tick early":      {with(func(x *Trial) { x.Ran -= early }), Fired},
		"too early":         {with(func(x *Trial) { x.Ran -= early + 1 }), Early},
		"at once":           {with(func(x *Trial) { x.Timeout, x.Ran = time.Second, 0 }), Early},
		"early, of 5 s":     {with(func(x *Trial) { x.Timeout, x.Ran = 5*time.Second, 4400*time.Millisecond }), Early},
		"goes on":           {with(func(x *Trial) { x.Boot = now }), Nothing},
		"boot unknown":      {with(func(x *Trial) { x.Boot = 0 }), Nothing},
		"called off":        {with(func(x *Trial) { x.End = CalledOff }), Nothing},
		"failed":            {with(func(x *Trial) { x.End = Failed }), NeverFired},
		"failed just now":   {with(func(x *Trial) { x.End, x.Boot = Failed, now }), NeverFired},
		"a later version's": {with(func(x *Trial) { x.End = "melted" }), Nothing},
	} {
		if got := c.trial.Result(now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	x := trial(30*time.Second, 30*time.Second)
	if got := x.Result(0); got != Nothing {
		t.Errorf("in an unknown boot: %v", got)
	}
}

// Guard: the worst that was seen of a driver counts; that it failed counts for the firmware with which it did, until it fires.
func TestMeasured(t *testing.T) {
	s := time.Second
	failed := trial(10*s, 50*s)
	failed.End = Failed
	other := failed
	other.Firmware = "board 2"
	foreign := trial(10*s, 40*s)
	foreign.Identity = "cat"
	elsewhere := trial(10*s, 20*s)
	elsewhere.Firmware = "board 2"
	off := trial(10*s, 25*s)
	off.End = CalledOff
	soon := trial(10*s, 10*s)
	soon.End = CalledOff
	slow := trial(10*s, 10*s) // a disk on which each note takes 2 s
	slow.Next = 14 * s
	const late, factor = 10*time.Second + 2*Every, 2.02
	for name, c := range map[string]struct {
		trials []Trial
		want   watchdog.Measured
	}{
		"never tried":                {nil, watchdog.Measured{}},
		"in time":                    {[]Trial{trial(10*s, 10*s)}, watchdog.Measured{Fired: true}},
		"a little late":              {[]Trial{trial(10*s, 10*s+2*Every)}, watchdog.Measured{Fired: true, Offset: 2 * Every, Factor: 1.02}},
		"late":                       {[]Trial{trial(10*s, 20*s)}, watchdog.Measured{Fired: true, Offset: late, Factor: factor}},
		"late, then in time":         {[]Trial{trial(10*s, 20*s), trial(10*s, 10*s)}, watchdog.Measured{Fired: true, Offset: late, Factor: factor}},
		"late, then by more":         {[]Trial{trial(10*s, 20*s), trial(60*s, 90*s)}, watchdog.Measured{Fired: true, Offset: 30*s + 2*Every, Factor: factor}},
		"late with other firmware":   {[]Trial{elsewhere}, watchdog.Measured{Fired: true, Offset: late, Factor: factor}},
		"late by a disk's notes":     {[]Trial{slow}, watchdog.Measured{Fired: true, Offset: 4 * s, Factor: 1.4}},
		"late, and called off":       {[]Trial{off}, watchdog.Measured{Offset: 15 * s, Factor: 2.5}},
		"called off in time":         {[]Trial{soon}, watchdog.Measured{}},
		"another driver":             {[]Trial{foreign}, watchdog.Measured{}},
		"failed":                     {[]Trial{trial(10*s, 10*s), failed}, watchdog.Measured{Fired: true, Offset: 40 * s, Factor: 5, Failed: true}},
		"failed, then fired":         {[]Trial{failed, trial(10*s, 10*s)}, watchdog.Measured{Fired: true, Offset: 40 * s, Factor: 5}},
		"failed, then fired late":    {[]Trial{failed, trial(10*s, 20*s)}, watchdog.Measured{Fired: true, Offset: 40 * s, Factor: 5, Failed: true}},
		"failed, then reset early":   {[]Trial{failed, trial(10*s, 2*s)}, watchdog.Measured{Offset: 40 * s, Factor: 5, Failed: true}},
		"failed with other firmware": {[]Trial{other}, watchdog.Measured{Offset: 40 * s, Factor: 5}},
	} {
		if got := Measured(c.trials, "dog", "board 1", now); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	known := trial(30*s, 60*s)
	known.Identity = "iTCO_wdt"
	if got, want := Measured([]Trial{known}, "iTCO_wdt", "", now), (watchdog.Measured{Fired: true}); got != want {
		t.Errorf("as late as it is known to be: %+v, want %+v", got, want)
	}
}

// A file says what was written to it, wherever the machine was reset: only the line that was being written is lost.
func TestFileThatWasCutOff(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var want []Trial
		for range r.IntN(3) {
			x := trial(time.Duration(1+r.IntN(60))*time.Second, time.Duration(r.IntN(90))*time.Second)
			x.Began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			x.End = []End{"", CalledOff, Failed}[r.IntN(3)]
			want = append(want, x)
		}
		last := trial(30*time.Second, 0)
		last.Next = 0
		text := Encode(append(want, last))
		for i := range 1 + r.IntN(50) {
			ran := time.Duration(i+1) * Every
			text = append(text, (&Line{Ran: ran, Next: ran + Every}).Encode()...)
		}
		lines := strings.SplitAfter(string(text), "\n")
		head := len(strings.Join(lines[:len(want)+2], ""))
		cut := head + r.IntN(len(text)-head+1)
		got, err := Decode(append(text[:cut:cut], make([]byte, r.IntN(9))...)) // some file systems leave zeros
		for i := range strings.Count(string(text[head:cut]), "\n") {
			last.Ran, last.Next = time.Duration(i+1)*Every, time.Duration(i+2)*Every
		}
		if err != nil || !reflect.DeepEqual(got, append(want, last)) {
			t.Fatalf("seed %d: %+v, %v, want %+v", seed, got, err, append(want, last))
		}
	}
}

func TestFileThatIsNone(t *testing.T) {
	head := `{"version":1}` + "\n"
	for text, want := range map[string]string{
		"":                           "no complete line",
		"\n":                         "line 1",
		`{"version":2}` + "\n":       "it has format 2",
		head + `{"ran":5}` + "\n":    "belongs to no trial",
		head + "{]\n":                "line 2",
		head + `{"trial":{}}` + "\n": "a timeout of 0s",
	} {
		if _, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if trials, err := Decode([]byte(head)); len(trials) != 0 || err != nil {
		t.Errorf("%v, %v", trials, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode([]Trial{trial(30*time.Second, 31*time.Second)}))
	f.Add([]byte(fmt.Sprintf("{\"version\":1}\n{\"trial\":{\"timeout\":%d}}\n{\"ran\":-1,\"end\":\"x\"}\n", time.Second)))
	f.Fuzz(func(t *testing.T, text []byte) {
		trials, err := Decode(text)
		if err != nil {
			return
		}
		again, err := Decode(Encode(trials))
		if err != nil || len(again) != len(trials) {
			t.Fatalf("%d trials, again %d, %v", len(trials), len(again), err)
		}
		for i := range trials {
			m := Measured(trials, trials[i].Identity, trials[i].Firmware, now)
			if m.Offset < 0 || m.Factor != 0 && !(m.Factor > 1) {
				t.Fatalf("%+v", m)
			}
			if got := (watchdog.Driver{Measured: m}).Latest(time.Minute); got < time.Minute {
				t.Fatalf("%+v: fires by %v", m, got)
			}
		}
	})
}
