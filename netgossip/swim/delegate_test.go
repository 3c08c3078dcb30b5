package swim

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// deaths is a Sink that records the dates of memberlist's deaths.
type deaths struct {
	Sink
	at []boottime.Instant
}

func (d *deaths) MemberChanged(_, _ int, _ bool, at boottime.Instant) { d.at = append(d.at, at) }

// A death is dated by the start of the accusation, so that a later answer stays valid. An announced death, and a
// return, are dated by the moment when they become known.
func TestDeathsAreDatedByTheAccusation(t *testing.T) {
	for name, c := range map[string]struct {
		alive, leaving bool
		earlier        time.Duration
	}{
		"death":    {earlier: 1500 * time.Millisecond},
		"farewell": {leaving: true},
		"return":   {alive: true},
	} {
		sink := &deaths{}
		cfg := validConfig(t)
		cfg.Params = netgossip.Tune(cfg.Roster.Size())
		cfg.Clock, cfg.Sink = func() boottime.Instant { return start }, sink
		targets, err := cfg.targets()
		if err != nil {
			t.Fatal(err)
		}
		in := &Instance{cfg: cfg, count: NewMetrics(nil).network("mgmt"), gate: newGate()}
		in.rejoin = newRejoiner(&in.cfg, targets, nil)
		in.evidence = newEvidence(in, targets)
		in.rejoin.leaving[1].Store(c.leaving)
		delegate{in}.memberChanged(cfg.Roster.Name(1), c.alive)
		if len(sink.at) != 1 || start.Sub(sink.at[0]) != c.earlier {
			t.Errorf("%s: dated %v, want %v before it is known", name, sink.at, c.earlier)
		}
		if a := <-in.evidence.inbox; a.at != sink.at[0] || a.dead == c.alive {
			t.Errorf("%s: the schedule and the merger are told different things: %+v", name, a)
		}
	}
}

// Guard: no member is declared dead by an accusation that is younger than AccusedSince: otherwise evidence from before
// the crash could stay valid.
func TestAccusationsAreNoYoungerThanAssumed(t *testing.T) {
	for _, profile := range netgossip.Profiles() {
		for n := 2; n <= roster.MaxNodes; n++ {
			if p := profile.Params(n); p.AccusedSince() > p.ProbeInterval+p.SuspicionMin(n) || 2*p.AccusedSince() > p.EvidenceMaxAge {
				t.Fatalf("%s, N=%d: an accusation of %v is taken to be %v old", profile, n, p.ProbeInterval+p.SuspicionMin(n), p.AccusedSince())
			}
		}
	}
}
