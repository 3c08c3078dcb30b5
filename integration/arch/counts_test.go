package arch

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// countsFile contains the sizes of what a reader, a user and a maintainer have to deal with.
const countsFile = "docs/development/counts.tsv"

// A fix of three lines is no growth that needs a reason; hundreds of lines are.
const linesStep = 100

// figureOf is one thing that is counted, with its figure and the reason for its last rise.
type figureOf struct {
	name   string
	figure int
	reason string
}

// readCounts reads the table; lines that begin with # explain it.
func readCounts(text string) ([]figureOf, error) {
	var out []figureOf
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "\t")
		if len(cells) != 3 {
			return nil, fmt.Errorf("%s: %q: want a name, a figure and a reason with tabs between them", countsFile, line)
		}
		n, err := strconv.Atoi(cells[1])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: the figure %q is not a number", countsFile, cells[0], cells[1])
		}
		out = append(out, figureOf{cells[0], n, strings.TrimSpace(cells[2])})
	}
	return out, lines.Err()
}

func find(counts []figureOf, name string) *figureOf {
	for i := range counts {
		if counts[i].name == name {
			return &counts[i]
		}
	}
	return nil
}

// countProblems compares the table with what was measured.
func countProblems(recorded, measured []figureOf) []string {
	var problems []string
	for _, m := range measured {
		switch r := find(recorded, m.name); {
		case r == nil:
			problems = append(problems, fmt.Sprintf("%s: no line for %s, which is %d", countsFile, m.name, m.figure))
		case r.reason == "":
			problems = append(problems, fmt.Sprintf("%s: %s: say why it is as large as it is", countsFile, m.name))
		case m.figure > r.figure:
			problems = append(problems, fmt.Sprintf("%s grew from %d to %d: take something away, or raise the figure in %s and write the reason", m.name, r.figure, m.figure, countsFile))
		case m.figure < r.figure:
			problems = append(problems, fmt.Sprintf("%s fell from %d to %d: run make counts, so that it stays there", m.name, r.figure, m.figure))
		}
	}
	for _, r := range recorded {
		if find(measured, r.name) == nil {
			problems = append(problems, fmt.Sprintf("%s: no test counts %s", countsFile, r.name))
		}
	}
	return problems
}

// riseProblems finds figures that are higher than in a parent commit and still have the old reason.
func riseProblems(parent, now []figureOf) []string {
	var problems []string
	for _, n := range now {
		if p := find(parent, n.name); p != nil && n.figure > p.figure && n.reason == p.reason {
			problems = append(problems, fmt.Sprintf("%s: %s rose from %d to %d, and its reason is still the old one: write a new one", countsFile, n.name, p.figure, n.figure))
		}
	}
	return problems
}

// lower writes the figures that fell into the table, and does not change the others.
func lower(text string, measured []figureOf) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "\t")
		if m := find(measured, cells[0]); m != nil && len(cells) == 3 {
			if n, err := strconv.Atoi(cells[1]); err == nil && m.figure < n {
				cells[1] = strconv.Itoa(m.figure)
			}
		}
		b.WriteString(strings.Join(cells, "\t"))
	}
	return b.String()
}

func TestCounts(t *testing.T) {
	measured := measure(t)
	text := readFile(t, countsFile)
	if *update {
		text = lower(text, measured)
		if err := os.WriteFile(filepath.Join(root, countsFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := readCounts(text)
	if err != nil {
		t.Fatal(err)
	}
	report(t, countProblems(recorded, measured))

	// Changes that are not yet committed are compared with the last commit, and that commit with each of its parents.
	head, ok := committed("HEAD")
	if !ok {
		t.Log("git has no commit with this table, so a figure may have risen without a reason")
		return
	}
	report(t, riseProblems(head, recorded))
	for _, parent := range []string{"HEAD^1", "HEAD^2"} {
		if counts, ok := committed(parent); ok {
			report(t, riseProblems(counts, head))
		}
	}
}

// committed returns the table in a commit of git. There may be no git, no such commit, or no table in it.
func committed(commit string) (counts []figureOf, ok bool) {
	show := exec.Command("git", "show", commit+":"+countsFile)
	show.Dir = root
	text, err := show.Output()
	if err != nil {
		return nil, false
	}
	counts, err = readCounts(string(text))
	return counts, err == nil
}

func TestCountRulesCanFail(t *testing.T) {
	const table = "# why\n\nkeys\t3\tthe first count\nverbs\t2\tfor X\n"
	recorded, err := readCounts(table)
	if err != nil || len(recorded) != 2 {
		t.Fatalf("%v, %v", recorded, err)
	}
	measured := func(keys, verbs int) []figureOf {
		return []figureOf{{"keys", keys, ""}, {"verbs", verbs, ""}}
	}
	wantProblem(t, countProblems(recorded, measured(3, 2)), "")
	wantProblem(t, countProblems(recorded, measured(4, 2)), "keys grew from 3 to 4")
	wantProblem(t, countProblems(recorded, measured(3, 1)), "verbs fell from 2 to 1: run make counts")
	wantProblem(t, countProblems(recorded[:1], measured(3, 2)), "no line for verbs")
	wantProblem(t, countProblems(recorded, measured(3, 2)[:1]), "no test counts verbs")
	wantProblem(t, countProblems([]figureOf{{"keys", 3, ""}}, measured(3, 2)[:1]), "say why")

	wantProblem(t, riseProblems(recorded, []figureOf{{"keys", 4, "the first count"}}), "rose from 3 to 4")
	wantProblem(t, riseProblems(recorded, []figureOf{{"keys", 4, "a key for Y"}, {"verbs", 1, "for X"}, {"flags", 1, "new"}}), "")

	if got, want := lower(table, measured(2, 5)), "# why\n\nkeys\t2\tthe first count\nverbs\t2\tfor X\n"; got != want {
		t.Errorf("lowered to:\n%s", got)
	}
	for _, bad := range []string{"keys\t3\n", "keys\tmany\twhy\n"} {
		if _, err := readCounts(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
