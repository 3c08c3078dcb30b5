package diskquorum

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

var sampleID = [16]byte{0xA0, 0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7, 0xB0, 0xB1, 0xB2, 0xB3, 0xB4, 0xB5, 0xB6, 0xB7}

func sampleGrant(n int, salt uint64) *Grant {
	g := &Grant{RosterEpoch: 0x0102030405060700 + salt, RosterDigest: 0x1112131415161700 + salt}
	for i := range n {
		g.Holders = append(g.Holders, Holder{Slot: uint8(2*i + int(salt)), Token: Token{Nonce: salt<<56 | 0xC0FFEE00 + uint64(i), Counter: uint32(1000*salt) + uint32(i)}})
	}
	return g
}

// sampleSlot has a distinct value in every field.
func sampleSlot() Slot {
	return Slot{
		Index: 5, State: SlotActive, Sequence: 0x0000000123456788, NodeName: "node-5.example", NodeUID: "0f3c9a52-6a1f-4a0e-9a53-2f8a7f5f2b11",
		Process: 0x2122232425262728, RosterIndex: 6, RosterSize: 200,
		Statement: netgossip.Statement{
			Boot: 0x3132333435363738, RosterEpoch: 0x4142434445464748, RosterDigest: 0x5152535455565758,
			Token: Token{Nonce: 0x6162636465666768, Counter: 0x71727374},
			Seen:  roster.SetOf(0, 7, 63, 64, 199), View: roster.SetOf(6, 8, 128, 198),
			Guard:   netgossip.Guard{Armed: true, Fences: true, Timeout: 30 * time.Second, Horizon: 80 * time.Second},
			Terms:   netgossip.Terms{By: netgossip.BreaksByLUN | netgossip.AsksAPI, Log: 0xa1a2a3a4a5a6a7a8},
			Agreed:  true,
			Feeding: true, LUNHealthy: true, APIReachable: true, Version: "v1.2.3", Stated: boottime.Instant(0x010203040506 * time.Millisecond),
		},
		HeartbeatInterval: 1500 * time.Millisecond, GrantLifetime: 6500 * time.Millisecond, WallTime: 1_700_000_000_123,
		Ballot: Ballot{
			Instance: 9, MBal: 0x8182838485868788, Bal: 0x1182838485868788, Value: sampleGrant(100, 1),
			DecidedInstance: 8, Decided: sampleGrant(MaxHolders, 0),
		},
	}
}

func sampleSuperblock() Superblock {
	return Superblock{Version: FormatVersion, ID: sampleID, Cluster: "main", NodeGroup: "worker", Slots: 64, Created: 1_700_000_000}
}

func encodeSlot(t testing.TB, s *Slot) []byte {
	t.Helper()
	b := bytes.Repeat([]byte{0xEE}, BlockSize) // earlier contents of the buffer must not matter
	if err := EncodeSlot(b, sampleID, s, int(s.Sequence%2)); err != nil {
		t.Fatal(err)
	}
	return b
}

