package fencing

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

type Metrics struct {
	fences    *prometheus.GaugeVec
	problems  prometheus.Gauge
	reachable *prometheus.GaugeVec

	skipped   *prometheus.CounterVec
	unhealthy *prometheus.GaugeVec
	sightings *prometheus.GaugeVec
	schemaOld prometheus.Gauge
	jobs      *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
}

func NewMetrics(r prometheus.Registerer) *Metrics {
	const ns = "fencing_controller"
	m := &Metrics{
		fences: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: ns, Name: "nodefences",
			Help: "NodeFences, by step and phase (docs/power.md). givenUp: a person has to look."}, []string{"step", "phase"}),
		problems: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Name: "fence_config_problems",
			Help: "Problems of the ConfigMaps by which nodes are fenced: a node that has one is not fenced by its devices."}),
		reachable: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: ns, Name: "device_reachable",
			Help: "1 if a device that fences nodes has answered when it was asked last, 0 if not. No decision depends on it."}, []string{"device"}),
	}
	m.skipped = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: "fencing_skipped_total",
		Help: "How often a limit for storms began to hold up the fencing of a node by its devices, by limit (docs/power.md)."}, []string{"policy"})
	m.unhealthy = prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: ns, Name: "unhealthy_nodes",
		Help: "Nodes that are not Ready, by group, where nodes are fenced by their devices."}, []string{"group"})
	m.sightings = prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: ns, Name: "sightings",
		Help: "Nodes about which an agent reports what a policy acts on, by policy: StorageLeaseHeld, StorageDisconnected; QuorumLost: agents that report it about themselves (docs/power.md)."}, []string{"policy"})
	m.schemaOld = prometheus.NewGauge(prometheus.GaugeOpts{Namespace: ns, Name: "nodefence_schema_old",
		Help: "1 while the CustomResourceDefinition of NodeFences lacks a field of this version: no node is fenced by its devices (docs/power.md)."})
	m.jobs = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: "fence_jobs_total",
		Help: "Jobs of NodeFences that have ended, by what they did and how. A check asks whether a plug is off: failed is any other answer. The replica that has noted the end counts it."}, []string{"action", "outcome"})
	m.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: ns, Name: "fence_job_seconds", Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300},
		Help: "Time from the moment at which a Job of a NodeFence was recorded until its end was noted, by what it did."}, []string{"action"})
	for _, action := range []string{checks, fenceconfig.On, fenceconfig.Off} {
		m.seconds.WithLabelValues(action)
		for _, outcome := range []string{nodefence.Succeeded, nodefence.Failed} {
			m.jobs.WithLabelValues(action, outcome)
		}
	}
	for _, policy := range storm.Reasons() {
		m.skipped.WithLabelValues(policy) // so that its first increase is visible
	}
	r.MustRegister(m.fences, m.problems, m.reachable, m.skipped, m.unhealthy, m.sightings, m.schemaOld, m.jobs, m.seconds)
	return m
}

// checks is the action of a Job that only asks for the status, whatever its method does.
const checks = "check"

// ended counts the Jobs whose end is noted by one write.
func (m *Metrics) ended(was, is nodefence.Status) {
	for i, e := range is.Jobs {
		if e.State == nodefence.Recorded || i < len(was.Jobs) && was.Jobs[i].State != nodefence.Recorded {
			continue
		}
		action := e.Action
		if e.Role == nodefence.Plan || e.Role == nodefence.Check || e.Role == nodefence.Again {
			action = checks
		}
		m.jobs.WithLabelValues(action, e.State).Inc()
		m.seconds.WithLabelValues(action).Observe(e.FinishedAt.Sub(e.StartedAt).Seconds())
	}
}

// show counts the NodeFences that exist.
func (m *Metrics) show(list []NodeFence) {
	m.fences.Reset()
	for i := range list {
		s := list[i].Status
		m.fences.WithLabelValues(string(s.Step), string(s.Phase)).Inc()
	}
}
