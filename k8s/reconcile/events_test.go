package reconcile

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
)

// sink is an API server that takes Events.
type sink struct {
	mu      sync.Mutex
	created []string
	action  int // length of the longest action
	again   int
}

func (s *sink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created, s.action = append(s.created, e.Note), max(s.action, len(e.Action))
	return e, nil
}

func (s *sink) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) { return e, nil }

func (s *sink) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again++
	return e, nil
}

// Guard: an Event shows the state at its time. The broadcaster merges Events that differ only by their notes, and keeps
// the first note: a person would read an old state, or that of the boot before.
func TestEventsKeepTheirNotes(t *testing.T) {
	s := &sink{}
	broadcaster := events.NewBroadcaster(s)
	t.Cleanup(broadcaster.Shutdown)
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	r := w.reconciler(func(o *Options) { o.Events = broadcaster.NewRecorder(scheme.Scheme, "fencing-controller") })
	for _, e := range []struct{ boot, note string }{
		{deadID, "no Lease"}, {deadID, "held by finalizers"}, {otherID, "no Lease"} /* a second death */, {deadID, "no Lease"},
	} {
		r.event("n4", e.boot, nil, "RecoveryHeld", "%s", e.note)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-tick.C {
		s.mu.Lock()
		got, again, longest := slices.Sorted(slices.Values(s.created)), s.again, s.action
		s.mu.Unlock()
		if (len(got) < 3 || again == 0) && time.Now().Before(end) {
			continue
		}
		if want := []string{"held by finalizers", "no Lease", "no Lease"}; !slices.Equal(got, want) || again == 0 { // client-go also writes a series again at times
			t.Errorf("Events %q, and %d times one that was there, want %q and once", got, again, want)
		}
		if longest == 0 || longest > 128 {
			t.Errorf("an action of %d characters is refused", longest)
		}
		return
	}
}