func encodeSuperblock(t testing.TB, sb *Superblock, which int) []byte {
	t.Helper()
	b := bytes.Repeat([]byte{0xEE}, BlockSize)
	if err := EncodeSuperblock(b, sb, which); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSlotRoundTrip(t *testing.T) {
	minimal := Slot{Sequence: 1}
	largest := sampleSlot()
	largest.Index, largest.Sequence, largest.State = MaxSlots-1, 1<<64-1, SlotStopped
	largest.NodeName, largest.NodeUID = strings.Repeat("n", maxSlotName), strings.Repeat("u", maxUIDBytes)
	largest.RosterIndex, largest.RosterSize = MaxSlots-1, MaxSlots
	largest.Statement.Seen, largest.Statement.View = roster.FullSet(MaxSlots), roster.FullSet(MaxSlots)
	largest.Statement.Stopping = true
	largest.Statement.Version = strings.Repeat("v", maxAgentVersion)
	largest.Ballot.Value = sampleGrant(MaxHolders, 2)
	largest.WallTime = -1
	free := Slot{Index: 3, State: SlotFree, Sequence: 12, NodeName: "left"}
	for name, s := range map[string]Slot{"sample": sampleSlot(), "minimal": minimal, "largest": largest, "free": free} {
		t.Run(name, func(t *testing.T) {
			var got Slot
			if err := DecodeSlot(encodeSlot(t, &s), sampleID, s.Index, int(s.Sequence%2), &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, s) {
				t.Errorf("got  %+v\nwant %+v", got, s)
			}
		})
	}
}

func TestSlotRoundsUpAndCuts(t *testing.T) {
	s := sampleSlot()
	s.Statement.Guard.Timeout, s.Statement.Guard.Horizon, s.GrantLifetime = 30*time.Second+1, 80*time.Second+1, time.Second+1
	s.Statement.Version = strings.Repeat("x", 100)
	var got Slot
	if err := DecodeSlot(encodeSlot(t, &s), sampleID, s.Index, 0, &got); err != nil {
		t.Fatal(err)
	}
	if got.Statement.Guard.Horizon != 80*time.Second+time.Millisecond || got.GrantLifetime != time.Second+time.Millisecond {
		t.Errorf("horizon %v, grant lifetime %v: they must never be understated", got.Statement.Guard.Horizon, got.GrantLifetime)
	}
	if got.Statement.Guard.Timeout != 30*time.Second+time.Millisecond {
		t.Errorf("timeout %v: a watchdog timeout must never be understated", got.Statement.Guard.Timeout)
	}
	if got.Statement.Version != strings.Repeat("x", maxAgentVersion) {
		t.Errorf("version %q", got.Statement.Version)
	}
}

// badSlots lists records that EncodeSlot refuses, and that DecodeSlot refuses if other code wrote them.
var badSlots = map[string]func(*Slot){
	"index too great":           func(s *Slot) { s.Index = MaxSlots },
	"index negative":            func(s *Slot) { s.Index = -1 },
	"sequence zero":             func(s *Slot) { s.Sequence = 0 },
	"sequence of other copy":    func(s *Slot) { s.Sequence++ },
	"state unknown":             func(s *Slot) { s.State = SlotStopped + 1 },
	"name too long":             func(s *Slot) { s.NodeName = strings.Repeat("n", maxSlotName+1) },
	"UID too long":              func(s *Slot) { s.NodeUID = strings.Repeat("n", maxUIDBytes+1) },
	"heartbeat negative":        func(s *Slot) { s.HeartbeatInterval = -1 },
	"timeout too long":          func(s *Slot) { s.Statement.Guard.Timeout = 1 << 62 },
	"horizon too long":          func(s *Slot) { s.Statement.Guard.Horizon = 1 << 62 },
	"negative grant lifetime":   func(s *Slot) { s.GrantLifetime = -1 << 40 },
	"roster too large":          func(s *Slot) { s.RosterSize = MaxSlots + 1 },
	"roster index outside":      func(s *Slot) { s.RosterIndex = s.RosterSize },
	"roster index without size": func(s *Slot) { *s = Slot{Sequence: 2, RosterIndex: 1} },
	"view outside roster":       func(s *Slot) { s.Statement.View.Add(200) },
	"view beyond 256":           func(s *Slot) { s.Statement.View.Add(1000) },
	"seen outside roster":       func(s *Slot) { s.Statement.Seen.Add(255) },
	"value without bal":         func(s *Slot) { s.Ballot.Bal = 0 },
	"bal without value":         func(s *Slot) { s.Ballot.Value = nil },
	"bal above mbal":            func(s *Slot) { s.Ballot.Bal = s.Ballot.MBal + 1 },
	"mbal outside instance":     func(s *Slot) { s.Ballot.Instance = 0 },
	"decision without instance": func(s *Slot) { s.Ballot.DecidedInstance = 0 },
	"instance without decision": func(s *Slot) { s.Ballot.Decided = nil },
	"no holders":                func(s *Slot) { s.Ballot.Decided = &Grant{} },
	"too many holders":          func(s *Slot) { s.Ballot.Decided = sampleGrant(MaxHolders+1, 0) },
	"holders not ascending":     func(s *Slot) { s.Ballot.Decided.Holders[5].Slot = s.Ballot.Decided.Holders[4].Slot },
	"holder slot out of range":  func(s *Slot) { s.Ballot.Decided.Holders[MaxHolders-1].Slot = MaxSlots },
}

func TestEncodeSlotRefuses(t *testing.T) {
	for name, spoil := range badSlots {
		t.Run(name, func(t *testing.T) {
			s := sampleSlot()
			spoil(&s)
			if err := EncodeSlot(make([]byte, BlockSize), sampleID, &s, 0); err == nil {
				t.Error("was accepted")
			}
		})
	}
	s := sampleSlot()
	if err := EncodeSlot(make([]byte, BlockSize-1), sampleID, &s, 0); err == nil {
		t.Error("a short buffer was accepted")
	}
}

// TestDecodeSlotRefusesSealed changes single fields of a block and seals it again: the
// checksum is right, the content is not.
func TestDecodeSlotRefusesSealed(t *testing.T) {
	s := sampleSlot()
	cases := []struct {
		name   string
		offset int
		bytes  []byte
		want   error
	}{
		{"magic", 0, []byte("X"), ErrCorrupt},
		{"version", slVersion, []byte{2}, ErrVersion},
		{"version zero", slVersion, []byte{0}, ErrVersion},
		{"index", slIndex, []byte{6}, ErrCorrupt},
		{"copy", slCopy, []byte{1}, ErrCorrupt},
		{"state", slState, []byte{4}, ErrCorrupt},
		{"name length", slNameLen, []byte{254}, ErrCorrupt},
		{"UID length", slUIDLen, []byte{65}, ErrCorrupt},
		{"agent length", slVersionLen, []byte{65}, ErrCorrupt},
		{"roster index", slRosterIndex, []byte{200, 0}, ErrCorrupt},
		{"roster size", slRosterSize, []byte{0, 1}, ErrCorrupt},
		{"seen", slSeen + 31, []byte{0x80}, ErrCorrupt},
		{"view", slView + 25, []byte{1}, ErrCorrupt},
		{"value count", slValueLen, []byte{128}, ErrCorrupt},
		{"no value", slValueLen, []byte{0}, ErrCorrupt},
		{"more value holders than written", slValueLen, []byte{101}, ErrCorrupt},
		{"decided count", slDecidedLen, []byte{255}, ErrCorrupt},
		{"no decision", slDecidedInst, make([]byte, 8), ErrCorrupt},
		{"instance", slInstance, make([]byte, 8), ErrCorrupt},
		{"bal", slBal + 7, []byte{0xFF}, ErrCorrupt},
		{"holder order", holderOffset(1), []byte{1}, ErrCorrupt},
		{"holder slot", holderOffset(253), []byte{255}, ErrCorrupt},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := encodeSlot(t, &s)
			copy(b[c.offset:], c.bytes)
			seal(b, kindSlot, sampleID, slotBlock(s.Index, 0), s.Sequence)
			got := Slot{NodeName: "untouched"}
			if err := DecodeSlot(b, sampleID, s.Index, 0, &got); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if !reflect.DeepEqual(got, Slot{NodeName: "untouched"}) {
				t.Errorf("a refused block changed the slot: %+v", got)
			}
		})
	}
	t.Run("sequence", func(t *testing.T) {
		b := encodeSlot(t, &s)
		seal(b, kindSlot, sampleID, slotBlock(s.Index, 0), s.Sequence+1)
		if err := DecodeSlot(b, sampleID, s.Index, 0, new(Slot)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("error %v: an odd sequence was accepted in copy A", err)
		}
	})
}

