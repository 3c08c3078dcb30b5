package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
)

func alertsFile(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, chartDir, "files/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// alertRules loads alerts like Prometheus at its start.
func alertRules(t *testing.T, p parser.Parser, text []byte) []*rules.AlertingRule {
	t.Helper()
	file, problems := rulefmt.Parse(text, false, model.UTF8Validation, p, slog.New(slog.DiscardHandler))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var all []*rules.AlertingRule
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			expr, err := p.ParseExpr(r.Expr)
			if err != nil {
				t.Fatalf("%s: %v", r.Alert, err)
			}
			all = append(all, rules.NewAlertingRule(r.Alert, expr, time.Duration(r.For), time.Duration(r.KeepFiringFor),
				labels.FromMap(r.Labels), labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler)))
		}
	}
	return all
}

// run evaluates the alerts, or only one of them, over the course and returns when each fired and for which labels.
func (c *course) run(t *testing.T, alerts []byte, only string) []span {
	t.Helper()
	p := parser.NewParser(parser.Options{})
	w, err := c.series(p)
	if err != nil {
		t.Fatal(err)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute, Parser: p})
	query := rules.EngineQueryFunc(engine, w.querier())
	all := slices.DeleteFunc(alertRules(t, p, alerts), func(r *rules.AlertingRule) bool { return only != "" && r.Name() != only })
	var spans []span
	for at := time.Duration(0); at <= c.until; at += evaluate {
		for _, r := range all {
			if _, err := r.Eval(context.Background(), 0, begin.Add(at), query, nil, 0); err != nil {
				t.Fatalf("%s: %v", r.Name(), err)
			}
			spans = extend(spans, at, r)
		}
	}
	for i := range spans {
		if spans[i].to == c.until+evaluate {
			spans[i].to = 0
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return strings.Compare(a.String(), b.String()) })
	return spans
}

// extend adds the alerts that fire at this evaluation to the spans.
func extend(spans []span, at time.Duration, r *rules.AlertingRule) []span {
	for _, a := range r.ActiveAlerts() {
		if a.State != rules.StateFiring {
			continue
		}
		who := a.Labels.Get("node")
		if who == "" {
			who = a.Labels.Get("group")
		}
		for _, more := range []string{"network", "device", "measure"} {
			if v := a.Labels.Get(more); v != "" {
				who += "/" + v
			}
		}
		if who = strings.ReplaceAll(who, " ", "_"); who == "" {
			who = "-"
		}
		i := slices.IndexFunc(spans, func(s span) bool { return s.alert == r.Name() && s.who == who && s.to == at })
		if i < 0 {
			i, spans = len(spans), append(spans, span{from: at, alert: r.Name(), who: who})
		}
		spans[i].to, spans[i].says = at+evaluate, a.Annotations.Get("summary")
		spans[i].labels, spans[i].notes = a.Labels.Map(), a.Annotations.Map()
		delete(spans[i].labels, labels.AlertName)
	}
	return spans
}

