package agent

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Guard: a planned stop waits for the answers of the counted peers. Without them, a peer whose machine is busy for the
// length of a few nudges would report this node as LEFT because of a restart.
func TestStopWaitsForAnswersOfCountedPeers(t *testing.T) {
	const sec = boottime.Instant(time.Second)
	r := numbered(3)
	a := &Agent{cfg: config.Default(), roster: r, core: watchdog.NewCore(watchdog.Config{Roster: r, Networks: 1, Policy: netgossip.Any(), MaxAge: 4 * time.Second})}
	answer := func(peer int, at boottime.Instant) {
		a.core.Merger().Answered(netgossip.Answer{Peer: peer, SentAt: at, Statement: &netgossip.Statement{
			Boot: 1, RosterDigest: r.Digest, RosterEpoch: r.Epoch, Seen: roster.FullSet(3), View: roster.FullSet(3),
		}})
	}
	told := func(now boottime.Instant) bool {
		a.core.Step(now)
		return a.stopKnown(now)
	}
	stop := func(said boottime.Instant) {
		a.leaving.by, a.leaving.answered = said.Add(a.stopPatience()), 0
		if told(said + 1) {
			t.Error("told before the announcement can have reached anybody")
		}
	}
	answer(1, 10*sec)
	answer(2, 10*sec)
	a.core.Stop()
	stop(11 * sec)
	if n := a.core.View().Counted.Len(); n != 3 {
		t.Fatalf("%d are counted, want 3", n)
	}
	answer(1, 11*sec+1)
	if told(12*sec) || a.leaving.answered != 0 {
		t.Error("one of two has answered: that is taken for all")
	}
	answer(2, 11*sec+1)
	if told(12*sec + 1) {
		t.Error("there was no time to ask for what was announced")
	}
	if !told((12*sec + 1).Add(2 * minStopWord)) {
		t.Error("all have answered, and the stop waits on")
	}
	stop(13 * sec)
	answer(1, 13*sec+1)
	if now := 15*sec + 2; told(now) || !told(now.Add(2*minStopWord)) || a.core.View().Counted.Has(2) {
		t.Error("a peer that is not counted any more is waited for")
	}
}
