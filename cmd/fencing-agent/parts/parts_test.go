package parts

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMissingPartsAreSaidOnceAndTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		reg := prometheus.NewRegistry()
		l := New(slog.New(slog.NewTextHandler(&out, nil)), reg)
		l.Note("watchdog", nil)
		began := time.Now()
		for range 3 {
			l.Note("network mgmt", errors.New("no address"))
			l.Note("http.address", errors.New("taken"))
			time.Sleep(time.Second)
		}
		l.Note("network mgmt", errors.New("no interface"))
		got := l.Missing()
		if len(got) != 2 || got[0].Part != "http.address" || got[1] != (Missing{"network mgmt", "no interface", began}) {
			t.Errorf("missing: %+v", got)
		}
		if n := strings.Count(out.String(), "a part is missing"); n != 2 {
			t.Errorf("%d lines say it, want 2:\n%s", n, &out)
		}
		gauge := func(part string) float64 { return testutil.ToFloat64(l.gauge.WithLabelValues(part)) }
		if gauge("watchdog") != 0 || gauge("network mgmt") != 1 {
			t.Error("the metric does not say what is missing")
		}

		tries := 0
		l.Keep(t.Context(), "network mgmt", func() error {
			if tries++; tries < 3 {
				return errors.New("no interface")
			}
			return nil
		})
		if since := time.Since(began); since != 3*time.Second+3*Retry || l.Lacks("network mgmt") || gauge("network mgmt") != 0 || !l.Lacks("http.address") {
			t.Errorf("after %v missing: %+v", since, l.Missing())
		}
		if !strings.Contains(out.String(), "a missing part is there") {
			t.Errorf("nothing is said when it comes:\n%s", &out)
		}
	})
}
