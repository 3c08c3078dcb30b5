package gossip

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

const namespace = "fencing_agent"

// metrics are those of all networks.
type metrics struct {
	swim       *swim.Metrics
	conflicts  *prometheus.CounterVec // by network
	parameters *prometheus.GaugeVec   // by network and name
}

// newMetrics creates the series of alarms at the start, so that an alert can distinguish 0 from a missing series.
func newMetrics(reg prometheus.Registerer, networks []config.SystemNetwork) *metrics {
	m := &metrics{
		swim: swim.NewMetrics(reg),
		conflicts: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "name_conflicts_total",
			Help: "Alarms for a second node that uses the name of a member on a network."}, []string{"network"}),
		parameters: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "gossip_parameter",
			Help: "Effective parameters of the gossip on a network, and what follows from them: seconds or a count."}, []string{"network", "name"}),
	}
	reg.MustRegister(m.conflicts, m.parameters)
	for _, n := range networks {
		m.conflicts.WithLabelValues(n.Name)
	}
	return m
}