func TestReservedBytesAreIgnored(t *testing.T) {
	s := sampleSlot()
	b := encodeSlot(t, &s)
	for _, off := range []int{slMinor, 147, 151, 469, slBallot + 67, slBallot + 495, 3*SectorSize + 494, holderOffset(100)} {
		b[off] = 0x5A
	}
	seal(b, kindSlot, sampleID, slotBlock(s.Index, 0), s.Sequence)
	b[trailerPart+1] = 0x5A
	crc := crc32.Update(sealSeed(sampleID, slotBlock(s.Index, 0)), castagnoli, b[:trailerCRC])
	binary.LittleEndian.PutUint32(b[trailerCRC:], crc)
	var got Slot
	if err := DecodeSlot(b, sampleID, s.Index, 0, &got); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("error %v, got %+v", err, got)
	}
}

// TestSealSeed checks the seed against the documented sum over id and block number.
func TestSealSeed(t *testing.T) {
	for _, block := range []uint64{0, 1, 513, 1<<63 + 7} {
		want := crc32.Checksum(binary.LittleEndian.AppendUint64(bytes.Clone(sampleID[:]), block), crc32.MakeTable(crc32.Castagnoli))
		if got := sealSeed(sampleID, block); got != want {
			t.Errorf("block %d: %#x, want %#x", block, got, want)
		}
	}
}

