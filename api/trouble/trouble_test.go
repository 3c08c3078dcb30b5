package trouble_test

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/fencing-agent/fencing-agent/api/trouble"
)

var update = flag.Bool("update", false, "rewrite the table of docs/troubleshooting.md")

const (
	page       = "../../docs/troubleshooting.md"
	begin, end = "<!-- troubles: made by go test ./api/trouble -update -->\n", "<!-- end of troubles -->\n"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTroublesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, tr := range trouble.All {
		if tr.Sentence == "" || tr.Means == "" || tr.Do == "" || tr.Section == "" || seen[tr.Code] {
			t.Errorf("%s: something is missing, or it is there twice", tr.Code)
		}
		seen[tr.Code] = true
	}
	for _, tr := range trouble.All {
		for _, code := range tr.Unless {
			if !seen[code] || code == tr.Code {
				t.Errorf("%s is explained by %q, which is not another trouble", tr.Code, code)
			}
		}
		if strings.ContainsAny(tr.Here(), "{}") {
			t.Errorf("%s: %s", tr.Code, tr.Here())
		}
	}
}

func TestHere(t *testing.T) {
	for _, c := range []struct {
		t    *trouble.Trouble
		want string
	}{
		{trouble.LUNUnhealthy, "this node cannot count on the LUN"},
		{trouble.NetworkDown, "a network of this node is down on its own side"},
		{trouble.HeldByLUN, "this group lives by its LUN alone"},
		{trouble.DryRun, "this node is in a dry run: watchdog.driver is none, and nothing would reset it"},
	} {
		if got := c.t.Here(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A trouble of one network does not explain a trouble of another network.
func TestExplained(t *testing.T) {
	down := func(subject string) trouble.Found {
		return trouble.Found{Trouble: trouble.NetworkDown, Subject: subject}
	}
	part := func(subject string) trouble.Found {
		return trouble.Found{Trouble: trouble.PartMissing, Subject: subject}
	}
	for _, c := range []struct {
		f    trouble.Found
		by   trouble.Found
		want bool
	}{
		{down("network mgmt"), part("network mgmt"), true},
		{down("network mgmt"), part("network data"), false},
		{part("network mgmt"), down("network mgmt"), false},
		{trouble.Found{Trouble: trouble.NetworkDegraded, Subject: "network mgmt"}, trouble.Found{Trouble: trouble.MembersMissing}, true},
	} {
		if got := c.f.Explained([]trouble.Found{c.f, c.by}); got != c.want {
			t.Errorf("%s of %q by %s of %q: %v", c.f.Code, c.f.Subject, c.by.Code, c.by.Subject, got)
		}
	}
}

func TestLog(t *testing.T) {
	var b strings.Builder
	trouble.PartMissing.Log(slog.New(slog.NewTextHandler(&b, nil)), "part", "watchdog")
	if !strings.Contains(b.String(), `level=ERROR msg="a part is missing" part=watchdog trouble=part-missing do=`) {
		t.Error(b.String())
	}
}

// The chart's alerts agree with the list.
func TestAlerts(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert               string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../deploy/chart/files/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc(slices.Clone(trouble.All), func(tr *trouble.Trouble) bool { return tr.Alert == "" })
	for _, r := range file.Groups[0].Rules {
		i := slices.IndexFunc(left, func(tr *trouble.Trouble) bool { return tr.Alert == r.Alert })
		if i < 0 {
			t.Errorf("%s is not an alert of a trouble, or is listed twice", r.Alert)
			continue
		}
		tr := left[i]
		left = slices.Delete(left, i, i+1)
		for _, c := range [][3]string{
			{"summary", r.Annotations["summary"], summary(tr)}, {"description", r.Annotations["description"], tr.Means},
			{"runbook_url", r.Annotations["runbook_url"], "RUNBOOK#" + tr.Section}, {"severity", r.Labels["severity"], tr.Severity.String()},
		} {
			if c[1] != c[2] {
				t.Errorf("%s: %s is\n%s\nand is to be\n%s", r.Alert, c[0], c[1], c[2])
			}
		}
	}
	for _, tr := range left {
		t.Errorf("there is no alert %s", tr.Alert)
	}
}

// labels matches the placeholders in a sentence. The alert has a label of Prometheus in place of each.
var labels = regexp.MustCompile(`\{([a-z]+)\}`)

// summary returns the sentence as an alert shows it.
func summary(t *trouble.Trouble) string {
	text := strings.ReplaceAll(t.Sentence, "{value}", "{{ $$value }}")
	text = labels.ReplaceAllString(text, "{{ $$labels.$1 }}")
	text = strings.ReplaceAll(text, "$$", "$")
	if t == trouble.AgentsAbsent {
		text = strings.Replace(text, "$labels.group", `or $labels.group "any group"`, 1)
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

var (
	heading = regexp.MustCompile(`(?m)^##(#?) (.*)$`)
	odd     = regexp.MustCompile(`[^a-z0-9 -]`)
)

// Every trouble has its section in the document, and every section has its trouble.
func TestSections(t *testing.T) {
	var sections, great []string
	for _, m := range heading.FindAllStringSubmatch(read(t, page), -1) {
		anchor := strings.ReplaceAll(odd.ReplaceAllString(strings.ToLower(m[2]), ""), " ", "-")
		if sections = append(sections, anchor); m[1] == "" {
			great = append(great, anchor)
		}
	}
	for _, tr := range trouble.All {
		if !slices.Contains(sections, tr.Section) {
			t.Errorf("%s: there is no section %s", tr.Code, tr.Section)
		}
	}
	for _, s := range great {
		if !slices.ContainsFunc(trouble.All, func(tr *trouble.Trouble) bool { return tr.Section == s }) {
			t.Errorf("the section %s is about no trouble", s)
		}
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(begin + "| trouble | it means | do first |\n|---|---|---|\n")
	for _, tr := range trouble.All {
		name := fmt.Sprintf("[`%s`](#%s), %s", tr.Code, tr.Section, tr.Severity)
		if tr.Alert != "" {
			name += ", " + tr.Alert
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, tr.Here(), tr.Do)
	}
	text := read(t, page)
	before, rest, ok := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("the marks of the table are gone")
	}
	want := before + b.String() + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != want {
		t.Error("docs/troubleshooting.md has another table: go test ./api/trouble -update rewrites it")
	}
}
