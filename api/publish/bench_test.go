package publish

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// flip returns the i-th edge of a sequence in which each edge changes something.
func flip(i int) Edge {
	if i%2 == 0 {
		return left("n7")
	}
	return join("n7")
}

// BenchmarkPublish measures the cost of one event for the agent's loop, with readers that keep up.
func BenchmarkPublish(b *testing.B) {
	for _, subscribers := range []int{0, 1, 10, 100} {
		b.Run(fmt.Sprintf("subscribers=%d", subscribers), func(b *testing.B) {
			h := NewHub(HubConfig{})
			h.Update(thousand(), nil)
			var received atomic.Int64
			var readers sync.WaitGroup
			for range subscribers {
				s, err := h.Subscribe()
				if err != nil {
					b.Fatal(err)
				}
				readers.Go(func() {
					defer s.Close()
					for {
						if _, err := s.Next(b.Context()); err != nil {
							return
						}
						received.Add(1)
					}
				})
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				h.Publish(flip(n))
				if n++; n%(DefaultQueueLength/2) == 0 {
					b.StopTimer() // no reader may fall behind, and waiting is not part of publishing
					eventually(b, "readers caught up", func() bool { return received.Load() == int64(n*subscribers) })
					b.StartTimer()
				}
			}
			h.Close()
			readers.Wait()
			if got := received.Load(); got != int64(n*subscribers) {
				b.Fatalf("%d events were received, want %d", got, n*subscribers)
			}
		})
	}
}

// thousand returns a large group.
func thousand() []Node {
	out := make([]Node, 1000)
	for i := range out {
		out[i] = node(fmt.Sprintf("n%d", i))
	}
	return out
}

// BenchmarkDelivery measures the time from Publish to Recv over the socket, with other clients that do not read at all.
func BenchmarkDelivery(b *testing.B) {
	for _, stuck := range []int{0, 1} {
		b.Run(fmt.Sprintf("stuck=%d", stuck), func(b *testing.B) {
			f := serve(b, HubConfig{QueueLength: 1 << 20}, Config{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
			f.hub.Update(thousand(), nil)
			for range stuck {
				open(b, b.Context(), f.client(b))
			}
			stream, _ := open(b, b.Context(), f.client(b))
			for i := range 4096 { // by now the window of the stuck client is full
				f.hub.Publish(flip(i))
				if _, err := stream.Recv(); err != nil {
					b.Fatal(err)
				}
			}
			var took []time.Duration
			for n := 0; b.Loop(); n++ {
				start := time.Now()
				f.hub.Publish(flip(n))
				if _, err := stream.Recv(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}

// BenchmarkGetAll measures the answer for a group of 1000 nodes over the socket.
func BenchmarkGetAll(b *testing.B) {
	f := serve(b, HubConfig{}, Config{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	f.hub.Update(thousand(), nil)
	c := f.client(b)
	var last *fencingv1.AllNodes
	for b.Loop() {
		all, err := c.GetAll(b.Context(), &emptypb.Empty{})
		if err != nil {
			b.Fatal(err)
		}
		last = all
	}
	if len(last.GetNodes()) != 1000 {
		b.Fatalf("%d nodes", len(last.GetNodes()))
	}
}
