package main

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the table of nights into docs/operations.md")

// loadNights reads testdata/nights.txt.
func loadNights(t *testing.T) []*course {
	t.Helper()
	text, err := os.ReadFile("testdata/nights.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseCourses(parser.NewParser(parser.Options{}), string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		c.controller = strings.HasPrefix(c.alert, "FencingController")
	}
	return all
}

func (c *course) rules(t *testing.T) []byte {
	if c.controller {
		return controllerAlerts(t)
	}
	return alertsFile(t)
}

// In each night exactly the alerts that it names fire, at the times that it names, wherever in the minute the scrapes
// fall.
func TestNights(t *testing.T) {
	for _, c := range loadNights(t) {
		t.Run(c.alert+"/"+strings.ReplaceAll(c.story, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for _, phase := range []time.Duration{scrapesAfter, 0} {
				c := *c
				c.phase = phase
				if got := c.run(t, c.rules(t), ""); !c.expects(got, "") {
					t.Errorf("nights.txt:%d: %s, scrapes %v after the evaluations\nfires:\n%swant:\n%s",
						c.line, c.story, phase, lines(got), lines(c.want))
				}
			}
			if slices.ContainsFunc(c.want, func(s span) bool { return s.alert == c.alert }) == c.silent {
				t.Errorf("nights.txt:%d: the title and what is expected contradict each other", c.line)
			}
		})
	}
}

// told returns a line of the table: who is alerted to what, how long after the beginning, and for how long.
func told(c *course, severity map[string]string, wanted string) string {
	first := c.events[0].at.Truncate(time.Minute)
	type group struct {
		span
		of int
	}
	var all []*group
	for _, s := range c.want {
		if severity[s.alert] != wanted {
			continue
		}
		i := slices.IndexFunc(all, func(g *group) bool { return g.alert == s.alert && g.from == s.from && g.to == s.to })
		if i < 0 {
			i, all = len(all), append(all, &group{span: s})
		}
		all[i].of++
	}
	slices.SortStableFunc(all, func(a, b *group) int { return cmp.Compare(a.from, b.from) })
	var texts []string
	for _, g := range all {
		text := short(g.from-first) + ": `" + g.alert + "`"
		if g.of > 1 {
			text += fmt.Sprintf(" (%d)", g.of)
		}
		if g.to > 0 {
			text += ", until " + short(g.to-first)
		}
		texts = append(texts, text)
	}
	return cmp.Or(strings.Join(texts, "<br>"), "nobody")
}

