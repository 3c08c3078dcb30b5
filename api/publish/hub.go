package publish

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// These limits apply to a hub whose HubConfig leaves them zero.
const (
	// DefaultQueueLength is one event for every node of the greatest roster, so that a single cut of the group never
	// ends a subscriber.
	DefaultQueueLength = 1024
	// DefaultMaxSubscribers limits memory: each subscriber costs its queue and up to 64 KiB in the transport.
	DefaultMaxSubscribers = 256
)

// HubConfig configures a [Hub].
type HubConfig struct {
	Source         string   // of edges without a source: this node's name
	QueueLength    int      // how many events a subscriber may lag behind
	MaxSubscribers int      // at once
	Metrics        *Metrics // nil: nothing is counted
	// Expired reports whether the verdict by which Source is available has passed its deadline without a newer one: the
	// goroutine that decides did not run. It is called from many goroutines. Nil: never.
	Expired func() bool
}

// Hub holds the available nodes and distributes the changes. Its methods may be called from any goroutine; none of them
// waits for a subscriber.
type Hub struct {
	cfg HubConfig

	// current is replaced under mu and read without it, so that reading the nodes never delays a publisher.
	current atomic.Pointer[snapshot]

	mu     sync.Mutex // guards the fields below
	nodes  set
	past   history
	subs   map[*Subscription]struct{}
	closed bool

	withdrawn atomic.Bool // Source was removed after the last Update
}

// snapshot is the immutable set at one revision.
type snapshot struct {
	revision uint64
	nodes    *fencingv1.AllNodes
}

// NewHub returns a hub that serves nothing before its first Update.
func NewHub(cfg HubConfig) *Hub {
	if cfg.QueueLength <= 0 {
		cfg.QueueLength = DefaultQueueLength
	}
	if cfg.MaxSubscribers <= 0 {
		cfg.MaxSubscribers = DefaultMaxSubscribers
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	return &Hub{cfg: cfg, past: history{}, subs: map[*Subscription]struct{}{}}
}

// Update makes nodes the set of available nodes. It publishes edges in their order, and then one edge for each node in
// which the result still differs from nodes. An edge that changes nothing is dropped. The first Update opens the hub;
// its nodes must be a view that the agent uses.
func (h *Hub) Update(nodes []Node, edges []Edge) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.withdrawn.Store(false)
	after := slices.Clone(h.nodes)
	events := h.apply(&after, edges)
	events = append(events, h.apply(&after, after.missing(nodes))...)
	h.commit(after, events)
}

// Publish applies edges to the set of available nodes. Before the first Update it has no effect: there is no set to
// change.
func (h *Hub) Publish(edges ...Edge) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current.Load() == nil {
		return
	}
	after := slices.Clone(h.nodes)
	h.commit(after, h.apply(&after, edges))
}

// withdraw removes this node when its verdict has passed its deadline. After a freeze, and before the agent has looked
// again, the set is from before the freeze. For other nodes such a set is the last known state; for this node it would
// promise what may no longer be true.
func (h *Hub) withdraw() {
	if h.cfg.Expired == nil || !h.cfg.Expired() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there := h.nodes.find(h.cfg.Source); !there || !h.cfg.Expired() { // checked again: there may be a newer verdict by now
		return
	}
	h.withdrawn.Store(true)
	after := slices.Clone(h.nodes)
	events := h.apply(&after, []Edge{{Type: fencingv1.EventType_LEFT, Node: Node{Name: h.cfg.Source}}})
	h.commit(after, events)
}

// Withdrawn reports whether this node was removed after the last Update. Only another Update adds it again.
func (h *Hub) Withdrawn() bool { return h.withdrawn.Load() }

// apply applies edges to nodes and returns the events. The caller holds h.mu.
func (h *Hub) apply(nodes *set, edges []Edge) []*fencingv1.Event {
	events := make([]*fencingv1.Event, 0, len(edges))
	for _, e := range edges {
		if e.Time.IsZero() {
			e.Time = time.Now()
		}
		if e.Source == "" {
			e.Source = h.cfg.Source
		}
		if ev := nodes.apply(e, h.past); ev != nil {
			events = append(events, ev)
		}
	}
	return events
}

