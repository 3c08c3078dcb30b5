package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Subscribers only get events of the merged view. Peer 1 loses the first network at 10 s and the second at 20 s, and
// gets them back at 30 s and 40 s: this gives one LEFT and one JOIN, at the times that the policy defines.
func TestOneMergedEventPerEdge(t *testing.T) {
	type event struct {
		at   boottime.Instant
		left bool
	}
	const maxAge = 4 * sec
	for _, c := range []struct {
		policy     netgossip.Policy
		left, join boottime.Instant // latest time of publication
	}{
		{netgossip.Any(), 20*sec + maxAge, 30 * sec},
		{netgossip.All(), 10*sec + maxAge, 40 * sec},
		{netgossip.AtLeast(2), 10*sec + maxAge, 40 * sec},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			core := testCore(t, 4, func(cfg *Config) { cfg.Networks, cfg.Policy = 2, c.policy })
			say := func(network, peer int, at boottime.Instant) {
				core.Merger().Answered(netgossip.Answer{Network: network, Peer: peer, SentAt: at, Statement: &netgossip.Statement{
					RosterEpoch: core.cfg.Roster.Epoch, RosterDigest: core.cfg.Roster.Digest, Seen: roster.FullSet(4),
				}})
			}
			down := func(network int, at boottime.Instant) bool {
				return network == 0 && at >= 10*sec && at < 30*sec || network == 1 && at >= 20*sec && at < 40*sec
			}
			var events []event
			for at := sec; at < 50*sec; at += sec / 10 {
				for network := range 2 {
					say(network, 2, at)
					say(network, 3, at)
					if !down(network, at) {
						say(network, 1, at)
					}
				}
				fx := core.Step(at)
				if at == sec {
					continue // all peers join
				}
				if others := roster.SetOf(0, 2, 3); fx.Left.Intersects(others) || fx.Joined.Intersects(others) {
					t.Fatalf("at %v: left %v, joined %v", time.Duration(at), fx.Left, fx.Joined)
				}
				if fx.Left.Has(1) {
					events = append(events, event{at, true})
				}
				if fx.Joined.Has(1) {
					events = append(events, event{at, false})
				}
			}
			const step = sec / 10
			if len(events) != 2 || !events[0].left || events[1].left ||
				events[0].at > c.left || events[0].at < c.left-step || events[1].at != c.join {
				t.Errorf("events %v, want LEFT at %v and JOIN at %v", events, time.Duration(c.left), time.Duration(c.join))
			}
		})
	}
}
