package agent

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Guard: a planned stop waits for the answers of those who are counted. A peer whose machine is
// busy for the length of a few nudges would call this node LEFT for a restart.
func TestStopWaitsForAnswersOfCountedPeers(t *testing.T) {
	const sec = boottime.Instant(time.Second)
	r := numbered(3)
	a := &Agent{roster: r, core: watchdog.NewCore(watchdog.Config{Roster: r, Networks: 1, Policy: netgossip.Any(), MaxAge: 4 * time.Second})}
	answer := func(peer int, at boottime.Instant) {
		a.core.Merger().Answered(netgossip.Answer{Peer: peer, SentAt: at, Statement: &netgossip.Statement{
			Boot: 1, RosterDigest: r.Digest, RosterEpoch: r.Epoch, Seen: netgossip.FullSet(3), View: netgossip.FullSet(3),
		}})
	}
	answered := func(now, said boottime.Instant) bool {
		a.core.Step(now)
		return a.answeredSince(now, said)
	}
	answer(1, 10*sec)
	answer(2, 10*sec)
	said := 11 * sec
	if answered(said+1, said); a.core.View().Counted.Len() != 3 {
		t.Fatalf("counted are %v", a.core.View().Counted)
	}
	answer(1, said+1)
	if answered(12*sec, said) || a.answered != 0 {
		t.Error("one of two has answered: that is taken for all")
	}
	answer(2, said+1)
	if answered(12*sec+1, said) {
		t.Error("there was no time to ask for what was announced")
	}
	if !answered(12*sec+1+boottime.Instant(2*minStopWord), said) {
		t.Error("all have answered, and the stop waits on")
	}
	a.answered = 0
	said = 13 * sec
	answer(1, said+1)
	if now := 15*sec + 2; answered(now, said) || !answered(now.Add(2*minStopWord), said) || a.core.View().Counted.Has(2) {
		t.Error("a peer that is not counted any more is waited for")
	}
}
