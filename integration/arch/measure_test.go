package arch

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// measure counts everything that has a line in the table.
func measure(t *testing.T) []figureOf {
	t.Helper()
	out := lineCounts(all(t))
	add := func(name string, n int) { out = append(out, figureOf{name: name, figure: n}) }
	add("packages", packageCount(all(t)))
	inUse, experimental := leaves(config.Keys())
	add("keys of the agent", inUse)
	add("keys below experimental", experimental)
	add("metric names", metricNames(all(t)))
	add("reasons of a verdict", len(watchdog.Reasons()))
	add("refusals of a reported death or an order", constantsOf(all(t), "watchdog", "Refusal"))
	help := toolHelp(t)
	verbs, below, flags := toolWords(func(words ...string) string { out, _ := help(words...); return out })
	add("verbs of fencectl", verbs)
	add("commands below a verb of fencectl", below)
	add("flags of fencectl", flags)
	listed, targets := makeTargets(readFile(t, "Makefile"))
	add("make targets that make help lists", listed)
	add("make targets", targets)
	add("glossary rows", glossaryRows(readFile(t, glossary)))
	adrs, err := filepath.Glob(filepath.Join(root, "docs/adr/[0-9]*.md"))
	if err != nil {
		t.Fatal(err)
	}
	add("ADRs", len(adrs))
	long, wide := 0, 0
	for _, d := range documents(t) {
		if isPage(d.path) {
			long += len(longSentences(d.prose))
			wide += len(wideRows(d.prose))
		}
	}
	add("sentences of more than 35 words in the documents", long)
	add("table rows of more than 300 characters in the documents", wide)
	return out
}

// leaves counts the keys that have a value and no further keys below them. The keys below experimental are for
// laboratories, and count as one key in use.
func leaves(keys []string) (inUse, experimental int) {
	const laboratory = "experimental"
	for _, k := range keys {
		switch {
		case strings.HasPrefix(k, laboratory+".") && !parent(keys, k):
			experimental++
		case k == laboratory, !within(strings.ReplaceAll(k, ".", "/"), laboratory) && !parent(keys, k):
			inUse++
		}
	}
	return inUse, experimental
}

func parent(keys []string, k string) bool {
	return slices.ContainsFunc(keys, func(other string) bool {
		return strings.HasPrefix(other, k+".") || strings.HasPrefix(other, k+"[].")
	})
}

// lineCounts counts, by folder, the lines of code that people wrote, without tests. Doubles for the tests of other
// packages, and code that runs only in tests and laboratories, are counted separately from what users run.
func lineCounts(files []*source) []figureOf {
	lines := map[string]int{}
	for _, s := range files {
		if s.test || s.generated {
			continue
		}
		top, _, _ := strings.Cut(s.path, "/")
		if strings.HasSuffix(s.pkg, "test") && top != "integration" && top != "tools" {
			top = "doubles"
		}
		lines[top] += s.lines
	}
	var out []figureOf
	for top, n := range lines {
		out = append(out, figureOf{name: "lines of Go in " + top, figure: (n + linesStep - 1) / linesStep * linesStep})
	}
	slices.SortFunc(out, func(a, b figureOf) int { return strings.Compare(a.name, b.name) })
	return out
}

// packageCount counts folders that contain a Go file other than a test.
func packageCount(files []*source) int {
	seen := map[string]bool{}
	for _, s := range files {
		if !s.test {
			seen[s.pkg] = true
		}
	}
	return len(seen)
}

var metricName = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// metricNames counts the metrics of the programs: calls and literals with a name and, as the second part, a help text
// of more than one word, in a file that uses Prometheus.
func metricNames(files []*source) int {
	names := map[string]bool{}
	for _, s := range files {
		if _, ok := s.imports()["github.com/prometheus/client_golang/prometheus"]; !ok || s.test || within(s.pkg, "integration") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			var name, help ast.Expr
			switch n := n.(type) {
			case *ast.CallExpr:
				if len(n.Args) > 1 {
					name, help = n.Args[0], n.Args[1]
				}
			case *ast.CompositeLit:
				name, help = valueOf(n, "Name"), valueOf(n, "Help")
			}
			if text := literal(name); metricName.MatchString(text) && strings.Contains(literal(help), " ") {
				names[s.pkg+" "+text] = true
			}
			return true
		})
	}
	return len(names)
}

// valueOf returns the value of a key in a composite literal.
func valueOf(lit *ast.CompositeLit, key string) ast.Expr {
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if k, ok := kv.Key.(*ast.Ident); ok && k.Name == key {
				return kv.Value
			}
		}
	}
	return nil
}

