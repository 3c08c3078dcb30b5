package doubt

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// lie has members say everything of everybody, all the time.
func (w *world) lie(every time.Duration, liars ...int) {
	for p := range w.size {
		for _, liar := range liars {
			if p == liar {
				continue
			}
			for k := Ask; k <= kinds; k++ {
				w.say(liar, Outgoing{Word: Word{k, p}, Everyone: true, Copies: 1})
			}
		}
	}
	w.in(every, func() { w.lie(every, liars...) })
}

// One member lies, in its name only, for the cookie binds it. Nodes stand still for as long as is forgiven, and none is LEFT.
func TestOneLiarMakesNobodyLeft(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed, 15, 2, 0, netgossip.Any())
		w.run(2 * time.Second)
		w.lie(100*time.Millisecond, 0)
		for range 6 {
			w.stall(1+w.rand.IntN(w.size-1), 1500*time.Millisecond)
			for range 20 {
				w.run(100 * time.Millisecond)
				if f := w.falsely(); len(f) > 0 {
					t.Fatalf("seed %d: falsely LEFT: %v", seed, f)
				}
			}
		}
		if took, all := w.crash(7); !all || took > 4*time.Second {
			t.Errorf("seed %d: beside a liar a crash is known after %v, to all: %v", seed, took, all)
		}
	}
}

// Three that lie can do what three can say: but who answers is not LEFT.
func TestThreeLiarsCannotMakeANodeLeftThatAnswers(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed, 15, 2, 0.05, netgossip.Any())
		w.run(2 * time.Second)
		w.lie(100*time.Millisecond, 0, 1, 2)
		for range 60 {
			w.run(100 * time.Millisecond)
			if f := w.falsely(); len(f) > 0 {
				t.Fatalf("seed %d: falsely LEFT: %v", seed, f)
			}
		}
	}
}

// What one liar makes the others do is bounded: eight looks a second at each, on each network, and no word.
func TestALiarMakesLittleTraffic(t *testing.T) {
	w := newWorld(t, 5, 30, 2, 0, netgossip.Any())
	w.run(2 * time.Second)
	quiet := w.looks
	w.run(10 * time.Second)
	quiet = w.looks - quiet
	words := w.words
	lied := 0
	var asks func()
	asks = func() {
		for p := 1; p < w.size; p++ {
			w.say(0, Outgoing{Word: Word{Ask, p}, Everyone: true, Copies: 1})
		}
		lied += (w.size - 1) * (w.size - 2)
		w.in(100*time.Millisecond, asks)
	}
	asks()
	looks := w.looks
	w.run(10 * time.Second)
	if made, most := w.looks-looks-quiet, (w.size-1)*w.networks*(asksBurst+asksPerSecond*10); made > most {
		t.Errorf("%d looks, at most %d are allowed", made, most)
	}
	if said := w.words - words - lied; said > 0 {
		t.Errorf("%d words of others", said)
	}
}

// A member that says nothing, though it is a watcher, is made up for by others.
func TestWatchersThatSayNothing(t *testing.T) {
	w := newWorld(t, 6, 40, 2, 0, netgossip.Any())
	w.run(2 * time.Second)
	silenced := w.cores[0].watchersOf(7)
	w.mute = func(from int, _ Outgoing) bool { return silenced.Has(from) }
	if took, all := w.crash(7); !all || took > 5*time.Second {
		t.Errorf("known after %v, to all: %v", took, all)
	}
}
