package picture

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

const namespace = "fencing_agent"

type Metrics struct {
	members     *prometheus.GaugeVec
	reachable   prometheus.Gauge
	suspects    prometheus.Gauge
	byLUN       prometheus.Gauge
	quorumSize  prometheus.Gauge
	epoch       prometheus.Gauge
	changing    prometheus.Gauge
	hasQuorum   prometheus.Gauge
	agreed      prometheus.Gauge
	atOdds      prometheus.Gauge
	strangers   prometheus.Gauge
	verdict     *prometheus.GaugeVec
	network     *prometheus.GaugeVec
	lunHealthy  *prometheus.GaugeVec
	leaseHeld   prometheus.Gauge
	kubeLease   prometheus.Gauge // nil: no Lease breaks ties
	tieBreaks   *prometheus.CounterVec
	tieSeconds  prometheus.Histogram
	decision    prometheus.Histogram
	transitions *prometheus.CounterVec
	budget      *prometheus.GaugeVec
	furthest    prometheus.Gauge
	left        *prometheus.CounterVec
	deaths      *prometheus.CounterVec
	told        *prometheus.CounterVec
	ordered     *prometheus.CounterVec
	maintenance prometheus.Gauge
	broken      prometheus.Counter
	sentences   prometheus.Gauge

	reason   watchdog.Reason // whose gauge is 1
	tieBegan boottime.Instant
}

// NewMetrics creates all series, at 0.
func NewMetrics(reg *prometheus.Registry, c *config.Config, version string) *Metrics {
	vec := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
		reg.MustRegister(g)
		return g
	}
	gauge := func(name, help string) prometheus.Gauge { return vec(name, help).WithLabelValues() }
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	m := &Metrics{
		members:    vec("members", "Members of the list by state: reachable, flapping (reachable too, and not published because it comes and goes), restarting, unreachable, fenced.", "state"),
		reachable:  gauge("reachable_nodes", "Nodes that count for the quorum, this one included."),
		suspects:   gauge("suspect_nodes", "Members that are reachable and owe this node the answer to a probe on every network that reaches them. They are counted."),
		byLUN:      gauge("lun_counted_nodes", "Nodes that count for the quorum by the LUN alone, as no network reaches them (lun.mode: or)."),
		quorumSize: gauge("quorum_size", "Nodes that have to be counted for a quorum."),
		epoch:      gauge("roster_epoch", "Epoch of the list of members in force."),
		changing:   gauge("roster_changing", "1 while a change of the list of members is under way, or this node waits for a list or is on none."),
		hasQuorum:  gauge("has_quorum", "1 while this node is part of a side that may live."),
		agreed:     gauge("terms_agreed", "1 while this node has the word of a majority that they break ties as it does; 0: it takes no part in an equal split."),
		atOdds:     gauge("terms_others", "Members that last said to break ties in another way than this node: on another LUN, say."),
		sentences:  gauge("sentences_possible", "1 while this node would announce a self-fence if it had lost for certain, so that others know within seconds; 0: they know by time alone."),
		strangers:  gauge("lun_strangers", "Nodes that write to the LUN and are not on the list of members: another group shares the LUN."),
		verdict:    vec("verdict", "1 for the reason of the present verdict, 0 for all others.", "reason"),
		network:    vec("network_reachable_nodes", "Peers that answer on a network.", "network"),
		lunHealthy: vec("lun_healthy", "1 while the LUN answers in time and this node's slot is held.", "device"),
		leaseHeld:  gauge("lun_lease_held", "1 while this node feeds under a grant of the tie-break lease, on the LUN or at the API server."),
		tieBreaks:  counter("tiebreak_total", "Equal splits by tie-breaker and outcome: won, lost, undecided.", "breaker", "outcome"),
		tieSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "tiebreak_seconds",
			Help: "Time from an equal split to its decision, as this node saw both.", Buckets: prometheus.ExponentialBuckets(0.05, 2, 10)}),
		decision: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "decision_seconds",
			Help: "Time one evaluation of the decision took.", Buckets: prometheus.ExponentialBuckets(1e-6, 4, 10)}),
		transitions: counter("network_transitions_total", "Peers that became reachable or unreachable on a network, whatever the other networks say.", "network", "to"),
	}
	m.budget = vec("time_budget_seconds", "Terms and sums of this node's time budget, by its effective settings: d_max, sampling, lun_evidence, arbitration, grant, feed, "+
		"watchdog, release, margin, horizon_majority, horizon_tie.", "term")
	m.furthest = gauge("longest_horizon_seconds", "The longest horizon that a member says of itself: a guarded node that is lost is dead after it.")
	b := c.Budget(c.LatestReset())
	m.showBudget(b, b.Horizon())
	m.left = counter("left_total", "Published LEFTs by reason: unreachable, leaving, restart_overdue, rebooted, no_quorum, doubted.", "reason")
	m.deaths = counter("deaths_total", "Proven deaths of nodes by proof: time, boot, sentence, power, kdump, operator.", "proof")
	m.told = counter("told_deaths_total", "External confirmations of deaths that root on this node gave to this agent, by the proof and by what became of them: believed, or why not.", "proof", "outcome")
	m.maintenance = gauge("maintenance_ends_seconds", "When the maintenance ends that fencectl maintenance has begun, in seconds since 1970; 0: there is none that ends by itself.")
	m.ordered = counter("fence_orders_total", "Orders that root on this node has given to this agent, that another node ends, by what became of them: obeyed, or why not.", "outcome")
	m.broken = counter("deaths_contradicted_total", "Proofs of a death that turned out wrong: a node that came back without a reboot after its watchdog must have reset it, or a boot that had ended and answers again.").WithLabelValues()
	reg.MustRegister(m.tieSeconds, m.decision)
	build := vec("build_info", "1, with the version of the agent.", "version")
	build.WithLabelValues(version).Set(1)
	if len(c.LUN.Devices) > 0 {
		// How long an I/O may take differs from group to group, so an alert has to compare with this value.
		gauge("lun_io_timeout_seconds", "lun.ioTimeout: an I/O that takes longer makes the device unhealthy for this node.").Set(c.LUN.IOTimeout.Seconds())
	}
	if c.UsesLease() {
		m.kubeLease = gauge("kube_lease_usable", "1 while the latest request for the Lease that breaks ties got an answer that tells something.")
	}
	m.init(c)
	return m
}

