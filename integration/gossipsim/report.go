package gossipsim

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Report is the result of one simulation, or of several that were merged.
type Report struct {
	Config    Config
	Method    Method
	Trials    int
	Schedule  []string      // of the first trial
	Complete  int           // nodes that reached all others when the schedule began
	Unformed  bool          // counted memberlists did not even get to know each other
	Measured  time.Duration // virtual time of the schedules of all trials together
	NodeHours float64       // the same, summed over all nodes

	// These are the times until the nodes saw the consequences of the measured event, and kept seeing them.
	BelowQuorum Distribution // of nodes that must see less than a quorum
	ExactView   Distribution // of all nodes whose view must change to exactly what they can reach
	Left        Distribution // of nodes that keep quorum, until they have reported every lost node

	False False
	// Disturbed counts LEFTs that a fault explains, including those of restarted nodes.
	Disturbed int
	// ByDoubt counts all LEFTs by doubt, whether right or wrong.
	ByDoubt int

	Sent      Traffic   // by all nodes during the schedule
	Busiest   Traffic   // by all nodes in the second with the most traffic
	Seconds   []Traffic // by all nodes in each second of the first trial
	Overflows uint64    // packets that found a receiver's queue full

	Wall    time.Duration // real time of the run
	PeakRSS uint64        // memory of the process, or of the largest one if merged
	Virtual time.Duration // simulated time, including boot and warm-up
}

// False counts wrong reports about healthy nodes.
type False struct {
	Reports    int // LEFTs of a healthy node at a healthy node
	AtSlow     int // LEFTs of a healthy node at a slow one
	OfSlow     int // LEFTs of a slow node
	Incidents  int // healthy nodes that any node reported; reports within 10 s are one incident
	ByDoubt    int // those of all these LEFTs that were due to doubts, before evidence had expired
	QuorumLost int // nodes that no longer saw a quorum
}

// Distribution contains one time for each node that had to see a change.
type Distribution struct {
	Samples []time.Duration // sorted
	Missing int             // nodes that had not seen it at the end
}

func (d *Distribution) add(at, since time.Time) {
	if at.IsZero() {
		d.Missing++
		return
	}
	d.Samples = append(d.Samples, at.Sub(since))
}

// Len returns the number of nodes, including those that did not see the change.
func (d *Distribution) Len() int { return len(d.Samples) + d.Missing }

// Quantile returns the time within which a share q of the nodes saw the change. It uses the nearest rank, so that 1 is
// the maximum and 0 the minimum. It returns false if that share was not reached.
func (d *Distribution) Quantile(q float64) (time.Duration, bool) {
	rank := max(1, int(math.Ceil(q*float64(d.Len()))))
	if rank > len(d.Samples) {
		return 0, false
	}
	return d.Samples[rank-1], true
}

func (d *Distribution) merge(o Distribution) {
	d.Samples = append(d.Samples, o.Samples...)
	d.Missing += o.Missing
	slices.Sort(d.Samples)
}

func newReport(w *world) *Report {
	r := &Report{Config: w.cfg, Method: w.method, Trials: 1, Schedule: []string{}, Unformed: w.unformed}
	for _, f := range w.faults {
		r.Schedule = append(r.Schedule, f.String())
	}
	return r
}

// finish adds what is known at the end, which is this long after the beginning of the schedule.
func (r *Report) finish(w *world, measured time.Duration) {
	r.Measured = measured
	r.NodeHours = float64(w.cfg.Nodes) * measured.Hours()
	r.Virtual = bootSpread + w.cfg.Warmup + r.Measured
	for _, s := range r.Seconds {
		r.Sent.add(s)
		if s.total() > r.Busiest.total() {
			r.Busiest = s
		}
	}
	r.detected(w)
	w.obs.mu.Lock()
	defer w.obs.mu.Unlock()
	r.Disturbed, r.ByDoubt = w.obs.disturbed, w.obs.byDoubt
	r.False = judge(w.obs.lefts)
	r.False.QuorumLost = len(w.obs.lost)
	r.Overflows = w.fab.overflows()
}

// detected adds the times of the nodes since the latest event that is measured.
func (r *Report) detected(w *world) {
	exact, below, left := w.obs.detections()
	r.ExactView.merge(exact)
	r.BelowQuorum.merge(below)
	r.Left.merge(left)
}

// judge classifies the unexplained LEFTs.
func judge(lefts []left) False {
	var f False
	slices.SortStableFunc(lefts, func(a, b left) int {
		return cmp.Or(cmp.Compare(a.subject, b.subject), cmp.Compare(a.at, b.at))
	})
	subject, last := -1, time.Duration(0)
	for _, l := range lefts {
		if l.byDoubt {
			f.ByDoubt++
		}
		switch {
		case l.ofSlow:
			f.OfSlow++
			continue
		case l.atSlow:
			f.AtSlow++
		default:
			f.Reports++
		}
		if l.subject != subject || l.at-last > excuseTime {
			f.Incidents++
		}
		subject, last = l.subject, l.at
	}
	return f
}

// Merge adds another trial of the same configuration with another seed.
func (r *Report) Merge(o *Report) {
	r.Trials += o.Trials
	r.Complete = min(r.Complete, o.Complete)
	r.Unformed = r.Unformed || o.Unformed
	r.NodeHours += o.NodeHours
	r.BelowQuorum.merge(o.BelowQuorum)
	r.ExactView.merge(o.ExactView)
	r.Left.merge(o.Left)
	r.False.Reports += o.False.Reports
	r.False.AtSlow += o.False.AtSlow
	r.False.OfSlow += o.False.OfSlow
	r.False.Incidents += o.False.Incidents
	r.False.QuorumLost += o.False.QuorumLost
	r.False.ByDoubt += o.False.ByDoubt
	r.ByDoubt += o.ByDoubt
	r.Disturbed += o.Disturbed
	r.Measured += o.Measured
	r.Sent.add(o.Sent)
	if o.Busiest.total() > r.Busiest.total() {
		r.Busiest = o.Busiest
	}
	r.Overflows += o.Overflows
	r.Wall += o.Wall
	r.PeakRSS = max(r.PeakRSS, o.PeakRSS)
	r.Virtual += o.Virtual
}

// Rates is the traffic that one node sends in a second, on all networks together.
type Rates struct {
	Packets         float64
	EvidencePackets float64
	Bytes           float64 // bytes of packets, with the headers of IP and UDP
	EvidenceBytes   float64 // the part that belongs to the evidence protocol
	StreamBytes     float64 // estimated bytes in streams
}

// Mean returns the mean over the schedule.
func (r *Report) Mean() Rates { return r.rates(r.Sent, r.Measured.Seconds()) }

// Peak returns the second with the most traffic of all trials.
func (r *Report) Peak() Rates { return r.rates(r.Busiest, 1) }

func (r *Report) rates(t Traffic, seconds float64) Rates {
	per := seconds * float64(r.Config.Nodes)
	return Rates{
		Packets: float64(t.Packets) / per, EvidencePackets: float64(t.Evidence) / per,
		Bytes: float64(t.Bytes) / per, EvidenceBytes: float64(t.EvidenceBytes) / per, StreamBytes: float64(t.StreamBytes) / per,
	}
}
