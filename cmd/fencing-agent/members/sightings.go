package members

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// SightingTeller reports to fencing-controller what speaks against fencing nodes by their devices, instead of the
// annotation, which an agent with members.source: controller cannot write.
type SightingTeller struct {
	teller
	ask func(context.Context, *fencingv1.SightingsReport) error
}

// NewSightingTeller makes a SightingTeller. boot is this node's, in the form used in deaths.
func NewSightingTeller(c *config.Config, boot string, clock boottime.Clock, log *slog.Logger) *SightingTeller {
	t := &SightingTeller{teller: newTeller(boot, clock, log)}
	source := &controllerSource{cfg: c}
	t.ask = func(ctx context.Context, r *fencingv1.SightingsReport) error {
		return source.once(ctx, func(ctx context.Context, c fencingv1.FencingMembersClient) error {
			_, err := c.TellSightings(ctx, r)
			return err
		})
	}
	return t
}

// Run reports until ctx ends.
//
// Invariant: anything that was reported, or may have been, is withdrawn once it is over. Reports of an earlier agent
// expire by themselves, so this agent need not report that there is nothing.
func (t *SightingTeller) Run(ctx context.Context) {
	last := 0      // the wish that was reported last
	silent := true // the controller certainly keeps nothing of this agent
	patience := newPatience(t.rand)
	for ctx.Err() == nil {
		value, within, n := t.wish()
		if n == last || silent && value == "" {
			last = n
			t.wait(ctx, 0)
			continue
		}
		if boottime.Wait(ctx, boottime.Jitter(t.rand, within)); ctx.Err() != nil {
			return
		}
		value, _, n = t.wish()
		err := t.ask(ctx, t.report(value))
		if err == nil {
			last, silent, patience = n, value == "", newPatience(t.rand)
			continue
		}
		silent = silent && status.Code(err) == codes.Unimplemented // an older controller keeps nothing
		t.failed(ctx, err, &patience)
	}
}

func (t *SightingTeller) failed(ctx context.Context, err error, p *patience) {
	t.fail(ctx, err, p, "the controller does not accept this agent's signs of life: they hold up no fencing by devices")
}

// report is what is sent now. It can always be read: this agent has written it.
func (t *SightingTeller) report(value string) *fencingv1.SightingsReport {
	r := &fencingv1.SightingsReport{Boot: t.boot, Number: uint64(max(0, t.clock()) / boottime.Instant(time.Millisecond))}
	if value == "" {
		return r
	}
	if s, err := sightings.Decode(value); err == nil {
		r.QuorumLost, r.SlotMoves, r.SlotStill, r.Sees = s.QuorumLost, s.SlotMoves, s.SlotStill, s.Sees
	}
	return r
}
