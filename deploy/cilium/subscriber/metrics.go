package subscriber

import (
	"github.com/cilium/cilium/pkg/metrics"
	"github.com/cilium/cilium/pkg/metrics/metric"
)

const metricsSubsystem = "fencing_agent"

// Metrics holds the metrics of the cell.
type Metrics struct {
	NodesOut     metric.Gauge
	Ruling       metric.Vec[metric.Gauge]
	Refreshed    metric.Counter
	ApplySeconds metric.Histogram
}

func newMetrics() Metrics {
	return Metrics{
		NodesOut: metric.NewGauge(metric.GaugeOpts{
			Namespace: metrics.Namespace, Subsystem: metricsSubsystem, Name: "nodes_out",
			Help: "Nodes whose backends are taken out of the load balancer",
		}),
		Ruling: metric.NewGaugeVec(metric.GaugeOpts{
			Namespace: metrics.Namespace, Subsystem: metricsSubsystem, Name: "ruling",
			Help: "1 for what decides which backends are used: agent, or Kubernetes because of no_answer, no_quorum or too_many",
		}, []string{"mode"}),
		Refreshed: metric.NewCounter(metric.CounterOpts{
			Namespace: metrics.Namespace, Subsystem: metricsSubsystem, Name: "services_refreshed_total",
			Help: "Services whose backends were selected again because of a node",
		}),
		ApplySeconds: metric.NewHistogram(metric.HistogramOpts{
			Namespace: metrics.Namespace, Subsystem: metricsSubsystem, Name: "apply_seconds",
			Help:    "Time from an update of the agent to the commit of what follows from it",
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2},
		}),
	}
}

func (m *Metrics) ruled(by mode, out int) {
	for _, known := range []mode{modeAgent, modeNoAnswer, modeNoQuorum, modeTooMany} {
		value := 0.0
		if known == by {
			value = 1
		}
		m.Ruling.WithLabelValues(string(known)).Set(value)
	}
	m.NodesOut.Set(float64(out))
}
