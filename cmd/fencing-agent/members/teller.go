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
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

const (
	tellFirst   = time.Second
	tellLongest = 15 * time.Second // somebody waits for it
	tellTimeout = 15 * time.Second
	// tellUnheard is the longest pause before a controller that accepts no such reports is asked again.
	tellUnheard = 10 * time.Minute
)

// teller is the common part of the two tellers. Each reports to fencing-controller what an agent with members.source:
// controller cannot write as an annotation on its Node.
type teller struct {
	boot  string
	clock boottime.Clock
	log   *slog.Logger
	rand  *rand.Rand    // of Run; nil: a common one
	wake  chan struct{} // capacity 1
	lost  string        // logged when a report is not accepted: what that means

	mu     sync.Mutex // guards the fields below
	wishes int        // how many wishes there were
	value  string     // the annotation that the report replaces; empty: none
	within time.Duration
}

func newTeller(boot string, clock boottime.Clock, log *slog.Logger, lost string) teller {
	return teller{boot: boot, clock: clock, log: log, wake: make(chan struct{}, 1), lost: lost}
}

// unsure stands for what the controller has after a report whose answer was lost: it may have kept the report. It equals no
// wish, so the wish of that moment is reported again.
const unsure = "?"

// run reports each wish until ctx ends, and the same again after a time; 0: never. said is what the controller has at first.
//
// Invariant: what was reported, or may have been, is taken back once it no longer holds.
func (t *teller) run(ctx context.Context, said string, again time.Duration, send func(_ context.Context, value string) error) {
	due := t.clock()
	patience := newPatience(t.rand)
	for ctx.Err() == nil {
		value, within, wishes := t.wish()
		repeat := max(0, due.Sub(t.clock()))
		switch {
		case wishes == 0 || value == said && (value == "" || again == 0):
			t.wait(ctx, 0)
			continue
		case value == said && repeat > 0:
			t.wait(ctx, repeat)
			continue
		case value != said && !t.spread(ctx, said, boottime.Jitter(t.rand, within)):
			continue
		}
		value, _, _ = t.wish()
		err := send(ctx, value)
		if err == nil {
			said, due, patience = value, t.clock().Add(again), newPatience(t.rand)
			continue
		}
		if status.Code(err) != codes.Unimplemented { // an older controller keeps nothing
			said = unsure
		}
		t.fail(ctx, err, &patience)
	}
}

// spread waits, and says whether there is something to report afterwards. An urgent wish ends the wait.
func (t *teller) spread(ctx context.Context, said string, d time.Duration) bool {
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

// Want sets what has to be reported, in the form of the annotation; nil: nothing. It is reported at a random moment
// within the given time, because all agents of a group have the same report at once. Want does not block.
func (t *teller) Want(value *string, within time.Duration) {
	t.mu.Lock()
	t.wishes++
	if t.value, t.within = "", within; value != nil {
		t.value = *value
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Renew is the same as Want.
func (t *teller) Renew(value *string, within time.Duration) { t.Want(value, within) }

// Seen does nothing: the Node's annotation is not this agent's.
func (t *teller) Seen(ownnode.State) {}

func (t *teller) wish() (value string, within time.Duration, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value, t.within, t.wishes
}

// wait waits for another wish, but no longer than d; 0: for ever.
func (t *teller) wait(ctx context.Context, d time.Duration) {
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

// once makes one call. Each call has its own connection: calls are rare, and a new one may lead to another replica.
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

// patience is how long to wait after the next failure. During an upgrade a replica may still have an older version, so
// these pauses also start short; a controller that stays old is asked rarely.
type patience struct {
	away, unheard client.Backoff
	told          bool // a failure was logged
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

// fail logs a failure once, and waits.
func (t *teller) fail(ctx context.Context, err error, p *patience) {
	if ctx.Err() != nil {
		return
	}
	pause := p.next(err)
	if !p.told {
		p.told = true
		t.log.Warn(t.lost, "error", told(err), "retry", pause)
	}
	boottime.Wait(ctx, pause)
}
