package wire

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Pre-release agents state claims in two fields, and do not condemn a boot while a node does not state that it supports
// this.
func TestAgentsOfBeforeTheFirstRelease(t *testing.T) {
	r := listOf(t, 8)
	got, err := statementFromWire(&Statement{RosterDigest: r.Digest, Lost: setToWire(roster.SetOf(3)), Lately: setToWire(roster.SetOf(5))}, r)
	if err != nil || got.Lost != roster.SetOf(3, 5) {
		t.Errorf("%+v, %v", got, err)
	}
	if w := statementToWire(got); !w.GetHeeds() {
		t.Errorf("%v", w)
	}
	if _, err := statementFromWire(&Statement{RosterDigest: r.Digest, Lately: setToWire(roster.SetOf(200))}, r); err == nil {
		t.Error("a claim of nobody is taken")
	}
}
