package marks

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/client"
)

const (
	// SlowestRetry is the longest pause between two attempts of an [Outbox]. It is shorter than [longestPause]: the API
	// server is often unreachable when a node dies, and other programs wait for the report.
	SlowestRetry = 15 * time.Second
	// firstRefused and RefusedPause are the first and the longest pause after a refusal ([Transport.Refuses]). A server
	// that starts forbids everything for some seconds, until it has loaded its policies, and during an upgrade one
	// replica may still have an older version.
	firstRefused, RefusedPause = time.Second, 10 * time.Minute
)

// Transport is how an [Outbox] passes on what the agent has to report. A report is a text; "" means that there is
// nothing to report.
type Transport struct {
	Send func(ctx context.Context, report string) error
	// Begin asks, once, what the receiver has; nil: [Outbox.Has] tells that.
	Begin func(ctx context.Context) (report string, err error)
	// Refuses reports whether an error means that the receiver, perhaps for long, accepts no such report and keeps none.
	Refuses func(error) bool
	// Unsure: nobody tells what the receiver has kept of a report that failed.
	Unsure bool
	Again  time.Duration  // after which the same report is sent again; 0: never
	Clock  boottime.Clock // for Again
	Logger *slog.Logger
	Rand   *rand.Rand // of Run; nil: a common one
	// Failed and Refused are the messages when reports begin to fail or to be refused, Accepted when they are no longer
	// refused; "": none.
	Failed, Refused, Accepted, Hint string
}

// Outbox passes on a report, the newest one only, until the receiver has it.
//
// Invariant: what was reported, or may have been, is taken back once it no longer holds.
type Outbox struct {
	Transport
	wake boottime.Wake

	mu sync.Mutex // guards the fields below
	outboxState
}

type outboxState struct {
	wanted, known bool // somebody has made a wish; it is known what the receiver has
	unsure        bool // it may have the last report, or the one before
	wishes        int  // the number of different values given to [Outbox.Want]
	report, has   string
	within        time.Duration
}

// NewOutbox returns an Outbox without a wish.
func NewOutbox(t Transport) *Outbox { return &Outbox{Transport: t, wake: boottime.NewWake()} }

// Want sets the report; nil: there is nothing to report. It is sent at a random moment within the given time, so that
// the agents of a group, which all report the same, do not do so at the same moment. Want does not block.
func (o *Outbox) Want(report *string, within time.Duration) { o.want(report, within, true) }

// Renew is like [Outbox.Want], for a report that is repeated with another number each time. While the receiver refuses
// the report, Renew does not make the next attempt earlier. Otherwise a receiver that does not know such reports would
// be asked for ever at the pace of the renewals. A withdrawal does not wait.
func (o *Outbox) Renew(report *string, within time.Duration) { o.want(report, within, false) }

func (o *Outbox) want(report *string, within time.Duration, hurry bool) {
	text := ""
	if report != nil {
		text = *report
	}
	o.mu.Lock()
	if hurry && (!o.wanted || text != o.report) {
		o.wishes++
	}
	o.wanted, o.report, o.within = true, text, within
	o.mu.Unlock()
	o.wake.Signal()
}

// Has records what the receiver has. Before the first call, and while that is not known, nothing is sent.
func (o *Outbox) Has(report string, known bool) {
	o.mu.Lock()
	o.has, o.known, o.unsure = report, known, false
	o.mu.Unlock()
	o.wake.Signal()
}

func (o *Outbox) state() outboxState {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.outboxState
}

// sent reports whether the receiver has the report.
func (s *outboxState) sent() bool { return !s.unsure && s.report == s.has }

// idle reports whether nothing has to be sent until something changes.
func (s *outboxState) idle(again time.Duration) bool {
	return !s.wanted || !s.known || s.sent() && (s.report == "" || again == 0)
}

// attempts is what is remembered of failures.
type attempts struct {
	away, refused   client.Backoff
	failing, barred bool // as last logged
}