// init creates every series at the start, so that an alert can distinguish 0 from a missing series.
func (m *Metrics) init(c *config.Config) {
	for _, r := range watchdog.Reasons() {
		m.verdict.WithLabelValues(r.String())
	}
	for _, r := range watchdog.LeftReasons() {
		m.left.WithLabelValues(r.String())
	}
	for _, p := range []watchdog.Proof{watchdog.ProofTime, watchdog.ProofBoot, watchdog.ProofSentence, watchdog.ProofPower, watchdog.ProofKdump, watchdog.ProofOperator} {
		m.deaths.WithLabelValues(p.String())
	}
	for _, s := range []string{"reachable", "flapping", "restarting", "unreachable", "fenced"} {
		m.members.WithLabelValues(s)
	}
	for _, n := range c.SystemNetworks {
		m.network.WithLabelValues(n.Name)
		m.transitions.WithLabelValues(n.Name, "reachable")
		m.transitions.WithLabelValues(n.Name, "unreachable")
	}
	for _, d := range c.LUN.Devices {
		m.lunHealthy.WithLabelValues(d)
	}
	for _, b := range config.Breakers() {
		for _, o := range []string{"won", "lost", "undecided"} {
			m.tieBreaks.WithLabelValues(string(b), o)
		}
	}
}

// showBudget shows this node's time budget, and the longest horizon of all members.
func (m *Metrics) showBudget(b watchdog.Budget, longest time.Duration) {
	m.furthest.Set(longest.Seconds())
	for term, d := range map[string]time.Duration{
		"d_max": b.MaxAge, "sampling": b.Sampling, "lun_evidence": b.Voices, "arbitration": b.Arbitrate, "grant": b.Grant, "feed": b.Feed, "watchdog": b.Watchdog,
		"release": b.Release, "margin": b.Margin, "horizon_majority": b.Majority(), "horizon_tie": b.Tie(),
	} {
		m.budget.WithLabelValues(term).Set(d.Seconds())
	}
}

