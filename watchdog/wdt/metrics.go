package wdt

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// slackBounds are the upper bounds of the slack histogram. They are dense below 10 s: that
// is where a slack says that the node was close to being reset for no reason.
var slackBounds = [...]time.Duration{
	0, 250 * time.Millisecond, 500 * time.Millisecond, 1 * time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second,
	7500 * time.Millisecond, 10 * time.Second, 15 * time.Second, 20 * time.Second, 25 * time.Second, 30 * time.Second,
	45 * time.Second, 60 * time.Second, 120 * time.Second,
}

// Metrics counts what one [Feeder] does. The feeder only adds to the atomics below; the
// goroutine that scrapes turns them into metrics. A prometheus histogram would work for classic buckets today, but
// that is not guaranteed: its native buckets take a mutex and allocate, and a scrape swaps its counters underneath.
// The feed path must not depend on that.
type Metrics struct {
	armed      atomic.Bool
	kept       atomic.Bool
	timeout    atomic.Int64 // nanoseconds
	feeds      atomic.Uint64
	feedErrors atomic.Uint64
	lateFeeds  atomic.Uint64
	slack      [len(slackBounds) + 1]atomic.Uint64 // the last one is +Inf
	slackSum   atomic.Int64                        // nanoseconds
	hardening  atomic.Bool                         // hardened is known
	hardened   [len(measures)]atomic.Bool
	desc       descriptions
}

type descriptions struct {
	armed, kept, timeout, feeds, feedErrors, lateFeeds, slack, hardened *prometheus.Desc
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics registers the watchdog's metrics with reg; nil registers them nowhere. It
// panics if reg already has them, since two feeders of one node are a mistake.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	name := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("fencing_agent_watchdog_"+name, help, nil, nil)
	}
	m := &Metrics{desc: descriptions{
		armed:      name("armed", "1 while the countdown of the watchdog runs; always 0 in a dry run."),
		kept:       name("descriptor_kept", "1 while systemd keeps a copy of the descriptor of the armed watchdog."),
		timeout:    name("timeout_seconds", "Timeout that the driver read back; 0 while unarmed."),
		feeds:      name("feeds_total", "Feeds that worked."),
		feedErrors: name("feed_errors_total", "Feeds that the driver refused."),
		lateFeeds:  name("late_feeds_total", "Feeds permitted when they began that ended after the permission had."),
		slack:      name("feed_slack_seconds", "What was left of the countdown when it was restarted."),
	}}
	m.desc.hardened = prometheus.NewDesc("fencing_agent_watchdog_hardened",
		"1 if the measure protects the feeder from load on the host: memory, scheduler, io, oom.", []string{"measure"}, nil)
	if reg != nil {
		reg.MustRegister(m)
	}
	return m
}

// SetKept says whether systemd keeps a copy of the watchdog's descriptor.
func (m *Metrics) SetKept(kept bool) { m.kept.Store(kept) }

// observe runs on the feed path.
func (m *Metrics) observe(slack time.Duration) {
	i := 0
	for i < len(slackBounds) && slack > slackBounds[i] {
		i++
	}
	m.slack[i].Add(1)
	m.slackSum.Add(int64(slack))
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.desc.armed, m.desc.kept, m.desc.timeout, m.desc.feeds, m.desc.feedErrors, m.desc.lateFeeds, m.desc.slack, m.desc.hardened} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	flag := func(b *atomic.Bool) float64 {
		if b.Load() {
			return 1
		}
		return 0
	}
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	counter := func(d *prometheus.Desc, v uint64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	gauge(m.desc.armed, flag(&m.armed))
	gauge(m.desc.kept, flag(&m.kept))
	gauge(m.desc.timeout, time.Duration(m.timeout.Load()).Seconds())
	counter(m.desc.feeds, m.feeds.Load())
	counter(m.desc.feedErrors, m.feedErrors.Load())
	counter(m.desc.lateFeeds, m.lateFeeds.Load())

	if m.hardening.Load() {
		for i, measure := range measures {
			ch <- prometheus.MustNewConstMetric(m.desc.hardened, prometheus.GaugeValue, flag(&m.hardened[i]), measure)
		}
	}

	// The count is the sum of the buckets as they were read, so that a feed in between
	// cannot make the histogram contradict itself.
	var count uint64
	cumulative := make(map[float64]uint64, len(slackBounds))
	for i, bound := range slackBounds {
		count += m.slack[i].Load()
		cumulative[bound.Seconds()] = count
	}
	count += m.slack[len(slackBounds)].Load()
	sum := time.Duration(m.slackSum.Load()).Seconds()
	ch <- prometheus.MustNewConstHistogram(m.desc.slack, count, sum, cumulative)
}
