package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// drain reads the queued events.
func drain(t *testing.T, s *Subscription) []string {
	t.Helper()
	var out []string
	for len(s.queue) > 0 {
		ev, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, line(ev))
	}
	return out
}

func subscribe(t *testing.T, h *Hub) *Subscription {
	t.Helper()
	s, err := h.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestHubUpdatePublishesTheDifference(t *testing.T) {
	moved := node("n2")
	moved.Addresses = map[string]string{"mgmt": "10.0.0.222"}
	tests := []struct {
		name  string
		nodes []Node // nil: Publish(edges) is called instead
		edges []Edge
		want  []string
		after []string
	}{
		{"nothing", nodes("n1", "n2"), nil, nil, []string{"n1", "n2"}},
		{"one more", nodes("n1", "n2", "n3"), nil, []string{"JOIN n3"}, []string{"n1", "n2", "n3"}},
		{"one less", nodes("n1"), nil, []string{"LEFT n2"}, []string{"n1"}},
		{"all gone", []Node{}, nil, []string{"LEFT n1", "LEFT n2"}, nil},
		{"unsorted", nodes("n9", "n2", "n1"), nil, []string{"JOIN n9"}, []string{"n1", "n2", "n9"}},
		{"new address", []Node{node("n1"), moved}, nil, []string{"JOIN n2"}, []string{"n1", "n2"}},
		{"edges first, in their order", nodes("n3"), []Edge{left("n2"), join("n3")}, []string{"LEFT n2", "JOIN n3", "LEFT n1"}, []string{"n3"}},
		{"a blink between two looks", nodes("n1", "n2"), []Edge{left("n2"), join("n2")}, []string{"LEFT n2", "JOIN n2"}, []string{"n1", "n2"}},
		{"edges that contradict the set", nodes("n1", "n2"), []Edge{left("n1")}, []string{"LEFT n1", "JOIN n1"}, []string{"n1", "n2"}},
		{"edges that change nothing", nodes("n1", "n2"), []Edge{left("n7"), join("n1")}, nil, []string{"n1", "n2"}},
		{"undefined edge", nodes("n1", "n2"), []Edge{{Node: node("n4")}}, nil, []string{"n1", "n2"}},
		{"publish", nil, []Edge{left("n1"), join("n0"), join("n2")}, []string{"LEFT n1", "JOIN n0"}, []string{"n0", "n2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := NewHub(HubConfig{})
			h.Update(nodes("n1", "n2"), nil)
			s := subscribe(t, h)
			if s.Revision != 2 {
				t.Fatalf("first update of two nodes made revision %d", s.Revision)
			}
			if tt.nodes == nil {
				h.Publish(tt.edges...)
			} else {
				h.Update(tt.nodes, tt.edges)
			}
			if got := drain(t, s); !slices.Equal(got, tt.want) {
				t.Errorf("events %q, want %q", got, tt.want)
			}
			all, revision, err := h.Nodes()
			if err != nil {
				t.Fatal(err)
			}
			wantNames(t, all, tt.after...)
			if want := s.Revision + uint64(len(tt.want)); revision != want || h.Revision() != want {
				t.Errorf("revision %d, want %d", revision, want)
			}
		})
	}
}

func TestHubServesNothingBeforeTheFirstUpdate(t *testing.T) {
	h := NewHub(HubConfig{})
	h.Publish(join("n1")) // there is no set to change yet
	if _, _, err := h.Nodes(); !errors.Is(err, ErrNotReady) {
		t.Errorf("Nodes: %v", err)
	}
	if _, err := h.Subscribe(); !errors.Is(err, ErrNotReady) {
		t.Errorf("Subscribe: %v", err)
	}
	h.Update(nil, nil) // a view without nodes is a view too
	all, revision, err := h.Nodes()
	if err != nil || revision != 0 {
		t.Fatalf("revision %d, error %v", revision, err)
	}
	wantNames(t, all)
}

func TestHubEventCarriesWhatTheAgentKnew(t *testing.T) {
	h := NewHub(HubConfig{Source: "n1"})
	h.Update(nodes("n1", "n2"), nil)
	s := subscribe(t, h)
	first, second := time.Unix(1000, 5), time.Unix(2000, 0)
	h.Publish(Edge{Type: fencingv1.EventType_LEFT, Node: Node{Name: "n2"}, Time: first, Source: "n1/data"})
	h.Publish(join("n2"))
	h.Publish(Edge{Type: fencingv1.EventType_LEFT, Node: Node{Name: "n2"}, Time: second})

	next := func() *fencingv1.Event {
		ev, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return ev
	}
	ev := next()
	if !maps.Equal(ev.GetNode().GetAddresses(), node("n2").Addresses) {
		t.Errorf("LEFT has addresses %v", ev.GetNode().GetAddresses())
	}
	if !ev.GetTime().AsTime().Equal(first) || ev.GetSourceName() != "n1/data" || ev.GetNode().PrevDisconnectTime != nil {
		t.Errorf("first LEFT is %v", ev)
	}
	if ev = next(); !ev.GetNode().GetPrevDisconnectTime().AsTime().Equal(first) || ev.GetSourceName() != "n1" || ev.GetTime() == nil {
		t.Errorf("JOIN after it is %v", ev)
	}
	if ev = next(); !ev.GetNode().GetPrevDisconnectTime().AsTime().Equal(first) || !ev.GetTime().AsTime().Equal(second) {
		t.Errorf("second LEFT is %v", ev)
	}
}

func TestHubCopiesWhatItIsGiven(t *testing.T) {
	h := NewHub(HubConfig{})
	n := node("n1")
	h.Update([]Node{n}, nil)
	n.Addresses["mgmt"] = "changed"
	all, _, _ := h.Nodes()
	if got := all.GetNodes()[0].GetAddresses()["mgmt"]; got != "10.0.0.1" {
		t.Errorf("address became %q", got)
	}
	h.Publish(left("n1"))
	wantNames(t, all, "n1") // an answer that is being sent does not change
}

func TestHubEndsASlowSubscriberAndNoOther(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := NewHub(HubConfig{QueueLength: 4, Metrics: NewMetrics(reg)})
	h.Update(nodes("n1"), nil)
	slow, quick := subscribe(t, h), subscribe(t, h)
	for i := range 5 {
		h.Publish(join(fmt.Sprintf("n%d", i+2)))
		drain(t, quick)
	}
	if _, err := slow.Next(t.Context()); !errors.Is(err, ErrSlow) {
		t.Errorf("slow reader got %v", err)
	}
	h.Publish(left("n2"))
	if got := drain(t, quick); !slices.Equal(got, []string{"LEFT n2"}) {
		t.Errorf("quick reader got %q", got)
	}
	slow.Close() // the slot is already free
	m := h.cfg.Metrics
	for name, got := range map[string]float64{
		"join": testutil.ToFloat64(m.join) - 6, "left": testutil.ToFloat64(m.left) - 1,
		"subscribers": testutil.ToFloat64(m.subscribers) - 1, "slow": testutil.ToFloat64(m.droppedSlow) - 1,
	} {
		if got != 0 {
			t.Errorf("metric %s is off by %v", name, got)
		}
	}
}

func TestHubLimitsSubscribers(t *testing.T) {
	h := NewHub(HubConfig{MaxSubscribers: 2})
	h.Update(nil, nil)
	subscribe(t, h)
	second := subscribe(t, h)
	if _, err := h.Subscribe(); !errors.Is(err, ErrTooMany) {
		t.Fatalf("third subscriber: %v", err)
	}
	second.Close()
	subscribe(t, h)
}

func TestHubCloseDeliversWhatIsQueued(t *testing.T) {
	h := NewHub(HubConfig{})
	h.Update(nodes("n1"), nil)
	s := subscribe(t, h)
	h.Publish(left("n1"))
	h.Close()
	h.Publish(join("n2"))
	h.Close()
	if ev, err := s.Next(t.Context()); err != nil || line(ev) != "LEFT n1" {
		t.Fatalf("got %v, %v", ev, err)
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, ErrStopped) {
		t.Fatalf("at the end: %v", err)
	}
	if _, err := h.Subscribe(); !errors.Is(err, ErrStopped) {
		t.Fatalf("Subscribe after Close: %v", err)
	}
}

func TestSubscriptionNextEndsWithItsContext(t *testing.T) {
	h := NewHub(HubConfig{})
	h.Update(nil, nil)
	s := subscribe(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestHistoryIsBoundedAndForgetsTheOldest(t *testing.T) {
	h := history{}
	for i := range maxHistory + 10 {
		h.left(fmt.Sprint(i), time.Unix(int64(i), 0))
	}
	if len(h) != maxHistory {
		t.Fatalf("%d names are remembered", len(h))
	}
	if _, ok := h["9"]; ok {
		t.Error("the oldest is remembered")
	}
	if _, ok := h["10"]; !ok {
		t.Error("a younger one is forgotten")
	}
}

func TestNodesAreNeverOlderThanADeliveredEvent(t *testing.T) {
	h := NewHub(HubConfig{QueueLength: 1 << 14})
	h.Update(nil, nil)
	s := subscribe(t, h)
	go func() {
		for range 100 {
			var edges []Edge
			for range 32 {
				edges = append(edges, join("n1"), left("n1"))
			}
			h.Publish(edges...)
		}
		h.Close()
	}()
	for got := s.Revision; ; {
		switch _, err := s.Next(t.Context()); {
		case errors.Is(err, ErrStopped):
			return
		case err != nil:
			t.Fatal(err)
		}
		if got++; h.Revision() < got {
			t.Fatalf("event %d was delivered while Nodes was still at %d", got, h.Revision())
		}
	}
}
