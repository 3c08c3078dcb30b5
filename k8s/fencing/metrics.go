package fencing

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of fencing by devices.
type Metrics struct {
	fences    *prometheus.GaugeVec
	problems  prometheus.Gauge
	reachable *prometheus.GaugeVec
}

// NewMetrics registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	const ns = "fencing_controller"
	m := &Metrics{
		fences: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: ns, Name: "nodefences",
			Help: "NodeFences, by step and phase (docs/power.md). givenUp: a person has to look."}, []string{"step", "phase"}),
		problems: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Name: "fence_config_problems",
			Help: "Problems of the ConfigMaps by which nodes are fenced: a node that has one is not fenced by its devices."}),
		reachable: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: ns, Name: "device_reachable",
			Help: "1 if a device that fences nodes has answered when it was asked last, 0 if not. Nothing rests on it."}, []string{"device"}),
	}
	r.MustRegister(m.fences, m.problems, m.reachable)
	return m
}

// show counts those that there are.
func (m *Metrics) show(list []NodeFence) {
	m.fences.Reset()
	for i := range list {
		s := list[i].Status
		m.fences.WithLabelValues(string(s.Step), string(s.Phase)).Inc()
	}
}