// TestMisdirected: a good block in a wrong place or of another LUN does not verify.
func TestMisdirected(t *testing.T) {
	s := sampleSlot()
	b := encodeSlot(t, &s)
	otherID := sampleID
	otherID[15] ^= 1
	for name, err := range map[string]error{
		"other slot": DecodeSlot(b, sampleID, s.Index+1, 0, new(Slot)),
		"other copy": DecodeSlot(b, sampleID, s.Index, 1, new(Slot)),
		"other LUN":  DecodeSlot(b, otherID, s.Index, 0, new(Slot)),
	} {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for part := 1; part < sectorsPerBlock; part++ {
		c := bytes.Clone(b)
		copy(c[part*SectorSize:], b[(part-1)*SectorSize:part*SectorSize])
		if err := DecodeSlot(c, sampleID, s.Index, 0, new(Slot)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("part %d in the place of %d: error %v", part-1, part, err)
		}
	}
	for _, bad := range [][2]int{{-1, 0}, {MaxSlots, 0}, {0, 2}, {0, -1}} {
		if err := DecodeSlot(b, sampleID, bad[0], bad[1], new(Slot)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("slot %d copy %d: error %v", bad[0], bad[1], err)
		}
	}
}

// TestEveryFlipIsRejected flips each bit and each byte of a slot and a superblock.
func TestEveryFlipIsRejected(t *testing.T) {
	s := sampleSlot()
	slot := encodeSlot(t, &s)
	var into Slot
	eachFlip(slot, func(at string) {
		if err := DecodeSlot(slot, sampleID, s.Index, 0, &into); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("slot with %s: error %v", at, err)
		}
	})
	sb := sampleSuperblock()
	block := encodeSuperblock(t, &sb, 1)
	eachFlip(block, func(at string) {
		if _, err := DecodeSuperblock(block, 1); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNoSuperblock) {
			t.Fatalf("superblock with %s: error %v", at, err)
		}
	})
}

func eachFlip(b []byte, check func(at string)) {
	for i := range b {
		for bit := range 9 {
			mask := byte(1) << bit
			if bit == 8 {
				mask = 0xFF
			}
			b[i] ^= mask
			check(fmt.Sprintf("byte %d xor %#x", i, mask))
			b[i] ^= mask
		}
	}
}

