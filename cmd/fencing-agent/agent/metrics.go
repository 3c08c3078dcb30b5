package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

const namespace = "fencing_agent"

// metrics are those of the decision; the adapters have their own.
type metrics struct {
	members     *prometheus.GaugeVec
	reachable   prometheus.Gauge
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
	broken      prometheus.Counter

	reason   watchdog.Reason // whose gauge is 1
	tieBegan boottime.Instant
}

func newMetrics(reg *prometheus.Registry, c *config.Config, version string) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
		reg.MustRegister(g)
		return g
	}
	vec := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
		reg.MustRegister(g)
		return g
	}
	m := &metrics{
		members:    vec("members", "Members of the roster by state: reachable, restarting, unreachable, fenced.", "state"),
		reachable:  gauge("reachable_nodes", "Nodes that count for the quorum, this one included."),
		quorumSize: gauge("quorum_size", "Nodes that have to be counted for a quorum."),
		epoch:      gauge("roster_epoch", "Epoch of the list of members in force."),
		changing:   gauge("roster_changing", "1 while a change of the list of members is under way, or this node waits for a list or is on none."),
		hasQuorum:  gauge("has_quorum", "1 while this node is part of a side that may live."),
		agreed:     gauge("terms_agreed", "1 while this node has the word of a majority that they break ties as it does; 0: it takes no part in an equal split."),
		atOdds:     gauge("terms_others", "Members that last said to break ties in another way than this node: on another LUN, say."),
		strangers:  gauge("lun_strangers", "Nodes that write to the LUN and are not on the list of members: another group shares the LUN."),
		verdict:    vec("verdict", "1 for the reason of the present verdict, 0 for all others.", "reason"),
		network:    vec("network_reachable_nodes", "Peers that answer on a network.", "network"),
		lunHealthy: vec("lun_healthy", "1 while the LUN answers in time and this node's slot is held.", "device"),
		leaseHeld:  gauge("lun_lease_held", "1 while this node feeds under a grant of the tie-break lease, on the LUN or at the API server."),
		tieBreaks: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "tiebreak_total",
			Help: "Equal splits by tie-breaker and outcome: won, lost, undecided."}, []string{"breaker", "outcome"}),
		tieSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "tiebreak_seconds",
			Help: "Time from an equal split to its decision, as this node saw both.", Buckets: prometheus.ExponentialBuckets(0.05, 2, 10)}),
		decision: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "decision_seconds",
			Help: "Time one evaluation of the decision took.", Buckets: prometheus.ExponentialBuckets(1e-6, 4, 10)}),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "network_transitions_total",
			Help: "Peers that became reachable or unreachable on a network, whatever the other networks say."}, []string{"network", "to"}),
	}
	m.budget = vec("time_budget_seconds", "Terms and sums of this node's time budget, by its effective settings: d_max, sampling, arbitration, grant, feed, "+
		"watchdog, release, margin, horizon_majority, horizon_tie.", "term")
	m.furthest = gauge("longest_horizon_seconds", "The longest horizon that a member says of itself: a guarded node that is lost is dead after it.")
	m.showBudget(c.Budget(c.Watchdog.Timeout), 0)
	m.left = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "left_total",
		Help: "Published LEFTs by reason: unreachable, leaving, restart_overdue, rebooted, no_quorum."}, []string{"reason"})
	m.deaths = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "deaths_total",
		Help: "Proven deaths of nodes by proof: time, boot."}, []string{"proof"})
	m.broken = prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "deaths_contradicted_total",
		Help: "Proofs of a death that turned out wrong: a node that came back without a reboot after its watchdog must have reset it, or a boot that had ended and answers again."})
	reg.MustRegister(m.deaths, m.broken, m.left, m.tieBreaks, m.tieSeconds, m.decision, m.transitions)
	build := vec("build_info", "1, with the version of the agent.", "version")
	build.WithLabelValues(version).Set(1)
	if len(c.LUN.Devices) > 0 {
		// What an I/O may take differs from group to group, so that an alert needs it to compare with.
		gauge("lun_io_timeout_seconds", "lun.ioTimeout: an I/O that takes longer makes the device unhealthy for this node.").Set(c.LUN.IOTimeout.Seconds())
	}
	if c.UsesLease() {
		m.kubeLease = gauge("kube_lease_usable", "1 while the latest request for the Lease that breaks ties got an answer that tells something.")
	}
	m.init(c)
	return m
}

