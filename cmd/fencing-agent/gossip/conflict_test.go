package gossip

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestNameAlarmsAreRareAndOwned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		count := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "x"}, []string{"network"})
		alarms := newNameAlarms(slog.New(slog.NewTextHandler(&out, nil)), count)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { alarms.run(ctx) })

		for range 150 { // 75 s of packets
			alarms.report(nameConflict{"mgmt", "n2", "10.0.0.9:7946", OtherAddress})
			alarms.report(nameConflict{"data", "n2", "10.1.0.9:7946", OtherAddress})
			<-time.After(500 * time.Millisecond)
		}
		alarms.report(nameConflict{"mgmt", "n3", "10.0.0.9:7946", OtherAddress})
		synctest.Wait()
		for network, want := range map[string]float64{"mgmt": 3, "data": 2} {
			if got := testutil.ToFloat64(count.WithLabelValues(network)); got != want {
				t.Errorf("%v alarms on %s, want %v", got, network, want)
			}
		}
		cancel()
		wg.Wait() // a bubble would not end while a goroutine is left
		for range 1000 {
			alarms.report(nameConflict{"mgmt", "n2", "10.0.0.9:7946", OtherAddress}) // this blocks no caller
		}
		if got := strings.Count(out.String(), "two nodes use one name"); got != 5 {
			t.Errorf("%d lines in the log, want 5:\n%s", got, &out)
		}
	})
}
