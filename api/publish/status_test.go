package publish

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

func TestGetStatus(t *testing.T) {
	var current atomic.Pointer[fencingv1.Status]
	f := serve(t, HubConfig{}, Config{Status: current.Load})
	ctx, c := testContext(t), fencingv1.NewFencingStatusClient(f.dial(t, nil))
	if _, err := c.GetStatus(ctx, &emptypb.Empty{}); status.Code(err) != codes.Unavailable {
		t.Fatalf("before there is a status: %v", err)
	}
	f.hub.Update(nodes("n1", "n2"), nil)
	current.Store(&fencingv1.Status{Verdict: &fencingv1.Verdict{
		Permission: fencingv1.Permission_PERMISSION_FEED, Reason: fencingv1.Reason_REASON_NETWORK_QUORUM,
	}})
	got, err := c.GetStatus(ctx, &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetRevision() != 2 || got.GetVerdict().GetReason() != fencingv1.Reason_REASON_NETWORK_QUORUM {
		t.Errorf("status is %v", got)
	}
}

func TestWatchStatusOverTheSocket(t *testing.T) {
	var uptime atomic.Uint64
	f := serve(t, HubConfig{}, Config{MaxWatchers: 1, Status: func() *fencingv1.Status {
		return &fencingv1.Status{Roster: &fencingv1.RosterStatus{Epoch: uptime.Load()}}
	}})
	f.hub.Update(nil, nil)
	ctx, c := testContext(t), fencingv1.NewFencingStatusClient(f.dial(t, nil))
	watch, err := c.WatchStatus(ctx, &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for want := range uint64(4) {
		uptime.Store(want)
		f.server.StatusChanged()
		for got := ^uint64(0); got != want; {
			st, err := watch.Recv()
			if err != nil {
				t.Fatal(err)
			}
			got = st.GetRoster().GetEpoch()
		}
	}
	second, err := c.WatchStatus(ctx, &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("second watcher: %v", err)
	}
	if err := f.server.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v", err)
	}
}

// watched is one status that a watch sent, with the time.
type watched struct {
	revision uint64
	at       time.Duration
}

// watchBubble runs one watch in a bubble until ctx ends. It calls send for each status.
func watchBubble(ctx context.Context, s *Server, send func(*fencingv1.Status) error) <-chan error {
	end := make(chan error, 1)
	go func() {
		changed, err := s.watchers.add()
		if err == nil {
			defer s.watchers.remove(changed)
			err = s.watch(ctx, changed, send)
		}
		end <- err
	}()
	synctest.Wait()
	return end
}

func bubbleServer() *Server {
	s := &Server{
		hub:      NewHub(HubConfig{}),
		status:   func() *fencingv1.Status { return &fencingv1.Status{} },
		watchers: newWatchers(4),
	}
	s.hub.Update(nil, nil)
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s
}

func TestWatchCoalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := bubbleServer(), time.Now()
		var sent []watched
		end := watchBubble(t.Context(), s, func(st *fencingv1.Status) error {
			sent = append(sent, watched{st.GetRevision(), time.Since(start)})
			return nil
		})
		const changes, every = 3000, time.Millisecond
		for i := range changes {
			if i%2 == 0 {
				s.hub.Publish(join("n1"))
			} else {
				s.hub.Publish(left("n1"))
			}
			s.StatusChanged()
			time.Sleep(every) // virtual time, in the bubble
		}
		time.Sleep(statusMinInterval)
		s.stop()
		if err := <-end; !errors.Is(err, ErrStopped) {
			t.Errorf("watch ended with %v", err)
		}
		if last := sent[len(sent)-1]; last.revision != changes {
			t.Errorf("the last status is of revision %d, the latest is %d", last.revision, changes)
		}
		if limit := int(changes*every/statusMinInterval) + 2; len(sent) > limit || len(sent) < limit-3 {
			t.Errorf("%d statuses in %v, at most %d are due", len(sent), changes*every, limit)
		}
		for i := 1; i < len(sent); i++ {
			if d := sent[i].at - sent[i-1].at; d < statusMinInterval {
				t.Errorf("statuses %d and %d are only %v apart", i-1, i, d)
			}
		}
	})
}

func TestWatchRepeatsInQuietTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bubbleServer()
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		end := watchBubble(ctx, s, func(*fencingv1.Status) error { n++; return nil })
		time.Sleep(3*statusMaxInterval + statusMaxInterval/2)
		synctest.Wait()
		if n != 4 {
			t.Errorf("%d statuses in three and a half intervals, want 4", n)
		}
		cancel()
		if err := <-end; !errors.Is(err, context.Canceled) {
			t.Errorf("watch ended with %v", err)
		}
	})
}

// TestWatchGivesASlowReaderTheLatest: no statuses queue up while Send blocks.
func TestWatchGivesASlowReaderTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bubbleServer()
		reads := make(chan uint64)
		end := watchBubble(t.Context(), s, func(st *fencingv1.Status) error { reads <- st.GetRevision(); return nil })
		for range 100 {
			s.hub.Publish(join("n1"), left("n1"))
			s.StatusChanged()
			time.Sleep(statusMinInterval)
		}
		if got := <-reads; got != 0 {
			t.Errorf("first read gives revision %d, that status was taken at 0", got)
		}
		if got := <-reads; got != 200 {
			t.Errorf("second read gives revision %d, the latest is 200", got)
		}
		s.stop()
		if err := <-end; !errors.Is(err, ErrStopped) {
			t.Errorf("watch ended with %v", err)
		}
	})
}

func TestWatchEndsWithItsSend(t *testing.T) {
	s := bubbleServer()
	broken := errors.New("broken")
	changed, err := s.watchers.add()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.watch(t.Context(), changed, func(*fencingv1.Status) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("watch ended with %v", err)
	}
}

func TestNamesOfTheStatus(t *testing.T) {
	for name, want := range map[string]fencingv1.Reason{
		"network_quorum": fencingv1.Reason_REASON_NETWORK_QUORUM,
		"split_won":      fencingv1.Reason_REASON_SPLIT_WON,
		"":               fencingv1.Reason_REASON_UNSPECIFIED,
		"no such":        fencingv1.Reason_REASON_UNSPECIFIED,
	} {
		if got := ReasonOf(name); got != want {
			t.Errorf("ReasonOf(%q) is %v", name, got)
		}
	}
	if got := PermissionOf("hold"); got != fencingv1.Permission_PERMISSION_HOLD {
		t.Errorf("PermissionOf(hold) is %v", got)
	}
	if got := WatchdogStateOf("starved"); got != fencingv1.WatchdogState_WATCHDOG_STATE_STARVED {
		t.Errorf("WatchdogStateOf(starved) is %v", got)
	}
}
