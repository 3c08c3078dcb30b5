package swim

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/fencing-agent/fencing-agent/netgossip/probing"
)

// refusal is the reason why an arrival was refused.
type refusal string

const (
	refusedSource    refusal = "source"    // not from the address of another member
	refusedCut       refusal = "cut"       // a stream that ended before its type was known
	refusedLabel     refusal = "label"     // of another cluster, group or network
	refusedKey       refusal = "key"       // not encrypted with a key that we have
	refusedVersion   refusal = "version"   // encrypted in a way that no agent does
	refusedMalformed refusal = "malformed" // not decodable, or in contradiction to the roster
	refusedRoster    refusal = "roster"    // numbers its sender by another roster; the sender repeats it with its name
	refusedStranger  refusal = "stranger"  // names no member of the roster with an address on this network
	refusedOwnName   refusal = "own_name"  // another node that uses our name
	refusedUnmatched refusal = "unmatched" // a reply that belongs to no probe of ours, or comes too late
	refusedWord      refusal = "word"      // a word without proof of its sender, or of unknown age
	refusedOverflow  refusal = "overflow"  // arrived faster than arrivals could be handled
)

var refusals = []refusal{
	refusedSource, refusedCut, refusedLabel, refusedKey, refusedVersion, refusedMalformed, refusedRoster, refusedStranger,
	refusedOwnName, refusedUnmatched, refusedWord, refusedOverflow,
}

// Metrics holds the Prometheus metrics of all instances of a process. Create it with [NewMetrics]; it is safe for
// concurrent use.
type Metrics struct {
	packets, bytes, dropped, refused, probes, answers *prometheus.CounterVec
	samples, misses, sweeps                           *prometheus.CounterVec
	health, mode                                      *prometheus.GaugeVec
}

// NewMetrics creates the metrics and registers them; if reg is nil, they stay unregistered. Like promauto it panics if
// a metric of the same name is already registered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Namespace: "fencing_agent", Name: name, Help: help},
			append([]string{"network"}, labels...))
	}
	return &Metrics{
		packets: counter("gossip_packets_total", "Gossip packets of a SystemNetwork, by direction (in, out).", "direction"),
		bytes:   counter("gossip_bytes_total", "Gossip payload of a SystemNetwork in bytes, packets and streams, without IP, UDP and TCP headers, by direction (in, out).", "direction"),
		dropped: counter("gossip_dropped_total", "Gossip packets of a SystemNetwork that the kernel's socket buffers had no room for, by direction (in, out).", "direction"),
		refused: counter("gossip_refused_total", "Arrivals on a SystemNetwork that were not believed, by reason.", "reason"),
		probes:  counter("gossip_probes_total", "Own evidence probes sent on a SystemNetwork."),
		answers: counter("gossip_answers_total", "Own evidence probes that a peer answered on a SystemNetwork."),
		samples: counter("gossip_samples_total", "Peers probed on a SystemNetwork as random samples of all."),
		misses:  counter("gossip_missed_samples_total", "Random samples on a SystemNetwork that did not answer four probes, or did not see this node."),
		sweeps:  counter("gossip_sweeps_total", "Times that missed samples made all peers of a SystemNetwork be probed."),
		mode: f.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "fencing_agent",
			Name:      "gossip_mode",
			Help:      "How the peers of a SystemNetwork are probed (direct, sampled, sweep): 1 for the present mode.",
		}, []string{"network", "mode"}),
		health: f.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "fencing_agent",
			Name:      "network_health_score",
			Help:      "Local health of memberlist on a SystemNetwork: 0 is healthy, each point slows its probing by one probe interval.",
		}, []string{"network"}),
	}
}

// tally counts for Stats and for Prometheus at the same time; Stats belong to one instance, the metric outlives it.
type tally struct {
	n    atomic.Uint64
	prom prometheus.Counter
}

func (t *tally) add(n int) {
	t.n.Add(uint64(n))
	t.prom.Add(float64(n))
}

type counters struct {
	packetsIn, packetsOut, bytesIn, bytesOut tally
	droppedIn, droppedOut                    tally
	probes, answers                          tally
	samples, misses, sweeps                  tally
	refused                                  map[refusal]*tally // fixed after creation
	health                                   prometheus.Gauge
	modes                                    [probing.ModeSweep + 1]prometheus.Gauge
	mode                                     atomic.Uint32
}

// network returns the metrics of one network, which also creates them with the value zero.
func (m *Metrics) network(name string) *counters {
	c := &counters{refused: make(map[refusal]*tally, len(refusals)), health: m.health.WithLabelValues(name)}
	c.packetsIn.prom = m.packets.WithLabelValues(name, "in")
	c.packetsOut.prom = m.packets.WithLabelValues(name, "out")
	c.bytesIn.prom = m.bytes.WithLabelValues(name, "in")
	c.bytesOut.prom = m.bytes.WithLabelValues(name, "out")
	c.droppedIn.prom = m.dropped.WithLabelValues(name, "in")
	c.droppedOut.prom = m.dropped.WithLabelValues(name, "out")
	c.probes.prom = m.probes.WithLabelValues(name)
	c.answers.prom = m.answers.WithLabelValues(name)
	c.samples.prom = m.samples.WithLabelValues(name)
	c.misses.prom = m.misses.WithLabelValues(name)
	c.sweeps.prom = m.sweeps.WithLabelValues(name)
	for i := range c.modes {
		if word := probing.Mode(i).String(); word != "" {
			c.modes[i] = m.mode.WithLabelValues(name, word)
		}
	}
	for _, r := range refusals {
		c.refused[r] = &tally{prom: m.refused.WithLabelValues(name, string(r))}
	}
	return c
}

func (c *counters) setMode(m probing.Mode) {
	c.mode.Store(uint32(m))
	for i, g := range c.modes {
		if g == nil {
			continue
		}
		if g.Set(0); probing.Mode(i) == m {
			g.Set(1)
		}
	}
}

func (c *counters) modeName() string { return probing.Mode(c.mode.Load()).String() }
