package members

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts. It asks the hub when it is read.
type Metrics struct {
	hub       *Hub
	writes    *prometheus.CounterVec
	following *prometheus.Desc
	ahead     *prometheus.Desc
	epoch     *prometheus.Desc
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer, h *Hub) *Metrics {
	name := func(n string) string { return prometheus.BuildFQName("fencing_controller", "members", n) }
	m := &Metrics{
		hub: h,
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "fencing_controller", Subsystem: "members", Name: "books_total",
			Help: "Attempts to write the list of a group, by outcome: written, conflict (another replica was first), error.",
		}, []string{"outcome"}),
		following: prometheus.NewDesc(name("following"), "Agents that follow this replica, by group.", []string{"group"}, nil),
		ahead:     prometheus.NewDesc(name("ahead"), "Agents that follow this replica and have a later list than the book of their group.", []string{"group"}, nil),
		epoch:     prometheus.NewDesc(name("epoch"), "Epoch of the list in the book of a group.", []string{"group"}, nil),
	}
	reg.MustRegister(m.writes, m)
	return m
}

// Count counts an attempt.
func (m *Metrics) Count(outcome string) { m.writes.WithLabelValues(outcome).Inc() }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	c <- m.following
	c <- m.ahead
	c <- m.epoch
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	following, ahead, epochs := m.hub.Count()
	for g, n := range following {
		c <- prometheus.MustNewConstMetric(m.following, prometheus.GaugeValue, float64(n), g)
	}
	for g, n := range ahead {
		c <- prometheus.MustNewConstMetric(m.ahead, prometheus.GaugeValue, float64(n), g)
	}
	for g, e := range epochs {
		c <- prometheus.MustNewConstMetric(m.epoch, prometheus.GaugeValue, float64(e), g)
	}
}
