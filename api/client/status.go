package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// MinStatusHold leaves time for one late status: in quiet times they are some seconds apart.
const MinStatusHold = 10 * time.Second

// StatusUpdate is the argument of a callback of [FollowStatus]. Its status must not be changed.
type StatusUpdate struct {
	// Status is the agent's latest status; nil: it has sent none yet.
	Status *fencingv1.Status
	// InForce is true while the status is not older than the hold time.
	InForce bool
	// Err is the reason why there is no connection to the agent; nil while there is one.
	Err error

	// Proven lists deaths that the callback has not seen yet, in the order of the nodes' names. The first update
	// contains the deaths that were known before the program started.
	Proven []NodeDeath
	// Withdrawn lists deaths that the callback has seen and that are contradicted: that boot answers again, or the
	// agent that had proven the death no longer reports it. Stop whatever was started because of that death, and have a
	// person look at it.
	Withdrawn []NodeDeath
}

// NodeDeath is the end of one boot of a node.
type NodeDeath struct {
	Node string
	Boot string // the boot that ended
	fencingv1.Proof
	At time.Time // by the agent's clock; for people
}

// MayAct reports whether the agent's status allows anything that cannot be undone: it is current and comes from a node
// that has quorum. A node without quorum may be the one that is about to be reset.
func (u *StatusUpdate) MayAct() bool {
	v := u.Status.GetVerdict()
	return u.InForce && v.GetQuorum() && !v.GetExpired()
}

// Fenced returns the nodes that are fenced now, by name, with the boot that ended. What that boot had may be taken over
// while [StatusUpdate.MayAct]. Nodes whose boot is not known are left out.
func (u *StatusUpdate) Fenced() map[string]NodeDeath {
	out := map[string]NodeDeath{}
	for _, n := range u.Status.GetNodes() {
		if d, ok := deathOf(n); ok && n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED {
			out[d.Node] = d
		}
	}
	return out
}

// FollowStatus follows the status of the agent until ctx ends. It is for programs on a node of the group that act on
// deaths, such as storage and managers of virtual machines. It calls use with the first status and each later one, at
// most ten times a second, and when the status is no longer in force: one call at a time, all from one goroutine. A
// slow callback misses statuses, but never a death that still holds. FollowStatus returns nil after ctx has ended and
// use has returned, and an error at once if cfg cannot work.
func FollowStatus(ctx context.Context, cfg Config, use func(StatusUpdate)) error {
	cfg, err := cfg.withDefaults()
	if err == nil && cfg.Hold < MinStatusHold {
		err = fmt.Errorf("the hold time is %v, but must be at least %v: a status comes every few seconds", cfg.Hold, MinStatusHold)
	}
	if err != nil {
		return fmt.Errorf("follow the agent's status: %w", err)
	}
	if use == nil {
		return errors.New("follow the agent's status: no callback given")
	}
	s := statusFollower{cfg: cfg, news: make(chan statusNews, 1), over: make(chan struct{})}
	go func() {
		defer close(s.over)
		s.cfg.connect(ctx, s.session, func(err error) { s.tell(statusNews{err: err}) })
	}()
	s.deliver(ctx, use)
	<-s.over
	return nil
}

// statusNews is a status of the connection, or the reason why there is none.
type statusNews struct {
	status *fencingv1.Status
	at     time.Time
	err    error
}

// statusFollower is one call of FollowStatus.
type statusFollower struct {
	cfg  Config
	news chan statusNews // holds the latest
	over chan struct{}   // closed when the last session has ended
}

// tell replaces the news that wait for the callback. Only the goroutine of the sessions calls it.
func (s *statusFollower) tell(n statusNews) {
	select {
	case old := <-s.news:
		if n.status == nil { // the status from before the connection broke is still news
			n.status, n.at = old.status, old.at
		}
	default:
	}
	s.news <- n
}

// session is one connection, until it ends or no status has arrived for the hold time.
func (s *statusFollower) session(ctx context.Context, answered func()) error {
	ctx, end := withoutDeadline(ctx)
	defer end(nil)
	conn, err := s.cfg.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // no call is left that this could disturb
	impatience := time.AfterFunc(s.cfg.Hold, func() { end(errNoAnswer) })
	defer impatience.Stop()
	stream, err := fencingv1.NewFencingStatusClient(conn).WatchStatus(ctx, &emptypb.Empty{})
	for err == nil {
		var st *fencingv1.Status
		if st, err = stream.Recv(); err == nil {
			impatience.Reset(s.cfg.Hold)
			answered()
			s.tell(statusNews{status: st, at: time.Now()})
		}
	}
	if errors.Is(context.Cause(ctx), errNoAnswer) {
		err = errNoAnswer
	}
	return fmt.Errorf("agent socket %s: %s", s.cfg.Socket, status.Convert(err).Message())
}

// deliver calls back until ctx ends.
func (s *statusFollower) deliver(ctx context.Context, use func(StatusUpdate)) {
	book := deathBook{known: map[string]NodeDeath{}}
	u := StatusUpdate{}
	var word time.Time
	silence := time.NewTimer(s.cfg.Hold)
	defer silence.Stop()
	for {
		u.Proven, u.Withdrawn = nil, nil
		select {
		case <-ctx.Done():
			return
		case n := <-s.news:
			u.Err = n.err
			if n.status != nil {
				u.Status, word = n.status, n.at
				u.Proven, u.Withdrawn = book.note(n.status, n.at)
			} else if u.Status == nil {
				continue // there is nothing to report before the hold time is over
			}
			silence.Reset(max(0, s.cfg.Hold-time.Since(word)))
		case <-silence.C:
		}
		u.InForce = u.Status != nil && time.Since(word) < s.cfg.Hold
		if ctx.Err() != nil {
			return
		}
		use(u)
	}
}
