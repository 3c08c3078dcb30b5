package wdt

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// notebook is a watchdog that notes when it is fed.
type notebook struct {
	at []boottime.Instant
	n  atomic.Int64
}

func (d *notebook) Arm(timeout time.Duration) (watchdog.Info, error) {
	return watchdog.Info{Driver: watchdog.Driver{Identity: "notebook"}, Timeout: timeout, MagicClose: true}, nil
}

func (d *notebook) Shorten(timeout time.Duration) (time.Duration, error) { return timeout, nil }

func (d *notebook) Feed() error {
	if i := d.n.Load(); i < int64(len(d.at)) {
		d.at[i] = boottime.Now()
		d.n.Store(i + 1)
	}
	return nil
}

func (d *notebook) Disarm() error { return nil }

// BenchmarkBlockedLoop lets the whole feeder run while the decision loop is blocked: each
// iteration gives one permission for ten feeds and nothing after it. It measures by how much
// a feed comes late, which is what a stalled host takes off the slack, how long before
// the end of the permission the last feed was, and whether one came after it.
func BenchmarkBlockedLoop(b *testing.B) {
	const (
		interval = 20 * time.Millisecond
		feeds    = 10
	)
	for _, load := range []string{"idle", "loaded"} {
		for _, realtime := range []bool{false, true} {
			kind := "ordinary"
			if realtime {
				kind = "realtime"
			}
			b.Run(load+"/"+kind, func(b *testing.B) {
				if load == "loaded" {
					burn(b)
				}
				dev := &notebook{at: make([]boottime.Instant, 2*feeds*b.N)}
				f, err := NewFeeder(Config{Device: dev, Clock: boottime.Now, Timeout: time.Minute, FeedInterval: interval, Realtime: realtime})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(b.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = f.Run(ctx) // leaves the notebook armed, which says so
				}()
				f.Arm()
				var late, last []time.Duration
				after := 0
				for range b.N {
					first := dev.n.Load()
					until := boottime.Now().Add(feeds * interval)
					f.Grant(until)
					<-time.After(until.Sub(boottime.Now()) + 3*interval)
					round := dev.at[first:dev.n.Load()]
					for i, at := range round {
						if i > 0 {
							late = append(late, at.Sub(round[i-1])-interval)
						}
						if at >= until {
							after++
						}
					}
					if len(round) > 0 {
						last = append(last, until.Sub(round[len(round)-1]))
					}
				}
				cancel()
				<-done
				distribution(b, "late", late)
				distribution(b, "last-feed-before-end", last)
				b.ReportMetric(float64(after), "feeds-after-end")
			})
		}
	}
}

// distribution gives the distribution of times in milliseconds.
func distribution(b *testing.B, what string, d []time.Duration) {
	b.Helper()
	if len(d) == 0 {
		b.Errorf("%s: nothing was measured", what)
		return
	}
	slices.Sort(d)
	for _, q := range []struct {
		name string
		at   int
	}{{"min", 0}, {"p50", len(d) / 2}, {"p99", len(d) * 99 / 100}, {"max", len(d) - 1}} {
		b.ReportMetric(float64(d[q.at].Microseconds())/1000, what+"-"+q.name+"-ms")
	}
}
