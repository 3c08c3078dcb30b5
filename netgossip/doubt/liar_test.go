package doubt

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// lie lets members continuously send every kind of word about every peer.
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

// One member lies, but only in its own name, because of the cookie. Nodes stall for as long as is tolerated, and none
// is LEFT.
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

// Three lying members count as three reporters, but a peer that answers is not LEFT.
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

// The traffic that one liar causes is bounded: eight looks a second at each peer, on each network, and no words.
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

// Other members replace a watcher that does not reply.
func TestWatchersThatSayNothing(t *testing.T) {
	w := newWorld(t, 6, 40, 2, 0, netgossip.Any())
	w.run(2 * time.Second)
	silenced := w.cores[0].watchersOf(7)
	w.mute = func(from int, _ Outgoing) bool { return silenced.Has(from) }
	if took, all := w.crash(7); !all || took > 5*time.Second {
		t.Errorf("known after %v, to all: %v", took, all)
	}
}
