package gossipsim

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Report is the outcome of one simulation, or of several that were merged.
type Report struct {
	Config    Config
	Method    Method
	Trials    int
	Schedule  []string      // of the first trial
	Complete  int           // nodes that reached everybody when the schedule began
	Unformed  bool          // memberlists, counted, that did not even get to know each other
	Measured  time.Duration // virtual time of the schedule, of all trials together
	NodeHours float64       // the same for all nodes

	// How long the nodes took to see the consequences of the measured event, for good.
	BelowQuorum Distribution // those that must see less than a quorum
	ExactView   Distribution // all whose view must change: it is exactly what they can reach
	Left        Distribution // those that keep quorum: they have reported every lost node

	False False
	// Disturbed counts LEFTs that a fault explains, of restarted nodes too.
	Disturbed int
	// ByDoubt counts all LEFTs by doubt, rightly or not.
	ByDoubt int

	Sent      Traffic   // by all nodes during the schedule
	Busiest   Traffic   // by all nodes in the second with the most
	Seconds   []Traffic // by all nodes in each second of the first trial
	Overflows uint64    // packets that found a receiver's queue full

	Wall    time.Duration // real time that it took
	PeakRSS uint64        // memory of the process; of the largest, when merged
	Virtual time.Duration // simulated time, boot and warm-up included
}

// False counts wrong reports about healthy nodes.
type False struct {
	Reports    int // LEFTs of a healthy node at a healthy node
	AtSlow     int // LEFTs of a healthy node at a slow one
	OfSlow     int // LEFTs of a slow node
	Incidents  int // healthy nodes reported by anybody; reports within 10 s are one incident
	ByDoubt    int // of all these LEFTs, those by doubt, before evidence had run out
	QuorumLost int // nodes that lost sight of a quorum
}

// Distribution holds one time for each node that had to see a change.
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

// Len is the number of nodes, those that did not find out included.
func (d *Distribution) Len() int { return len(d.Samples) + d.Missing }

// Quantile returns the time within which a share q of the nodes found out: the nearest
// rank, so that 1 is the maximum and 0 the minimum. It reports false if that share was
// not reached.
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

// finish adds what is known at the end, this long after the beginning of the schedule.
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

// detected adds how long the nodes took since the latest event that is measured.
func (r *Report) detected(w *world) {
	exact, below, left := w.obs.detections()
	r.ExactView.merge(exact)
	r.BelowQuorum.merge(below)
	r.Left.merge(left)
}

// judge sorts the unexplained LEFTs.
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

// Rates are what a node sends in a second, on all networks together.
type Rates struct {
	Packets         float64
	EvidencePackets float64
	Bytes           float64 // of packets, with the headers of IP and UDP
	EvidenceBytes   float64 // of those, of the evidence protocol
	StreamBytes     float64 // estimated
}

// Mean returns the mean over the schedule.
func (r *Report) Mean() Rates { return r.rates(r.Sent, r.Measured.Seconds()) }

// Peak returns the second in which most was sent, in whichever trial that was.
func (r *Report) Peak() Rates { return r.rates(r.Busiest, 1) }

func (r *Report) rates(t Traffic, seconds float64) Rates {
	per := seconds * float64(r.Config.Nodes)
	return Rates{
		Packets: float64(t.Packets) / per, EvidencePackets: float64(t.Evidence) / per,
		Bytes: float64(t.Bytes) / per, EvidenceBytes: float64(t.EvidenceBytes) / per, StreamBytes: float64(t.StreamBytes) / per,
	}
}
