package storagewatch

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/k8s/storagefence"
)

type Metrics struct {
	nodes    *prometheus.GaugeVec
	pods     *prometheus.CounterVec
	seconds  prometheus.Histogram
	failures *prometheus.CounterVec
	givenUp  prometheus.Counter
}

// The APIs whose failures are counted.
const (
	apiStorage    = "storage"
	apiKubernetes = "kubernetes"
)

func NewMetrics(r prometheus.Registerer) *Metrics {
	const ns = "fencing_storage"
	m := &Metrics{
		nodes: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: ns, Name: "nodes",
			Help: "Nodes of the storage, by the health that it reports."}, []string{"health"}),
		pods: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: "pods_total",
			Help: "Pods on nodes that the storage had given up, by what became of them (docs/storage.md)."}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: ns, Name: "fence_seconds",
			Help: "How long handling one node took.", Buckets: []float64{0.1, 0.3, 1, 3, 10, 25, 60}}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: "api_errors_total",
			Help: "Requests that failed, to the storage and to Kubernetes. Each is tried again."}, []string{"api"}),
		givenUp: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Name: "given_up_total",
			Help: "Nodes that could not be handled within the timeout: their pods are left to a person."}),
	}
	r.MustRegister(m.nodes, m.pods, m.seconds, m.failures, m.givenUp)
	for _, o := range storagefence.Outcomes() {
		m.pods.WithLabelValues(string(o))
	}
	for _, api := range []string{apiStorage, apiKubernetes} {
		m.failures.WithLabelValues(api)
	}
	return m
}

func (m *Metrics) show(c *storagefence.Cache) {
	for h, n := range c.Healths() {
		m.nodes.WithLabelValues(h.String()).Set(float64(n))
	}
}
