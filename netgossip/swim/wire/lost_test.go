package wire

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Guard: an older agent counts claims that are older than they may be today. It reads only those that have stood for
// long enough; and what it says itself, which is as good, counts as well.
func TestOlderAgentsReadNoYoungClaims(t *testing.T) {
	r := listOf(t, 8)
	s := &netgossip.Statement{RosterDigest: r.Digest, Lost: roster.SetOf(2, 5), LongLost: roster.SetOf(5)}
	w := statementToWire(s)
	if old, err := setFromWire(w.GetLost(), r.Size()); err != nil || old != roster.SetOf(5) {
		t.Errorf("an older agent reads %v, %v", old, err)
	}
	if got, err := statementFromWire(w, r); err != nil || got.Lost != s.Lost || got.LongLost != s.LongLost {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := statementFromWire(&Statement{RosterDigest: r.Digest, Lost: setToWire(roster.SetOf(3))}, r); err != nil || got.Lost != roster.SetOf(3) {
		t.Errorf("of an older agent: %+v, %v", got, err)
	}
	// In a group in which both are the same nothing is added to a statement.
	s.LongLost = s.Lost
	if w := statementToWire(s); len(w.GetLately()) > 0 || proto.Size(w) != proto.Size(&Statement{RosterDigest: r.Digest, Lost: setToWire(s.Lost)}) {
		t.Errorf("%v", w)
	}
	if _, err := statementFromWire(&Statement{RosterDigest: r.Digest, Lately: setToWire(roster.SetOf(200))}, r); err == nil {
		t.Error("a claim of nobody is taken")
	}
}
