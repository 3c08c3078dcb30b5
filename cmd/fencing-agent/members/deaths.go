package members

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

const (
	tellFirst   = time.Second
	tellLongest = 15 * time.Second // somebody waits for it
	tellTimeout = 15 * time.Second
	// tellUnheard is the longest until a controller that takes no deaths is asked again.
	tellUnheard = 10 * time.Minute
)

// DeathTeller tells fencing-controller which nodes are dead, in the place of the annotation that an agent with
// members.source: controller cannot write. It first asks what an agent of this node told before.
type DeathTeller struct {
	ask   func(context.Context, *fencingv1.DeathsReport) (*fencingv1.DeathsKnown, error)
	boot  string
	clock boottime.Clock
	log   *slog.Logger
	known func(ownnode.State)
	rand  *rand.Rand    // of Run; nil: a common one
	wake  chan struct{} // capacity 1

	mu     sync.Mutex // guards what follows
	wanted bool
	value  string // the annotation that there would be
	within time.Duration
}

// NewDeathTeller makes one. boot is that of this node, as deaths name it. known is told once, from Run, what was told
// before: as if the Node had it.
func NewDeathTeller(c *config.Config, boot string, clock boottime.Clock, log *slog.Logger, known func(ownnode.State)) *DeathTeller {
	source := &controllerSource{cfg: c}
	t := &DeathTeller{boot: boot, clock: clock, log: log, known: known, wake: make(chan struct{}, 1)}
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

// once makes one call. Each has a connection of its own: they are rare, and another one may lead to another replica.
func (c *controllerSource) once(ctx context.Context, call func(context.Context, fencingv1.FencingMembersClient) error) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func(c *grpc.ClientConn) { _ = c.Close() }(conn)
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	return call(ctx, fencingv1.NewFencingMembersClient(conn))
}

// Want says what is to be told, in the form of the annotation; nil: nobody is dead. It is told at a random moment within
// the time given, for all agents of a group have the same to say at once. It does not block.
func (t *DeathTeller) Want(value *string, within time.Duration) {
	t.mu.Lock()
	t.wanted, t.value, t.within = true, "", within
	if value != nil {
		t.value = *value
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Seen does nothing: the Node's annotation is not this agent's.
func (t *DeathTeller) Seen(ownnode.State) {}

// Run tells until ctx ends.
func (t *DeathTeller) Run(ctx context.Context) {
	said := t.first(ctx)
	due := t.clock() // what was told before is to be repeated at once
	patience := newPatience(t.rand)
	for ctx.Err() == nil {
		value, within, wanted := t.wish()
		repeat := max(0, due.Sub(t.clock()))
		switch {
		case !wanted || value == said && value == "":
			t.wait(ctx, 0)
			continue
		case value == said && repeat > 0:
			t.wait(ctx, repeat)
			continue
		case value != said && !t.spread(ctx, said, client.Jitter(t.rand, within)):
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

// first asks what an agent of this node told before, for as long as it takes: what is not known must not be replaced.
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
			var before []deaths.Death
			for _, d := range list {
				before = append(before, deaths.Death{Node: d.GetNode(), Boot: d.GetBoot(), Proof: d.GetProof(), At: time.Unix(d.GetAt(), 0), Said: d.GetSaid()})
			}
			text = deaths.Encode(before)
			s.Annotations = map[string]string{deaths.Annotation: text}
		}
		t.known(s)
		return text
	}
	return ""
}

// patience is how long to wait after the next failure. One replica may be an older one for as long as an upgrade takes, so
// pauses for that begin short, too; only a controller that stays so is asked seldom.
type patience struct {
	away, unheard client.Backoff
	told          bool // that something fails
}

func newPatience(r *rand.Rand) patience {
	return patience{away: client.Backoff{First: tellFirst, Most: tellLongest, Rand: r}, unheard: client.Backoff{First: tellFirst, Most: tellUnheard, Rand: r}}
}

// next is how long to wait after this failure.
func (p *patience) next(err error) time.Duration {
	if status.Code(err) == codes.Unimplemented {
		return p.unheard.Next(nil)
	}
	return p.away.Next(nil)
}

// failed says so once, and waits.
func (t *DeathTeller) failed(ctx context.Context, err error, p *patience) {
	if ctx.Err() != nil {
		return
	}
	pause := p.next(err)
	if !p.told {
		p.told = true
		t.log.Warn("the controller does not accept this node's reports of deaths: recovery does not learn of them from here", "error", told(err), "retry", pause)
	}
	boottime.Wait(ctx, pause)
}

func (t *DeathTeller) wish() (value string, within time.Duration, wanted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value, t.within, t.wanted
}

// wait waits for another wish, and no longer than d; 0: for ever.
func (t *DeathTeller) wait(ctx context.Context, d time.Duration) {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
	case <-t.wake:
	case <-over:
	}
}

// spread waits, and reports whether something is to be told then. A wish that is in a hurry ends the wait.
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

// report is what is told. What cannot be read cannot come: this agent has written it.
func (t *DeathTeller) report(value string) *fencingv1.DeathsReport {
	r := &fencingv1.DeathsReport{Boot: t.boot, At: uint64(max(0, t.clock()))}
	if value == "" {
		return r
	}
	list, _ := deaths.Decode(value)
	for _, d := range list {
		r.Deaths = append(r.Deaths, &fencingv1.ProvenDeath{Node: d.Node, Boot: d.Boot, Proof: d.Proof, At: d.At.Unix(), Said: d.Said})
	}
	return r
}
