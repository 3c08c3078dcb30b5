package diskquorum

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// sampleEcho has a distinct value in every field.
func sampleEcho() Echo {
	return Echo{
		Index: 5, Process: 0x2122232425262728, Boot: 0x3132333435363738, Ping: Ping{Nonce: 0x91929394, Counter: 0x01020304},
		Testimony:   Testimony{Lives: true, Feeding: true, Settled: true, Lately: roster.SetOf(0, 7, 63, 64, 199), View: roster.SetOf(6, 8, 128, 198), Seen: roster.SetOf(9, 65, 130, 197), Sentence: 2 * time.Second},
		RosterEpoch: 0x4142434445464748, RosterDigest: 0x5152535455565758, RosterSize: 200, RosterIndex: 6,
		Decided: 0x6162636465666768, Token: Token{Nonce: 0x7172737475767778, Counter: 0x81828384},
		Judged: Sentence{Timeout: 2 * time.Second, Boot: 0x3132333435363738, Name: 0xA1A2A3A4A5A6A7A8},
	}
}

func samplePings(n int) []Ping {
	pings := make([]Ping, n)
	for i := range pings {
		pings[i] = Ping{Nonce: 0xB0000000 + uint32(i), Counter: 1000 + uint32(i)}
	}
	return pings
}

func encodeEcho(t testing.TB, slots int, e *Echo, echoes []Ping) []byte {
	t.Helper()
	b := make([]byte, BlockSize)
	if err := EncodeEcho(b, sampleID, slots, e, echoes); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEchoRoundTrip(t *testing.T) {
	e, pings := sampleEcho(), samplePings(MaxSlots)
	b := encodeEcho(t, MaxSlots, &e, pings)
	for mine := range MaxSlots {
		got, echoed, err := DecodeEcho(b, sampleID, MaxSlots, e.Index, mine)
		if err != nil || got != e || echoed != pings[mine] {
			t.Fatalf("echo of slot %d: %v, %v\ngot  %+v\nwant %+v", mine, echoed, err, got, e)
		}
	}
	if _, echoed, err := DecodeEcho(b, sampleID, MaxSlots, e.Index, -1); err != nil || echoed != (Ping{}) {
		t.Errorf("echo of no slot: %v, %v", echoed, err)
	}
	for f := range 32 {
		want := Testimony{Lives: f&1 != 0, Granted: f&2 != 0, Feeding: f&4 != 0, Holding: f&8 != 0, Settled: f&16 != 0}
		var got Testimony
		if got.setFlags(want.flags()); got != want {
			t.Errorf("%+v came back as %+v", want, got)
		}
	}
}

// A block that is incomplete, or belongs to another slot, another LUN or a LUN with another number of slots, is not
// evidence.
func TestEchoRefused(t *testing.T) {
	e, pings := sampleEcho(), samplePings(64)
	good := encodeEcho(t, 64, &e, pings)
	other := e
	other.Ping.Counter++
	later := encodeEcho(t, 64, &other, pings)
	torn := append(append([]byte(nil), later[:SectorSize]...), good[SectorSize:]...)
	bad := append([]byte(nil), good...)
	bad[ecLately] ^= 1
	id := sampleID
	id[0]++
	for _, c := range []struct {
		name  string
		block []byte
		id    [16]byte
		slots int
		slot  int
		want  error
	}{
		{"blank", make([]byte, BlockSize), sampleID, 64, 5, ErrBlank},
		{"torn", torn, sampleID, 64, 5, ErrTorn},
		{"damaged", bad, sampleID, 64, 5, ErrCorrupt},
		{"another LUN", good, id, 64, 5, ErrCorrupt},
		{"another slot", good, sampleID, 64, 6, ErrCorrupt},
		{"another number of slots", good, sampleID, 63, 5, ErrCorrupt},
		{"a slot", encodeSlot(t, ptr(sampleSlot())), sampleID, 64, 5, ErrCorrupt},
	} {
		if got, _, err := DecodeEcho(c.block, c.id, c.slots, c.slot, 0); !errors.Is(err, c.want) || got != (Echo{}) {
			t.Errorf("%s: %+v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func FuzzDecodeEcho(f *testing.F) {
	e := sampleEcho()
	f.Add(encodeEcho(f, 64, &e, samplePings(64)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, _, err := DecodeEcho(b, sampleID, 64, 5, 7); err != nil && got != (Echo{}) {
			t.Errorf("%v, and %+v", err, got)
		}
	})
}

// bestCover is the oracle of cover: it tries every set.
func bestCover(n, self int, words []word) (best int64) {
	for mask := 1; mask < 1<<len(words); mask++ {
		var in roster.Set
		first := int64(1) << 62
		for i, w := range words {
			if mask>>i&1 != 0 {
				in.Add(w.member)
				first = min(first, int64(w.date))
			}
		}
		ok := in.Has(self) && 2*in.Len() > n
		for z := range n {
			missing := 0
			for i, w := range words {
				if mask>>i&1 != 0 && !w.lately.Has(z) {
					missing++
				}
			}
			ok = ok && (in.Has(z) || 2*missing > n)
		}
		if ok {
			best = max(best, first)
		}
	}
	return best
}

func TestCoverFindsTheBestSet(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	found := 0
	for range 20000 {
		n := 2 + rng.IntN(8)
		now := 1000 + rng.Int64N(1000)
		var c cover
		var words []word
		for i, member := range rng.Perm(n)[:1+rng.IntN(n)] {
			date := now
			if i > 0 {
				date = 1 + rng.Int64N(now)
			}
			var lately roster.Set
			for z := range n {
				if rng.IntN(4) == 0 {
					lately.Add(z)
				}
			}
			words = append(words, word{member, boottime.Instant(date), &lately})
			c.add(member, boottime.Instant(date), &lately)
		}
		got, ok := c.latest(n)
		want := bestCover(n, words[0].member, words)
		if ok != (want > 0) || ok && int64(got) != want {
			t.Fatalf("n %d, words %+v: %v %v, want %v", n, words, got, ok, want)
		}
		if ok {
			found++
		}
	}
	if found < 1000 {
		t.Errorf("only %d of 20000 had a set", found)
	}
}
