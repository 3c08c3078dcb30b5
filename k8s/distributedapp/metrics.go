package distributedapp

import (
	"github.com/prometheus/client_golang/prometheus"
)

const ns = "fencing_operator"

// The outcomes of a look at an app.
const (
	settled  = "settled"
	wrote    = "wrote"
	conflict = "conflict"
	failed   = "failed"
)

type Metrics struct {
	registry prometheus.Registerer
	looks    *prometheus.CounterVec
	refused  prometheus.Counter
	dropped  prometheus.Counter
}

func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{registry: r,
		looks: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: "reconciles_total",
			Help: "Looks at a DistributedApp, by how they ended: settled, wrote, conflict (another writer was first), failed. Each makes one write at most."}, []string{"outcome"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Name: "config_refused_total",
			Help: "How often the ConfigMap was read and could not be used; the one before stays in use."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Name: "messages_dropped_total",
			Help: "Messages that came faster than they could be looked at."}),
	}
	r.MustRegister(m.looks, m.refused, m.dropped)
	for _, name := range []string{settled, wrote, conflict, failed} {
		m.looks.WithLabelValues(name)
	}
	return m
}

// shows registers the metrics that are read from a replica at each scrape.
func (m *Metrics) shows(r *Replica) {
	gauge := func(name, help string, value func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: ns, Name: name, Help: help}, value))
	}
	gauge("known", "DistributedApps that this replica knows.", func() float64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return float64(len(r.apps))
	})
	gauge("owned", "DistributedApps for which this replica is the first.", func() (n float64) {
		members, _ := r.gossip.Members()
		r.mu.Lock()
		defer r.mu.Unlock()
		for k := range r.apps {
			if r.o.Rank(k.String(), r.o.Self, members) == 0 {
				n++
			}
		}
		return n
	})
	gauge("config_version", "Version of the configuration in use; 0 is none.", func() float64 { return float64(r.current().version) })
}