// Show sets the gauges to the facts.
func (m *Metrics) Show(f *Facts) {
	if r := f.Verdict.Decision.Reason; r != m.reason {
		if m.reason != 0 {
			m.verdict.WithLabelValues(m.reason.String()).Set(0)
		}
		m.verdict.WithLabelValues(r.String()).Set(1)
		m.reason = r
	}
	m.hasQuorum.Set(boolGauge(f.Ready()))
	m.agreed.Set(boolGauge(f.Terms.Agreed))
	m.atOdds.Set(float64(f.Terms.Others.Len()))
	m.sentences.Set(boolGauge(f.Barred == watchdog.BarNone))
	m.strangers.Set(float64(len(f.Strangers)))
	m.quorumSize.Set(float64(f.Verdict.Tally.Quorum))
	m.epoch.Set(float64(f.Lists.Base.Epoch))
	m.changing.Set(boolGauge(f.Lists.Changing))
	m.leaseHeld.Set(boolGauge(f.Won))
	if m.kubeLease != nil {
		m.kubeLease.Set(boolGauge(f.Lease))
	}
	m.showMembers(f)
	for i := range f.Networks {
		m.network.WithLabelValues(f.Networks[i].Name).Set(float64(f.Networks[i].reachable()))
	}
	for i := range f.Devices {
		m.lunHealthy.WithLabelValues(f.Devices[i].Path).Set(boolGauge(f.Devices[i].Trouble == ""))
	}
	m.showBudget(f.Budget, f.longestHorizon())
}

// showMembers counts the members by state.
func (m *Metrics) showMembers(f *Facts) {
	seen := f.View.Seen.And(f.Expected)
	restarting, fenced := f.Restarting.Len(), f.Fenced.Minus(seen).Len()
	m.reachable.Set(float64(f.View.Counted.Len()))
	suspects, flapping := 0, 0
	for p := range f.Nodes {
		if seen.Has(p) && f.Nodes[p].LeftReason == watchdog.LeftFlapping {
			flapping++
		}
		if f.Suspect(p) {
			suspects++
		}
	}
	m.suspects.Set(float64(suspects))
	m.byLUN.Set(float64(f.Verdict.Tally.ByLUN))
	for state, n := range map[string]int{
		"reachable": seen.Len() + 1 - flapping, "flapping": flapping, "restarting": restarting, "fenced": fenced,
		"unreachable": max(0, f.Verdict.Tally.Expected-seen.Len()-1-restarting-fenced),
	} {
		m.members.WithLabelValues(state).Set(float64(n))
	}
}

// Decided records how long one evaluation took.
func (m *Metrics) Decided(took time.Duration) { m.decision.Observe(took.Seconds()) }

// Left counts a member that was published as gone.
func (m *Metrics) Left(why watchdog.LeftReason) { m.left.WithLabelValues(why.String()).Inc() }

// Died counts a proof of death.
func (m *Metrics) Died(by watchdog.Proof) { m.deaths.WithLabelValues(by.String()).Inc() }

// Told counts the outcome of a death that was reported to this agent.
func (m *Metrics) Told(p watchdog.Proof, outcome string) {
	m.told.WithLabelValues(p.String(), outcome).Inc()
}

// Ordered counts the outcome of an order that was given to this agent.
func (m *Metrics) Ordered(outcome string) { m.ordered.WithLabelValues(outcome).Inc() }

// MaintenanceEnds shows when the maintenance of this node ends, in seconds of the wall clock; nil: there is none with an end.
func (m *Metrics) MaintenanceEnds(at *int64) {
	if at == nil {
		m.maintenance.Set(0)
		return
	}
	m.maintenance.Set(float64(*at))
}

// Contradicted counts a proof of death that turned out wrong.
func (m *Metrics) Contradicted() { m.broken.Inc() }

// Turned counts peers that became reachable on a network, and unreachable ones.
func (m *Metrics) Turned(network string, regained, lost int) {
	m.transitions.WithLabelValues(network, "reachable").Add(float64(regained))
	m.transitions.WithLabelValues(network, "unreachable").Add(float64(lost))
}

// Tie handles a changed decision. It follows each equal split from its beginning to its decision by a tie-breaker.
func (m *Metrics) Tie(now boottime.Instant, r watchdog.Reason, breaker string) {
	outcome := ""
	switch r {
	case watchdog.ReasonSplitPending, watchdog.ReasonSplitLUN:
		if m.tieBegan == 0 {
			m.tieBegan = now
		}
		return
	case watchdog.ReasonSplitWon, watchdog.ReasonAPIReachable:
		outcome = "won"
	case watchdog.ReasonSplitLost, watchdog.ReasonAPIUnreachable:
		outcome = "lost"
	case watchdog.ReasonSplitUndecided:
		outcome = "undecided"
	default:
		m.tieBegan = 0
		return
	}
	m.tieBreaks.WithLabelValues(breaker, outcome).Inc()
	if m.tieBegan != 0 {
		m.tieSeconds.Observe(now.Sub(m.tieBegan).Seconds())
		m.tieBegan = 0
	}
}

func boolGauge(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
