package rawdev

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// Metrics counts and times the I/O of all devices.
type Metrics struct {
	seconds *prometheus.HistogramVec
	errors  *prometheus.CounterVec
}

// NewMetrics registers fencing_agent_lun_io_seconds and fencing_agent_lun_io_errors_total.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fencing_agent_lun_io_seconds",
			Help: "Time from handing an I/O to the kernel until it returned, by device and operation (read: whole slot table, write: own slot).",
			// 0.25 ms (NVMe, cache) to 65 s, which is longer than any path failover that does not reset the node.
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 19),
		}, []string{"device", "op"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fencing_agent_lun_io_errors_total",
			Help: "I/Os on the LUN that ended with an error, by device and operation.",
		}, []string{"device", "op"}),
	}
	reg.MustRegister(m.seconds, m.errors)
	return m
}

// Instrument returns an onComplete that records the completion for a device and passes
// it on. An I/O that never ends is not in the histogram: watch Engine.InFlight.
func (m *Metrics) Instrument(device string, next func(diskquorum.Completion)) func(diskquorum.Completion) {
	type series struct {
		seconds prometheus.Observer
		errors  prometheus.Counter
	}
	of := func(op string) series {
		return series{m.seconds.WithLabelValues(device, op), m.errors.WithLabelValues(device, op)}
	}
	read, write := of("read"), of("write")
	return func(c diskquorum.Completion) {
		s := read
		if c.Kind == diskquorum.OpWrite {
			s = write
		}
		s.seconds.Observe(c.Ended.Sub(c.Started).Seconds())
		if c.Err != nil {
			s.errors.Inc()
		}
		next(c)
	}
}
