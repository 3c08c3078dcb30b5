package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// queries lists the files of the chart that query metrics.
var queries = []string{"deploy/chart/files/alerts.yaml", "deploy/chart/files/dashboard.json"}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMetricsOfTheChartExist(t *testing.T) {
	literals := metricLiterals(t)
	for _, name := range queries {
		text := readFile(t, name)
		if n := strings.Count(text, "fencing_agent_"); n < 20 {
			t.Errorf("%s names only %d metrics", name, n)
		}
		report(t, metricProblems(takeApart(name, text), literals))
	}
}

var runbookSection = regexp.MustCompile(`RUNBOOK#([^\s"']+)`)

// runbookProblems finds alerts that refer to a missing section of the runbook.
func runbookProblems(alerts string, runbook *document) []string {
	sections := anchors(runbook)
	var problems []string
	for _, m := range runbookSection.FindAllStringSubmatch(alerts, -1) {
		if !slices.Contains(sections, m[1]) {
			problems = append(problems, "an alert sends to "+runbook.path+"#"+m[1]+": no heading makes this anchor")
		}
	}
	return problems
}

func TestRunbookSectionsExist(t *testing.T) {
	const name = "docs/troubleshooting.md"
	report(t, runbookProblems(readFile(t, queries[0]), takeApart(name, readFile(t, name))))
}

func TestChartRulesCanFail(t *testing.T) {
	runbook := takeApart("docs/a.md", "# A title\n")
	wantProblem(t, runbookProblems("runbook_url: RUNBOOK#a-title\n", runbook), "")
	wantProblem(t, runbookProblems("runbook_url: RUNBOOK#another\n", runbook), "docs/a.md#another")
	wantProblem(t, metricProblems(takeApart("a.json", `"expr": "sum(fencing_agent_made_up)"`), map[string]bool{}), "made_up")
}
