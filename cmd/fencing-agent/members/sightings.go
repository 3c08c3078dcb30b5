package members

import (
	"context"
	"log/slog"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/marks"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// SightingTeller reports to fencing-controller what speaks against fencing nodes by their devices, instead of the
// annotation, which an agent with members.source: controller cannot write.
type SightingTeller struct{ teller }

// NewSightingTeller makes a SightingTeller. boot is this node's, in the form used in deaths.
func NewSightingTeller(c *config.Config, boot string, clock boottime.Clock, log *slog.Logger) *SightingTeller {
	source := &controllerSource{cfg: c}
	ask := func(ctx context.Context, r *fencingv1.SightingsReport) error {
		return source.once(ctx, func(ctx context.Context, c fencingv1.FencingMembersClient) error {
			_, err := c.TellSightings(ctx, r)
			return err
		})
	}
	return newSightingTeller(ask, boot, clock, log, "the controller does not accept this agent's signs of life: they hold up no fencing by devices")
}

// newSightingTeller returns a teller that sends by ask. Each Sighting has a number of its own, so that one which says
// the same is reported again. Reports of an earlier agent expire by themselves, so this agent need not report that
// there is nothing.
func newSightingTeller(ask func(context.Context, *fencingv1.SightingsReport) error, boot string, clock boottime.Clock, log *slog.Logger, lost string) *SightingTeller {
	t := new(SightingTeller)
	t.teller = newTeller(boot, clock, log, lost, marks.Transport{
		Send: func(ctx context.Context, value string) error { return ask(ctx, t.report(value)) },
	})
	t.Has("", true)
	return t
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
