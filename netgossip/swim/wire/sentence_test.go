package wire

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// What is said of a sentence comes behind all that older agents know, which leave it out; and what they say says nothing of it.
func TestSentenceIsBehindWhatOlderAgentsRead(t *testing.T) {
	r := listOf(t, 4)
	s := fullStatement(r)
	s.Sentence, s.Heeds = 2*time.Second, true
	s.LongLost, s.Facts, s.Unheard = s.Lost, [netgossip.MaxFacts]netgossip.Fact{}, false // what is behind both has a test of its own
	marshal := func() []byte {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(statementToWire(s))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	now := marshal()
	s.Sentence, s.Heeds = 0, false
	before := marshal()
	if !bytes.HasPrefix(now, before) || len(now) == len(before) {
		t.Errorf("a statement with a sentence is not one without, and more:\n%x\n%x", now, before)
	}
	var w Statement
	if err := proto.Unmarshal(before, &w); err != nil {
		t.Fatal(err)
	}
	if got, err := statementFromWire(&w, r); err != nil || got.Sentence != 0 || got.Heeds {
		t.Errorf("%+v, %v", got, err)
	}
}
