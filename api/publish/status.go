package publish

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
)

const (
	// statusMinInterval is the shortest time between two statuses of one watch.
	statusMinInterval = 100 * time.Millisecond
	// statusMaxInterval is the longest time: ages in a status grow even if nothing changes.
	statusMaxInterval = 5 * time.Second
)

// StatusChanged tells watchers that Config.Status would now return something new. It never blocks.
func (s *Server) StatusChanged() { s.watchers.notify() }

func (s *Server) GetStatus(context.Context, *emptypb.Empty) (*fencingv1.Status, error) {
	st, err := s.takeStatus()
	return st, statusOf(err)
}

func (s *Server) takeStatus() (*fencingv1.Status, error) {
	st := s.status()
	if st == nil {
		return nil, ErrNotReady
	}
	st.Revision = s.hub.Revision()
	return st, nil
}

// Follow calls send with the statuses that WatchStatus would send, until ctx ends, the server stops or send fails. It
// is for other code that shows the status, and counts as one of the watches.
func (s *Server) Follow(ctx context.Context, send func(*fencingv1.Status) error) error {
	changed, err := s.watchers.add()
	if err != nil {
		return err
	}
	defer s.watchers.remove(changed)
	return s.watch(ctx, changed, send)
}

// WatchStatus implements fencing.v1.FencingStatus. A status is only created when it can be sent, so a slow reader costs
// nothing and gets the latest.
func (s *Server) WatchStatus(_ *emptypb.Empty, stream grpc.ServerStreamingServer[fencingv1.Status]) error {
	return statusOf(s.Follow(stream.Context(), stream.Send))
}

// watch sends statuses until ctx ends, the server stops or send fails.
func (s *Server) watch(ctx context.Context, changed <-chan struct{}, send func(*fencingv1.Status) error) error {
	for {
		st, err := s.takeStatus()
		if err != nil {
			return err
		}
		if err := send(st); err != nil {
			return err
		}
		sentAt := time.Now()
		if err := s.wait(ctx, changed, statusMaxInterval); err != nil {
			return err
		}
		if err := s.wait(ctx, nil, statusMinInterval-time.Since(sentAt)); err != nil {
			return err
		}
	}
}

// wait returns after d or when wake is ready; an error means that the call has ended.
func (s *Server) wait(ctx context.Context, wake <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopping.Done():
		return ErrStopped
	case <-wake:
	case <-t.C:
	}
	return nil
}

// watchers wakes the WatchStatus calls. Each has a channel of size one, so that several changes wake it only once.
type watchers struct {
	max int

	mu  sync.Mutex // guards all
	all map[boottime.Wake]struct{}
}

func newWatchers(limit int) *watchers {
	return &watchers{max: limit, all: map[boottime.Wake]struct{}{}}
}

func (w *watchers) add() (boottime.Wake, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) >= w.max {
		return nil, ErrTooMany
	}
	c := boottime.NewWake()
	w.all[c] = struct{}{}
	return c, nil
}

func (w *watchers) remove(c boottime.Wake) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, c)
}

func (w *watchers) notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.all {
		c.Signal()
	}
}

// ReasonOf finds the Reason with the name that logs and metrics use, for example "network_quorum". It returns
// REASON_UNSPECIFIED if there is none.
func ReasonOf(name string) fencingv1.Reason {
	return fencingv1.Reason(fencingv1.Reason_value["REASON_"+strings.ToUpper(name)])
}

// PermissionOf finds the Permission with that name, for example "feed".
func PermissionOf(name string) fencingv1.Permission {
	return fencingv1.Permission(fencingv1.Permission_value["PERMISSION_"+strings.ToUpper(name)])
}

// ProofOf finds the Proof with that name, for example "time".
func ProofOf(name string) fencingv1.Proof {
	return fencingv1.Proof(fencingv1.Proof_value["PROOF_"+strings.ToUpper(name)])
}

// SentenceBarOf finds the SentenceBar with that name, for example "watchdog"; "none" is SENTENCE_BAR_UNSPECIFIED.
func SentenceBarOf(name string) fencingv1.SentenceBar {
	return fencingv1.SentenceBar(fencingv1.SentenceBar_value["SENTENCE_BAR_"+strings.ToUpper(name)])
}

// WatchdogStateOf finds the WatchdogState with that name, for example "armed".
func WatchdogStateOf(name string) fencingv1.WatchdogState {
	return fencingv1.WatchdogState(fencingv1.WatchdogState_value["WATCHDOG_STATE_"+strings.ToUpper(name)])
}