// literal returns the text of a string literal, or of the first one in a sum.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return literal(e.X)
	}
	return ""
}

// constantsOf counts the constants of a type below a folder.
func constantsOf(files []*source, folder, name string) int {
	count := 0
	for _, s := range files {
		if s.test || !within(s.pkg, folder) {
			continue
		}
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST || len(g.Specs) == 0 {
				continue
			}
			if id, ok := g.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); ok && id.Name == name {
				for _, spec := range g.Specs {
					count += len(spec.(*ast.ValueSpec).Names)
				}
			}
		}
	}
	return count
}

var (
	commandLine = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +\S`)
	flagLine    = regexp.MustCompile(`(?m)^ +(?:-[a-zA-Z], )?--([a-z][a-z-]*)`)
)

// toolWords counts the verbs of one or two words, the commands below them, and the names of flags in the help.
func toolWords(help func(words ...string) string) (verbs, below, flags int) {
	names := map[string]bool{}
	var visit func(words []string)
	visit = func(words []string) {
		text := help(words...)
		_, commands, group := strings.Cut(text, "\nCommands:\n")
		commands, _, _ = strings.Cut(commands, "\n\n")
		if _, list, ok := strings.Cut(text, "\nFlags:\n"); ok {
			for _, m := range flagLine.FindAllStringSubmatch(list, -1) {
				names[m[1]] = true
			}
		}
		switch {
		case len(words) > 2:
			below++
		case !group || len(words) == 2:
			verbs++
		}
		if !group {
			return
		}
		for _, m := range commandLine.FindAllStringSubmatch(commands, -1) {
			visit(append(slices.Clone(words), m[1]))
		}
	}
	visit(nil)
	delete(names, "help")
	return verbs, below, len(names)
}

var target = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):(.*)$`)

// makeTargets counts the targets with a line of help, and all targets with a name that people can type.
func makeTargets(makefile string) (listed, total int) {
	for _, m := range target.FindAllStringSubmatch(makefile, -1) {
		if strings.HasPrefix(m[2], "=") {
			continue
		}
		total++
		if strings.Contains(m[2], " ## ") {
			listed++
		}
	}
	return listed, total
}

// glossaryRows counts the rows of tables without their heads.
func glossaryRows(markdown string) int {
	rows, tables := 0, 0
	for line := range strings.Lines(markdown) {
		switch {
		case strings.HasPrefix(line, "|---"):
			tables++
		case strings.HasPrefix(line, "|"):
			rows++
		}
	}
	return rows - tables
}

// isPage reports whether a document is read by people who use the program or work on it. Notes of decisions and
// measurements are not.
func isPage(name string) bool {
	return !within(name, "docs/adr") && !within(name, "docs/measurements") && path.Base(name) != "CHANGELOG.md"
}

const (
	maxWords = 35
	maxRow   = 300
)

var (
	itemStart   = regexp.MustCompile(`^\s*(?:[-*] |[0-9]+\. )`)
	sentenceEnd = regexp.MustCompile("[.!?][)\"`*]*\\s+(?:[A-Z`\\[(\"*]|[0-9])")
	linkTarget  = regexp.MustCompile(`\]\([^)]*\)`)
)

// longSentences returns the sentences of the paragraphs with more than maxWords words.
func longSentences(prose []string) []string {
	var long []string
	paragraph := ""
	end := func() {
		for _, s := range sentences(paragraph) {
			if len(strings.Fields(s)) > maxWords {
				long = append(long, s)
			}
		}
		paragraph = ""
	}
	for _, line := range prose {
		text := strings.TrimSpace(line)
		switch {
		case text == "", strings.HasPrefix(text, "|"), strings.HasPrefix(text, "#"), strings.HasPrefix(text, "<!--"):
			end()
			continue
		case itemStart.MatchString(line):
			end()
			text = itemStart.ReplaceAllString(text, "")
		}
		paragraph += " " + linkTarget.ReplaceAllString(text, "]")
	}
	end()
	return long
}

func sentences(paragraph string) []string {
	var out []string
	for {
		at := sentenceEnd.FindStringIndex(paragraph)
		if at == nil {
			return append(out, strings.TrimSpace(paragraph))
		}
		out = append(out, strings.TrimSpace(paragraph[:at[1]-1]))
		paragraph = paragraph[at[1]-1:]
	}
}

