package diskquorum

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestSuperblockRoundTrip(t *testing.T) {
	longest := sampleSuperblock()
	longest.Cluster, longest.NodeGroup, longest.Slots = strings.Repeat("c", MaxNameBytes), strings.Repeat("g", MaxNameBytes), MaxSlots
	for _, sb := range []Superblock{sampleSuperblock(), longest} {
		for which := range superblockBlocks {
			got, err := DecodeSuperblock(encodeSuperblock(t, &sb, which), which)
			if err != nil || got != sb {
				t.Errorf("copy %d: got %+v, %v", which, got, err)
			}
		}
	}
}

// Copy A is also a protective MBR, whatever its contents, and its sector is sealed as usual.
func TestSuperblockIsAProtectiveMBR(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 1000 {
		sb := sampleSuperblock()
		for i := range sb.ID {
			sb.ID[i] = byte(rng.Uint32())
		}
		a, b := encodeSuperblock(t, &sb, 0), encodeSuperblock(t, &sb, 1)
		if a[510] != 0x55 || a[511] != 0xAA || a[446+4] != 0xEE || binary.LittleEndian.Uint32(a[446+8:]) != 1 || !IsProtective(a) {
			t.Fatalf("id %x: the first sector is no protective MBR: %x", sb.ID, a[440:512])
		}
		for which, block := range [][]byte{a, b} {
			if got, err := DecodeSuperblock(block, which); err != nil || got != sb {
				t.Fatalf("id %x, copy %d: %+v, %v", sb.ID, which, got, err)
			}
		}
		if IsProtective(b) {
			t.Fatal("copy B is one, too")
		}
	}
}

// Guard: a LUN that a development version formatted has no room for echo blocks, and agents would overwrite other data
// with them. Both copies of its superblock are refused, and the error tells what to do.
func TestSuperblockWithoutEchoBlocks(t *testing.T) {
	sb := sampleSuperblock()
	for which := range superblockBlocks {
		b := encodeSuperblock(t, &sb, which)
		b[sbFlags] = 0
		seal(b, kindSuperblock, [16]byte{}, uint64(which), binary.LittleEndian.Uint64(sb.ID[:]))
		if _, err := DecodeSuperblock(b, which); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "fencectl lun init --force") {
			t.Errorf("copy %d: %v", which, err)
		}
	}
}

// Readers ignore the MBR: a superblock without it is also valid.
func TestSuperblockWithoutMBR(t *testing.T) {
	sb := sampleSuperblock()
	a := encodeSuperblock(t, &sb, 0)
	with := bytes.Clone(a)
	clear(a[sbBalance:sectorPayload])
	seal(a, kindSuperblock, [16]byte{}, 0, binary.LittleEndian.Uint64(sb.ID[:]))
	if got, err := DecodeSuperblock(a, 0); err != nil || got != sb || IsProtective(a) {
		t.Errorf("got %+v, %v, protective %v", got, err, IsProtective(a))
	}
	if at := firstDifferenceBeyond(a, with, SectorSize); at >= 0 {
		t.Errorf("byte %d differs: to add the MBR takes more than one sector, and so no atomic write", at)
	}
}

