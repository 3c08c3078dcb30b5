package agent

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Guard: a proof that is taken back contradicts what consumers may have acted on, and is no death.
func TestWithdrawnDeathIsContradicted(t *testing.T) {
	members := listing(t, "n1", "n2")
	reg := prometheus.NewRegistry()
	core := watchdog.NewCore(watchdog.Config{Roster: members, Networks: 1, Policy: netgossip.Any(), MaxAge: 4 * time.Second})
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "conflicts"}, []string{"network"})
	a := &Agent{
		roster: members, core: core, log: slog.New(slog.DiscardHandler), metrics: newMetrics(reg, config.Default(), "test"),
		alarms: newNameAlarms(slog.New(slog.DiscardHandler), counts), deaths: make([]watchdog.Death, 2),
	}
	for i, boot := range []uint64{11, 12, 11} { // another boot answers, then the first once more
		at := boottime.Instant(time.Duration(10+i) * time.Second)
		core.Merger().Answered(netgossip.Answer{Peer: 1, SentAt: at, Statement: &netgossip.Statement{
			Boot: boot, RosterEpoch: members.Epoch, RosterDigest: members.Digest, Seen: netgossip.SetOf(0),
		}})
		a.noteDeaths(at, core.Step(at))
		died, contradicted := testutil.ToFloat64(a.metrics.deaths.WithLabelValues("boot")), testutil.ToFloat64(a.metrics.broken)
		if want := [][2]float64{{0, 0}, {1, 0}, {1, 1}}[i]; died != want[0] || contradicted != want[1] {
			t.Errorf("answer %d: %v deaths, %v contradicted, want %v", i, died, contradicted, want)
		}
	}
	if n := testutil.CollectAndCount(a.metrics.deaths); n != 2 {
		t.Errorf("%d proofs in the metrics, want time and boot", n)
	}
}
