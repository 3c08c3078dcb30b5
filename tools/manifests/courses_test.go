package main

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// A course is a story over time about a group of four nodes, with the alerts that it raises and their times.
// testdata/courses.txt explains how to write one.
type course struct {
	alert, story string
	line         int
	silent       bool          // the alert must not fire
	controller   bool          // it is about fencing-controller, whose alerts are in a separate file
	phase        time.Duration // phase of the scrapes relative to the evaluations
	until        time.Duration
	events       []event
	want         []span
}

// An event changes the series of a node, of a group, or, with "*", of all.
type event struct {
	at          time.Duration
	where, verb string
	name        string // name of the series; empty: all
	matchers    []*labels.Matcher
	value       float64
}

// A span is an alert that fires from one evaluation until another; if to is 0, until the end.
type span struct {
	from, to         time.Duration
	alert, who, says string
	labels, notes    map[string]string // all of them, as of the last evaluation
}

func (s span) String() string {
	text := short(s.from) + ".."
	if s.to > 0 {
		text += short(s.to)
	}
	return text + " " + s.alert + " " + s.who
}

func short(d time.Duration) string {
	text := strings.TrimSuffix(d.String(), "0s")
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

const (
	scrape       = 15 * time.Second
	scrapesAfter = 7 * time.Second // the evaluations
	// By default Prometheus evaluates once a minute, which is the hardest case for alerts about short conditions.
	evaluate = time.Minute
)

// past returns the time before the course for which the group was healthy.
func past(metric string) time.Duration {
	if metric == "up" {
		// Alerts look back for a day to find targets that are gone.
		return 30 * time.Hour
	}
	return 2 * time.Hour
}

var begin = time.Unix(1_700_000_000, 0).Truncate(evaluate)

// groups contains a group of four nodes to which the events happen, and another one that stays healthy.
var groups = map[string][]string{"g": {"n1", "n2", "n3", "n4"}, "h": {"m1"}}

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

// healthy contains the series of a node of a healthy group: four nodes, two networks, a LUN. For names that end in
// _total or _bucket the value is the growth per second; a series with the value NaN does not exist yet.
func healthy() map[string]float64 {
	w := map[string]float64{
		"up{}":                                                                                 1,
		`fencing_agent_build_info{version="v2"}`:                                               math.NaN(),
		`fencing_agent_build_info{version="v1"}`:                                               1,
		"fencing_agent_has_quorum{}":                                                           1,
		"fencing_agent_kube_lease_usable{}":                                                    1,
		"fencing_agent_roster_changing{}":                                                      0,
		"fencing_agent_roster_epoch{}":                                                         3,
		"fencing_agent_watchdog_armed{}":                                                       1,
		"fencing_agent_watchdog_timeout_seconds{}":                                             30,
		"fencing_agent_watchdog_feed_errors_total{}":                                           0,
		"fencing_agent_deaths_contradicted_total{}":                                            0,
		"fencing_agent_lun_io_timeout_seconds{}":                                               2,
		`fencing_agent_lun_healthy{device="/dev/mapper/fence"}`:                                1,
		`fencing_agent_lun_io_errors_total{device="/dev/mapper/fence",op="read"}`:              0,
		`fencing_agent_tiebreak_total{breaker="lun",outcome="undecided"}`:                      0,
		`fencing_agent_subscribers_dropped_total{reason="slow"}`:                               0,
		`fencing_agent_kube_requests_total{verb="watch",resource="nodes",code="200"}`:          0.01,
		`fencing_agent_kube_requests_total{verb="watch",resource="nodes",code="error"}`:        0,
		`fencing_agent_watchdog_feed_slack_seconds_bucket{le="20"}`:                            0,
		`fencing_agent_watchdog_feed_slack_seconds_bucket{le="25"}`:                            0.2,
		`fencing_agent_watchdog_feed_slack_seconds_bucket{le="120"}`:                           0.2,
		`fencing_agent_watchdog_feed_slack_seconds_bucket{le="+Inf"}`:                          0.2,
		`fencing_agent_watchdog_feed_slack_seconds_bucket{le="5"}`:                             0,
		`fencing_agent_lun_io_seconds_bucket{device="/dev/mapper/fence",op="write",le="+Inf"}`: 1,
	}
	for _, le := range []string{"0.004", "0.128", "0.256", "0.512", "1.024", "4.096"} {
		w[`fencing_agent_lun_io_seconds_bucket{device="/dev/mapper/fence",op="write",le="`+le+`"}`] = 1
	}
	for state, n := range map[string]float64{"reachable": 4, "flapping": 0, "restarting": 0, "unreachable": 0, "fenced": 0} {
		w[`fencing_agent_members{state="`+state+`"}`] = n
	}
	for _, network := range []string{"mgmt", "data"} {
		at := func(name, more string, v float64) { w["fencing_agent_"+name+`{network="`+network+`"`+more+`}`] = v }
		at("network_reachable_nodes", "", 3)
		at("network_transitions_total", `,to="unreachable"`, 0)
		at("gossip_sweeps_total", "", 0)
		at("gossip_dropped_total", `,direction="in"`, 0)
		at("name_conflicts_total", "", 0)
		for _, reason := range []string{"source", "cut", "label", "key", "malformed", "roster", "stranger", "own_name", "unmatched", "overflow"} {
			at("gossip_refused_total", `,reason="`+reason+`"`, 0)
		}
	}
	for _, measure := range []string{"memory", "scheduler", "io", "oom"} {
		w[`fencing_agent_watchdog_hardened{measure="`+measure+`"}`] = 1
	}
	for reason, v := range map[string]float64{"network_quorum": 1, "maintenance": 0, "starting": 0, "quorum_lost": 0, "lun_asking": 0, "nobody_lives": 0} {
		w[`fencing_agent_verdict{reason="`+reason+`"}`] = v
	}
	for _, proof := range []string{"time", "boot"} {
		w[`fencing_agent_deaths_total{proof="`+proof+`"}`] = 0
	}
	for _, reason := range []string{"unreachable", "leaving", "restart_overdue", "rebooted", "no_quorum"} {
		w[`fencing_agent_left_total{reason="`+reason+`"}`] = 0
	}
	return w
}

// series creates the samples of a course.
func (c *course) series(p parser.Parser) (world, error) {
	w := world{}
	used := make([]bool, len(c.events))
	base, who, job := healthy(), groups, "fencing-agent"
	if c.controller {
		base, who, job = healthyController(), replicas, "fencing-controller"
	}
	for _, text := range slices.Sorted(maps.Keys(base)) {
		for group, nodes := range who {
			for _, node := range nodes {
				own := strings.Replace(text, "{", `{group="`+group+`",job="`+job+`",node="`+node+`",`, 1)
				name, err := p.ParseMetric(own)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", own, err)
				}
				metric := name.Get(model.MetricNameLabel)
				w[metric] = append(w[metric], storage.NewListSeries(name, c.samples(name, base[text], used)))
			}
		}
	}
	for i, known := range used {
		if !known {
			return nil, fmt.Errorf("courses.txt:%d: %s: no series of the healthy group is meant by %s", c.line, c.story, c.events[i].name)
		}
	}
	return w, nil
}

