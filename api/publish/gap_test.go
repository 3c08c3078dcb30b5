package publish

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the no-gap test's schedules; 0: another each time")

// addressesByName is a set of nodes as a consumer keeps it.
type addressesByName map[string]string

func (s addressesByName) apply(ev *fencingv1.Event) {
	n := ev.GetNode()
	if ev.GetType() == fencingv1.EventType_LEFT {
		delete(s, n.GetName())
	} else {
		s[n.GetName()] = fmt.Sprint(n.GetAddresses())
	}
}

func asSet(all *fencingv1.AllNodes) addressesByName {
	s := addressesByName{}
	for _, n := range all.GetNodes() {
		s[n.GetName()] = fmt.Sprint(n.GetAddresses())
	}
	return s
}

// reference records what happened: the events, and the set after each revision.
type reference struct {
	events []*fencingv1.Event // events[i] made revision base+i+1
	sets   []addressesByName  // sets[i] is the set of revision base+i
	base   uint64
}

func record(t *testing.T, h *Hub, s *Subscription, initial addressesByName) reference {
	t.Helper()
	r := reference{sets: []addressesByName{initial}, base: s.Revision}
	for r.base+uint64(len(r.events)) < h.Revision() {
		ev, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := maps.Clone(r.sets[len(r.sets)-1])
		next.apply(ev)
		r.events, r.sets = append(r.events, ev), append(r.sets, next)
	}
	return r
}

// observation is what one consumer saw during one stream.
type observation struct {
	from     uint64 // the revision in the stream's headers
	snapshot addressesByName
	at       uint64 // the revision in GetAll's headers
	events   []*fencingv1.Event
}

// check compares an observation with what happened.
func (r reference) check(o observation) error {
	if o.at < o.from {
		return fmt.Errorf("GetAll after the headers of revision %d is of revision %d", o.from, o.at)
	}
	if want := r.sets[o.at-r.base]; !maps.Equal(o.snapshot, want) {
		return fmt.Errorf("GetAll at revision %d is %v, the set was %v", o.at, o.snapshot, want)
	}
	got := maps.Clone(o.snapshot)
	for i, ev := range o.events {
		at := o.from + uint64(i) + 1
		want := r.events[at-r.base-1]
		if line(ev) != line(want) || !maps.Equal(ev.GetNode().GetAddresses(), want.GetNode().GetAddresses()) {
			return fmt.Errorf("event %d is %v, published was %v", at, ev, want)
		}
		got.apply(ev)
		// Before at reaches GetAll's revision, the answer already contains the events.
		if at >= o.at && !maps.Equal(got, r.sets[at-r.base]) {
			return fmt.Errorf("set at revision %d is %v, should be %v", at, got, r.sets[at-r.base])
		}
	}
	return nil
}

// TestNoGap: the answer of GetAll and the events of a stream opened before it give the set of every later moment,
// whatever is published meanwhile.
func TestNoGap(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -args -seed=%d", seed)
	const publishers, consumers, batches = 3, 4, 400

	f := serve(t, HubConfig{QueueLength: 1 << 16}, Config{})
	f.hub.Update(nodes("n1", "n2", "n3"), nil)
	all, _, _ := f.hub.Nodes()
	log, initial := subscribe(t, f.hub), asSet(all)

	var publishing, consuming sync.WaitGroup
	progress := make(chan struct{}, 1)
	for i := range publishers {
		publishing.Go(func() { publishRandomly(f.hub, rand.New(rand.NewPCG(seed, uint64(i))), batches, progress) })
	}
	over := make(chan struct{})
	seen := make([][]observation, consumers)
	for i := range consumers {
		c, r := f.client(t), rand.New(rand.NewPCG(seed, uint64(100+i)))
		consuming.Go(func() { seen[i] = consume(t, f.hub, c, r, progress, over) })
	}
	publishing.Wait()
	close(over)
	consuming.Wait()

	truth := record(t, f.hub, log, initial)
	lives := 0
	for i, observations := range seen {
		for _, o := range observations {
			lives++
			if err := truth.check(o); err != nil {
				t.Errorf("consumer %d, stream from revision %d: %v", i, o.from, err)
			}
		}
		last := observations[len(observations)-1]
		if end := last.from + uint64(len(last.events)); end != f.hub.Revision() {
			t.Errorf("consumer %d ends at revision %d, the hub at %d", i, end, f.hub.Revision())
		}
	}
	t.Logf("%d events, %d streams", len(truth.events), lives)
}

func publishRandomly(h *Hub, r *rand.Rand, batches int, progress <-chan struct{}) {
	pick := func() Node {
		n := node(fmt.Sprintf("n%d", r.IntN(12)))
		if r.IntN(4) == 0 {
			n.Addresses["data"] = fmt.Sprintf("10.1.1.%d", r.IntN(3))
		}
		return n
	}
	for range batches {
		var edges []Edge
		for range r.IntN(4) {
			edges = append(edges, Edge{Type: fencingv1.EventType(1 + r.IntN(2)), Node: pick()})
		}
		if r.IntN(3) > 0 {
			h.Publish(edges...)
		} else {
			var set []Node
			for range r.IntN(8) {
				if n := pick(); !slices.ContainsFunc(set, func(m Node) bool { return m.Name == n.Name }) {
					set = append(set, n)
				}
			}
			h.Update(set, edges)
		}
		if r.IntN(8) == 0 {
			select { // let consumers make progress, unless all are up to date
			case <-progress:
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// consume reads several streams of random length, one after another. The last one lasts until every event has arrived.
func consume(t *testing.T, h *Hub, c fencingv1.FencingClient, r *rand.Rand, progress chan<- struct{}, over <-chan struct{}) []observation {
	var seen []observation
	for last := false; !last; {
		select {
		case <-over:
			last = true
		default:
		}
		o, err := observe(t, h, c, 1+r.IntN(60), last)
		if err != nil {
			t.Errorf("consumer: %v", err)
			return append(seen, o)
		}
		seen = append(seen, o)
		select {
		case progress <- struct{}{}:
		default:
		}
	}
	return seen
}

func observe(t *testing.T, h *Hub, c fencingv1.FencingClient, atMost int, last bool) (o observation, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := c.StreamEvents(ctx, &emptypb.Empty{})
	if err != nil {
		return o, err
	}
	header, err := stream.Header()
	if err != nil {
		return o, err
	}
	if o.from, err = parseRevision(header); err != nil {
		return o, err
	}
	all, err := c.GetAll(ctx, &emptypb.Empty{}, grpc.Header(&header))
	if err != nil {
		return o, err
	}
	o.snapshot = asSet(all)
	if o.at, err = parseRevision(header); err != nil {
		return o, err
	}
	for n := 0; last || n < atMost; n++ {
		if o.from+uint64(n) == h.Revision() {
			break // no more events may arrive
		}
		ev, err := stream.Recv()
		if err != nil {
			return o, err
		}
		o.events = append(o.events, ev)
	}
	return o, nil
}
