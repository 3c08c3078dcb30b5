package members

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/integration/race"
	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
)

// counting is an API server that counts its requests, with a hub that watches it.
type counting struct {
	hub *Hub

	mu       sync.Mutex
	book     *memberbook.Book
	version  int
	nodes    []string
	requests map[string]int
}

func (c *counting) Read(context.Context, string) (*memberbook.Book, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests["read"]++
	if c.book == nil {
		return nil, "", nil
	}
	return c.book, strconv.Itoa(c.version), nil
}

func (c *counting) Nodes(context.Context, string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests["list"]++
	return c.nodes, nil
}

func (c *counting) Write(_ context.Context, b *memberbook.Book, version string) error {
	c.mu.Lock()
	if c.book != nil && version != strconv.Itoa(c.version) {
		c.mu.Unlock()
		return ErrConflict
	}
	c.requests["write"]++
	c.book = b
	c.version++
	c.mu.Unlock()
	c.hub.Booked("g", b)
	return nil
}

// An hour in which one Node joins costs the same requests for 3 agents and for 300; only the checks of tokens grow.
func TestRequestsDoNotGrowWithTheAgents(t *testing.T) {
	if race.Detector {
		t.Skip("bubbles of an hour break the race detector (go.dev/issue/78156)")
	}
	few, many := hour(t, 3), hour(t, 300)
	for what, n := range few {
		if what != "token" && many[what] != n {
			t.Errorf("%q: %d for 3 agents, %d for 300", what, n, many[what])
		}
	}
	if few["token"] != 4 || many["token"] != 301 || few["read"] == 0 || few["read"] > 3 {
		t.Errorf("%v, %v", few, many)
	}
	t.Logf("an hour, one Node joins: 3 agents %v, 300 agents %v", few, many)
}

func hour(t *testing.T, agents int) (requests map[string]int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := NewHub()
		c := &counting{hub: h, requests: map[string]int{}}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		s := &Server{Hub: h, Logger: slog.New(slog.DiscardHandler), Review: func(_ context.Context, token string) (string, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.requests["token"]++
			return token, nil
		}}
		have := map[string]uint64{}
		join := func(i int) {
			name := fmt.Sprintf("n%d", i)
			c.mu.Lock()
			c.nodes = append(c.nodes, name)
			c.mu.Unlock()
			h.Seen(name, there("g", nil))
			p := &pipe{
				ctx:     metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+name)),
				reports: make(chan *fencingv1.MembersReport, 1), updates: make(chan *fencingv1.MembersUpdate),
			}
			p.reports <- &fencingv1.MembersReport{Group: "g", Addresses: map[string]string{"a": fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250)}}
			wg.Go(func() { _ = s.Follow(p) })
			wg.Go(func() {
				for {
					select {
					case u := <-p.updates:
						if l := u.GetList(); l != nil {
							c.mu.Lock()
							have[name] = l.GetEpoch()
							c.mu.Unlock()
						}
					case <-ctx.Done():
						return
					}
				}
			})
		}
		h.Synced()
		for i := range agents {
			join(i)
		}
		wg.Go(func() { (&Scribe{Hub: h, Store: c, Logger: slog.New(slog.DiscardHandler)}).Run(ctx) })
		boottime.Wait(ctx, 30*time.Minute)
		join(agents)
		boottime.Wait(ctx, 30*time.Minute)
		c.mu.Lock()
		if len(have) != agents+1 || len(c.book.Members) != agents+1 {
			t.Errorf("%d of %d have a list, of %d", len(have), agents+1, len(c.book.Members))
		}
		for name, epoch := range have {
			if epoch != c.book.Epoch {
				t.Errorf("%s has epoch %d, the book %d", name, epoch, c.book.Epoch)
			}
		}
		requests = c.requests
		c.mu.Unlock()
		cancel()
		wg.Wait()
	})
	return requests
}
