package gossip

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
)

type Metrics struct {
	members  prometheus.Gauge
	messages *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	refused  prometheus.Counter
	dropped  prometheus.Counter
	joins    prometheus.Counter
}

const (
	in  = "in"
	out = "out"
)

func NewMetrics(r prometheus.Registerer) *Metrics {
	options := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "fencing_operator", Name: name, Help: help}
	}
	m := &Metrics{
		members: prometheus.NewGauge(prometheus.GaugeOpts(options("members", "Replicas that this one knows, including itself."))),
		messages: prometheus.NewCounterVec(options("gossip_messages_total",
			"Messages that were handed over, by direction and kind. A message to all of three replicas counts as two."), []string{"direction", "kind"}),
		bytes:   prometheus.NewCounterVec(options("gossip_bytes_total", "Bytes of these messages, without memberlist's own traffic."), []string{"direction"}),
		refused: prometheus.NewCounter(options("gossip_refused_total", "Messages that no replica sends: too long, unreadable, of no known kind.")),
		dropped: prometheus.NewCounter(options("gossip_dropped_total",
			"Messages that did not arrive, or were not sent because their receiver had not taken the ones before.")),
		joins: prometheus.NewCounter(options("gossip_join_failures_total", "Attempts to join peers that reached none of them. Each is tried again.")),
	}
	r.MustRegister(m.members, m.messages, m.bytes, m.refused, m.dropped, m.joins)
	return m
}

func (m *Metrics) count(direction string, kind distributedapp.MessageKind, bytes int) {
	m.messages.WithLabelValues(direction, string(kind)).Inc()
	m.bytes.WithLabelValues(direction).Add(float64(bytes))
}
