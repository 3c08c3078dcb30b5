package wire

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Guard: facts of a later version, and facts about no node, are skipped; the rest of the statement counts.
func TestFactsThatAreNotKnown(t *testing.T) {
	got := factsFromWire([]*Fact{
		{Kind: 0, Name: 1, Boot: 1},
		{Kind: 8, Name: 1, Boot: 1},
		{Kind: 256 + uint32(netgossip.FactPower), Name: 1, Boot: 1},
		{Kind: uint32(netgossip.FactPower), Boot: 1},
		{Kind: uint32(netgossip.FactPower), Name: 1},
		{Kind: uint32(netgossip.FactSentence), Name: 2, Boot: 3, TimeoutMs: 1500, Teller: 7},
		{Kind: uint32(netgossip.FactContradicted), Name: 2, Boot: 3, TimeoutMs: 1500, Teller: 7},
		{Kind: uint32(netgossip.FactKdump), Name: 2, Boot: 3, TimeoutMs: 1500, Teller: 7},
		{Kind: uint32(netgossip.FactOperator), Name: 2, Boot: 3},
		{Kind: uint32(netgossip.FactPower), Name: 9, Boot: 9}, // one too many
	})
	want := [netgossip.MaxFacts]netgossip.Fact{
		{Kind: netgossip.FactSentence, Name: 2, Boot: 3, Timeout: 1500 * time.Millisecond},
		{Kind: netgossip.FactContradicted, Name: 2, Boot: 3},
		{Kind: netgossip.FactKdump, Name: 2, Boot: 3, Teller: 7},
		{Kind: netgossip.FactOperator, Name: 2, Boot: 3},
	}
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// A field that a version does not know is skipped.
func TestFieldsOfLaterVersions(t *testing.T) {
	r := listOf(t, 4)
	b, err := proto.Marshal(statementToWire(fullStatement(r)))
	if err != nil {
		t.Fatal(err)
	}
	var later Statement
	if err := proto.Unmarshal(append(b, 0xf2, 0x3f, 1, 'x'), &later); err != nil { // field 1022
		t.Fatal(err)
	}
	if s, err := statementFromWire(&later, r); err != nil || *s != *fullStatement(r) {
		t.Errorf("%+v, %v", s, err)
	}
}