// init makes every series exist from the start, so that an alert can tell 0 from nothing.
func (m *metrics) init(c *config.Config) {
	for _, r := range watchdog.Reasons() {
		m.verdict.WithLabelValues(r.String())
	}
	for _, r := range watchdog.LeftReasons() {
		m.left.WithLabelValues(r.String())
	}
	for _, p := range []watchdog.Proof{watchdog.ProofTime, watchdog.ProofBoot} {
		m.deaths.WithLabelValues(p.String())
	}
	for _, s := range []string{"reachable", "restarting", "unreachable", "fenced"} {
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

// showBudget puts this node's time budget, and the longest horizon of a peer, into the metrics.
func (m *metrics) showBudget(b watchdog.Budget, peers time.Duration) {
	m.furthest.Set(max(b.Horizon(), peers).Seconds())
	for term, d := range map[string]time.Duration{
		"d_max": b.MaxAge, "sampling": b.Sampling, "arbitration": b.Arbitrate, "grant": b.Grant, "feed": b.Feed, "watchdog": b.Watchdog,
		"release": b.Release, "margin": b.Margin, "horizon_majority": b.Majority(), "horizon_tie": b.Tie(),
	} {
		m.budget.WithLabelValues(term).Set(d.Seconds())
	}
}

// longestHorizon is the longest that a peer says of itself.
func (a *Agent) longestHorizon() time.Duration {
	d := time.Duration(0)
	for p := range a.roster.Members {
		if st, _ := a.core.Merger().Statement(p); st != nil && st.Guard.Fences {
			d = max(d, st.Guard.Horizon)
		}
	}
	return d
}

// observe takes the outcome of one step. Most steps change nothing; what costs is done
// on changes or at the pace of the status picture.
func (m *metrics) observe(a *Agent, fx *watchdog.Effects) {
	if r := fx.Decision.Reason; r != m.reason {
		if m.reason != 0 {
			m.verdict.WithLabelValues(m.reason.String()).Set(0)
		}
		m.verdict.WithLabelValues(r.String()).Set(1)
		m.reason = r
	}
	if fx.Changed {
		m.hasQuorum.Set(boolGauge(fx.Decision.Quorum))
		a.life.ready.Store(fx.Decision.Quorum)
		a.published.server.SetReady(fx.Decision.Quorum)
		m.tie(a, fx)
	}
	_, others := a.core.TermsHeard()
	m.agreed.Set(boolGauge(a.core.Agreed()))
	m.atOdds.Set(float64(others.Len()))
	m.quorumSize.Set(float64(a.core.Quorum()))
	lists := a.core.Succession()
	m.epoch.Set(float64(lists.Base().Epoch))
	m.changing.Set(boolGauge(!lists.Settled() || lists.Next() != nil))
	v := a.core.View()
	v.Seen = v.Seen.And(a.core.Expected())
	counted := v.Counted.Len()
	m.reachable.Set(float64(counted))
	m.members.WithLabelValues("reachable").Set(float64(v.Seen.Len() + 1))
	restarting := a.core.Restarting().Len()
	m.members.WithLabelValues("restarting").Set(float64(restarting))
	fenced := fx.Fenced.Minus(v.Seen).Len()
	m.members.WithLabelValues("fenced").Set(float64(fenced))
	m.members.WithLabelValues("unreachable").Set(float64(max(0, a.core.Size()-v.Seen.Len()-1-restarting-fenced)))
	s := a.core.Split()
	m.leaseHeld.Set(boolGauge(s.Split == tie.Won))
	for d, k := range a.lun.keepers {
		now := a.clock()
		trouble := a.deviceTrouble(d, a.core.Arbiter(), now)
		m.lunHealthy.WithLabelValues(k.Path).Set(boolGauge(trouble == ""))
		a.noteTrouble(now, d, trouble)
	}
}

// tie follows one equal split from its beginning to its decision.
func (m *metrics) tie(a *Agent, fx *watchdog.Effects) {
	breaker, outcome := a.core.Breaker().Name(), ""
	switch r := fx.Decision.Reason; r {
	case watchdog.ReasonSplitPending, watchdog.ReasonSplitLUN:
		if m.tieBegan == 0 {
			m.tieBegan = a.clock()
		}
		return
	case watchdog.ReasonSplitWon:
		outcome = "won"
	case watchdog.ReasonSplitLost:
		outcome = "lost"
	case watchdog.ReasonSplitUndecided:
		outcome = "undecided"
	case watchdog.ReasonAPIReachable:
		breaker, outcome = a.core.TieBreaker(r), "won"
	case watchdog.ReasonAPIUnreachable:
		breaker, outcome = a.core.TieBreaker(r), "lost"
	default:
		m.tieBegan = 0
		return
	}
	m.tieBreaks.WithLabelValues(breaker.Setting, outcome).Inc()
	if m.tieBegan != 0 {
		m.tieSeconds.Observe(a.clock().Sub(m.tieBegan).Seconds())
		m.tieBegan = 0
	}
}

func boolGauge(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
