package swim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/probing"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

const start = boottime.Instant(time.Hour)

// urgeInterval is the minimum time between two probes of a peer outside the regular schedule.
const urgeInterval = 50 * time.Millisecond

// Two events bring the next probe forward: news in a probe, and a probe from a silent peer.
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
		cfg := validConfig(t) // without a statement of this node, so that nothing is sent
		cfg.Clock = func() boottime.Instant { return now }
		in := &Instance{cfg: cfg, count: NewMetrics(nil).network("mgmt"), gate: newGate()}
		targets, err := cfg.targets()
		if err != nil {
			t.Fatal(err)
		}
		e := newEvidence(in, targets)
		e.begin(probing.Config{Rand: rand.New(rand.NewPCG(1, 2))}, start)
		p := e.peers[1]
		e.schedule.Probed(p.Peer, 7, now)
		o, ok := e.schedule.Replied(p.Peer, 7, now)
		if !ok {
			t.Fatal("no reply")
		}
		e.schedule.Answered(p.Peer, o, true, now)
		p.Digest = 7
		now = now.Add(c.silentFor)
		if c.silentFor > cfg.Params.EvidenceMaxAge {
			// Probed without an answer for longer than evidence lasts: the peer is lost.
			e.schedule.Probed(p.Peer, 8, now.Add(-2*cfg.Params.EvidenceMaxAge))
			e.schedule.Probed(p.Peer, 9, now.Add(-urgeInterval))
		}
		planned := p.Due()
		e.answer(p, wire.Message{Kind: wire.Probe, ID: 1, Member: 1, News: c.news})
		if urged := p.Due() < planned; urged != c.urged {
			t.Errorf("%s: urged %v, want %v", name, urged, c.urged)
		}
		if p.Due() < p.SentAt().Add(urgeInterval) {
			t.Errorf("%s: asked again after %v", name, p.Due().Sub(p.SentAt()))
		}
	}
}

// A sweep only asks whether a peer is there. Such a probe does not make the peer assume that its statement was
// forgotten.
func TestSweepAsksBriefly(t *testing.T) {
	now := start
	cfg := validConfig(t)
	cfg.Clock = func() boottime.Instant { return now }
	in := &Instance{cfg: cfg, count: NewMetrics(nil).network("mgmt"), gate: newGate()}
	targets, err := cfg.targets()
	if err != nil {
		t.Fatal(err)
	}
	e := newEvidence(in, targets)
	e.begin(probing.Config{Rand: rand.New(rand.NewPCG(1, 2))}, start)
	p := e.peers[1]
	p.Digest, p.Known = 7, &netgossip.Statement{}
	if m := e.question(p, true); !m.Brief || m.Holds != 7 {
		t.Errorf("a brief probe is %+v", m)
	}
	e.schedule.StartSweep(now.Add(time.Second))
	if m := e.question(p, true); !m.Brief || m.Holds != 0 {
		t.Errorf("a probe of a sweep is %+v", m)
	}
	if p.Known = nil; e.question(p, true).Brief {
		t.Error("a sweep does not ask for the statement of a peer that has said nothing yet")
	}
	for _, c := range []struct {
		brief       bool
		holds, want uint64
	}{{true, 9, 9}, {true, 0, 9}, {false, 0, 0}} {
		e.takeHolds(p, wire.Message{Brief: c.brief, Holds: c.holds})
		if p.Holds != c.want {
			t.Errorf("after %+v the peer is thought to hold %d", c, p.Holds)
		}
	}
}
