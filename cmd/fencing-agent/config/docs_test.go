package config

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

var (
	indices = regexp.MustCompile(`\[[0-9]+\]`)
	docRow  = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|([^|]*)\\|([^|]*)\\|([^|]*)\\|$")
)

// TestDocumentation compares docs/configuration.md with the struct: each key has one row of a table, with the default
// of Default and with the range or the choices of the tags.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	tuning, err := os.ReadFile("../../../docs/tuning.md")
	if err != nil {
		t.Fatal(err)
	}
	all := docRow.FindAllStringSubmatch(string(text), -1)
	for _, m := range docRow.FindAllStringSubmatch(string(tuning), -1) {
		if strings.HasPrefix(m[1], Laboratory+".") {
			all = append(all, m)
		}
	}
	rows := make(map[string][]string)
	for _, m := range all {
		if rows[m[1]] != nil {
			t.Errorf("%s has two rows", m[1])
		}
		rows[m[1]] = m[2:]
	}
	documented := make(map[string]bool)
	walkKeys("", reflect.ValueOf(withElements()).Elem(), func(path string, f field, v reflect.Value) {
		documented[path] = true
		row := rows[path]
		if row == nil {
			t.Errorf("%s has no row", path)
			return
		}
		if want := shownDefault(v); want != "" && !strings.Contains(row[0], "`"+want+"`") {
			t.Errorf("%s: the default cell is %q, want `%s`", path, row[0], want)
		}
		if want := f.tag.Get("range"); want != "" && !strings.Contains(row[1], want) {
			t.Errorf("%s: the allowed cell is %q, want %s", path, row[1], want)
		}
		for _, choice := range choices(v) {
			if !strings.Contains(row[1], "`"+choice+"`") {
				t.Errorf("%s: the allowed cell is %q, it lacks `%s`", path, row[1], choice)
			}
		}
	})
	for path := range rows {
		if !documented[path] && path != Laboratory {
			t.Errorf("%s is documented but is not a key", path)
		}
	}
	tuned := reflect.ValueOf(netgossip.Tune(3))
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Overrides]()) {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		row := rows[Laboratory+"."+key]
		if want := fmt.Sprint(tuned.FieldByName(f.Name)); row == nil || !strings.HasPrefix(strings.TrimSpace(row[0]), want) {
			t.Errorf("experimental.%s: row %q, want the default %s", key, row, want)
		}
	}
	c := Default()
	w := c.Watchdog.Timeout
	for _, want := range []string{c.Budget(w).Majority().String(), c.Budget(w).Tie().String(), c.GrantExpiry(w).String()} {
		if !strings.Contains(string(text), "= "+want) {
			t.Errorf("the timetable lacks %s", want)
		}
	}
}

// TestTuningTables compares the tables of docs/tuning.md, and of the notebook behind it, with the functions that they
// describe.
func TestTuningTables(t *testing.T) {
	const page, notebook = "docs/tuning.md", "docs/measurements/tuning.md"
	want := func(name, row string) {
		text, err := os.ReadFile("../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), row) {
			t.Errorf("%s lacks %q", name, row)
		}
	}
	for name, n := range map[string]int{"up to 3": 3, "10": 10, "50": 50, "100": 100, "300": 300, "500": 500, "from 1000": 1000} {
		p := netgossip.ProfileADR.Params(n)
		want(notebook, fmt.Sprintf("| %s | %v | %v | %v | %d | %v |", name, p.GossipInterval, p.ProbeInterval, p.ProbeTimeout, p.SuspicionMult, p.SuspicionMin(n)))
	}
	columns := make(map[string][]string)
	for _, n := range []int{3, 10, 100, 1000} {
		p := netgossip.Tune(n)
		for _, c := range append(p.Consequences(n), netgossip.Parameter{Name: "confirmations", Count: ptr(p.Confirmations(n))},
			netgossip.Parameter{Name: "spread", Duration: ptr(p.Spread(n))}) {
			columns[c.Name] = append(columns[c.Name], fmt.Sprint(c.Value()))
		}
	}
	for _, cells := range columns {
		want(notebook, " | "+strings.Join(cells, " / ")+" |")
	}
	for _, p := range Timing("").values() {
		want(page, "| `"+p+"` | ")
	}
}

func ptr[T any](v T) *T { return &v }

// withElements returns the default configuration with one element in each list of sections.
func withElements() *Config {
	c := Default()
	n := SystemNetwork{}
	n.setDefaults()
	c.SystemNetworks = []SystemNetwork{n}
	c.Members.Static = []Member{{}}
	c.NodeDevices = []NodeDevices{{}}
	return c
}

func walkKeys(path string, v reflect.Value, visit func(string, field, reflect.Value)) {
	for _, f := range fieldsOf(v.Type()) {
		at, fv := child(path, f.key), v.FieldByIndex(f.index)
		if !isSection(fv.Type()) {
			visit(at, f, fv)
		}
		if fv.Kind() == reflect.Slice && fv.Len() > 0 && isSection(fv.Type().Elem()) {
			at, fv = at+"[]", fv.Index(0)
		}
		if isSection(fv.Type()) {
			walkKeys(at, fv, visit)
		}
	}
}

// shownDefault returns the default of a key as it is written in a file, or "" if it has none.
func shownDefault(v reflect.Value) string {
	if v.IsZero() && v.Type() != reflect.TypeFor[Size]() && v.Kind() != reflect.Bool || v.Kind() == reflect.Slice {
		return ""
	}
	switch x := v.Interface().(type) {
	case Size:
		return "auto"
	default:
		text := fmt.Sprint(x)
		for _, unit := range []string{"m", "h"} { // 5m0s is written 5m
			if short, ok := strings.CutSuffix(text, map[string]string{"m": "0s", "h": "0m"}[unit]); ok && strings.HasSuffix(short, unit) {
				text = short
			}
		}
		return text
	}
}

func choices(v reflect.Value) []string {
	if v.Kind() == reflect.Slice {
		v = reflect.Zero(v.Type().Elem())
	}
	if e, ok := v.Interface().(enum); ok {
		return e.values()
	}
	return nil
}

// TestKeys pins the form of the paths that Keys returns.
func TestKeys(t *testing.T) {
	keys := Keys()
	text, _ := json.Marshal(keys)
	for _, want := range []string{"cluster", Laboratory, "members.static[].addresses", "systemNetworks[].port", "reachability", "quorum.size", "experimental.evidenceMaxAge", "http.address"} {
		if !strings.Contains(string(text), `"`+want+`"`) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
}