// samples returns the samples of one series, whose healthy value, or growth per second, is v.
func (c *course) samples(name labels.Labels, v float64, used []bool) []chunks.Sample {
	metric := name.Get(model.MetricNameLabel)
	counts := strings.HasSuffix(metric, "_total") || strings.HasSuffix(metric, "_bucket")
	var samples []chunks.Sample
	now, there, count, next := v, !math.IsNaN(v), 0.0, 0
	for at := -past(metric); at <= c.until; at += scrape {
		was := there
		for ; next < len(c.events) && c.events[next].at <= at+c.phase; next++ {
			e := c.events[next]
			if !e.selects(name) {
				continue
			}
			used[next] = true
			switch e.verb {
			case "gone":
				if metric == "up" {
					now = 0
				} else {
					there = false
				}
			case "vanishes", "ends":
				there = false
			case "back": // a new process, which counts from 0
				now, there, count = v, !math.IsNaN(v), 0
			case "+":
				count += e.value
			default:
				now, there = e.value, true
			}
		}
		if counts {
			count += now * scrape.Seconds()
		}
		s := sample{begin.Add(at + c.phase).UnixMilli(), now}
		switch {
		case there && counts:
			s.v = count
		// Prometheus marks series in this way that a scrape no longer contains.
		case !there && was:
			s.v = math.Float64frombits(value.StaleNaN)
		case !there:
			continue
		}
		samples = append(samples, s)
	}
	return samples
}