// end forgets them after a success: the next failure is logged again.
func (t *attempts) end() {
	t.away.Reset()
	t.refused.Reset()
	t.failing, t.barred = false, false
}

// refusal records what the receiver has refused, and until when it is not asked again.
type refusal struct {
	until   time.Time
	wishes  int  // the number of wishes at that time
	removal bool // the refused wish was a removal
}

// hurries reports whether there is another wish than the one that was refused, or a withdrawal of that one. Neither may
// wait for minutes because a receiver was not ready for an earlier wish.
func (s *outboxState) hurries(last refusal) bool {
	return s.wishes != last.wishes || s.report == "" && !last.removal
}

// Run sends until ctx ends.
func (o *Outbox) Run(ctx context.Context) {
	tries := attempts{away: client.Backoff{First: firstPause, Most: SlowestRetry, Rand: o.Rand}, refused: client.Backoff{First: firstRefused, Most: RefusedPause, Rand: o.Rand}}
	for o.Begin != nil && ctx.Err() == nil {
		has, err := o.Begin(ctx)
		if err == nil {
			o.Has(has, true)
			tries.end()
			break
		}
		boottime.Wait(ctx, min(o.failed(ctx, &tries, err), time.Minute)) // a wish waits for the answer, however long the receiver refuses it
	}
	var last refusal
	due := o.now() // what was reported before this agent began is repeated at once
	for ctx.Err() == nil {
		s := o.state()
		pause := time.Until(last.until)
		switch left := due.Sub(o.now()); {
		case s.idle(o.Again):
			o.wait(ctx, 0)
			continue
		case s.sent() && left > 0:
			o.wait(ctx, left)
			continue
		case pause > 0 && !s.hurries(last):
			o.wait(ctx, pause)
			continue
		case !s.sent() && s.within > 0 && !o.spread(ctx, boottime.Jitter(o.Rand, s.within)):
			continue
		}
		s = o.state()
		if s.idle(o.Again) { // the Node may have gone meanwhile
			continue
		}
		switch err := o.Send(ctx, s.report); {
		case err == nil:
			o.mu.Lock()
			o.has, o.unsure = s.report, false
			o.mu.Unlock()
			due, last = o.now().Add(o.Again), refusal{}
			if tries.barred && o.Accepted != "" {
				o.Logger.Info(o.Accepted)
			}
			tries.end()
		case o.Refuses(err):
			last = refusal{time.Now().Add(o.failed(ctx, &tries, err)), s.wishes, s.report == ""}
		default:
			o.mu.Lock()
			o.unsure = o.Unsure
			o.mu.Unlock()
			boottime.Wait(ctx, o.failed(ctx, &tries, err))
		}
	}
}

func (o *Outbox) now() boottime.Instant {
	if o.Clock == nil {
		return 0
	}
	return o.Clock()
}

// failed returns the pause after a failure, which it logs the first time.
func (o *Outbox) failed(ctx context.Context, t *attempts, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	backoff, told, message, more := &t.away, &t.failing, o.Failed, []any(nil)
	if o.Refuses(err) {
		backoff, told, message = &t.refused, &t.barred, o.Refused
		if o.Hint != "" {
			more = []any{"hint", o.Hint}
		}
	}
	pause := backoff.Next(err)
	if !*told {
		*told = true
		o.Logger.Warn(message, append([]any{"error", err, "retry", pause}, more...)...)
	}
	return pause
}

// wait waits for d, or until there is something to do; 0: for ever.
func (o *Outbox) wait(ctx context.Context, d time.Duration) {
	var over <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-ctx.Done():
	case <-o.wake:
	case <-over:
	}
}

// spread waits, and reports whether the moment to send has come. An urgent wish ends the wait.
func (o *Outbox) spread(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
			return true
		case <-o.wake:
			if s := o.state(); s.idle(0) || s.within == 0 {
				return false
			}
		}
	}
}
