package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

func roster(t testing.TB, n int) *netgossip.Roster {
	t.Helper()
	members := make([]netgossip.Member, n)
	for i := range members {
		members[i].Name = fmt.Sprintf("n%04d", i)
	}
	r, err := netgossip.NewRoster(1, members, "n0000")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func fullStatement(r *netgossip.Roster) *netgossip.Statement {
	return &netgossip.Statement{
		Boot:         0xfedcba9876543210,
		RosterEpoch:  77,
		RosterDigest: r.Digest,
		Token:        netgossip.Token{Nonce: 1<<64 - 1, Counter: 1<<32 - 1},
		Seen:         netgossip.FullSet(r.Size()),
		View:         netgossip.SetOf(0, r.Size()-1),
		Guard:        netgossip.Guard{Armed: true, Fences: true, Leases: true, Timeout: 30 * time.Second, Horizon: 80 * time.Second},
		Guarded:      netgossip.SetOf(0),
		Lost:         netgossip.SetOf(r.Size() - 1),
		Feeding:      true,
		Stopping:     true,
		LUNHealthy:   true,
		APIReachable: true,
		Version:      "v1.2.3",
	}
}

// seal puts the checksum in front of hand-made bytes.
func seal(body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, crc32.Checksum(body, castagnoli))
	return append(b, body...)
}

func sealPacket(t testing.TB, p *Packet) []byte {
	t.Helper()
	body, err := proto.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return seal(body)
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{1, 4, 64, 65, 1000, netgossip.MaxNodes} {
		r := roster(t, n)
		for _, m := range []Message{
			{Kind: Probe, ID: 1, Sender: "n0000"},
			{Kind: Probe, ID: 1<<64 - 1, Sender: "n0000", Statement: fullStatement(r)},
			{Kind: Answer, ID: 42, Sender: "n0000", Statement: fullStatement(r)},
			{Kind: Answer, ID: 42, Sender: "n0000", Statement: &netgossip.Statement{}},
		} {
			b, err := Append([]byte("prefix"), m)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(b[len("prefix"):], r)
			if err != nil {
				t.Fatalf("N=%d: %v", n, err)
			}
			if !reflect.DeepEqual(got, m) {
				t.Errorf("N=%d:\n got %+v\nwant %+v", n, got, m)
			}
		}
	}
}

// A field added to netgossip.Statement must travel, or the peers never learn of it.
func TestEveryFieldTravels(t *testing.T) {
	r := roster(t, 4)
	v := reflect.ValueOf(*fullStatement(r))
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("fullStatement leaves %s zero: set it here and carry it in evidence.proto", v.Type().Field(i).Name)
		}
	}
}

func TestLargestPacketFits(t *testing.T) {
	r := roster(t, netgossip.MaxNodes)
	s := fullStatement(r)
	s.View, s.Guarded, s.Lost = s.Seen, s.Seen, s.Seen
	s.RosterEpoch = 1<<64 - 1
	s.Guard.Timeout = 1<<63 - 1
	s.Version = strings.Repeat("é", 200)
	b, err := Append(nil, Message{Kind: Answer, ID: 1, Sender: strings.Repeat("x", MaxName), Statement: s})
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > MaxSize {
		t.Errorf("largest packet has %d bytes, more than MaxSize %d", len(b), MaxSize)
	}
	if _, err := Decode(b, r); err != nil {
		t.Error(err)
	}
}