// wideRows returns the rows of tables that are too long for a few lines of a terminal.
func wideRows(prose []string) []string {
	var wide []string
	for _, line := range prose {
		if strings.HasPrefix(strings.TrimSpace(line), "|") && len([]rune(line)) > maxRow {
			wide = append(wide, line)
		}
	}
	return wide
}

// To list them, run FENCING_LONG=docs/operations.md go test ./integration/arch -run TestLongProse -v
func TestLongProse(t *testing.T) {
	name := os.Getenv("FENCING_LONG")
	if name == "" {
		t.Skip("shows the long sentences and rows of one document: FENCING_LONG=docs/NAME.md")
	}
	for _, d := range documents(t) {
		if d.path == name {
			for _, s := range slices.Concat(longSentences(d.prose), wideRows(d.prose)) {
				t.Log(s)
			}
		}
	}
}

func TestMeasuresCount(t *testing.T) {
	file := func(name, text string) *source { return mustParse(t, name, text) }
	lines := lineCounts([]*source{
		file("cmd/a/a.go", "package a\n\n\n"), file("cmd/a/a_test.go", "package a\n"), file("k8s/ktest/k.go", "package ktest\n"),
		file("cmd/a/gen.go", "// Code generated by x. DO NOT EDIT.\n\npackage a\n"), file("tools/ktest/k.go", "package k\n"+strings.Repeat("\n", linesStep)),
	})
	if want := []figureOf{{"lines of Go in cmd", 100, ""}, {"lines of Go in doubles", 100, ""}, {"lines of Go in tools", 200, ""}}; !slices.Equal(lines, want) {
		t.Errorf("lines %v", lines)
	}
	const metrics = "package p\nimport \"github.com/prometheus/client_golang/prometheus\"\n" +
		"var a = prometheus.Opts{Name: \"one_total\", Help: \"What it counts.\"}\nvar b = gauge(\"two\", \"What \"+\"else.\")\nvar c = label(\"no\", \"label\")\n"
	if n := metricNames([]*source{file("p/p.go", metrics), file("p/p_test.go", metrics)}); n != 2 {
		t.Errorf("%d metrics", n)
	}
	kinds := file("watchdog/w.go", "package w\ntype Why int\nconst (\n\tA Why = iota + 1\n\tB\n)\nconst C = 1\n")
	if n := constantsOf([]*source{kinds}, "watchdog", "Why"); n != 2 {
		t.Errorf("%d constants", n)
	}
	if n, x := leaves([]string{"a", "a.b", "c", "c[].d", "c[].e", "cd", "experimental", "experimental.f", "experimental.g", "experimental.g.h"}); n != 5 || x != 2 {
		t.Errorf("%d keys with a value, %d below experimental", n, x)
	}
	help := func(words ...string) string {
		return map[string]string{
			"": "\nCommands:\n  go    away\n  sub   more\n\nFlags:\n  -h, --help   help\n\nUse", "go": "\nFlags:\n      --now   at once\n",
			"sub": "\nCommands:\n  a   b\n  c   d\n", "sub a": "", "sub c": "\nFlags:\n      --now   x\n  -q, --quiet   y\n\nCommands:\n  e   f\n", "sub c e": "",
		}[strings.Join(words, " ")]
	}
	if verbs, below, flags := toolWords(help); verbs != 3 || below != 1 || flags != 2 {
		t.Errorf("%d verbs, %d below, %d flags", verbs, below, flags)
	}
	if listed, total := makeTargets("A := b\na: b ## what\nb-c: ### more\na.x: ### of a\n\tx: y\nd:=1\n"); listed != 1 || total != 2 {
		t.Errorf("%d of %d targets", listed, total)
	}
	if n := glossaryRows("| a | b |\n|---|---|\n| c | d |\n| e | f |\n"); n != 2 {
		t.Errorf("%d rows", n)
	}
	long := strings.Repeat("word ", maxWords)
	for prose, want := range map[string]int{long + "end.": 1, long[5:] + "end. Next one.": 0, "- " + long[5:] + "end.\n- more words": 0, "| " + long + "end. |": 0, long[5:] + "[a b](c d).": 1, "# " + long + "x": 0} {
		if got := longSentences(strings.Split(prose, "\n")); len(got) != want {
			t.Errorf("%q: %d long sentences, want %d", prose, len(got), want)
		}
	}
	if got := wideRows([]string{"| " + strings.Repeat("x", maxRow) + " |", "| short |", strings.Repeat("y", maxRow+1)}); len(got) != 1 {
		t.Errorf("%d wide rows", len(got))
	}
}
