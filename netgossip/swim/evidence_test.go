package swim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

// What brings the next probe forward: news in a probe, and a probe of a silent peer.
func TestProbesThatMakeUsAsk(t *testing.T) {
	for name, c := range map[string]struct {
		silentFor time.Duration // since the latest answer
		news      uint32
		urged     bool
	}{
		"nothing new":                {100 * time.Millisecond, 7, false},
		"no news":                    {100 * time.Millisecond, 0, false},
		"news":                       {100 * time.Millisecond, 8, true},
		"a silent peer":              {time.Hour, 7, true},
		"a silent peer without news": {time.Hour, 0, true},
		"news of a peer just probed": {0, 8, true},
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
		o, ok := e.schedule.replied(p, 7, now)
		if !ok {
			t.Fatal("no reply")
		}
		e.schedule.answered(p, o, true, now)
		p.digest, p.lost = 7, c.silentFor > time.Minute
		planned := p.due
		now = now.Add(c.silentFor)
		p.due = max(planned, now.Add(time.Second))
		planned = p.due
		e.answer(p, wire.Message{Kind: wire.Probe, ID: 1, Member: 1, News: c.news})
		if urged := p.due < planned; urged != c.urged {
			t.Errorf("%s: urged %v, want %v", name, urged, c.urged)
		}
		if p.due < p.sentAt.Add(urgeInterval) {
			t.Errorf("%s: asked again after %v", name, p.due.Sub(p.sentAt))
		}
	}
}
