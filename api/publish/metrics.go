package publish

import (
	"github.com/prometheus/client_golang/prometheus"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// Metrics counts what is published.
type Metrics struct {
	left, join                prometheus.Counter
	subscribers               prometheus.Gauge
	delivery                  prometheus.Histogram
	droppedSlow, droppedLimit prometheus.Counter
}

// NewMetrics creates the metrics and registers them; if reg is nil they are not exported. It panics if reg already has
// them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fencing_agent_events_total",
		Help: "Published changes of the set of available nodes.",
	}, []string{"type"})
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fencing_agent_subscribers_dropped_total",
		Help: "Event streams that were ended because their client was slow, or refused at the limit.",
	}, []string{"reason"})
	m := &Metrics{
		left:         events.WithLabelValues(fencingv1.EventType_LEFT.String()),
		join:         events.WithLabelValues(fencingv1.EventType_JOIN.String()),
		droppedSlow:  dropped.WithLabelValues("slow"),
		droppedLimit: dropped.WithLabelValues("limit"),
		subscribers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fencing_agent_subscribers",
			Help: "Event streams that are open now.",
		}),
		delivery: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "fencing_agent_event_delivery_seconds",
			Help:    "Time from the publication of an event until the transport took it, per subscriber.",
			Buckets: prometheus.ExponentialBuckets(25e-6, 4, 10), // 25 us to 6.6 s
		}),
	}
	if reg != nil {
		reg.MustRegister(events, dropped, m.subscribers, m.delivery)
	}
	return m
}

func (m *Metrics) event(t fencingv1.EventType) {
	if t == fencingv1.EventType_LEFT {
		m.left.Inc()
	} else {
		m.join.Inc()
	}
}
