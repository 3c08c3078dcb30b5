package diskquorum

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// What was written before a slot stated the terms of its owner, and before it stated times, says
// that they are not known.
func TestSlotsOfBefore(t *testing.T) {
	termless := sampleSlot()
	termless.Statement.Terms, termless.Statement.Agreed, termless.Statement.Stated = netgossip.Terms{}, false, 0
	untimed := termless
	untimed.GrantLifetime, untimed.Statement.Guard.Horizon = 0, 0
	for name, want := range map[string]Slot{"slot_v1_termless.hex": termless, "slot_v1_untimed.hex": untimed} {
		dump, err := os.ReadFile(filepath.Join("testdata", "golden", name))
		if err != nil {
			t.Fatal(err)
		}
		block := encodeSlot(t, &want)
		if hex.Dump(block) != string(dump) {
			t.Errorf("%s: what is not stated is not zero on disk", name)
		}
		var got Slot
		if err := DecodeSlot(block, sampleID, want.Index, 0, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v: %+v", name, err, got)
		}
	}
}
