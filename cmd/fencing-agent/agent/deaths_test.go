package agent

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/gossip"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/picture"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// Guard: a proof that is taken back contradicts what consumers may have acted on. It is not a death.
func TestWithdrawnDeathIsContradicted(t *testing.T) {
	members := listing(t, "n1", "n2")
	reg := prometheus.NewRegistry()
	core := watchdog.NewCore(watchdog.Config{Roster: members, Networks: 1, Policy: netgossip.Any(), MaxAge: 4 * time.Second})
	a := &Agent{
		roster: members, core: core, log: slog.New(slog.DiscardHandler), metrics: picture.NewMetrics(reg, config.Default(), "test"),
		gossip: gossip.New(gossip.Config{Config: config.Default(), Logger: slog.New(slog.DiscardHandler), Registry: reg}), deaths: deaths{known: make([]watchdog.Death, 2)},
	}
	for i, boot := range []uint64{11, 12, 11} { // another boot answers, then the first boot answers once more
		at := boottime.Instant(time.Duration(10+i) * time.Second)
		core.Merger().Answered(netgossip.Answer{Peer: 1, SentAt: at, Statement: &netgossip.Statement{
			Boot: boot, RosterEpoch: members.Epoch, RosterDigest: members.Digest, Seen: roster.SetOf(0),
		}})
		a.noteDeaths(at, core.Step(at))
		died, contradicted := counted(t, reg, "fencing_agent_deaths_total", "boot"), counted(t, reg, "fencing_agent_deaths_contradicted_total", "")
		if want := [][2]float64{{0, 0}, {1, 0}, {1, 1}}[i]; died != want[0] || contradicted != want[1] {
			t.Errorf("answer %d: %v deaths, %v contradicted, want %v", i, died, contradicted, want)
		}
	}
	if n, err := testutil.GatherAndCount(reg, "fencing_agent_deaths_total"); err != nil || n != 6 {
		t.Errorf("%d proofs in the metrics, want time, boot, sentence, power, kdump and operator: %v", n, err)
	}
}

// counted returns a counter of the registry, with this label value if one is given.
func counted(t *testing.T, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %s", name, label)
	return 0
}

// Guard: a report that the feeder made before it received the disarm does not answer the disarm.
func TestReportFromBeforeADisarmIsNoAnswer(t *testing.T) {
	members := listing(t, "n1", "n2", "n3")
	budget := watchdog.Budget{MaxAge: 4 * time.Second, Feed: time.Second, Margin: time.Second}
	core := watchdog.NewCore(watchdog.Config{Roster: members, Networks: 1, Policy: netgossip.Any(), MaxAge: 4 * time.Second, OnLoss: watchdog.LossFence, Budget: budget})
	var now boottime.Instant
	a := &Agent{roster: members, core: core, log: slog.New(slog.DiscardHandler), clock: func() boottime.Instant { return now }}
	armed := func(at time.Duration, guarded roster.Set) bool {
		now = boottime.Instant(at)
		for p := 1; p < 3; p++ {
			core.Merger().Answered(netgossip.Answer{Peer: p, SentAt: now, Statement: &netgossip.Statement{
				Boot: uint64(p), RosterEpoch: members.Epoch, RosterDigest: members.Digest, Seen: roster.FullSet(3), Guarded: guarded,
			}})
		}
		return core.Step(now).Statement.Guard.Armed
	}
	report := func(number uint64) {
		w := newBatch(1, 3)
		w.feeder = &wdt.State{Status: wdt.Armed, Armed: true, Info: watchdog.Info{Timeout: 10 * time.Second}, Obeyed: number}
		if err := a.handle(&w); err != nil {
			t.Fatal(err)
		}
	}
	report(1)
	if !armed(10*time.Second, roster.SetOf(0)) {
		t.Fatal("not armed in the beginning")
	}
	core.SetDisarm("file", "a test")
	armed(11*time.Second, roster.SetOf(0))
	armed(12*time.Second, roster.Set{}) // the peers know it
	a.guard.disarming = 2
	core.SetDisarm("file", "")
	report(1)
	if armed(13*time.Second, roster.Set{}) {
		t.Error("says that it is armed while the disarm is on its way")
	}
	report(2)
	if !armed(14*time.Second, roster.Set{}) {
		t.Error("the disarm was refused, and it does not say that it is armed")
	}
}
