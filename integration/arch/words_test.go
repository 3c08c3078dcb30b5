package arch

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const glossary = "docs/glossary.md"

// bannedWords reads the last column of the glossary's tables: the words in backticks there are never used.
func bannedWords(markdown string) []string {
	var words []string
	for line := range strings.Lines(markdown) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for _, m := range codeSpan.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			words = append(words, m[1])
		}
	}
	return words
}

func wordPattern(words []string) *regexp.Regexp {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = regexp.QuoteMeta(w)
	}
	return regexp.MustCompile(`\b(` + strings.Join(quoted, "|") + `)\b`)
}

func wordProblems(name, text string, banned *regexp.Regexp) []string {
	if !banned.MatchString(text) && !openTodo.MatchString(text) && !requirement.MatchString(text) {
		return nil
	}
	var problems []string
	number := 0
	for line := range strings.Lines(text) {
		number++
		for _, w := range banned.FindAllString(strings.ReplaceAll(line, oldRole, ""), -1) {
			problems = append(problems, fmt.Sprintf("%s:%d: do not use %q: see the words in %s", name, number, w, glossary))
		}
		if todo := openTodo.FindString(line); todo != "" {
			problems = append(problems, fmt.Sprintf("%s:%d: a TODO without the number of its issue: write TODO(#n)", name, number))
		}
		for _, r := range requirement.FindAllString(line, -1) {
			problems = append(problems, fmt.Sprintf("%s:%d: %s is the number of a requirement that nothing here defines: say the rule in words", name, number, r))
		}
	}
	return problems
}

// openTodo is a marker for later work that names no issue.
var openTodo = regexp.MustCompile(`\bTODO\b([^(]|$)`)

// requirement matches a number from a list of requirements that is not part of the repository. The rules of
// docs/lease.md have other letters.
var requirement = regexp.MustCompile(`\b[RA][0-9]{1,3}\b`)

// oldRole is a label of Kubernetes. We cannot choose its name.
const oldRole = "node-role.kubernetes.io/master"

func TestWords(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, glossary))
	if err != nil {
		t.Fatal(err)
	}
	words := bannedWords(string(text))
	if len(words) < 10 {
		t.Fatalf("%s bans only %q", glossary, words)
	}
	banned := wordPattern(words)
	generated := map[string]bool{}
	for _, s := range all(t) {
		generated[s.path] = s.generated
	}
	err = walk(func(name string) error {
		if !slices.Contains([]string{".go", ".md", ".yaml", ".proto"}, path.Ext(name)) || name == glossary ||
			generated[name] || path.Dir(name) == "integration/arch" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			report(t, wordProblems(name, string(text), banned))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWordRulesCanFail(t *testing.T) {
	words := bannedWords("| word | meaning | never |\n|---|---|---|\n| feed | `restart` it | `nudge`, `fifty-fifty` |\n")
	if !slices.Equal(words, []string{"nudge", "fifty-fifty"}) {
		t.Fatalf("banned words %q", words)
	}
	banned := wordPattern(words)
	wantProblem(t, wordProblems("p/p.go", "package p\n// to nudge it\n", banned), `p/p.go:2: do not use "nudge"`)
	wantProblem(t, wordProblems("p/p.go", "package p\n// nudged, restart\n", banned), "")
	wantProblem(t, wordProblems("p/p.go", "// TODO: later\n", banned), "TODO without")
	wantProblem(t, wordProblems("p/p.go", "// TODO(#12): later\n", banned), "")
	wantProblem(t, wordProblems("p/p.go", "// asked often (A28, R208)\n", banned), "A28 is the number")
	wantProblem(t, wordProblems("p/p.go", "// at once (L8, B3), D_max + A, 0xA1, ADR1\n", banned), "")
}

// maxColumns is the longest allowed line of prose. Tables cannot be broken, and neither can comments that a program
// reads.
const maxColumns = 120

// The documents are read in a terminal, and beside their changes.
func TestProseIsNotWide(t *testing.T) {
	var problems []string
	for _, d := range documents(t) {
		for _, line := range d.prose {
			text := strings.TrimSpace(line)
			if fixed := strings.HasPrefix(text, "|") || strings.HasPrefix(text, "<!--"); len([]rune(line)) > maxColumns && !fixed {
				problems = append(problems, fmt.Sprintf("%s: a line of %d columns, more than %d: break it: %.60s", d.path, len([]rune(line)), maxColumns, line))
			}
		}
	}
	report(t, problems)
}
