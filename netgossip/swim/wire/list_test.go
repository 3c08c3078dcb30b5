package wire

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func listed(n int) []roster.Member {
	members := make([]roster.Member, n)
	for i := range members {
		members[i] = roster.Member{Name: fmt.Sprintf("node-%04d.example", i), Addresses: map[string]string{
			"mgmt": fmt.Sprintf("10.1.%d.%d", i/256, i%256), "data": fmt.Sprintf("10.2.%d.%d", i/256, i%256),
		}}
	}
	members[0].Addresses = map[string]string{"mgmt": "fd00::1"}
	return members
}

func TestListSurvives(t *testing.T) {
	for _, n := range []int{1, 3, 1000} {
		text, err := EncodeList(listed(n))
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeList(text)
		if err != nil || !reflect.DeepEqual(got, listed(n)) {
			t.Errorf("%d members became %d, %v", n, len(got), err)
		}
		var whole []byte
		pieces := 0
		for p := PieceAt(roster.Ref{Epoch: 1}, text, 0); p.Total > 0; p = PieceAt(p.List, text, len(whole)) {
			whole = append(whole, p.Text...)
			pieces++
		}
		if string(whole) != string(text) {
			t.Errorf("%d members: the pieces are not the text", n)
		}
		t.Logf("%d members: %d bytes, %d pieces", n, len(text), pieces)
	}
}

func TestListsThatAreRefused(t *testing.T) {
	member := func(name string, at ...string) *ListMember { return &ListMember{Name: name, Addresses: at} }
	many := &List{}
	for i := range roster.MaxNodes + 1 {
		many.Members = append(many.Members, member(fmt.Sprint(i)))
	}
	for want, l := range map[string]*List{
		"0 members":               {},
		"1025 members":            many,
		"a name has 0 bytes":      {Members: []*ListMember{member("")}},
		"a name has 254 bytes":    {Members: []*ListMember{member(strings.Repeat("n", 254))}},
		"1 addresses on 0":        {Members: []*ListMember{member("a", "10.0.0.1")}},
		"0 addresses on 1":        {Networks: []string{"m"}, Members: []*ListMember{member("a")}},
		"not in order":            {Networks: []string{"m", "m"}, Members: []*ListMember{member("a", "10.0.0.1", "10.0.0.1")}},
		`the address "0.0.0.0"`:   {Networks: []string{"m"}, Members: []*ListMember{member("a", "0.0.0.0")}},
		`the address "10.0.0.1 "`: {Networks: []string{"m"}, Members: []*ListMember{member("a", "10.0.0.1 ")}},
		`the address "fe80::1%e"`: {Networks: []string{"m"}, Members: []*ListMember{member("a", "fe80::1%e")}},
	} {
		text, err := proto.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeList(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := DecodeList(make([]byte, MaxList+1)); err == nil {
		t.Error("a text without bound is read")
	}
	huge := listed(roster.MaxNodes)
	for i := range huge {
		huge[i].Name += strings.Repeat("x", 230)
	}
	if _, err := EncodeList(huge); err == nil {
		t.Error("a text is made that nobody reads")
	}
}

// A piece together with the longest name fits into a packet; with a statement no piece is sent.
func TestPieceHasRoom(t *testing.T) {
	r := listOf(t, 4)
	last := roster.Ref{Epoch: 1<<64 - 1, Digest: 1<<64 - 1}
	m := Message{Kind: Answer, ID: 1<<64 - 1, Name: strings.Repeat("n", MaxName), Member: -1, Unchanged: true, Sees: true,
		Relay: netgossip.Relay{Log: 1<<64 - 1, Instance: 1<<64 - 1}, RelayAge: 1 << 40,
		Piece: PieceAt(last, make([]byte, MaxList), MaxList-PieceSize)}
	b, err := Append(nil, m)
	if err != nil || len(b) > MaxSize {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	got, err := Decode(b, r, RosterTag(r))
	if err != nil || !reflect.DeepEqual(got.Piece, m.Piece) {
		t.Errorf("%+v, %v", got, err)
	}
	m.Unchanged, m.Statement, m.Digest = false, fullStatement(r), 5
	if b, err = Append(nil, m); err != nil || len(b) > MaxSize {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if got, err = Decode(b, r, RosterTag(r)); err != nil || got.Piece.Total != 0 || got.Statement == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestPiecesThatAreRefused(t *testing.T) {
	r := listOf(t, 4)
	list := &RosterRef{Epoch: 1}
	for want, p := range map[string]*Packet{
		"without naming it":          {Kind: &Packet_Probe{Probe: &Question{Id: 1, Sender: "n0001", Wants: &Wish{Offset: 3}}}},
		"byte 262144":                {Kind: &Packet_Probe{Probe: &Question{Id: 1, Sender: "n0001", Wants: &Wish{List: list, Offset: MaxList}}}},
		"a piece of an unknown list": {Kind: &Packet_Reply{Reply: &Reply{Id: 1, Sender: "n0001", Unchanged: true, Part: &Part{Total: 3, Text: []byte("abc")}}}},
		"0 bytes":                    {Kind: &Packet_Reply{Reply: &Reply{Id: 1, Sender: "n0001", Unchanged: true, Part: &Part{List: list, Total: 3}}}},
		"513 bytes":                  {Kind: &Packet_Reply{Reply: &Reply{Id: 1, Sender: "n0001", Unchanged: true, Part: &Part{List: list, Total: 1000, Text: make([]byte, PieceSize+1)}}}},
		"of a list of 2":             {Kind: &Packet_Reply{Reply: &Reply{Id: 1, Sender: "n0001", Unchanged: true, Part: &Part{List: list, Total: 2, Text: []byte("abc")}}}},
		"from byte 4294967295 of": {Kind: &Packet_Reply{Reply: &Reply{Id: 1, Sender: "n0001", Unchanged: true,
			Part: &Part{List: list, Offset: 1<<32 - 1, Total: MaxList, Text: []byte("abc")}}}},
		"of a list of 262145": {Kind: &Packet_Reply{Reply: &Reply{Id: 1, Sender: "n0001", Unchanged: true, Part: &Part{List: list, Total: MaxList + 1, Text: []byte("abc")}}}},
	} {
		if _, err := Decode(sealPacket(t, p), r, RosterTag(r)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func FuzzDecodeList(f *testing.F) {
	for _, n := range []int{1, 3, 40} {
		text, err := EncodeList(listed(n))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		members, err := DecodeList(text)
		if err != nil {
			return
		}
		again, err := EncodeList(members)
		if err != nil {
			t.Fatalf("%d members are read, and cannot be written: %v", len(members), err)
		}
		if same, err := DecodeList(again); err != nil || !reflect.DeepEqual(same, members) {
			t.Fatalf("%+v became %+v, %v", members, same, err)
		}
	})
}