func (e event) selects(name labels.Labels) bool {
	if e.where != "*" && e.where != name.Get("node") && e.where != name.Get("group") {
		return false
	}
	return e.name == "" || e.name == name.Get(model.MetricNameLabel) &&
		!slices.ContainsFunc(e.matchers, func(m *labels.Matcher) bool { return !m.Matches(name.Get(m.Name)) })
}

// world contains the series of a course by the name of the metric.
type world map[string][]storage.Series

func (w world) querier() storage.Queryable {
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			var found []storage.Series
			for _, m := range matchers {
				if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
					found = slices.Clone(w[m.Value])
				}
			}
			return &seriesSet{found: slices.DeleteFunc(found, func(s storage.Series) bool {
				return slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) })
			})}
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

var (
	title    = regexp.MustCompile(`^(\w+) (fires|is silent): (.+)$`)
	happens  = regexp.MustCompile(`^(\S+) +(\S+) +(?:(gone|vanishes|back)|(\w+)(\{.*\})? +(?:(ends)|(=|\+|rate) *(\S+)))$`)
	expected = regexp.MustCompile(`^(\S+)\.\.(\S*) +(\w+) +(\S+)(?: +says +(.+))?$`)
)

// parseCourses reads testdata/courses.txt.
func parseCourses(p parser.Parser, text string) ([]*course, error) {
	var all []*course
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		trimmed := strings.TrimSpace(line)
		var err error
		switch {
		case trimmed == "":
			continue
		case line[0] != ' ':
			m := title.FindStringSubmatch(trimmed)
			if m == nil {
				err = fmt.Errorf("no title of a course")
				break
			}
			all = append(all, &course{alert: m[1], silent: m[2] == "is silent", story: m[3], line: i + 1, until: time.Hour, phase: scrapesAfter})
		case len(all) == 0:
			err = fmt.Errorf("belongs to no course")
		default:
			err = all[len(all)-1].add(p, trimmed)
		}
		if err != nil {
			return nil, fmt.Errorf("courses.txt:%d: %q: %w", i+1, trimmed, err)
		}
	}
	return all, nil
}

// add adds a line to the course.
func (c *course) add(p parser.Parser, line string) (err error) {
	if rest, ok := strings.CutPrefix(line, "until "); ok {
		c.until, err = time.ParseDuration(rest)
		return err
	}
	if m := expected.FindStringSubmatch(line); m != nil {
		s := span{alert: m[3], who: m[4], says: m[5]}
		if s.from, err = time.ParseDuration(m[1]); err == nil && m[2] != "" {
			s.to, err = time.ParseDuration(m[2])
		}
		c.want = append(c.want, s)
		return err
	}
	m := happens.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("neither something that happens nor an alert")
	}
	e := event{where: m[2], verb: m[3] + m[6] + m[7], name: m[4]}
	if e.at, err = time.ParseDuration(m[1]); err != nil {
		return err
	}
	if m[8] != "" {
		if e.value, err = strconv.ParseFloat(m[8], 64); err != nil {
			return err
		}
	}
	if m[5] != "" {
		e.matchers, err = p.ParseMetricSelector(m[4] + m[5])
		e.matchers = slices.DeleteFunc(e.matchers, func(x *labels.Matcher) bool { return x.Name == model.MetricNameLabel })
	}
	if n := len(c.events); n > 0 && c.events[n-1].at > e.at {
		return fmt.Errorf("happens before the line above")
	}
	c.events = append(c.events, e)
	return err
}
