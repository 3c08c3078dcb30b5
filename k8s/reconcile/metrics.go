package reconcile

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

// Metrics are the controller's own. controller-runtime adds its queues and requests.
type Metrics struct {
	nodes     *prometheus.GaugeVec
	taints    *prometheus.CounterVec
	deleted   prometheus.Counter
	conflicts prometheus.Counter
	failures  prometheus.Counter
	held      *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	dryRun    prometheus.Gauge

	mu     sync.Mutex
	phases map[string]recovery.Phase // guarded by mu
}

func NewMetrics(r prometheus.Registerer, dryRun bool) *Metrics {
	const ns = "fencing_controller"
	m := &Metrics{
		nodes: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: ns, Name: "nodes",
			Help: "Nodes that this replica works at, by phase (docs/controller.md). disputed: a person has to look."}, []string{"phase"}),
		taints: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: "taints_total",
			Help: "Taints out-of-service that this replica has set and removed."}, []string{"action"}),
		deleted: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Name: "pods_deleted_total",
			Help: "Pods that this replica has deleted without grace, because the boot that ran them had ended."}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Name: "conflicts_total",
			Help: "Writes that the API server refused because something had changed since it was read, by another replica or a kubelet."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Name: "failures_total",
			Help: "Requests to the API server that failed in another way. Each is tried again."}),
		held: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: "held_total",
			Help: "How often a node that is dead had to wait, by reason: EvictionsGoOn, TooManyDead, SlowAnswers."}, []string{"reason"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: ns, Name: "phase_seconds",
			Help:    "How long nodes were in a phase before they left it.",
			Buckets: []float64{0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000}}, []string{"phase"}),
		dryRun: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Name: "dry_run",
			Help: "1 if the controller writes nothing but Events and its log (dryRun), 0 if it acts."}),
		phases: map[string]recovery.Phase{},
	}
	r.MustRegister(m.nodes, m.taints, m.deleted, m.conflicts, m.failures, m.held, m.seconds, m.dryRun)
	for _, p := range recovery.Phases() {
		m.nodes.WithLabelValues(string(p))
	}
	if dryRun {
		m.dryRun.Set(1)
	}
	return m
}

// move records that a node has changed from one phase to another.
func (m *Metrics) move(node string, from, to recovery.Phase, after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, ok := m.phases[node]; ok {
		m.nodes.WithLabelValues(string(was)).Dec()
	}
	m.phases[node] = to
	m.nodes.WithLabelValues(string(to)).Inc()
	if from != to {
		m.seconds.WithLabelValues(string(from)).Observe(after.Seconds())
	}
}

// forget records that this replica no longer works on a node.
func (m *Metrics) forget(node string, _ recovery.Phase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, ok := m.phases[node]; ok {
		m.nodes.WithLabelValues(string(was)).Dec()
		delete(m.phases, node)
	}
}
