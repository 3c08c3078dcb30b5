package arch

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// section returns the text of a page from a heading to the next one of its level.
func section(page, heading string) string {
	_, text, _ := strings.Cut(page, "\n## "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// named returns the words in backticks in a text.
func named(text string) []string {
	var out []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// roomProblems compares the table of folders with the list of packages.
func roomProblems(page string) []string {
	said := named(section(page, "Which folder do I open for..."))
	var problems []string
	for _, r := range rooms {
		if !slices.ContainsFunc(said, func(s string) bool { return within(s, r.pkg) }) {
			problems = append(problems, fmt.Sprintf("docs/architecture.md does not say what %s is for", r.pkg))
		}
	}
	return problems
}

// goroutineProblems compares the table of the agent's goroutines with a file that may start some.
func goroutineProblems(page string, s *source) []string {
	// These packages are not part of the agent's process.
	outside := slices.Contains([]string{"api/client", "cmd/fencectl", "diskquorum/lunadmin"}, s.pkg)
	if s.test || outside || strings.HasSuffix(s.pkg, "test") || !slices.ContainsFunc(rooms, func(r room) bool { return r.pkg == s.pkg }) {
		return nil
	}
	owners := named(section(page, "Goroutines"))
	var problems []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		if starts(n) && !slices.Contains(owners, s.pkg) {
			problems = append(problems, fmt.Sprintf("%s: a goroutine starts here, and the table in docs/architecture.md lists none of %s", s.at(n), s.pkg))
		}
		return true
	})
	return problems
}

// starts reports whether a goroutine starts here: by a go statement, in a WaitGroup, or with the agent's background
// function.
func starts(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		switch f := n.Fun.(type) {
		case *ast.Ident:
			return f.Name == "background"
		case *ast.SelectorExpr:
			return f.Sel.Name == "Go"
		}
	}
	return false
}

// The picture in docs/architecture.md must match the code.
func TestPicture(t *testing.T) {
	page := readFile(t, "docs/architecture.md")
	problems := roomProblems(page)
	for _, s := range all(t) {
		problems = append(problems, goroutineProblems(page, s)...)
	}
	for _, owner := range named(section(page, "Goroutines")) {
		if strings.Contains(owner, "/") && !slices.ContainsFunc(rooms, func(r room) bool { return r.pkg == owner }) {
			problems = append(problems, fmt.Sprintf("docs/architecture.md gives goroutines to %s, which does not exist", owner))
		}
	}
	report(t, problems)
}

func TestPictureRulesCanFail(t *testing.T) {
	page := "# A\n\n## Which folder do I open for...\n\n`watchdog/decide.go`\n\n## Goroutines\n\n| loop | `watchdog/wdt` |\n\n## Rest\n\n`netgossip` `api/publish`\n"
	problems := roomProblems(page)
	wantProblem(t, problems, "what netgossip is for")
	if got := strings.Join(problems, "\n"); strings.Contains(got, "what watchdog is for") {
		t.Error(got)
	}
	for _, c := range []struct{ name, text, want string }{
		{"api/publish/a.go", `func f() { go f() }`, "lists none of api/publish"},
		{"api/publish/a.go", `func f(wg *sync.WaitGroup) { wg.Go(nil) }`, "lists none of api/publish"},
		{"api/publish/a.go", `func f(background func(func())) { background(nil) }`, "lists none of api/publish"},
		{"watchdog/wdt/a.go", `func f() { go f() }`, ""},
		{"api/publish/a_test.go", `func f() { go f() }`, ""},
		{"api/publish/a.go", `func f() { f() }`, ""},
	} {
		wantProblem(t, goroutineProblems(page, mustParse(t, c.name, "package p\n"+c.text)), c.want)
	}
}