// TestTorn writes any subset of the sectors of a new record over an old one.
func TestTorn(t *testing.T) {
	old := sampleSlot()
	next := sampleSlot()
	next.Sequence += 2
	next.NodeName = "next"
	a, b := encodeSlot(t, &old), encodeSlot(t, &next)
	first := sampleSlot()
	first.Sequence = 2
	f := encodeSlot(t, &first)
	zero := make([]byte, BlockSize)
	for mask := 1; mask < 1<<sectorsPerBlock-1; mask++ {
		if err := DecodeSlot(mix(a, b, mask), sampleID, old.Index, 0, new(Slot)); !errors.Is(err, ErrTorn) {
			t.Errorf("sectors %08b of a later write: error %v", mask, err)
		}
		if err := DecodeSlot(mix(zero, f, mask), sampleID, old.Index, 0, new(Slot)); !errors.Is(err, ErrTorn) {
			t.Errorf("sectors %08b of the first write: error %v", mask, err)
		}
		// A zero sector in a block with a greater sequence is lost data, which may hide a completed write.
		if err := DecodeSlot(mix(zero, a, mask), sampleID, old.Index, 0, new(Slot)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("sectors %08b, the rest zero: error %v", mask, err)
		}
	}
	if err := DecodeSlot(zero, sampleID, 0, 0, new(Slot)); !errors.Is(err, ErrBlank) {
		t.Errorf("blank: error %v", err)
	}
	if err := DecodeSlot(a[:BlockSize-1], sampleID, old.Index, 0, new(Slot)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("short: error %v", err)
	}
}

func mix(a, b []byte, mask int) []byte {
	out := bytes.Clone(a)
	for part := range sectorsPerBlock {
		if mask&(1<<part) != 0 {
			copy(out[part*SectorSize:(part+1)*SectorSize], b[part*SectorSize:])
		}
	}
	return out
}

func TestDecodeSlotKeepsWhatIsUnchanged(t *testing.T) {
	s := sampleSlot()
	b := encodeSlot(t, &s)
	next := s
	next.Sequence += 2
	c := encodeSlot(t, &next)
	var got Slot
	decode := func(b []byte) {
		if err := DecodeSlot(b, sampleID, s.Index, 0, &got); err != nil {
			t.Fatal(err)
		}
	}
	decode(b)
	value := got.Ballot.Value
	if n := testing.AllocsPerRun(100, func() { decode(b); decode(c) }); n != 0 {
		t.Errorf("%v allocations in steady state", n)
	}
	if got.Ballot.Value != value {
		t.Error("an unchanged grant was replaced")
	}
	changed := sampleSlot()
	changed.Ballot.Value.Holders[99].Token.Counter++
	decode(encodeSlot(t, &changed))
	if got.Ballot.Value == value || !reflect.DeepEqual(got, changed) {
		t.Error("a changed grant was not read")
	}
	if !reflect.DeepEqual(value, s.Ballot.Value) {
		t.Error("a grant that was handed out changed: it is immutable")
	}
	buf := make([]byte, BlockSize)
	if n := testing.AllocsPerRun(100, func() { _ = EncodeSlot(buf, sampleID, &s, 0) }); n != 0 {
		t.Errorf("%v allocations per encoding", n)
	}
}

func TestSlotRoundTripRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var got Slot
	for range 2000 {
		s := randomSlot(rng)
		if err := DecodeSlot(encodeSlot(t, &s), sampleID, s.Index, int(s.Sequence%2), &got); err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("got  %+v\nwant %+v", got, s)
		}
	}
}

