package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func listOf(t testing.TB, n int) *roster.Roster {
	t.Helper()
	members := make([]roster.Member, n)
	for i := range members {
		members[i].Name = fmt.Sprintf("n%04d", i)
	}
	r, err := roster.New(1, members, "n0000")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func fullStatement(r *roster.Roster) *netgossip.Statement {
	return &netgossip.Statement{
		Boot:         0xfedcba9876543210,
		RosterEpoch:  77,
		RosterDigest: r.Digest,
		Standing: roster.Standing{
			Fresh: true, Offer: roster.Ref{Epoch: 1<<64 - 1, Digest: 4}, Known: roster.Ref{Epoch: 1<<64 - 1, Digest: 5},
			Chain: [roster.MaxChain]roster.Ref{{Digest: 1}, {Epoch: 1 << 62, Digest: 1<<64 - 1}, {Epoch: 1 << 63, Digest: 3}, {Epoch: 1<<64 - 2, Digest: 3}},
		},
		Token:        netgossip.Token{Nonce: 1<<64 - 1, Counter: 1<<32 - 1},
		Seen:         roster.FullSet(r.Size()),
		View:         roster.SetOf(0, r.Size()-1),
		Guard:        netgossip.Guard{Armed: true, Fences: true, Leases: true, Timeout: 30 * time.Second, Horizon: 80 * time.Second},
		Guarded:      roster.SetOf(0),
		Dues:         netgossip.Dues{{Since: 1 << 39 * boottime.Instant(time.Millisecond), Horizon: time.Minute, Who: roster.SetOf(0, r.Size()-1)}},
		Lost:         roster.SetOf(r.Size()-1, 0),
		Feeding:      true,
		Stopping:     true,
		LUNHealthy:   true,
		APIReachable: true,
		Unheard:      true,
		Version:      "v1.2.3",
		Stated:       1234567890123,
		Machine:      1<<64 - 1,
		Terms:        netgossip.Terms{By: netgossip.BreaksByLUN | netgossip.AsksAPI, Log: 1<<64 - 2},
		Agreed:       true,
		Sentence:     2 * time.Second,
		Facts: [netgossip.MaxFacts]netgossip.Fact{
			{Kind: netgossip.FactSentence, Name: 1<<64 - 1, Boot: 1<<64 - 1, Timeout: 3 * time.Second},
			{Kind: netgossip.FactContradicted, Name: 1, Boot: 1<<64 - 1},
			{Kind: netgossip.FactOperator, Name: 1<<64 - 1, Boot: 1, Teller: 1<<32 - 1},
			{Kind: netgossip.FactPower, Name: 1<<64 - 1, Boot: 1, Teller: 1},
		},
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
	for _, n := range []int{1, 4, 64, 65, 1000, roster.MaxNodes} {
		r := listOf(t, n)
		for _, m := range []Message{
			{Kind: Probe, ID: 1, Name: "n0000"},
			{Kind: Probe, ID: 1<<64 - 1, Member: n - 1, Roster: RosterTag(r), Holds: 1, News: 2, Brief: true, Clock: 1<<64 - 1},
			{Kind: Probe, ID: 1, Name: "stranger", Member: -1, Roster: 7},
			{Kind: Answer, ID: 42, Member: n - 1, Unchanged: true, Clock: 7},
			{Kind: Answer, ID: 42, Member: n - 1, Sight: netgossip.SightSeen},
			{Kind: Answer, ID: 42, Member: n - 1, Sight: netgossip.SightUnseen},
			{Kind: Answer, ID: 42, Name: "n0000", Digest: 5, Statement: fullStatement(r)},
			{Kind: Answer, ID: 42, Name: "n0000", Digest: 5, Statement: &netgossip.Statement{}, Sees: true},
			{Kind: Answer, ID: 42, Name: "n0000", Unchanged: true, Sees: true},
			{Kind: Answer, ID: 42, Member: n - 1, Unchanged: true, Relay: netgossip.Relay{Log: 1 << 63, Instance: 1<<64 - 1}, RelayAge: 1500 * time.Millisecond},
			{Kind: Answer, ID: 42, Member: n - 1, Sight: netgossip.SightSeen, Relay: netgossip.Relay{Log: 1, Instance: 1}},
		} {
			b, err := Append([]byte("prefix"), m)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(b[len("prefix"):], r, RosterTag(r))
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
	r := listOf(t, 4)
	v := reflect.ValueOf(*fullStatement(r))
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("fullStatement leaves %s zero: set it here and carry it in evidence.proto", v.Type().Field(i).Name)
		}
	}
}

func TestLargestPacketFits(t *testing.T) {
	r := listOf(t, roster.MaxNodes)
	s := fullStatement(r)
	s.View, s.Guarded, s.Lost = s.Seen, s.Seen, s.Seen
	s.RosterEpoch = 1<<64 - 1
	s.Guard.Timeout = 1<<63 - 1
	for i := range s.Facts { // what no node says: each field is as long as it may be
		s.Facts[i] = netgossip.Fact{Kind: netgossip.FactSentence, Name: 1, Boot: 1, Timeout: netgossip.MaxSentence, Teller: 1}
	}
	s.Version = strings.Repeat("é", 200)
	for _, differ := range []bool{false, true} {
		if differ { // in the last members, so that each difference is as long as a set
			s.View.Remove(roster.MaxNodes - 1)
			s.Guarded.Remove(roster.MaxNodes - 2)
		}
		for _, name := range []int{1, 63, MaxName} {
			b, err := Append([]byte("before"), Message{Kind: Answer, ID: 1, Name: strings.Repeat("x", name), Digest: 1<<64 - 1, Clock: 1, Statement: s,
				Sees: true, Relay: netgossip.Relay{Log: 1, Instance: 1<<64 - 1}, RelayAge: 1<<63 - 1, Cookie: 1<<64 - 1})
			if err != nil {
				t.Fatal(err)
			}
			if b = b[len("before"):]; len(b) > MaxSize {
				t.Errorf("differ %v, name of %d: the largest packet has %d bytes, more than MaxSize %d", differ, name, len(b), MaxSize)
			}
			m, err := Decode(b, r, RosterTag(r))
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Statement.Dues.Who(); !got.IsEmpty() && got != s.Dues.Who() {
				t.Errorf("differ %v, name of %d: dues of %v", differ, name, got)
			}
			if got := m.Statement.Facts; got[0] == (netgossip.Fact{}) || name == 63 && got[len(got)-1] == (netgossip.Fact{}) {
				t.Errorf("differ %v, name of %d: facts %+v", differ, name, got)
			}
		}
	}
}

func TestWatchdogTimeoutNeverShrinks(t *testing.T) {
	r := listOf(t, 2)
	for in, want := range map[time.Duration]time.Duration{
		0: 0, -time.Second: 0, 1: time.Millisecond, time.Millisecond: time.Millisecond,
		30*time.Second + 1: 30*time.Second + time.Millisecond,
	} {
		b, err := Append(nil, Message{Kind: Answer, ID: 1, Name: "n0000", Digest: 5, Statement: &netgossip.Statement{Guard: netgossip.Guard{Timeout: in}}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(b, r, RosterTag(r))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Statement.Guard.Timeout; got != want {
			t.Errorf("timeout %v arrives as %v, want %v", in, got, want)
		}
	}
}

// Guard: lease.md L7. A reported write must not look younger than it is, and the age of a very old write must not wrap
// round to a small one.
func TestAgeOfARelayNeverShrinks(t *testing.T) {
	r := listOf(t, 2)
	for _, c := range []struct{ age, want time.Duration }{
		{0, 0}, {1, time.Millisecond}, {time.Millisecond, time.Millisecond}, {time.Second + 1, time.Second + time.Millisecond},
		{1<<63 - 1, (1<<32 - 1) * time.Millisecond},
	} {
		b, err := Append(nil, Message{Kind: Answer, ID: 1, Unchanged: true, Relay: netgossip.Relay{Log: 1, Instance: 1}, RelayAge: c.age})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := Decode(b, r, RosterTag(r)); err != nil || m.RelayAge != c.want {
			t.Errorf("age %v is read as %v, want %v; %v", c.age, m.RelayAge, c.want, err)
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
	for _, name := range []string{strings.Repeat("x", MaxName+1), "a\xff"} {
		if _, err := Append(nil, Message{Kind: Probe, ID: 1, Name: name}); err == nil {
			t.Errorf("sender %q was encoded", name)
		}
	}
	for _, member := range []int{-1, roster.MaxNodes} {
		if _, err := Append(nil, Message{Kind: Probe, ID: 1, Member: member}); err == nil {
			t.Errorf("sender %d was encoded", member)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	r := listOf(t, 4)
	ok := &Statement{RosterDigest: r.Digest}
	exchange := func(change func(*Reply)) []byte {
		x := &Reply{Id: 1, Sender: "n0001", Statement: proto.CloneOf(ok), Digest: 9}
		change(x)
		return sealPacket(t, &Packet{Kind: &Packet_Reply{Reply: x}})
	}
	probe := func(q *Question) []byte { return sealPacket(t, &Packet{Kind: &Packet_Probe{Probe: q}}) }
	good := exchange(func(*Reply) {})
	if _, err := Decode(good, r, RosterTag(r)); err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)-1] ^= 0x10
	for name, c := range map[string]struct {
		packet []byte
		want   string
	}{
		"empty":          {nil, "packet has 0 bytes"},
		"checksum only":  {seal(nil), "packet has 4 bytes"},
		"too long":       {make([]byte, MaxSize+1), "packet has 1025 bytes"},
		"flipped bit":    {flipped, "checksum"},
		"truncated":      {good[:len(good)-2], "checksum"},
		"not protobuf":   {seal([]byte{0xff, 0xff, 0xff}), "packet: "},
		"no kind":        {seal([]byte{0x50, 1}), "neither probe nor reply"},
		"zero id":        {exchange(func(x *Reply) { x.Id = 0 }), "id is zero"},
		"no sender":      {exchange(func(x *Reply) { x.Sender = "" }), "either named or numbered"},
		"two senders":    {exchange(func(x *Reply) { x.Member = 1 }), "either named or numbered"},
		"far sender":     {exchange(func(x *Reply) { x.Sender, x.Member = "", 5 }), "sender is member 5 of a roster of 4"},
		"long sender":    {exchange(func(x *Reply) { x.Sender = strings.Repeat("x", 254) }), "sender name has 254"},
		"nothing said":   {exchange(func(x *Reply) { x.Statement, x.Digest = nil, 0 }), "reply has 0 kinds of content"},
		"two things":     {exchange(func(x *Reply) { x.Unchanged = true }), "reply has 2 kinds of content"},
		"strange sight":  {exchange(func(x *Reply) { x.Statement, x.Digest, x.Sight = nil, 0, 3 }), "unknown sight 3"},
		"negative sight": {exchange(func(x *Reply) { x.Statement, x.Digest, x.Sight = nil, 0, -1 }), "unknown sight -1"},
		"no digest":      {exchange(func(x *Reply) { x.Digest = 0 }), "or its digest alone"},
		"only a digest":  {exchange(func(x *Reply) { x.Statement, x.Unchanged = nil, true }), "or its digest alone"},
		"other roster":   {probe(&Question{Id: 1, Member: 1, Roster: RosterTag(r) + 1}), "another roster"},
		"strange form":   {exchange(func(x *Reply) { x.Statement.Seen = []byte{3, 1} }), "unknown form 3"},
		"wide seen":      {exchange(func(x *Reply) { x.Statement.Seen = []byte{formBitmap, 0x10} }), "seen: set names member 4 of a roster of 4"},
		"wide view":      {exchange(func(x *Reply) { x.Statement.View = []byte{formRuns, 8, 1} }), "view: set names member 7"},
		"endless run":    {exchange(func(x *Reply) { x.Statement.View = []byte{formRuns, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1} }), "view: set names member"},
		"cut run":        {exchange(func(x *Reply) { x.Statement.View = []byte{formRuns, 0, 255} }), "run without a length"},
		"empty run":      {exchange(func(x *Reply) { x.Statement.View = []byte{formRuns, 1, 0, 1, 1} }), "run without a length"},
		"open run":       {exchange(func(x *Reply) { x.Statement.View = []byte{formRuns, 1} }), "minimal length"},
		"padded set":     {exchange(func(x *Reply) { x.Statement.Seen = []byte{formBitmap, 1, 0} }), "minimal length"},
		"huge set":       {exchange(func(x *Reply) { x.Statement.Seen = make([]byte, 130) }), "set has 130 bytes"},
		"relay, no log":  {exchange(func(x *Reply) { x.Relay = &Relay{Instance: 1} }), "relays no decision"},
		"relay, nothing": {exchange(func(x *Reply) { x.Relay = &Relay{Log: 1, AgeMs: 1} }), "relays no decision"},
		"long version":   {exchange(func(x *Reply) { x.Statement.Version = strings.Repeat("v", 65) }), "version has 65"},
	} {
		if _, err := Decode(c.packet, r, RosterTag(r)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// While a larger roster is being rolled out, nodes with the old roster must still hear the first nodes with the new
// one.
func TestOtherRosterMayBeWider(t *testing.T) {
	r := listOf(t, 4)
	b, err := Append(nil, Message{Kind: Answer, ID: 1, Name: "n0001", Member: 1, Digest: 5, Statement: fullStatement(listOf(t, 9))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(b, r, RosterTag(r)); err != nil {
		t.Error(err)
	}
}

func TestNewerVersionIsUnderstood(t *testing.T) {
	r := listOf(t, 4)
	b, err := Append(nil, Message{Kind: Answer, ID: 9, Name: "n0001", Member: 1, Digest: 5, Statement: fullStatement(r)})
	if err != nil {
		t.Fatal(err)
	}
	body := protowire.AppendTag(b[checksumSize:], 500, protowire.BytesType)
	body = protowire.AppendBytes(body, []byte("from the future"))
	m, err := Decode(seal(body), r, RosterTag(r))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m.Statement, fullStatement(r)) {
		t.Errorf("got %+v", m.Statement)
	}
}

func FuzzDecode(f *testing.F) {
	small, large := listOf(f, 4), listOf(f, roster.MaxNodes)
	for _, m := range []Message{
		{Kind: Probe, ID: 1, Name: "n0000"},
		{Kind: Answer, ID: 7, Name: "n0000", Digest: 5, Statement: fullStatement(small)},
		{Kind: Answer, ID: 7, Name: "n0000", Digest: 5, Statement: fullStatement(large)},
		{Kind: Probe, ID: 1, Member: 3, Roster: RosterTag(small), Holds: 1, News: 1, Brief: true},
		{Kind: Answer, ID: 7, Member: 3, Unchanged: true},
		{Kind: Answer, ID: 7, Member: 3, Sight: netgossip.SightSeen},
		{Kind: Probe, ID: 1, Name: "n0000", Wanted: Wanted{roster.Ref{Epoch: 1, Digest: 2}, 512}},
		{Kind: Answer, ID: 7, Member: 3, Unchanged: true, Piece: PieceAt(roster.Ref{Epoch: 1, Digest: 2}, []byte("a list"), 2)},
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
		for _, r := range []*roster.Roster{small, large} {
			m, err := Decode(b, r, RosterTag(r))
			if err != nil {
				continue
			}
			again, err := Append(nil, m)
			if err != nil {
				t.Fatalf("decoded %+v does not encode: %v", m, err)
			}
			m2, err := Decode(again, r, RosterTag(r))
			if err != nil || !reflect.DeepEqual(m, m2) {
				t.Fatalf("%+v became %+v, %v", m, m2, err)
			}
			if s := m.Statement; s != nil && s.RosterDigest == r.Digest && (s.Seen.Minus(roster.FullSet(r.Size())) != roster.Set{}) {
				t.Fatalf("set beyond the roster: %+v", s)
			}
		}
	})
}

// The sets of a node in usual situations, and random sets, survive encoding, and the former are short.
func TestSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	healthy := roster.FullSet(1000)
	healthy.Remove(500)
	scattered := healthy
	for range 10 {
		scattered.Remove(rng.IntN(1000))
	}
	half, random := roster.FullSet(500), roster.Set{}
	for i := range 1000 {
		if rng.IntN(2) == 0 {
			random.Add(i)
		}
	}
	for name, c := range map[string]struct {
		set  roster.Set
		most int
	}{
		"empty": {roster.Set{}, 0}, "all": {roster.FullSet(1000), 4}, "healthy": {healthy, 7},
		"ten missing": {scattered, 34}, "first half": {half, 4}, "second half": {healthy.Minus(half), 6},
		"random half": {random, 126}, "last": {roster.SetOf(roster.MaxNodes - 1), 4},
	} {
		b := setToWire(c.set)
		if len(b) > c.most {
			t.Errorf("%s: %d bytes, want %d", name, len(b), c.most)
		}
		if got, err := setFromWire(b, roster.MaxNodes); err != nil || got != c.set {
			t.Errorf("%s: became another set, %v", name, err)
		}
	}
	for i := range 2000 {
		var s roster.Set
		for range rng.IntN(1 + i/4) {
			s.Add(rng.IntN(roster.MaxNodes))
		}
		if got, err := setFromWire(setToWire(s), roster.MaxNodes); err != nil || got != s {
			t.Fatalf("%v became %v, %v", s, got, err)
		}
	}
}

// Guard: "unchanged" stands for the statement with the digest, so a statement that differs
// in anything must have another one.
func TestDigestCoversEveryField(t *testing.T) {
	r := listOf(t, 4)
	seen := map[uint64]string{Digest(fullStatement(r)): "the statement itself", Digest(&netgossip.Statement{}): "the empty statement"}
	v := reflect.ValueOf(fullStatement(r)).Elem()
	var visit func(path string, f reflect.Value)
	visit = func(path string, f reflect.Value) {
		if f.Kind() == reflect.Struct {
			for i := range f.NumField() {
				visit(path+"."+f.Type().Field(i).Name, f.Field(i))
			}
			return
		}
		old := reflect.ValueOf(f.Interface())
		f.SetZero()
		d := Digest(v.Addr().Interface().(*netgossip.Statement))
		if other, taken := seen[d]; taken || d == 0 {
			t.Errorf("without %s the digest is that of %s", path, other)
		}
		seen[d] = path
		f.Set(old)
	}
	visit("", v)
}

func TestRosterTagTellsRostersApart(t *testing.T) {
	r := listOf(t, 4)
	later := *r
	later.Epoch++
	if a, b, c := RosterTag(r), RosterTag(&later), RosterTag(listOf(t, 5)); a == b || a == c || b == c {
		t.Error(a, b, c)
	}
	b, err := Append(nil, Message{Kind: Probe, ID: 1, Member: 2, Roster: RosterTag(&later)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(b, r, RosterTag(r)); !errors.Is(err, ErrOtherRoster) {
		t.Error(err)
	}
}

// The packets that an idle node sends all the time.
func TestUsualPacketsAreSmall(t *testing.T) {
	r := listOf(t, 1000)
	healthy := &netgossip.Statement{
		Boot: 1 << 63, RosterEpoch: 7, RosterDigest: r.Digest, Token: netgossip.Token{Nonce: 1 << 63, Counter: 12}, Seen: roster.FullSet(1000),
		View: roster.FullSet(1000), Guarded: roster.FullSet(1000), Feeding: true, Version: "v1.2.3",
		Guard: netgossip.Guard{Armed: true, Fences: true, Timeout: 10 * time.Second, Horizon: 20 * time.Second},
	}
	healthy.Seen.Remove(999)
	healthy.Guarded.Remove(999)
	for name, c := range map[string]struct {
		m    Message
		most int
	}{
		"probe":              {Message{Kind: Probe, ID: 1 << 63, Member: 999, Roster: 1, Holds: 1 << 63, Clock: 1 << 63}, 42},
		"reply":              {Message{Kind: Answer, ID: 1 << 63, Member: 999, Unchanged: true, Clock: 1 << 63}, 29},
		"reply in a sweep":   {Message{Kind: Answer, ID: 1 << 63, Member: 999, Sight: netgossip.SightSeen, Clock: 1 << 63}, 29},
		"reply with content": {Message{Kind: Answer, ID: 1 << 63, Member: 999, Statement: healthy, Digest: 1 << 63, Clock: 1 << 63}, 109},
	} {
		b, err := Append(nil, c.m)
		if err != nil || len(b) > c.most {
			t.Errorf("%s: %d bytes, want %d; %v", name, len(b), c.most, err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{4, 100, 1000} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			r := listOf(b, n)
			m := Message{Kind: Answer, ID: 1 << 63, Name: "n0000", Digest: 5, Statement: fullStatement(r)}
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
	r := listOf(b, 100)
	buf, err := Append(nil, Message{Kind: Answer, ID: 1 << 63, Name: "n0000", Digest: 5, Statement: fullStatement(r)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(buf, r, RosterTag(r)); err != nil {
			b.Fatal(err)
		}
	}
}
