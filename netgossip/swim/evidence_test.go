package swim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

// What brings the next probe forward: news in a probe, and a probe of a silent peer.
func TestProbesThatMakeUsAsk(t *testing.T) {
	old := &netgossip.Statement{Boot: 1}
	for name, c := range map[string]struct {
		silentFor time.Duration // since the latest answer
		statement *netgossip.Statement
		urged     bool
	}{
		"nothing new":                {100 * time.Millisecond, old, false},
		"no statement":               {100 * time.Millisecond, nil, false},
		"news":                       {100 * time.Millisecond, &netgossip.Statement{Boot: 2}, true},
		"a silent peer":              {time.Hour, old, true},
		"a silent, speechless peer":  {time.Hour, nil, true},
		"news of a peer just probed": {0, &netgossip.Statement{Boot: 2}, true},
	} {
		now := start
		cfg := validConfig(t) // without an own statement, so that nothing is sent
		cfg.Clock = func() boottime.Instant { return now }
		in := &Instance{cfg: cfg, count: NewMetrics(nil).network("mgmt"), gate: newGate()}
		targets, err := cfg.targets()
		if err != nil {
			t.Fatal(err)
		}
		e := newEvidence(in, targets)
		e.schedule = newSchedule(cfg.Params, targets, start, rand.New(rand.NewPCG(1, 2)))
		p := e.schedule.byIndex[1]
		e.schedule.probed(p, 7, now)
		if _, ok := e.schedule.replied(p, 7, now); !ok {
			t.Fatal("no reply")
		}
		p.known = *old
		planned := p.due
		now = now.Add(c.silentFor)
		p.due = max(planned, now.Add(time.Second))
		planned = p.due
		e.answer(p, wire.Message{Kind: wire.Probe, ID: 1, Sender: "n2", Statement: c.statement})
		if urged := p.due < planned; urged != c.urged {
			t.Errorf("%s: urged %v, want %v", name, urged, c.urged)
		}
		if p.due < p.sentAt.Add(urgeInterval) {
			t.Errorf("%s: asked again after %v", name, p.due.Sub(p.sentAt))
		}
	}
}
