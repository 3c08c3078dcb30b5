package gossip

import (
	"context"
	"testing"
)

// Guard: with experimental.leftByDoubt: false no node doubts, issues cookies or accepts messages (words).
func TestLeftByDoubtCanBeTurnedOff(t *testing.T) {
	for _, on := range []bool{false, true} {
		n := silent(nil)
		n.cfg.Config.Experimental.LeftByDoubt = on
		stop, err := n.Start(func(func(context.Context)) {})
		if err != nil {
			t.Fatal(err)
		}
		if stop(); (n.doubts != nil) != on {
			t.Errorf("experimental.leftByDoubt: %v; there are doubts: %v", on, n.doubts != nil)
		}
	}
}