func firstDifferenceBeyond(a, b []byte, from int) int {
	for i := from; i < len(a); i++ {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

func TestSuperblockRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*Superblock){
		"one slot":       func(sb *Superblock) { sb.Slots = 1 },
		"too many slots": func(sb *Superblock) { sb.Slots = MaxSlots + 1 },
		"no cluster":     func(sb *Superblock) { sb.Cluster = "" },
		"long cluster":   func(sb *Superblock) { sb.Cluster = strings.Repeat("c", MaxNameBytes+1) },
		"no group":       func(sb *Superblock) { sb.NodeGroup = "" },
		"long group":     func(sb *Superblock) { sb.NodeGroup = strings.Repeat("c", MaxNameBytes+1) },
		"no id":          func(sb *Superblock) { sb.ID = [16]byte{} },
	} {
		sb := sampleSuperblock()
		spoil(&sb)
		if err := EncodeSuperblock(make([]byte, BlockSize), &sb, 0); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	sb := sampleSuperblock()
	if EncodeSuperblock(make([]byte, 512), &sb, 0) == nil || EncodeSuperblock(make([]byte, BlockSize), &sb, 2) == nil {
		t.Error("a wrong buffer or copy was accepted")
	}
}

func TestDecodeSuperblockErrors(t *testing.T) {
	sb := sampleSuperblock()
	good := encodeSuperblock(t, &sb, 0)
	resealed := func(offset int, b ...byte) []byte {
		c := bytes.Clone(good)
		copy(c[offset:], b)
		seal(c, kindSuperblock, [16]byte{}, 0, binary.LittleEndian.Uint64(sb.ID[:]))
		return c
	}
	other := sampleSuperblock()
	other.ID[0] ^= 0xFF
	torn := bytes.Clone(good)
	copy(torn[SectorSize:], encodeSuperblock(t, &other, 0)[SectorSize:])
	for _, c := range []struct {
		name  string
		block []byte
		want  error
	}{
		{"blank", make([]byte, BlockSize), ErrBlank},
		{"garbage", bytes.Repeat([]byte("garbage!"), BlockSize/8), ErrNoSuperblock},
		{"empty", nil, ErrNoSuperblock},
		{"truncated", good[:2048], ErrCorrupt},
		{"copy B in place of A", encodeSuperblock(t, &sb, 1), ErrCorrupt},
		{"torn", torn, ErrTorn},
		{"newer version", resealed(sbVersion, 2), ErrVersion},
		{"magic", resealed(0, 'X'), ErrNoSuperblock},
		{"block size", resealed(sbBlockSize, 0, 2), ErrCorrupt},
		{"slots", resealed(sbSlots, 0, 1), ErrCorrupt},
		{"cluster length", resealed(sbClusterLen, 65), ErrCorrupt},
		{"group length", resealed(sbGroupLen, 0), ErrCorrupt},
		{"id without sequence", resealed(sbID, 0), ErrCorrupt},
	} {
		if _, err := DecodeSuperblock(c.block, 0); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}

func TestReadSuperblock(t *testing.T) {
	sb := sampleSuperblock()
	other := sampleSuperblock()
	other.ID[3]++
	a, b, blank := encodeSuperblock(t, &sb, 0), encodeSuperblock(t, &sb, 1), make([]byte, BlockSize)
	for _, c := range []struct {
		name string
		a, b []byte
		want error
	}{
		{"both", a, b, nil},
		{"A only", a, blank, nil},
		{"B only", blank, b, nil},
		{"none", blank, blank, ErrBlank},
		{"two LUNs", a, encodeSuperblock(t, &other, 1), ErrSuperblocksDiffer},
	} {
		got, err := ReadSuperblock(append(bytes.Clone(c.a), c.b...))
		if !errors.Is(err, c.want) || (err == nil && got != sb) {
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		}
	}
	if _, err := ReadSuperblock(a); !errors.Is(err, ErrNoSuperblock) {
		t.Errorf("short: %v", err)
	}
}

func TestScratch(t *testing.T) {
	sb := sampleSuperblock()
	a, b := make([]byte, BlockSize), make([]byte, BlockSize)
	if err := errors.Join(EncodeScratch(a, &sb, 1<<64-1, 7), EncodeScratch(b, &sb, 99, 1)); err != nil {
		t.Fatal(err)
	}
	if run, count, err := DecodeScratch(a, &sb); err != nil || run != 1<<64-1 || count != 7 {
		t.Errorf("got %d, %d, %v", run, count, err)
	}
	if _, _, err := DecodeScratch(mix(a, b, 0b10), &sb); !errors.Is(err, ErrTorn) {
		t.Errorf("two runs mixed: %v", err)
	}
	if _, _, err := DecodeScratch(make([]byte, BlockSize), &sb); !errors.Is(err, ErrBlank) {
		t.Errorf("blank: %v", err)
	}
	larger := sb
	larger.Slots++
	if _, _, err := DecodeScratch(a, &larger); !errors.Is(err, ErrCorrupt) {
		t.Errorf("scratch of another size: %v", err)
	}
	a[100] ^= 1
	if _, _, err := DecodeScratch(a, &sb); !errors.Is(err, ErrCorrupt) {
		t.Errorf("flipped: %v", err)
	}
	if EncodeScratch(a[:100], &sb, 1, 1) == nil {
		t.Error("a short buffer was accepted")
	}
}

func TestSetOfThree(t *testing.T) {
	set := func() []*Superblock {
		var all []*Superblock
		for d := range 3 {
			sb := sampleSuperblock()
			sb.ID[0] ^= byte(d)
			sb.SetID, sb.Devices, sb.Device = sampleID, 3, d
			all = append(all, &sb)
		}
		return all
	}
	alone := sampleSuperblock()
	for _, c := range []struct {
		name  string
		spoil func([]*Superblock) []*Superblock
		want  string
	}{
		{"whole", func(s []*Superblock) []*Superblock { return s }, ""},
		{"in another order", func(s []*Superblock) []*Superblock { return []*Superblock{s[2], s[0], s[1]} }, ""},
		{"one not opened yet", func(s []*Superblock) []*Superblock { s[0] = nil; return s }, ""},
		{"nothing opened yet", func(s []*Superblock) []*Superblock { return make([]*Superblock, 3) }, ""},
		{"one alone", func([]*Superblock) []*Superblock { return []*Superblock{&alone} }, ""},
		{"one of three alone", func(s []*Superblock) []*Superblock { return s[:1] }, "device 1: the devices do not belong together: it was formatted as one of 3, and 1 are configured"},
		{"a stranger among them", func(s []*Superblock) []*Superblock { s[1] = &alone; return s }, "device 2: the devices do not belong together: it was formatted as one of 1, and 3 are configured"},
		{"of two sets", func(s []*Superblock) []*Superblock { s[2].SetID[0]++; return s }, "device 3: the devices do not belong together: its set id is"},
		{"a copy", func(s []*Superblock) []*Superblock { s[2] = s[0]; return s }, "listed under two paths, or a copy of the other"},
		{"of different sizes", func(s []*Superblock) []*Superblock { s[2].Slots++; return s }, "slots, cluster or node group differ"},
	} {
		err := CheckSet(c.spoil(set()))
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrSet) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for _, c := range []struct {
		name  string
		spoil func([]*Superblock) []*Superblock
		want  int
	}{
		{"a stranger", func(s []*Superblock) []*Superblock { s[1] = &alone; return s }, 1},
		{"a stranger, and one is away", func(s []*Superblock) []*Superblock { s[1], s[2] = &alone, nil; return s }, 1},
		{"of another set", func(s []*Superblock) []*Superblock { s[0].SetID[0]++; return s }, 0},
		{"of another set, and one is away", func(s []*Superblock) []*Superblock { s[0].SetID[0]++; s[2] = nil; return s }, -1},
		{"two strangers", func(s []*Superblock) []*Superblock { s[1], s[2] = &alone, &alone; return s }, -1},
		{"a stranger alone", func(s []*Superblock) []*Superblock { return []*Superblock{nil, &alone, nil} }, 1},
		{"of three sets", func(s []*Superblock) []*Superblock { s[0].SetID[0]++; s[1].SetID[1]++; return s }, -1},
		{"a copy", func(s []*Superblock) []*Superblock { s[2] = s[0]; return s }, -1},
		{"one of three alone", func(s []*Superblock) []*Superblock { return s[:1] }, -1},
	} {
		devices := c.spoil(set())
		if got := OddOne(devices); got != c.want || CheckSet(devices) == nil {
			t.Errorf("%s: the odd one is %d, want %d", c.name, got, c.want)
		}
	}
	for name, spoil := range map[string]func(*Superblock){
		"no set id":            func(sb *Superblock) { sb.SetID = [16]byte{} },
		"place beyond the set": func(sb *Superblock) { sb.Device = 3 },
		"a set of two":         func(sb *Superblock) { sb.Devices = 2 },
		"a place without set":  func(sb *Superblock) { sb.Devices = 0 },
	} {
		sb := set()[1]
		if spoil(sb); EncodeSuperblock(make([]byte, BlockSize), sb, 0) == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for _, sb := range set() {
		if got, err := DecodeSuperblock(encodeSuperblock(t, sb, 1), 1); err != nil || got != *sb {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}
