package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"go.yaml.in/yaml/v3"
)

// now is when the alerts are evaluated, scrape the time between two samples and past how far
// the samples go back.
var now = time.Unix(1_700_000_000, 0)

const (
	scrape = 15 * time.Second
	past   = 2 * time.Hour
)

// sample implements chunks.Sample for floats.
type sample struct {
	t int64
	v float64
}

func (s sample) ST() int64                     { return 0 }
func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// world is a set of series by their text, such as `up{node="n1"}`, with a constant value or,
// for names that end in _total or _bucket, a growth per second.
type world map[string]float64

// healthy is a group of four nodes on two networks with a LUN, seen from n1, and n2's view of
// what the alerts compare.
func healthy() world {
	w := world{}
	for _, node := range []string{"n1", "n2"} {
		at := func(name, more string, v float64) {
			w[name+`{group="g", job="fencing-agent", node="`+node+`"`+more+`}`] = v
		}
		at("up", "", 1)
		at("fencing_agent_has_quorum", "", 1)
		at("fencing_agent_members", `, state="reachable"`, 4)
		for _, state := range []string{"restarting", "unreachable", "fenced"} {
			at("fencing_agent_members", `, state="`+state+`"`, 0)
		}
		for _, network := range []string{"mgmt", "data"} {
			at("fencing_agent_network_reachable_nodes", `, network="`+network+`"`, 3)
			at("fencing_agent_network_transitions_total", `, network="`+network+`", to="unreachable"`, 0)
			at("fencing_agent_gossip_refused_total", `, network="`+network+`", reason="key"`, 0)
			at("fencing_agent_gossip_sweeps_total", `, network="`+network+`"`, 0)
			at("fencing_agent_gossip_dropped_total", `, network="`+network+`", direction="in"`, 0)
			at("fencing_agent_name_conflicts_total", `, network="`+network+`"`, 0)
		}
		at("fencing_agent_watchdog_armed", "", 1)
		at("fencing_agent_watchdog_timeout_seconds", "", 30)
		at("fencing_agent_watchdog_feed_errors_total", "", 0)
		for _, measure := range []string{"memory", "scheduler", "io", "oom"} {
			at("fencing_agent_watchdog_hardened", `, measure="`+measure+`"`, 1)
		}
		for le, v := range map[string]float64{"5": 0, "20": 0, "25": 0.2, "30": 0.2, "120": 0.2, "+Inf": 0.2} {
			at("fencing_agent_watchdog_feed_slack_seconds_bucket", `, le="`+le+`"`, v)
		}
		at("fencing_agent_verdict", `, reason="network_quorum"`, 1)
		at("fencing_agent_verdict", `, reason="maintenance"`, 0)
		at("fencing_agent_deaths_total", `, proof="time"`, 0)
		at("fencing_agent_deaths_contradicted_total", "", 0)
		at("fencing_agent_lun_healthy", `, device="/dev/mapper/fence"`, 1)
		at("fencing_agent_lun_io_errors_total", `, device="/dev/mapper/fence", op="read"`, 0)
		for le, v := range map[string]float64{"0.004": 1, "4": 1, "+Inf": 1} {
			at("fencing_agent_lun_io_seconds_bucket", `, device="/dev/mapper/fence", op="write", le="`+le+`"`, v)
		}
		at("fencing_agent_tiebreak_total", `, breaker="lun", outcome="undecided"`, 0)
		at("fencing_agent_subscribers_dropped_total", `, reason="slow"`, 0)
		at("fencing_agent_roster_changing", "", 0)
		at("fencing_agent_roster_epoch", "", 3)
		at("fencing_agent_kube_requests_total", `, verb="watch", resource="nodes", code="200"`, 0.01)
		at("fencing_agent_kube_requests_total", `, verb="watch", resource="nodes", code="error"`, 0)
		at("fencing_agent_build_info", `, version="v1"`, 1)
	}
	return w
}

// n1 is the text of a series of the node n1.
func n1(name, more string) string {
	return name + `{group="g", job="fencing-agent", node="n1"` + more + `}`
}

// querier returns the series of the world.
func (w world) querier(t *testing.T, p parser.Parser) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for text, v := range w {
		name, err := p.ParseMetric(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		grows := strings.HasSuffix(name.Get("__name__"), "_total") || strings.HasSuffix(name.Get("__name__"), "_bucket")
		var samples []chunks.Sample
		for age := past; age >= 0; age -= scrape {
			s := sample{now.Add(-age).UnixMilli(), v}
			if grows {
				s.v = v * (past - age).Seconds()
			}
			samples = append(samples, s)
		}
		all = append(all, storage.NewListSeries(name, samples))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			var found []storage.Series
			for _, s := range all {
				if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
					found = append(found, s)
				}
			}
			return &seriesSet{found: found}
		},
	}}
}

type seriesSet struct {
	found []storage.Series
	at    storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.found) == 0 {
		return false
	}
	s.at, s.found = s.found[0], s.found[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.at }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// firing returns the names of the alerts whose expressions have a result, after any for.
func firing(t *testing.T, w world) []string {
	t.Helper()
	p := parser.NewParser(parser.Options{})
	text, err := os.ReadFile(filepath.Join(root, chartDir, "files/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, Parser: p})
	series := w.querier(t, p)
	fired := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			q, err := engine.NewInstantQuery(context.Background(), series, nil, r.Expr, now)
			if err != nil {
				t.Fatalf("%s: %v", r.Alert, err)
			}
			result := q.Exec(context.Background())
			if result.Err != nil {
				t.Fatalf("%s: %v", r.Alert, result.Err)
			}
			v, err := result.Vector()
			if err != nil {
				t.Fatalf("%s: %v", r.Alert, err)
			}
			if len(v) > 0 {
				fired[r.Alert] = true
			}
			q.Close()
		}
	}
	return slices.Sorted(maps.Keys(fired))
}