// commit makes nodes the present set and queues the events. The snapshot comes first: a client that has received an
// event must not get an older set. The caller holds h.mu.
func (h *Hub) commit(nodes set, events []*fencingv1.Event) {
	prev := h.current.Load()
	if h.closed || (prev != nil && len(events) == 0) {
		return
	}
	next := &snapshot{nodes: &fencingv1.AllNodes{Nodes: nodes}}
	if prev != nil {
		next.revision = prev.revision
	}
	next.revision += uint64(len(events))
	h.nodes = nodes
	h.current.Store(next)

	now := time.Now()
	for _, ev := range events {
		h.cfg.Metrics.event(ev.GetType())
		if len(h.subs) == 0 {
			continue
		}
		q := queued{event: ev, encoded: encode(ev), at: now}
		for s := range h.subs {
			if !s.offer(q) {
				h.drop(s)
				h.cfg.Metrics.droppedSlow.Inc()
			}
		}
	}
}

// Nodes returns the available nodes, sorted by name, and their revision. The message is shared and must not be changed.
// The agent's own node is among them only while the verdict is valid.
func (h *Hub) Nodes() (*fencingv1.AllNodes, uint64, error) {
	h.withdraw()
	s := h.current.Load()
	if s == nil {
		return nil, 0, ErrNotReady
	}
	return s.nodes, s.revision, nil
}

// Revision returns the number of events published so far.
func (h *Hub) Revision() uint64 {
	if s := h.current.Load(); s != nil {
		return s.revision
	}
	return 0
}

// Subscribe returns a subscription to every event from now on. The caller must Close it.
func (h *Hub) Subscribe() (*Subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	cur := h.current.Load()
	switch {
	case h.closed:
		return nil, ErrStopped
	case cur == nil:
		return nil, ErrNotReady
	case len(h.subs) >= h.cfg.MaxSubscribers:
		h.cfg.Metrics.droppedLimit.Inc()
		return nil, ErrTooMany
	}
	s := &Subscription{
		Revision: cur.revision,
		hub:      h,
		queue:    make(chan queued, h.cfg.QueueLength),
		slow:     make(chan struct{}),
	}
	h.subs[s] = struct{}{}
	h.cfg.Metrics.subscribers.Set(float64(len(h.subs)))
	return s, nil
}

// Close ends every subscription with ErrStopped once its queue is empty. Later events are lost.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	for s := range h.subs {
		close(s.queue)
		h.drop(s)
	}
}

// drop removes s. The caller holds h.mu.
func (h *Hub) drop(s *Subscription) {
	delete(h.subs, s)
	h.cfg.Metrics.subscribers.Set(float64(len(h.subs)))
}

// Subscription is one consumer's place in the sequence of events. Only one goroutine may call Next.
type Subscription struct {
	// Revision is the hub's revision when the subscription began: its first event is Revision+1.
	Revision uint64

	hub   *Hub
	queue chan queued   // closed by the hub when it stops
	slow  chan struct{} // closed by the hub when the queue was full
}

type queued struct {
	event   *fencingv1.Event
	encoded *encoded  // event; once for all subscribers
	at      time.Time // when it was published
}

// offer queues q, or ends s and returns false if there is no room.
func (s *Subscription) offer(q queued) bool {
	select {
	case s.queue <- q:
		return true
	default:
		close(s.slow)
		return false
	}
}

// Next waits for the next event. The event is shared and must not be changed. An error, which is ErrSlow, ErrStopped or
// that of ctx, ends the subscription.
func (s *Subscription) Next(ctx context.Context) (*fencingv1.Event, error) {
	q, err := s.next(ctx)
	return q.event, err
}

func (s *Subscription) next(ctx context.Context) (queued, error) {
	select {
	case <-s.slow: // a gap would follow the queued events
		return queued{}, ErrSlow
	default:
	}
	select {
	case <-ctx.Done():
		return queued{}, ctx.Err()
	case <-s.slow:
		return queued{}, ErrSlow
	case q, ok := <-s.queue:
		if !ok {
			return queued{}, ErrStopped
		}
		return q, nil
	}
}

// Close frees the subscription's place. It may be called more than once.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.drop(s)
}
