package arch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// figure is a number with three digits or more, in the form that the tables of the pages use.
var figure = regexp.MustCompile(`\d+\.\d\d+|\d\d+\.\d+|\d{3,}`)

// figureProblems requires that the figures in a page's tables are also in its notebook: when something is measured
// again, the page must not keep the old figure.
func figureProblems(name, page, notebook string) []string {
	known := figure.FindAllString(notebook, -1)
	var problems []string
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for _, f := range figure.FindAllString(line, -1) {
			if !slices.Contains(known, f) {
				problems = append(problems, fmt.Sprintf("docs/%s: %s is not in docs/measurements/%s: %.60s", name, f, name, line))
			}
		}
	}
	return problems
}

func TestFiguresAreInTheNotebook(t *testing.T) {
	for _, name := range []string{"performance.md", "verification.md"} {
		report(t, figureProblems(name, readFile(t, "docs/"+name), readFile(t, "docs/measurements/"+name)))
	}
}

func TestFigureRuleCanFail(t *testing.T) {
	wantProblem(t, figureProblems("a.md", "| 3 | 1.81 / 2.27 |\n", "1.81 then 2.28"), "2.27 is not in")
	wantProblem(t, figureProblems("a.md", "| 3 | 1.81 |\nabout 999\n", "1.81"), "")
}
