package kdump

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func message(order binary.AppendByteOrder, magic, version uint32) []byte {
	return order.AppendUint32(order.AppendUint32(nil, magic), version)
}

func TestParse(t *testing.T) {
	for _, b := range [][]byte{message(binary.LittleEndian, 0x1B302A40, 1), message(binary.BigEndian, 0x1B302A40, 1), {0x40, 0x2a, 0x30, 0x1b, 1, 0, 0, 0}} {
		if err := Parse(b); err != nil {
			t.Errorf("% x: %v", b, err)
		}
	}
	good := message(binary.LittleEndian, 0x1B302A40, 1)
	for _, b := range [][]byte{nil, good[:7], append(good, 0), message(binary.LittleEndian, 0x1B302A41, 1), message(binary.BigEndian, 0x1B302A40, 2), message(binary.LittleEndian, 0x1B302A40, 0x01000000)} {
		if Parse(b) == nil {
			t.Errorf("% x is taken", b)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("@*0\x1b\x01\x00\x00\x00"))
	f.Add([]byte("\x1b0*@\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		known := bytes.Equal(b, []byte("@*0\x1b\x01\x00\x00\x00")) || bytes.Equal(b, []byte("\x1b0*@\x00\x00\x00\x01"))
		if (Parse(b) == nil) != known {
			t.Errorf("% x: %v", b, Parse(b))
		}
	})
}

func TestJudge(t *testing.T) {
	silent := Shows{Boot: "b1", Heartbeat: "h1"}
	type event struct {
		after  time.Duration
		hear   bool
		shows  Shows
		proven string
		quiet  bool
	}
	for name, events := range map[string][]event{
		"two messages, and a look between them": {{0, true, silent, "", false}, {10, true, silent, "b1", false}},
		"one message":                           {{0, true, silent, "", false}, {10, false, silent, "", false}, {31, false, silent, "", true}},
		"two at once":                           {{0, true, silent, "", false}, {4, true, silent, "", false}, {8, true, silent, "b1", false}},
		"Ready": {
			{0, true, Shows{Boot: "b1", Heartbeat: "h1", Ready: true}, "", true}, {10, true, silent, "", false}, {20, true, silent, "b1", false},
		},
		"its kubelet goes on":   {{0, true, silent, "", false}, {10, true, Shows{Boot: "b1", Heartbeat: "h2"}, "", false}, {12, false, Shows{Boot: "b1", Heartbeat: "h2"}, "", false}},
		"another boot begins":   {{0, true, silent, "", false}, {10, false, Shows{Boot: "b2", Heartbeat: "h2"}, "", false}, {12, false, Shows{Boot: "b2", Heartbeat: "h2"}, "", false}},
		"and that crashes, too": {{0, true, silent, "", false}, {10, false, Shows{Boot: "b2", Heartbeat: "h2"}, "", false}, {20, true, Shows{Boot: "b2", Heartbeat: "h2"}, "b2", false}},
		"a long pause":          {{0, true, silent, "", false}, {40, true, silent, "", false}, {50, true, silent, "b1", false}},
	} {
		var b Book
		for i, e := range events {
			now := start.Add(e.after * time.Second)
			if e.hear {
				b.Hear("n4", now.Add(-time.Millisecond))
			}
			v := b.Judge("n4", e.shows, now)
			if v.Boot != e.proven || v.Last.IsZero() != e.quiet {
				t.Errorf("%s, %d: %+v", name, i, v)
			}
		}
		if v := b.Judge("n3", silent, start); v != (Verdict{}) {
			t.Errorf("%s: another node: %+v", name, v)
		}
	}
}

var (
	runs     = flag.Int("runs", 2000, "random schedules")
	firstOne = flag.Uint64("seed", 1, "the first of them")
)

// A machine crashes, dumps, boots and crashes again. A controller looks at random times, and hears messages late or
// never. Guard: no boot is proven to have ended while it runs.
func TestSchedules(t *testing.T) {
	proofs := 0
	for i := range *runs {
		seed := *firstOne + uint64(i)
		rng := rand.New(rand.NewPCG(seed, 9))
		var b Book
		boot, dumping, now := 1, false, start
		upAt := start // when the kubelet of this boot is heard
		shows := Shows{Boot: "1", Heartbeat: "0", Ready: true}
		var late []time.Time // messages on their way
		lastSent := start
		for range 600 {
			now = now.Add(time.Duration(200+rng.IntN(1800)) * time.Millisecond)
			switch p := rng.IntN(60); {
			case p == 0 && !dumping:
				dumping = true
			case p < 3 && dumping: // it boots, which takes longer than a message needs
				boot, dumping, upAt = boot+1, false, now.Add(time.Duration(10+rng.IntN(60))*time.Second)
			}
			if dumping && now.Sub(lastSent) >= 5*time.Second && rng.IntN(3) > 0 {
				lastSent = now
				late = append(late, now.Add(time.Duration(rng.IntN(1000))*time.Millisecond))
			}
			speaks := !dumping && !now.Before(upAt)
			switch {
			case speaks:
				shows = Shows{Boot: fmt.Sprint(boot), Heartbeat: now.String(), Ready: rng.IntN(4) > 0}
			case rng.IntN(10) == 0:
				shows.Ready = false
			}
			for len(late) > 0 && !late[0].After(now) {
				b.Hear("n4", late[0])
				late = late[1:]
			}
			if rng.IntN(3) == 0 {
				continue
			}
			if v := b.Judge("n4", shows, now); v.Boot != "" {
				proofs++
				if v.Boot == fmt.Sprint(boot) && !dumping {
					t.Fatalf("seed %d: boot %s is proven to have ended, and runs", seed, v.Boot)
				}
			}
		}
	}
	if proofs < *runs {
		t.Errorf("%d proofs in %d schedules: they test nothing", proofs, *runs)
	}
}
