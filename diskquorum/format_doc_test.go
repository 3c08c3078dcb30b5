package diskquorum

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"testing"
)

// docField is a row of a field table in docs/lun-format.md.
type docField struct {
	sector, offset, size int
	name                 string
}

// docFields reads the table that follows `<!-- fields: NAME -->`.
func docFields(t *testing.T, table string) (fields []docField) {
	t.Helper()
	doc, err := os.ReadFile("../docs/lun-format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "<!-- fields: "+table+" -->\n")
	if !ok {
		t.Fatalf("docs/lun-format.md has no table %q", table)
	}
	for _, line := range strings.Split(rest, "\n")[2:] {
		cells := strings.Split(line, "|")
		if len(cells) < 6 {
			break
		}
		var f docField
		for i, into := range []*int{&f.sector, &f.offset, &f.size} {
			if *into, err = strconv.Atoi(strings.TrimSpace(cells[i+1])); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		f.name = strings.TrimSpace(cells[4])
		fields = append(fields, f)
	}
	return fields
}

// checkDoc compares every documented field with the bytes of an encoded block: the table must describe all bytes, in
// order, and each field must hold the documented value.
func checkDoc(t *testing.T, table string, block []byte, want map[string][]byte) {
	t.Helper()
	sector, next := 0, 0
	for _, f := range docFields(t, table) {
		if f.sector != sector {
			if next != sectorPayload {
				t.Errorf("%s: sector %d is described up to byte %d of %d", table, sector, next, sectorPayload)
			}
			sector, next = sector+1, 0
		}
		if f.sector != sector || f.offset != next {
			t.Errorf("%s: %q is at %d/%d, expected at %d/%d", table, f.name, f.sector, f.offset, sector, next)
		}
		next = f.offset + f.size
		value, known := want[f.name]
		if f.name == "reserved" {
			value, known = nil, true
		}
		if !known {
			t.Errorf("%s: the code knows no field %q", table, f.name)
			continue
		}
		padded := make([]byte, f.size)
		copy(padded, value)
		at := f.sector*SectorSize + f.offset
		if got := block[at : at+f.size]; len(value) > f.size || !bytes.Equal(got, padded) {
			t.Errorf("%s: %q at %d: block has %x, want %x", table, f.name, at, got, padded)
		}
		delete(want, f.name)
	}
	if next != sectorPayload {
		t.Errorf("%s: the last sector is described up to byte %d of %d", table, next, sectorPayload)
	}
	for name := range want {
		t.Errorf("%s: field %q is not documented", table, name)
	}
}

func u16(v int) []byte { return binary.LittleEndian.AppendUint16(nil, uint16(v)) }
func u32(v int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) }
func u64(v uint64) []byte {
	return binary.LittleEndian.AppendUint64(nil, v)
}

func TestFormatDocSuperblock(t *testing.T) {
	sb := sampleSuperblock()
	sb.SetID, sb.Devices, sb.Device = sampleID, 3, 2
	block := encodeSuperblock(t, &sb, 0)
	checkDoc(t, "superblock", block, map[string][]byte{
		"balance": block[440:444], "protective partition": {0, 0, 2, 0, 0xEE, 255, 255, 255, 1, 0, 0, 0, 255, 255, 255, 255},
		"magic": []byte("FENCELUN"), "format version": u16(1), "minor version": u16(1), "flags": {1}, "block size": u32(4096),
		"LUN id": sampleID[:], "devices": {3}, "device": {2}, "set id": sampleID[:], "slots": u16(64), "cluster length": {4}, "node group length": {6},
		"created": u64(1_700_000_000), "cluster": []byte("main"), "node group": []byte("worker"),
	})
}

func TestFormatDocScratch(t *testing.T) {
	sb := sampleSuperblock()
	b := make([]byte, BlockSize)
	if err := EncodeScratch(b, &sb, 77, 5); err != nil {
		t.Fatal(err)
	}
	checkDoc(t, "scratch", b, map[string][]byte{"magic": []byte("FENCTEST"), "run": u64(77), "count": u64(5)})
}

func TestFormatDocEcho(t *testing.T) {
	e, pings := sampleEcho(), samplePings(MaxSlots)
	want := map[string][]byte{
		"magic": []byte("FENCECHO"), "format version": u16(1), "minor version": u16(1), "index": {5}, "flags": {1 | 4 | 16}, "roster index": u16(6),
		"process": u64(e.Process), "boot": u64(e.Boot), "ping": append(u32(int(e.Ping.Nonce)), u32(int(e.Ping.Counter))...),
		"token nonce": u64(e.Token.Nonce), "token counter": u32(int(e.Token.Counter)), "roster size": u16(200),
		"roster epoch": u64(e.RosterEpoch), "roster digest": u64(e.RosterDigest), "decided instance": u64(e.Decided),
		"lately": bitmap(0, 7, 63, 64, 199), "view": bitmap(6, 8, 128, 198), "seen": bitmap(9, 65, 130, 197),
		"sentence: timeout": u32(2000), "sentence: boot": u64(e.Judged.Boot), "sentence: name": u64(e.Judged.Name),
	}
	for _, span := range [][2]int{{0, 61}, {62, 123}, {124, 185}, {186, 247}, {248, 254}} {
		var packed []byte
		for _, p := range pings[span[0] : span[1]+1] {
			packed = append(append(packed, u32(int(p.Nonce))...), u32(int(p.Counter))...)
		}
		want["echoes "+strconv.Itoa(span[0])+" to "+strconv.Itoa(span[1])] = packed
	}
	checkDoc(t, "echo", encodeEcho(t, MaxSlots, &e, pings), want)
}

func TestFormatDocSlot(t *testing.T) {
	s := sampleSlot()
	st := &s.Statement
	want := map[string][]byte{
		"magic": []byte("FENCSLOT"), "format version": u16(1), "minor version": u16(0), "index": {5}, "copy": {0}, "state": {2},
		"flags": {1 | 2 | 4 | 16 | 32}, "process": u64(s.Process), "boot": u64(st.Boot), "token nonce": u64(st.Token.Nonce),
		"token counter": u32(int(st.Token.Counter)), "heartbeat interval": u32(1500), "roster epoch": u64(st.RosterEpoch),
		"roster digest": u64(st.RosterDigest), "wall clock": u64(uint64(s.WallTime)), "watchdog timeout": u32(30000), "grant lifetime": u32(6500), "horizon": u32(80000),
		"terms: log": u64(st.Terms.Log), "terms: by": {byte(st.Terms.By)}, "more flags": {3},
		"roster index": u16(6), "roster size": u16(200), "seen": bitmap(0, 7, 63, 64, 199), "view": bitmap(6, 8, 128, 198),
		"late": {0}, "age of the boot": {6, 5, 4, 3, 2, 1}, "UID length": {36}, "name length": {14}, "node UID": []byte(s.NodeUID), "node name": []byte(s.NodeName),
		"instance": u64(9), "mbal": u64(s.Ballot.MBal), "bal": u64(s.Ballot.Bal), "decided instance": u64(8),
		"value roster epoch": u64(s.Ballot.Value.RosterEpoch), "value roster digest": u64(s.Ballot.Value.RosterDigest),
		"decided roster epoch": u64(s.Ballot.Decided.RosterEpoch), "decided roster digest": u64(s.Ballot.Decided.RosterDigest),
		"value holders": {100}, "decided holders": {127}, "agent version length": {6}, "agent version": []byte("v1.2.3"),
	}
	entries := make([][]byte, 2*MaxHolders)
	for i, h := range s.Ballot.Value.Holders {
		entries[i] = append(append([]byte{h.Slot}, u64(h.Token.Nonce)...), u32(int(h.Token.Counter))...)
	}
	for i, h := range s.Ballot.Decided.Holders {
		entries[127+i] = append(append([]byte{h.Slot}, u64(h.Token.Nonce)...), u32(int(h.Token.Counter))...)
	}
	for _, span := range []string{"0 to 37", "38 to 75", "76 to 113", "114 to 151", "152 to 189", "190 to 227", "228 to 253"} {
		from, to, _ := strings.Cut(span, " to ")
		first, _ := strconv.Atoi(from)
		last, _ := strconv.Atoi(to)
		packed := make([]byte, 0, 494)
		for i := first; i <= last; i++ {
			packed = append(packed, entries[i]...)
			packed = packed[:13*(i-first+1)] // an unused entry is zero
		}
		want["holders "+span] = packed
	}
	checkDoc(t, "slot", encodeSlot(t, &s), want)
}

func bitmap(indices ...int) []byte {
	b := make([]byte, 32)
	for _, i := range indices {
		b[i/8] |= 1 << (i % 8)
	}
	return b
}
