package operator

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
)

// Metrics are those of a replica.
type Metrics struct {
	owned     prometheus.Gauge
	known     prometheus.Gauge
	looks     *prometheus.CounterVec
	writes    *prometheus.CounterVec
	conflicts prometheus.Counter
	moves     prometheus.Counter
	version   prometheus.Gauge
	refused   prometheus.Counter
	lies      prometheus.Counter
	dropped   prometheus.Counter
}

var outcomes = map[distributedapp.Outcome]string{
	distributedapp.Settled: "settled", distributedapp.Wrote: "wrote", distributedapp.Conflict: "conflict", distributedapp.Failed: "failed",
}

// NewMetrics registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	const ns = "fencing_operator"
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Name: name, Help: help})
	}
	m := &Metrics{
		owned: gauge("owned", "DistributedApps for which this replica is the first."),
		known: gauge("known", "DistributedApps that this replica knows of."),
		looks: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: "reconciles_total",
			Help: "Looks at a DistributedApp, by how they ended. Each makes one write at most."}, []string{"outcome"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: "writes_total",
			Help: "Writes that the API server took, by what they did."}, []string{"kind"}),
		conflicts: counter("double_executions_total", "Writes that were refused because another replica, or a person, had been first."),
		moves:     counter("ownership_moves_total", "Statuses that this replica wrote after another one had written the one before."),
		version:   gauge("config_version", "Version of the configuration in use; 0 is none."),
		refused:   counter("config_refused_total", "Times that the ConfigMap was read and could not be used. The one before goes on."),
		lies:      counter("config_digest_differs_total", "Messages that name the configuration in use with another digest: somebody lies."),
		dropped:   counter("messages_dropped_total", "Messages that came faster than they could be looked at."),
	}
	r.MustRegister(m.owned, m.known, m.looks, m.writes, m.conflicts, m.moves, m.version, m.refused, m.lies, m.dropped)
	for _, name := range outcomes {
		m.looks.WithLabelValues(name)
	}
	return m
}