// Each alert fires for its fault, and a healthy group has none.
func TestAlertsFireForTheirFault(t *testing.T) {
	if got := firing(t, healthy()); len(got) > 0 {
		t.Errorf("a healthy group has alerts: %v", got)
	}
	mgmt, lun := `, network="mgmt"`, `, device="/dev/mapper/fence"`
	for _, c := range []struct {
		alert string
		fault world
	}{
		{"FencingAgentDown", world{n1("up", ""): 0}},
		{"FencingNoQuorum", world{n1("fencing_agent_has_quorum", ""): 0}},
		{"FencingMembersMissing", world{n1("fencing_agent_members", `, state="fenced"`): 1}},
		{"FencingNetworkDegraded", world{n1("fencing_agent_network_reachable_nodes", mgmt): 2}},
		{"FencingNetworkFlaps", world{n1("fencing_agent_network_transitions_total", mgmt+`, to="unreachable"`): 0.01}},
		{"FencingGossipRefused", world{n1("fencing_agent_gossip_refused_total", mgmt+`, reason="key"`): 1}},
		{"FencingGossipLossy", world{n1("fencing_agent_gossip_sweeps_total", mgmt): 0.1}},
		{"FencingGossipLossy", world{n1("fencing_agent_gossip_dropped_total", mgmt+`, direction="in"`): 10}},
		{"FencingNameConflict", world{n1("fencing_agent_name_conflicts_total", mgmt): 0.02}},
		{"FencingWatchdogNotArmed", world{n1("fencing_agent_watchdog_armed", ""): 0}},
		{"FencingWatchdogFeedFails", world{n1("fencing_agent_watchdog_feed_errors_total", ""): 0.1}},
		{"FencingFeedSlackLow", world{
			n1("fencing_agent_watchdog_feed_slack_seconds_bucket", `, le="5"`):  0.02,
			n1("fencing_agent_watchdog_feed_slack_seconds_bucket", `, le="20"`): 0.02,
		}},
		{"FencingFeederNotHardened", world{n1("fencing_agent_watchdog_hardened", `, measure="scheduler"`): 0}},
		{"FencingDeathContradicted", world{n1("fencing_agent_deaths_contradicted_total", ""): 0.001}},
		{"FencingNodeFenced", world{n1("fencing_agent_deaths_total", `, proof="time"`): 0.002}},
		{"FencingLUNUnhealthy", world{n1("fencing_agent_lun_healthy", lun): 0}},
		{"FencingLUNSlow", world{n1("fencing_agent_lun_io_seconds_bucket", lun+`, op="write", le="0.004"`): 0.5}},
		{"FencingLUNErrors", world{n1("fencing_agent_lun_io_errors_total", lun+`, op="read"`): 0.1}},
		{"FencingTieUndecided", world{n1("fencing_agent_tiebreak_total", `, breaker="lun", outcome="undecided"`): 0.002}},
		{"FencingListChangeStuck", world{n1("fencing_agent_roster_changing", ""): 1}},
		{"FencingListsDiffer", world{n1("fencing_agent_roster_epoch", ""): 4}},
		{"FencingAPIUnreachable", world{
			n1("fencing_agent_kube_requests_total", `, verb="watch", resource="nodes", code="200"`):   0,
			n1("fencing_agent_kube_requests_total", `, verb="watch", resource="nodes", code="error"`): 0.1,
		}},
		{"FencingSubscribersDropped", world{n1("fencing_agent_subscribers_dropped_total", `, reason="slow"`): 0.01}},
		{"FencingVersionsDiffer", world{n1("fencing_agent_build_info", `, version="v1"`): 1, n1("fencing_agent_build_info", `, version="v2"`): 1}},
	} {
		w := healthy()
		for text, v := range c.fault {
			if _, known := w[text]; !known && c.alert != "FencingVersionsDiffer" {
				t.Errorf("%s: a healthy group has no %s", c.alert, text)
			}
			w[text] = v
		}
		if got := firing(t, w); !slices.Equal(got, []string{c.alert}) {
			t.Errorf("%v: alerts %v, want %s", c.fault, got, c.alert)
		}
	}
}

// What is no fault: maintenance, a dry run, an API server that fails now and then, a watchdog
// with a long timeout.
func TestAlertsAreSilentWithoutFault(t *testing.T) {
	maintenance := healthy()
	maintenance[n1("fencing_agent_watchdog_armed", "")] = 0
	maintenance[n1("fencing_agent_verdict", `, reason="maintenance"`)] = 1
	dryRun := healthy()
	maps.DeleteFunc(dryRun, func(text string, _ float64) bool {
		return strings.Contains(text, "hardened") || strings.Contains(text, "slack")
	})
	for _, node := range []string{"n1", "n2"} {
		dryRun[`fencing_agent_watchdog_armed{group="g", job="fencing-agent", node="`+node+`"}`] = 0
	}
	hiccups := healthy()
	hiccups[n1("fencing_agent_kube_requests_total", `, verb="watch", resource="nodes", code="error"`)] = 0.001
	patient := healthy() // the slack is beyond the histogram's last bound
	patient[n1("fencing_agent_watchdog_timeout_seconds", "")] = 600
	for _, le := range []string{"25", "30", "120"} {
		patient[n1("fencing_agent_watchdog_feed_slack_seconds_bucket", `, le="`+le+`"`)] = 0
	}
	for name, w := range map[string]world{"maintenance": maintenance, "dry run": dryRun, "hiccups": hiccups, "long timeout": patient} {
		if got := firing(t, w); len(got) > 0 {
			t.Errorf("%s: alerts %v", name, got)
		}
	}
}
