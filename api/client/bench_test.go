package client

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// groupSize is the number of nodes in the group.
const groupSize = 1000

// BenchmarkDecisionToCallback measures the time from the agent's decision, the call of Hub.Publish, to the callback of
// Follow. It uses a real socket and a group of 1000 nodes. The agent and the subscribers are one process. Each event
// follows as soon as the event before it has been delivered. p50 and p99 are over all deliveries, that is over events
// and subscribers. cpu-ns is the processor time of one delivery, of agent and subscriber together. The stuck
// subscribers are one whose callback never returns and one that does not read its stream.
func BenchmarkDecisionToCallback(b *testing.B) {
	for _, subscribers := range []int{1, 10, 100} {
		for _, stuck := range []bool{false, true} {
			b.Run(fmt.Sprintf("subscribers=%d/stuck=%v", subscribers, stuck), func(b *testing.B) {
				measureDelivery(b, subscribers, stuck)
			})
		}
	}
}

func measureDelivery(b *testing.B, subscribers int, stuck bool) {
	hub, path := serveOnSocket(b)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	follow := func(use func(Update)) {
		following.Go(func() {
			if err := Follow(ctx, Config{Socket: path}, use); err != nil {
				b.Error(err)
			}
		})
	}
	var got atomic.Int64
	arrived := make(chan struct{}, 1)
	var published atomic.Pointer[time.Time]
	times := make([][]time.Duration, subscribers)
	for i := range subscribers {
		follow(func(u Update) {
			if len(u.Edges) == 1 {
				times[i] = append(times[i], time.Since(*published.Load()))
			}
			if len(u.Edges) > 0 {
				got.Add(1)
				select {
				case arrived <- struct{}{}:
				default:
				}
			}
		})
	}
	if stuck {
		follow(func(Update) { <-ctx.Done() })
		deaf(b, ctx, path)
	}
	eventually(b, "everybody has the set", func() bool { return got.Load() == int64(subscribers) })
	before := processorTime()
	for n := 0; b.Loop(); n++ {
		e := left("n7")
		if n%2 == 1 {
			e = join("n7")
		}
		want := got.Load() + int64(subscribers)
		now := time.Now()
		published.Store(&now)
		hub.Publish(e)
		for got.Load() < want {
			<-arrived // the channel has room for one value: some subscriber has received the event
		}
	}
	used := processorTime() - before
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*subscribers), "cpu-ns")
	all := slices.Sorted(slices.Values(slices.Concat(times...)))
	b.ReportMetric(float64(all[len(all)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(all[len(all)*99/100].Nanoseconds()), "p99-ns")
}

// deaf opens a stream and never reads it.
func deaf(b *testing.B, ctx context.Context, path string) {
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	stream, err := fencingv1.NewFencingClient(conn).StreamEvents(ctx, &emptypb.Empty{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		b.Fatal(err)
	}
}

func serveOnSocket(b *testing.B) (*publish.Hub, string) {
	path := filepath.Join(b.TempDir(), "a.sock")
	hub := publish.NewHub(publish.HubConfig{Source: "n1"})
	server, err := publish.New(publish.Config{Hub: hub})
	if err != nil {
		b.Fatal(err)
	}
	l, err := publish.Listen(path, 0o600, "")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	b.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Stop(over)
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	set := make([]publish.Node, groupSize)
	for i := range set {
		set[i] = node(fmt.Sprintf("n%d", i))
	}
	hub.Update(set, nil)
	return hub, path
}
