package parts

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/api/trouble"
	"github.com/fencing-agent/fencing-agent/boottime"
)

// Retry is the time between two attempts to start a part.
const Retry = 2 * time.Second

// Missing is a part that the agent lacks.
type Missing struct {
	Part    string // such as "network mgmt"
	Problem string // why, and what to do about it
	Since   time.Time
}

// List is the list of the missing parts. A nil List, as in tests, ignores all reports.
type List struct {
	log   *slog.Logger
	gauge *prometheus.GaugeVec

	mu      sync.Mutex
	missing []Missing // by Part
}

// New makes an empty list.
func New(log *slog.Logger, reg prometheus.Registerer) *List {
	l := &List{log: log, gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "fencing_agent", Name: "part_missing",
		Help: "1 while this part of the agent is missing, and the agent runs without it: a network, the watchdog, a listener, a file."}, []string{"part"})}
	reg.MustRegister(l.gauge)
	return l
}

// Note records how the latest attempt to start a part ended; nil: the part is there. Only changes are logged, once.
func (l *List) Note(part string, err error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i, known := slices.BinarySearchFunc(l.missing, part, func(m Missing, part string) int { return cmp.Compare(m.Part, part) })
	switch {
	case err == nil && known:
		trouble.PartMissing.Ended(l.log, "part", part, "missing_for", time.Since(l.missing[i].Since).Round(time.Second))
		l.missing = slices.Delete(l.missing, i, i+1)
	case err == nil:
	case !known:
		l.missing = slices.Insert(l.missing, i, Missing{Part: part, Problem: err.Error(), Since: time.Now()})
		trouble.PartMissing.Log(l.log, "part", part, "error", err)
	case l.missing[i].Problem != err.Error():
		l.missing[i].Problem = err.Error()
		l.log.Warn("a part is still missing, for another reason", "part", part, "error", err)
	}
	value := 0.0
	if err != nil {
		value = 1
	}
	l.gauge.WithLabelValues(part).Set(value)
}

// Missing are the parts that are missing, by name. The caller owns the result.
func (l *List) Missing() []Missing {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.missing)
}

// Lacks reports whether a part is missing.
func (l *List) Lacks(part string) bool {
	return slices.ContainsFunc(l.Missing(), func(m Missing) bool { return m.Part == part })
}

// Keep tries to start a part until that works or ctx ends. It begins with a pause: an attempt was made before.
func (l *List) Keep(ctx context.Context, part string, try func() error) {
	for boottime.Wait(ctx, Retry); ctx.Err() == nil; boottime.Wait(ctx, Retry) {
		err := try()
		if l.Note(part, err); err == nil {
			return
		}
	}
}