func randomSlot(rng *rand.Rand) Slot {
	size := 1 + rng.IntN(MaxSlots)
	set := func() (s roster.Set) {
		for range rng.IntN(size + 1) {
			s.Add(rng.IntN(size))
		}
		return s
	}
	s := Slot{
		Index: rng.IntN(MaxSlots), State: SlotState(rng.IntN(4)), Sequence: 1 + rng.Uint64N(1<<63),
		NodeName: strings.Repeat("a", rng.IntN(maxSlotName+1)), NodeUID: strings.Repeat("b", rng.IntN(maxUIDBytes+1)),
		Process: rng.Uint64(), RosterIndex: rng.IntN(size), RosterSize: size, WallTime: int64(rng.Uint64()),
		HeartbeatInterval: time.Duration(rng.Uint32()) * time.Millisecond,
		Statement: netgossip.Statement{
			Boot: rng.Uint64(), RosterEpoch: rng.Uint64(), RosterDigest: rng.Uint64(),
			Token: Token{Nonce: rng.Uint64(), Counter: rng.Uint32()}, Seen: set(), View: set(),
			Guard:   netgossip.Guard{Armed: rng.IntN(2) == 0, Fences: rng.IntN(2) == 0, Timeout: time.Duration(rng.Uint32()) * time.Millisecond},
			Feeding: rng.IntN(2) == 0, Stopping: rng.IntN(2) == 0, LUNHealthy: rng.IntN(2) == 0, APIReachable: rng.IntN(2) == 0,
		},
		Ballot: Ballot{Instance: 1 + rng.Uint64N(1<<63), MBal: rng.Uint64()},
	}
	if rng.IntN(2) == 0 && s.Ballot.MBal > 0 {
		s.Ballot.Bal, s.Ballot.Value = 1+rng.Uint64N(s.Ballot.MBal), randomGrant(rng)
	}
	if rng.IntN(2) == 0 {
		s.Ballot.DecidedInstance, s.Ballot.Decided = 1+rng.Uint64N(1<<63), randomGrant(rng)
	}
	return s
}

func randomGrant(rng *rand.Rand) *Grant {
	g := &Grant{RosterEpoch: rng.Uint64(), RosterDigest: rng.Uint64()}
	for slot := range MaxSlots {
		if len(g.Holders) < MaxHolders && rng.IntN(3) == 0 {
			g.Holders = append(g.Holders, Holder{Slot: uint8(slot), Token: Token{Nonce: rng.Uint64(), Counter: rng.Uint32()}})
		}
	}
	if len(g.Holders) == 0 {
		g.Holders = []Holder{{Slot: 1}}
	}
	return g
}

// TestGolden pins the format: a difference here is a new format version.
// UPDATE_GOLDEN=1 rewrites the files.
func TestGolden(t *testing.T) {
	s, sb := sampleSlot(), sampleSuperblock()
	scratch := make([]byte, BlockSize)
	if err := EncodeScratch(scratch, &sb, 0x1122334455667788, 3); err != nil {
		t.Fatal(err)
	}
	judged := sampleEcho()
	e := judged
	e.Judged, e.Sentence = Sentence{}, 0
	for name, block := range map[string][]byte{
		"echo_v1.hex": encodeEcho(t, 64, &e, samplePings(64)), "echo_v1_sentence.hex": encodeEcho(t, 64, &judged, samplePings(64)),
		"slot_v1.hex": encodeSlot(t, &s), "superblock_v1.hex": encodeSuperblock(t, &sb, 1), "superblock_v1_mbr.hex": encodeSuperblock(t, &sb, 0), "scratch_v1.hex": scratch,
	} {
		path := filepath.Join("testdata", "golden", name)
		dump := hex.Dump(block)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(path, []byte(dump), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if dump != string(want) {
			t.Errorf("%s: the bytes on disk changed: this needs a new format version\n%s", name, dump)
		}
	}
}

func BenchmarkDecodeSlot(b *testing.B) {
	s := sampleSlot()
	block := encodeSlot(b, &s)
	var got Slot
	b.ReportAllocs()
	b.SetBytes(BlockSize)
	for b.Loop() {
		if err := DecodeSlot(block, sampleID, s.Index, 0, &got); err != nil {
			b.Fatal(err)
		}
	}
}
