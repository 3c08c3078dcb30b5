package members

import "github.com/prometheus/client_golang/prometheus"

type Metrics struct {
	hub       *Hub
	writes    *prometheus.CounterVec
	following *prometheus.Desc
	ahead     *prometheus.Desc
	epoch     *prometheus.Desc
}

func NewMetrics(reg prometheus.Registerer, h *Hub) *Metrics {
	byGroup := func(o prometheus.GaugeOpts) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName("fencing_controller", "", o.Name), o.Help, []string{"group"}, nil)
	}
	m := &Metrics{
		hub: h,
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "fencing_controller", Name: "members_books_total",
			Help: "Attempts to write the list of a group, by outcome: written, conflict (another replica was first), error.",
		}, []string{"outcome"}),
		following: byGroup(prometheus.GaugeOpts{Name: "members_following", Help: "Agents that follow this replica, by group."}),
		ahead:     byGroup(prometheus.GaugeOpts{Name: "members_ahead", Help: "Agents that follow this replica and have a later list than the book of their group."}),
		epoch:     byGroup(prometheus.GaugeOpts{Name: "members_epoch", Help: "Epoch of the list in the book of a group."}),
	}
	reg.MustRegister(m.writes, m)
	return m
}

// Count counts an attempt to write a book.
func (m *Metrics) Count(outcome string) { m.writes.WithLabelValues(outcome).Inc() }

func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	c <- m.following
	c <- m.ahead
	c <- m.epoch
}

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
