package lowestname

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
	"github.com/fencing-agent/fencing-agent/netgossip/tie/tietest"
)

// What a third tie-breaker runs: this, and its package, its entry in the list of values, its line of wiring.
func TestConform(t *testing.T) {
	tietest.Conform(t, func(*testing.T) tietest.Rig {
		return tietest.Rig{
			MaxAge: maxAge, Decides: 2 * maxAge, Horizon: 5 * time.Second,
			New: func(r *roster.Roster, e tie.Evidence, boot uint64, _ boottime.Instant) tie.Breaker {
				return New(r, e, maxAge, boot)
			},
		}
	})
}
