package members

import (
	"context"
	"log/slog"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/marks"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

// DeathTeller reports to fencing-controller which nodes are dead, instead of the annotation, which an agent with
// members.source: controller cannot write. It first asks what an agent of this node reported before.
type DeathTeller struct{ teller }

// asks calls the controller.
type asks = func(context.Context, *fencingv1.DeathsReport) (*fencingv1.DeathsKnown, error)

// NewDeathTeller makes a DeathTeller. boot is this node's, in the form used in deaths. known is called once, from Run,
// with what was reported before, as if it were on the Node.
func NewDeathTeller(c *config.Config, boot string, clock boottime.Clock, log *slog.Logger, known func(ownnode.State)) *DeathTeller {
	source := &controllerSource{cfg: c}
	ask := func(ctx context.Context, r *fencingv1.DeathsReport) (*fencingv1.DeathsKnown, error) {
		var known *fencingv1.DeathsKnown
		err := source.once(ctx, func(ctx context.Context, c fencingv1.FencingMembersClient) (err error) {
			known, err = c.TellDeaths(ctx, r)
			return err
		})
		return known, err
	}
	return newDeathTeller(ask, known, boot, clock, log, "the controller does not accept this node's reports of deaths: recovery does not learn of these deaths from this node")
}

func newDeathTeller(ask asks, known func(ownnode.State), boot string, clock boottime.Clock, log *slog.Logger, lost string) *DeathTeller {
	t := new(DeathTeller)
	t.teller = newTeller(boot, clock, log, lost, marks.Transport{
		Again: deaths.Again,
		Begin: func(ctx context.Context) (string, error) { return first(ctx, ask, known) },
		Send: func(ctx context.Context, value string) error {
			_, err := ask(ctx, t.report(value))
			return err
		},
	})
	return t
}

// first asks for the earlier report of this node's agent: an unknown report must not be replaced.
func first(ctx context.Context, ask asks, known func(ownnode.State)) (text string, err error) {
	was, err := ask(ctx, &fencingv1.DeathsReport{Ask: true})
	if err != nil {
		return "", err
	}
	s := ownnode.State{Known: true, Exists: true}
	if list := was.GetDeaths(); len(list) > 0 {
		before, _ := deaths.OfTold(list) // an entry that is not a death is ignored
		text = deaths.Encode(before)
		s.Annotations = map[string]string{deaths.Annotation: text}
	}
	known(s)
	return text, nil
}

// report is what is sent. It can always be read: this agent has written it.
func (t *DeathTeller) report(value string) *fencingv1.DeathsReport {
	list, _ := deaths.Decode(value)
	return &fencingv1.DeathsReport{Boot: t.boot, At: uint64(max(0, t.clock())), Deaths: deaths.Told(list)}
}
