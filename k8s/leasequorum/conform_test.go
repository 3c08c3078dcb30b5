package leasequorum_test

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum/leasequorumtest"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
	"github.com/fencing-agent/fencing-agent/netgossip/tie/tietest"
)

// served is an arbiter whose operations end at once.
type served struct {
	*leasequorum.Arbiter
	lease *leasequorumtest.Lease
}

func (s *served) Step(now boottime.Instant, in *tie.Input) *tie.Output {
	for {
		out := s.Arbiter.Step(now, in)
		op := s.Op()
		if op == nil {
			return out
		}
		done := s.lease.Apply(op)
		done.ID, done.Started, done.Ended = op.ID, now, now
		s.Complete(&done)
	}
}

func TestConform(t *testing.T) {
	tietest.Conform(t, func(t *testing.T) tietest.Rig {
		lease := &leasequorumtest.Lease{}
		return tietest.Rig{
			MaxAge: 3 * time.Second, Decides: 20 * time.Second, Horizon: 10 * time.Second,
			New: func(r *roster.Roster, e tie.Evidence, boot uint64, now boottime.Instant) tie.Breaker {
				a, err := leasequorum.New(leasequorum.Config{
					Roster: r, Evidence: e, Boot: boot, Process: boot, Log: 9,
					Timing: leasequorum.Timing{
						MaxAge: 3 * time.Second, Term: 8 * time.Second, Expire: 10 * time.Second, Longest: time.Minute, Stagger: 200 * time.Millisecond,
						Retry: time.Second, Poll: time.Second, Refresh: 10 * time.Second,
					},
				}, now)
				if err != nil {
					t.Fatal(err)
				}
				return &served{a, lease}
			},
		}
	})
}