func TestWatchdogTimeoutNeverShrinks(t *testing.T) {
	r := roster(t, 2)
	for in, want := range map[time.Duration]time.Duration{
		0: 0, -time.Second: 0, 1: time.Millisecond, time.Millisecond: time.Millisecond,
		30*time.Second + 1: 30*time.Second + time.Millisecond,
	} {
		b, err := Append(nil, Message{Kind: Answer, ID: 1, Sender: "n0000", Statement: &netgossip.Statement{Guard: netgossip.Guard{Timeout: in}}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(b, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Statement.Guard.Timeout; got != want {
			t.Errorf("timeout %v arrives as %v, want %v", in, got, want)
		}
	}
}

func TestVersionIsCut(t *testing.T) {
	for _, v := range []string{"", "v1", strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("é", 40), "a\xff\xfe", strings.Repeat("\xff", 100)} {
		got := cutVersion(v)
		if len(got) > MaxVersion || strings.ToValidUTF8(got, "") != got {
			t.Errorf("cutVersion(%q) = %q", v, got)
		}
	}
}

func TestEncodeRefusesNames(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("x", MaxName+1), "a\xff"} {
		if _, err := Append(nil, Message{Kind: Probe, ID: 1, Sender: name}); err == nil {
			t.Errorf("sender %q was encoded", name)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	r := roster(t, 4)
	ok := &Statement{RosterDigest: r.Digest}
	exchange := func(change func(*Exchange)) []byte {
		x := &Exchange{Id: 1, Sender: "n0001", Statement: proto.CloneOf(ok)}
		change(x)
		return sealPacket(t, &Packet{Kind: &Packet_Reply{Reply: x}})
	}
	good := exchange(func(*Exchange) {})
	if _, err := Decode(good, r); err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)-1] ^= 0x10
	for name, c := range map[string]struct {
		packet []byte
		want   string
	}{
		"empty":         {nil, "packet of 0 bytes"},
		"checksum only": {seal(nil), "packet of 4 bytes"},
		"too long":      {make([]byte, MaxSize+1), "packet of 1025 bytes"},
		"flipped bit":   {flipped, "checksum"},
		"truncated":     {good[:len(good)-2], "checksum"},
		"not protobuf":  {seal([]byte{0xff, 0xff, 0xff}), "packet: "},
		"no kind":       {seal([]byte{0x50, 1}), "neither probe nor reply"},
		"zero id":       {exchange(func(x *Exchange) { x.Id = 0 }), "id is zero"},
		"no sender":     {exchange(func(x *Exchange) { x.Sender = "" }), "sender name has 0"},
		"long sender":   {exchange(func(x *Exchange) { x.Sender = strings.Repeat("x", 254) }), "sender name has 254"},
		"no statement":  {exchange(func(x *Exchange) { x.Statement = nil }), "reply without a statement"},
		"wide seen":     {exchange(func(x *Exchange) { x.Statement.Seen = []byte{0x10} }), "seen: set names member 4 of a roster of 4"},
		"wide view":     {exchange(func(x *Exchange) { x.Statement.View = []byte{0, 1} }), "view: set names member 8"},
		"padded set":    {exchange(func(x *Exchange) { x.Statement.Seen = []byte{1, 0} }), "minimal length"},
		"huge set":      {exchange(func(x *Exchange) { x.Statement.Seen = make([]byte, 129) }), "set of 129 bytes"},
		"long version":  {exchange(func(x *Exchange) { x.Statement.Version = strings.Repeat("v", 65) }), "version has 65"},
	} {
		if _, err := Decode(c.packet, r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// While a larger roster is being rolled out its first members must still be heard by
// those that have the old one.
func TestOtherRosterMayBeWider(t *testing.T) {
	r := roster(t, 4)
	b, err := Append(nil, Message{Kind: Answer, ID: 1, Sender: "n0001", Statement: fullStatement(roster(t, 9))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(b, r); err != nil {
		t.Error(err)
	}
}

func TestNewerVersionIsUnderstood(t *testing.T) {
	r := roster(t, 4)
	b, err := Append(nil, Message{Kind: Answer, ID: 9, Sender: "n0001", Statement: fullStatement(r)})
	if err != nil {
		t.Fatal(err)
	}
	body := protowire.AppendTag(b[checksumSize:], 500, protowire.BytesType)
	body = protowire.AppendBytes(body, []byte("from the future"))
	m, err := Decode(seal(body), r)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m.Statement, fullStatement(r)) {
		t.Errorf("got %+v", m.Statement)
	}
}

func FuzzDecode(f *testing.F) {
	small, large := roster(f, 4), roster(f, netgossip.MaxNodes)
	for _, m := range []Message{
		{Kind: Probe, ID: 1, Sender: "n0000"},
		{Kind: Answer, ID: 7, Sender: "n0000", Statement: fullStatement(small)},
		{Kind: Answer, ID: 7, Sender: "n0000", Statement: fullStatement(large)},
	} {
		b, err := Append(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b[checksumSize:], true)
	}
	f.Fuzz(func(t *testing.T, b []byte, sealIt bool) {
		if sealIt {
			b = seal(b) // otherwise the fuzzer would see little but the checksum
		}
		for _, r := range []*netgossip.Roster{small, large} {
			m, err := Decode(b, r)
			if err != nil {
				continue
			}
			again, err := Append(nil, m)
			if err != nil {
				t.Fatalf("decoded %+v does not encode: %v", m, err)
			}
			m2, err := Decode(again, r)
			if err != nil || !reflect.DeepEqual(m, m2) {
				t.Fatalf("%+v became %+v, %v", m, m2, err)
			}
			if s := m.Statement; s != nil && s.RosterDigest == r.Digest && (s.Seen.Minus(netgossip.FullSet(r.Size())) != netgossip.Set{}) {
				t.Fatalf("set beyond the roster: %+v", s)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{4, 100, 1000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			r := roster(b, n)
			m := Message{Kind: Answer, ID: 1 << 63, Sender: "n0000", Statement: fullStatement(r)}
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf, _ = Append(buf[:0], m)
			}
			b.ReportMetric(float64(len(buf)), "packet-bytes")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	r := roster(b, 100)
	buf, err := Append(nil, Message{Kind: Answer, ID: 1 << 63, Sender: "n0000", Statement: fullStatement(r)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(buf, r); err != nil {
			b.Fatal(err)
		}
	}
}
