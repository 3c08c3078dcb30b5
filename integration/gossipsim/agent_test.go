package gossipsim

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// The loop evaluates the merger only when a report matters or evidence expires. It must arrive at the same views as the
// real agent, which evaluates at every report.
func TestLazyEvaluationMissesNothing(t *testing.T) {
	const nodes = 6
	for _, all := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, err := newWorld(config(nodes, "auto", "idle", func(c *Config) { c.All = all }))
			if err != nil {
				t.Fatal(err)
			}
			defer w.fab.close()
			w.obs.setUp(0, true)
			a := newAgent(w, 0, 1, true)
			rnd := rand.New(rand.NewPCG(1, 2))
			views, skipped := map[roster.Set]bool{}, 0
			for range 50_000 {
				time.Sleep(time.Duration(rnd.Int64N(int64(40 * time.Millisecond))))
				r := report{network: rnd.IntN(2), peer: 1 + rnd.IntN(nodes-1)}
				switch k := rnd.IntN(100); {
				case k < 4:
					r.kind, r.at, r.up = member, clock(), rnd.IntN(4) > 0
				case k == 4:
					r.kind, r.at, r.up = missed, clock().Add(-time.Duration(rnd.Int64N(int64(time.Second)))), rnd.IntN(2) == 0
				case k < 15:
					r.kind, r.at = vouched, clock().Add(-time.Duration(rnd.Int64N(int64(time.Second))))
				case k == 15 && rnd.IntN(10) == 0:
					r.kind = link
					// The network goes down, and is up again by the next time.
					a.merger.LinkChanged(r.network, true)
				default:
					a.merger.LinkChanged(0, true)
					a.merger.LinkChanged(1, true)
					s := *w.firstWords[r.peer].statement
					if rnd.IntN(50) == 0 {
						s.Seen.Remove(0)
					}
					if rnd.IntN(50) == 0 {
						s.RosterEpoch++
					}
					// The higher a node's number, the rarer its answers. Node 5 never answers.
					if rnd.IntN(60) < 12*r.peer {
						continue
					}
					sent := clock().Add(-time.Duration(rnd.Int64N(int64(time.Second))))
					r.answer = netgossip.Answer{Network: r.network, Peer: r.peer, SentAt: sent, Statement: &s}
				}
				now := clock()
				if a.take(&r) || now >= a.last.NextExpiry {
					a.evaluate(now)
				} else {
					skipped++
				}
				eager := a.merger.Evaluate(now, w.quorum)
				if eager.Seen != a.last.Seen || eager.Counted != a.last.Counted {
					t.Fatalf("after %+v the agent sees %v and counts %v, but %v and %v are right", r,
						w.roster.Names(a.last.Seen), w.roster.Names(a.last.Counted), w.roster.Names(eager.Seen), w.roster.Names(eager.Counted))
				}
				views[eager.Counted] = true
			}
			if len(views) < 4 || skipped < 10_000 {
				t.Errorf("only %d views occurred and %d evaluations were saved", len(views), skipped)
			}
		})
	}
}