// The table in docs/operations.md matches the nights.
func TestTableOfNights(t *testing.T) {
	const from, to = "<!-- nights -->\n", "<!-- end of nights -->"
	severity := map[string]string{}
	p := parser.NewParser(parser.Options{})
	for _, r := range append(alertRules(t, p, alertsFile(t)), alertRules(t, p, controllerAlerts(t))...) {
		severity[r.Name()] = r.Labels().Get("severity")
	}
	table := "\n| what happens | paged (`critical`) | to be seen in the morning (`warning`) |\n|---|---|---|\n"
	for _, c := range loadNights(t) {
		later := strings.Replace(told(c, severity, "warning"), "nobody", "nothing", 1)
		table += "| " + c.story + " | " + told(c, severity, "critical") + " | " + later + " |\n"
	}
	page := filepath.Join(root, "docs/operations.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), from)
	old, after, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatalf("%s has no %s", page, from)
	}
	switch table += "\n"; {
	case *update:
		if err := os.WriteFile(page, []byte(before+from+table+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case old != table:
		t.Errorf("the table of nights is out of date: run go test -run TestTableOfNights -update in tools/manifests")
	}
}

// promtool finds Prometheus's own tool: FENCING_PROMTOOL, or the one in PATH.
func promtool(t *testing.T) string {
	t.Helper()
	tool := cmp.Or(os.Getenv("FENCING_PROMTOOL"), "promtool")
	path, err := exec.LookPath(tool)
	if err != nil {
		t.Skip("needs promtool (Debian: prometheus), or FENCING_PROMTOOL")
	}
	return path
}

// Prometheus's own promtool confirms each night, just before and just after each change, for every alert. It has its
// own storage and evaluation and, in Debian, is of another version.
func TestPromtoolSaysTheSame(t *testing.T) {
	tool, dir := promtool(t), t.TempDir()
	nights := loadNights(t)
	for _, controller := range []bool{false, true} {
		tests := []any{}
		var alerts []byte
		for _, c := range nights {
			if c.controller != controller {
				continue
			}
			alerts = c.rules(t)
			tests = append(tests, c.promtoolTest(t, alerts))
		}
		out, err := runPromtool(tool, dir, alerts, tests)
		if err != nil || !strings.Contains(out, "SUCCESS") {
			t.Errorf("%v: %v\n%s", tool, err, out)
		}
	}
	// promtool does not accept everything: it must notice a night with a wrong expectation.
	c := *nights[0]
	c.want = c.want[1:]
	if out, err := runPromtool(tool, dir, c.rules(t), []any{c.promtoolTest(t, c.rules(t))}); err == nil {
		t.Errorf("promtool takes a night without its first page: %s", out)
	}
}

func runPromtool(tool, dir string, alerts []byte, tests []any) (string, error) {
	text, err := yaml.Marshal(map[string]any{
		"rule_files": []string{"alerts.yaml"}, "evaluation_interval": evaluate.String(), "tests": tests,
	})
	if err != nil {
		return "", err
	}
	for name, data := range map[string][]byte{"alerts.yaml": alerts, "tests.yaml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return "", err
		}
	}
	cmd := exec.Command(tool, "test", "rules", "tests.yaml")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// before is the time for which the group was healthy before a night, for promtool.
const before = 40 * time.Minute

// promtoolTest writes the night in promtool's format.
func (c *course) promtoolTest(t *testing.T, alerts []byte) map[string]any {
	t.Helper()
	night := *c
	night.phase = 0
	p := parser.NewParser(parser.Options{})
	w, err := night.series(p)
	if err != nil {
		t.Fatal(err)
	}
	var input []any
	for _, metric := range slices.Sorted(maps.Keys(w)) {
		for _, s := range w[metric] {
			values := map[int64]float64{}
			for it := s.Iterator(nil); it.Next() != chunkenc.ValNone; {
				at, v := it.At()
				values[at] = v
			}
			input = append(input, map[string]any{"series": s.Labels().String(), "values": night.values(values)})
		}
	}
	full := night.run(t, alerts, "")
	var ask []any
	for _, r := range alertRules(t, p, alerts) {
		times := map[time.Duration]bool{}
		for _, s := range night.want {
			if s.alert == r.Name() {
				times[s.from-evaluate], times[s.from], times[night.until] = true, true, true
				if s.to > 0 {
					times[s.to-evaluate], times[s.to] = true, true
				}
			}
		}
		// It must never fire, which is checked every ten minutes.
		if len(times) == 0 {
			for at := 15 * time.Minute; at <= night.until; at += 10 * time.Minute {
				times[at] = true
			}
		}
		for _, at := range slices.Sorted(maps.Keys(times)) {
			ask = append(ask, map[string]any{
				"eval_time": (before + at).String(), "alertname": r.Name(), "exp_alerts": night.firing(full, r.Name(), at),
			})
		}
	}
	return map[string]any{"interval": scrape.String(), "name": c.story, "input_series": input, "alert_rule_test": ask}
}

// firing returns the alerts of a name that the night expects at a time, with their expected labels and annotations.
func (c *course) firing(full []span, name string, at time.Duration) []any {
	all := []any{}
	for _, s := range c.want {
		if s.alert != name || at < s.from || s.to > 0 && at >= s.to {
			continue
		}
		alert := map[string]any{}
		if i := slices.IndexFunc(full, func(f span) bool { return f.String() == s.String() }); i >= 0 {
			alert["exp_labels"], alert["exp_annotations"] = full[i].labels, full[i].notes
		}
		all = append(all, alert)
	}
	return all
}

// values writes the samples in promtool's format: a+bxN, _ for none, stale.
func (c *course) values(samples map[int64]float64) string {
	var texts []string
	type run struct {
		first, step float64
		n           int // number of samples after the first
	}
	var r *run
	flush := func() {
		if r != nil {
			step := fmt.Sprintf("%+g", r.step)
			texts = append(texts, fmt.Sprintf("%g%sx%d", r.first, step, r.n))
		}
		r = nil
	}
	for at := -before; at <= c.until; at += scrape {
		v, there := samples[begin.Add(at).UnixMilli()]
		switch {
		case !there:
			flush()
			texts = append(texts, "_")
		case math.Float64bits(v) == value.StaleNaN:
			flush()
			texts = append(texts, "stale")
		case r != nil && r.n == 0:
			r.step, r.n = v-r.first, 1
		case r != nil && math.Abs(r.first+r.step*float64(r.n+1)-v) < 1e-6:
			r.n++
		default:
			flush()
			r = &run{first: v}
		}
	}
	flush()
	return strings.Join(texts, " ")
}