func loadCourses(t *testing.T) []*course {
	t.Helper()
	text, err := os.ReadFile("testdata/courses.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseCourses(parser.NewParser(parser.Options{}), string(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Over each course, exactly the alerts that it names fire, at the times that it names.
func TestAlertsOverTime(t *testing.T) {
	alerts := alertsFile(t)
	for _, c := range loadCourses(t) {
		t.Run(c.alert+"/"+strings.ReplaceAll(c.story, " ", "_"), func(t *testing.T) {
			t.Parallel()
			if got := c.run(t, alerts, ""); !c.expects(got, "") {
				t.Errorf("courses.txt:%d: %s: %s\nfires:\n%swant:\n%s", c.line, c.alert, c.story, lines(got), lines(c.want))
			}
			fires := slices.ContainsFunc(c.want, func(s span) bool { return s.alert == c.alert })
			if fires == c.silent {
				t.Errorf("courses.txt:%d: the title and what is expected contradict each other", c.line)
			}
		})
	}
}

// expects compares the alerts that fire with those that the course names, for all alerts or for one.
func (c *course) expects(got []span, only string) bool {
	want := slices.SortedFunc(slices.Values(c.want), func(a, b span) int { return strings.Compare(a.String(), b.String()) })
	want = slices.DeleteFunc(want, func(s span) bool { return only != "" && s.alert != only })
	return slices.EqualFunc(got, want, func(a, b span) bool { return a.String() == b.String() && strings.Contains(a.says, b.says) })
}

// The courses of an alert detect when an important part of the alert is removed.
func TestCoursesCatchWeakerAlerts(t *testing.T) {
	whole, courses := string(alertsFile(t)), loadCourses(t)
	for _, m := range []struct{ alert, what, from, to string }{
		{"FencingNoQuorum", "waits for a minute", "        keep_firing_for: 10m\n", "        for: 1m\n        keep_firing_for: 10m\n"},
		{"FencingNoQuorum", "looks at the present alone", "[2m:10s]", "[1s:1s]"},
		{"FencingNoQuorum", "is about nodes that hold, too", `reason=~"nobody_lives|lun_asking"`, `reason="none"`},
		{"FencingNoQuorum", "is about nodes that ask the LUN", `reason=~"nobody_lives|lun_asking"`, `reason="nobody_lives"`},
		{"FencingHeldByLUN", "is about networks that blink", "[45s:5s]", "[15s:5s]"},
		{"FencingHeldByLUN", "looks at the present alone", "[2m:5s]", "[1s:1s]"},
		{"FencingHeldByLUN", "is about each node", "count by (group) (\n            max_over", "count by (group, node) (\n            max_over"},
		{"FencingNoQuorum", "is about nodes that start, too", "fencing_agent_watchdog_armed - fencing_agent_has_quorum", "1 - fencing_agent_has_quorum"},
		{"FencingAgentsAbsent", "needs one group that is left", "          absent(up{job=\"fencing-agent\"})\n            or\n", ""},
		{"FencingAgentsAbsent", "does not look at groups", "          group by (job, group) (up{job=\"fencing-agent\"})\n", "          vector(1)\n"},
		{"FencingMembersMissing", "counts the greatest state alone", "sum without (state) (fencing_agent_members{", "max without (state) (fencing_agent_members{"},
		{"FencingMembersMissing", "believes a node that is cut off", " and fencing_agent_has_quorum == 1\n", "\n"},
		{"FencingMemberFlaps", "misses a member that is away at the scrape", "max_over_time(fencing_agent_members{state=\"flapping\"}[10m])", "fencing_agent_members{state=\"flapping\"}"},
		{"FencingGossipRefused", "takes a late answer for a stranger", "unmatched|cut|overflow\"}[10m]", "cut|overflow\"}[10m]"},
		{"FencingGossipRefused", "takes a stream that was given up for a stranger", "unmatched|cut|overflow\"}[10m]", "unmatched|overflow\"}[10m]"},
		{"FencingGossipLossy", "does not see late answers", "reason=~\"unmatched|cut|overflow\"", "reason=~\"cut|overflow\""},
		{"FencingMaintenanceLong", "begins again with the agent", "max_over_time(fencing_agent_verdict{reason=\"maintenance\"}[15m])", "fencing_agent_verdict{reason=\"maintenance\"}"},
		{"FencingMaintenanceLong", "calls after an hour", "for: 4h", "for: 1h"},
		{"FencingNodeFenced", "takes an orderly reboot for a death", "            and\n          max by (group) (increase(fencing_agent_left_total{reason=~\"unreachable|doubted\"}[10m])) > 0\n", ""},
		{"FencingNodeFenced", "waits for the proof by time", "fencing_agent_deaths_total{proof=\"boot\"}", "fencing_agent_deaths_total{proof=\"none\"}"},
		{"FencingLUNSlow", "does not know ioTimeout", "0.5 * fencing_agent_lun_io_timeout_seconds", "1 + 0 * fencing_agent_lun_io_timeout_seconds"},
	} {
		t.Run(m.alert+"_"+strings.ReplaceAll(m.what, " ", "_"), func(t *testing.T) {
			t.Parallel()
			if strings.Count(whole, m.from) != 1 {
				t.Fatalf("the alerts have %q %d times", m.from, strings.Count(whole, m.from))
			}
			weaker := []byte(strings.Replace(whole, m.from, m.to, 1))
			if !slices.ContainsFunc(courses, func(c *course) bool { return c.alert == m.alert && !c.expects(c.run(t, weaker, m.alert), m.alert) }) {
				t.Error("no course of the alert detects this change")
			}
		})
	}
}

func lines(spans []span) string {
	text := ""
	for _, s := range spans {
		text += "    " + s.String() + " says " + s.says + "\n"
	}
	return text
}

// Every alert has a course in which it fires, and a similar one in which it does not.
func TestEveryAlertHasItsCourses(t *testing.T) {
	type pair struct{ fires, silent int }
	courses := map[string]pair{}
	for _, c := range loadCourses(t) {
		p := courses[c.alert]
		if c.silent {
			p.silent++
		} else {
			p.fires++
		}
		courses[c.alert] = p
	}
	for _, r := range alertRules(t, parser.NewParser(parser.Options{}), alertsFile(t)) {
		if p := courses[r.Name()]; p.fires == 0 || p.silent == 0 {
			t.Errorf("%s: %d courses in which it fires, %d in which it is silent: both are needed", r.Name(), p.fires, p.silent)
		}
		delete(courses, r.Name())
	}
	for name := range courses {
		t.Errorf("courses.txt: there is no alert %s", name)
	}
}
