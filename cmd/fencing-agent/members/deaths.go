package members

import (
	"context"
	"log/slog"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

// DeathTeller reports to fencing-controller which nodes are dead, instead of the annotation, which an agent with
// members.source: controller cannot write. It first asks what an agent of this node reported before.
type DeathTeller struct {
	teller
	ask   func(context.Context, *fencingv1.DeathsReport) (*fencingv1.DeathsKnown, error)
	known func(ownnode.State)
}

// NewDeathTeller makes a DeathTeller. boot is this node's, in the form used in deaths. known is called once, from Run,
// with what was reported before, as if it were on the Node.
func NewDeathTeller(c *config.Config, boot string, clock boottime.Clock, log *slog.Logger, known func(ownnode.State)) *DeathTeller {
	source := &controllerSource{cfg: c}
	t := &DeathTeller{teller: newTeller(boot, clock, log), known: known}
	t.ask = func(ctx context.Context, r *fencingv1.DeathsReport) (*fencingv1.DeathsKnown, error) {
		var known *fencingv1.DeathsKnown
		err := source.once(ctx, func(ctx context.Context, c fencingv1.FencingMembersClient) (err error) {
			known, err = c.TellDeaths(ctx, r)
			return err
		})
		return known, err
	}
	return t
}

// Run reports until ctx ends.
func (t *DeathTeller) Run(ctx context.Context) {
	said := t.first(ctx)
	due := t.clock() // earlier reports have to be repeated at once
	patience := newPatience(t.rand)
	for ctx.Err() == nil {
		value, within, wishes := t.wish()
		repeat := max(0, due.Sub(t.clock()))
		switch {
		case wishes == 0 || value == said && value == "":
			t.wait(ctx, 0)
			continue
		case value == said && repeat > 0:
			t.wait(ctx, repeat)
			continue
		case value != said && !t.spread(ctx, said, boottime.Jitter(t.rand, within)):
			continue
		}
		value, _, _ = t.wish()
		_, err := t.ask(ctx, t.report(value))
		if err == nil {
			said, due, patience = value, t.clock().Add(deaths.Again), newPatience(t.rand)
			continue
		}
		t.failed(ctx, err, &patience)
	}
}

// first asks for the earlier report of this node's agent, until it gets an answer: an unknown report must not be
// replaced.
func (t *DeathTeller) first(ctx context.Context) string {
	patience := newPatience(t.rand)
	for ctx.Err() == nil {
		known, err := t.ask(ctx, &fencingv1.DeathsReport{Ask: true})
		if err != nil {
			t.failed(ctx, err, &patience)
			continue
		}
		s := ownnode.State{Known: true, Exists: true}
		text := ""
		if list := known.GetDeaths(); len(list) > 0 {
			before, _ := deaths.OfTold(list) // an entry that is not a death is ignored
			text = deaths.Encode(before)
			s.Annotations = map[string]string{deaths.Annotation: text}
		}
		t.known(s)
		return text
	}
	return ""
}

func (t *DeathTeller) failed(ctx context.Context, err error, p *patience) {
	t.fail(ctx, err, p, "the controller does not accept this node's reports of deaths: recovery does not learn of these deaths from this node")
}

// spread waits, and reports whether there is something to report afterwards. An urgent wish ends the wait.
func (t *DeathTeller) spread(ctx context.Context, said string, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-t.wake:
			if value, within, _ := t.wish(); value == said || within == 0 {
				return value != said
			}
		}
	}
}

// report is the message to send. It can always be decoded: this agent has written it.
func (t *DeathTeller) report(value string) *fencingv1.DeathsReport {
	list, _ := deaths.Decode(value)
	return &fencingv1.DeathsReport{Boot: t.boot, At: uint64(max(0, t.clock())), Deaths: deaths.Told(list)}
}
