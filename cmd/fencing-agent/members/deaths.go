package members

import (
	"context"
	"log/slog"

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
	t := &DeathTeller{known: known, teller: newTeller(boot, clock, log,
		"the controller does not accept this node's reports of deaths: recovery does not learn of these deaths from this node")}
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

// Run reports until ctx ends. What an agent of this node reported before is repeated at once.
func (t *DeathTeller) Run(ctx context.Context) {
	t.run(ctx, t.first(ctx), deaths.Again, func(ctx context.Context, value string) error {
		_, err := t.ask(ctx, t.report(value))
		return err
	})
}

// first asks for the earlier report of this node's agent, until it gets an answer: an unknown report must not be
// replaced.
func (t *DeathTeller) first(ctx context.Context) string {
	patience := newPatience(t.rand)
	for ctx.Err() == nil {
		known, err := t.ask(ctx, &fencingv1.DeathsReport{Ask: true})
		if err != nil {
			t.fail(ctx, err, &patience)
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

// report is what is sent. It can always be read: this agent has written it.
func (t *DeathTeller) report(value string) *fencingv1.DeathsReport {
	list, _ := deaths.Decode(value)
	return &fencingv1.DeathsReport{Boot: t.boot, At: uint64(max(0, t.clock())), Deaths: deaths.Told(list)}
}
