package agent

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/gossip"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Guard: a sentence is urgent, because the node may be reset before the round reaches all other nodes.
func TestUrgency(t *testing.T) {
	plain, condemned := &netgossip.Statement{Boot: 1}, &netgossip.Statement{Boot: 1, Sentence: time.Second}
	stops := &netgossip.Statement{Boot: 1, Stopping: true}
	for name, tc := range map[string]struct {
		old, st *netgossip.Statement
		fx      watchdog.Effects
		want    gossip.Urgency
	}{
		"the first":              {nil, plain, watchdog.Effects{}, gossip.Now},
		"the first, condemned":   {nil, condemned, watchdog.Effects{}, gossip.Last},
		"a sentence":             {plain, condemned, watchdog.Effects{Spread: true, Nudge: true}, gossip.Last},
		"another one, condemned": {condemned, condemned, watchdog.Effects{Nudge: true}, gossip.Soon},
		"a stop":                 {plain, stops, watchdog.Effects{}, gossip.Now},
		"an order":               {plain, plain, watchdog.Effects{Spread: true}, gossip.Now},
		"a view":                 {plain, plain, watchdog.Effects{Nudge: true}, gossip.Soon},
		"what can wait":          {plain, plain, watchdog.Effects{}, gossip.Whenever},
	} {
		t.Run(name, func(t *testing.T) {
			if got := urgencyOf(tc.old, tc.st, &tc.fx); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}
