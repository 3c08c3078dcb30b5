package arch

import (
	"flag"
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fencing-agent/fencing-agent/watchdog"
)

var update = flag.Bool("update", false, "rewrite the generated parts of the documents")

// document is one Markdown file, split into its parts.
type document struct {
	path  string
	prose []string // lines outside of code blocks
	code  []string // lines of code blocks, and code spans
}

var (
	codeSpan    = regexp.MustCompile("`([^`]+)`")
	linkPattern = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	makePattern = regexp.MustCompile(`(?:^|[;&|(] ?|sudo )make ([a-z][a-z-]*)(?: KIND=([a-z0-9]+))?`)
	toolPattern = regexp.MustCompile(`(?:fencectl|kubectl fence)((?: [a-z]+(?:-[a-z]+)*)+)`)
	metric      = regexp.MustCompile(`fencing_agent_([a-z_]+)`)
)

func takeApart(name, text string) *document {
	d := &document{path: name}
	fenced := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
		case fenced || strings.HasPrefix(line, "    "):
			d.code = append(d.code, strings.TrimSpace(line))
		default:
			d.prose = append(d.prose, line)
			for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
				d.code = append(d.code, m[1])
			}
		}
	}
	return d
}

func documents(t *testing.T) []*document {
	t.Helper()
	var docs []*document
	err := walk(func(name string) error {
		if path.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		docs = append(docs, takeApart(name, string(text)))
		if len(text) == 0 {
			t.Errorf("%s is empty: links to it lead nowhere", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) < 10 {
		t.Fatalf("found only %d documents", len(docs))
	}
	return docs
}

// anchors returns the link targets of a document's headings, as GitHub creates them.
func anchors(d *document) []string {
	var names []string
	for _, line := range d.prose {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		var b strings.Builder
		for _, r := range strings.ToLower(strings.TrimSpace(title)) {
			switch {
			case r == ' ' || r == '-':
				b.WriteByte('-')
			case r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127:
				b.WriteRune(r)
			}
		}
		names = append(names, b.String())
	}
	return names
}

func linkProblems(d *document, exists func(name string) bool, lookup func(name string) *document) []string {
	var problems []string
	for _, line := range d.prose {
		for _, m := range linkPattern.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			name := d.path
			if target != "" {
				name = path.Join(path.Dir(d.path), target)
			}
			if !exists(name) {
				problems = append(problems, fmt.Sprintf("%s: link to %s, which does not exist", d.path, m[1]))
				continue
			}
			if other := lookup(name); anchor != "" && other != nil && !slices.Contains(anchors(other), anchor) {
				problems = append(problems, fmt.Sprintf("%s: link to %s: no heading makes this anchor", d.path, m[1]))
			}
		}
	}
	return problems
}

func TestLinks(t *testing.T) {
	docs := documents(t)
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err == nil
	}
	lookup := func(name string) *document {
		if i := slices.IndexFunc(docs, func(d *document) bool { return d.path == name }); i >= 0 {
			return docs[i]
		}
		return nil
	}
	for _, d := range docs {
		report(t, linkProblems(d, exists, lookup))
	}
}

func makeProblems(d *document, makefile string) []string {
	var problems []string
	for _, line := range d.code {
		for _, m := range makePattern.FindAllStringSubmatch(line, -1) {
			rule := func(name string) bool {
				return regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `:`).MatchString(makefile)
			}
			switch {
			case !rule(m[1]):
				problems = append(problems, fmt.Sprintf("%s: `make %s`: the Makefile has no such target", d.path, m[1]))
			// uml is a kind of nodes.
			case m[2] != "" && m[2] != "uml" && !rule(m[1]+"."+m[2]):
				problems = append(problems, fmt.Sprintf("%s: `make %s KIND=%s`: the Makefile has no %s.%s", d.path, m[1], m[2], m[1], m[2]))
			}
		}
	}
	return problems
}

func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents(t) {
		report(t, makeProblems(d, string(makefile)))
	}
}

// commandProblems checks the verbs of fencectl; help returns its help for the given words.
func commandProblems(d *document, help func(words ...string) (output string, ok bool)) []string {
	var problems []string
	for _, line := range d.code {
		for _, m := range toolPattern.FindAllStringSubmatch(line, -1) {
			words := strings.Fields(m[1])
			output, ok := help(words[0])
			// The verb is a later word.
			for n := 2; ok && strings.Contains(output, "\nCommands:") && n <= len(words); n++ {
				output, ok = help(words[:n]...)
			}
			if !ok {
				problems = append(problems, fmt.Sprintf("%s: `%s`: fencectl has no such command", d.path, strings.TrimSpace(m[0])))
			}
		}
	}
	return problems
}

// toolHelp returns the help of a fencectl that is built once for all tests, and that is run once for the same words.
func toolHelp(t *testing.T) func(words ...string) (output string, ok bool) {
	t.Helper()
	helpOnce.Do(func() { helpOf, helpErr = buildHelp() })
	if helpErr != nil {
		t.Fatal(helpErr)
	}
	return helpOf
}

var (
	helpOnce sync.Once
	helpOf   func(words ...string) (string, bool)
	helpErr  error
)

func buildHelp() (func(words ...string) (string, bool), error) {
	folder, err := os.MkdirTemp("", "arch-")
	if err != nil {
		return nil, err
	}
	toolFolder = folder
	program := filepath.Join(folder, "fencectl")
	build := exec.Command("go", "build", "-o", program, "./cmd/fencectl")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build fencectl: %w\n%s", err, out)
	}
	type answer struct {
		output string
		ok     bool
	}
	known := map[string]answer{}
	return func(words ...string) (string, bool) {
		key := strings.Join(words, " ")
		if _, ok := known[key]; !ok {
			out, err := exec.Command(program, append([]string{"help"}, words...)...).CombinedOutput()
			known[key] = answer{string(out), err == nil}
		}
		return known[key].output, known[key].ok
	}, nil
}

// toolFolder contains the program for the tests.
var toolFolder string

func TestMain(m *testing.M) {
	code := m.Run()
	if toolFolder != "" {
		os.RemoveAll(toolFolder)
	}
	os.Exit(code)
}

func TestCommands(t *testing.T) {
	help := toolHelp(t)
	for _, d := range documents(t) {
		report(t, commandProblems(d, help))
	}
}

func metricProblems(d *document, literals map[string]bool) []string {
	var problems []string
	for _, line := range slices.Concat(d.prose, d.code) {
		for _, m := range metric.FindAllStringSubmatch(line, -1) {
			name := m[1]
			for _, suffix := range []string{"_bucket", "_count", "_sum"} { // histograms have these
				if base := strings.TrimSuffix(name, suffix); metricExists(base, literals) {
					name = base
				}
			}
			if !metricExists(name, literals) && !strings.HasSuffix(m[0], "_") {
				problems = append(problems, fmt.Sprintf("%s: metric %s: no such name in the code", d.path, m[0]))
			}
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// metricExists reports whether the code contains the name as a string literal, or as two literals, because a subsystem
// and its metrics are named separately.
func metricExists(name string, literals map[string]bool) bool {
	for i, r := range name {
		if r == '_' && literals[name[:i]] && literals[name[i+1:]] {
			return true
		}
	}
	return literals[name]
}

// metricLiterals returns the string literals of the code, without the metrics' namespace.
func metricLiterals(t *testing.T) map[string]bool {
	t.Helper()
	literals := map[string]bool{}
	for _, s := range all(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					literals[strings.TrimPrefix(text, "fencing_agent_")] = true
				}
			}
			return true
		})
	}
	return literals
}

func TestMetricNames(t *testing.T) {
	literals := metricLiterals(t)
	for _, d := range documents(t) {
		report(t, metricProblems(d, literals))
	}
}

// An operator will look up every reason of a verdict.
func TestReasonsAreExplained(t *testing.T) {
	for _, name := range []string{"docs/decision-table.md", "docs/troubleshooting.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range watchdog.Reasons() {
			if !strings.Contains(string(text), "`"+r.String()+"`") {
				t.Errorf("%s does not explain the reason %s", name, r)
			}
		}
	}
}

// quotedMessages returns the code spans in the first column of tables whose heads begin with "it says".
func quotedMessages(markdown string) []string {
	var messages []string
	says := false
	for line := range strings.Lines(markdown) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch first := strings.TrimSpace(cells[0]); {
		case len(cells) < 2:
			says = false
		case first == "it says":
			says = true
		case says:
			for _, m := range codeSpan.FindAllStringSubmatch(first, -1) {
				messages = append(messages, m[1])
			}
		}
	}
	return messages
}

// An operator searches for the words on the screen.
func TestQuotedMessagesExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for _, s := range all(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					said.WriteString(text + "\n")
				}
			}
			return true
		})
	}
	messages := quotedMessages(string(text))
	if len(messages) < 15 {
		t.Errorf("found only %d quoted messages", len(messages))
	}
	for _, m := range messages {
		if !strings.Contains(said.String(), m) {
			t.Errorf("docs/troubleshooting.md quotes %q, and no program prints that", m)
		}
	}
}

const (
	tableBegin = "<!-- table: made from watchdog/testdata/decision_table.txt by go test ./integration/arch -update -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

// renderTable turns the tested decision table into Markdown.
func renderTable(text string) string {
	var b strings.Builder
	header := ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") && strings.Contains(line, "|") && strings.Contains(line, "action") {
			header = strings.TrimPrefix(line, "#")
		}
	}
	row := func(line string) {
		b.WriteString("| " + strings.Join(strings.Fields(strings.ReplaceAll(line, "|", " ")), " | ") + " |\n")
	}
	row(header)
	b.WriteString(strings.Repeat("|---", len(strings.Fields(strings.ReplaceAll(header, "|", " ")))) + "|\n")
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
			row(line)
		}
	}
	return b.String()
}

func TestDecisionTableIsTheTestedOne(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "watchdog/testdata/decision_table.txt"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(root, "docs/decision-table.md")
	doc, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(doc), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("docs/decision-table.md lacks the line %q or %q", tableBegin, tableEnd)
	}
	want := before + tableBegin + renderTable(string(text)) + tableEnd + after
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(doc) {
		t.Error("docs/decision-table.md does not show the tested table: run go test ./integration/arch -update")
	}
}

func TestDocumentRulesCanFail(t *testing.T) {
	d := takeApart("docs/a.md", "# A title\n\nSee [b](b.md#part-two), [c](../c.md), [web](https://example.com/x), `[no](link)`.\n\n"+
		"```sh\nmake build\nfencectl lun wipe\n```\nUse `make all` and `fencectl status` or make do. `fencing_agent_made_up` and `fencing_agent_feeds_total`.\n")
	other := takeApart("docs/b.md", "## Part one\n")
	exists := func(name string) bool { return name == "docs/b.md" }
	lookup := func(name string) *document { return map[string]*document{"docs/b.md": other}[name] }
	problems := linkProblems(d, exists, lookup)
	wantProblem(t, problems, "link to ../c.md, which does not exist")
	wantProblem(t, problems, "no heading makes this anchor")
	if len(problems) != 2 {
		t.Errorf("link problems %q, want 2", problems)
	}
	if got := makeProblems(d, "build:\n"); len(got) != 1 || !strings.Contains(got[0], "make all") {
		t.Errorf("make problems %q", got)
	}
	kinds := takeApart("docs/a.md", "`make run KIND=one`, `make run KIND=two`, `make run KIND=uml`, `make run`\n")
	if got := makeProblems(kinds, "run: run.one\nrun.one:\n"); len(got) != 1 || !strings.Contains(got[0], "no run.two") {
		t.Errorf("make problems %q", got)
	}
	help := func(words ...string) (string, bool) {
		return "\nCommands:", slices.Contains([]string{"lun", "lun init", "status"}, strings.Join(words, " "))
	}
	if got := commandProblems(d, help); len(got) != 1 || !strings.Contains(got[0], "lun wipe") {
		t.Errorf("command problems %q", got)
	}
	if got := metricProblems(d, map[string]bool{"feeds_total": true}); len(got) != 1 || !strings.Contains(got[0], "made_up") {
		t.Errorf("metric problems %q", got)
	}
	if got := quotedMessages("| it says | do |\n|---|---|\n| `a b`, or `c` | `no` |\n\n| x | y |\n| `no` | |\n"); !slices.Equal(got, []string{"a b", "c"}) {
		t.Errorf("quoted messages %q", got)
	}
	if !metricExists("a_b_c", map[string]bool{"a": true, "b_c": true}) || metricExists("a_b_d", map[string]bool{"a": true, "b_c": true}) {
		t.Error("subsystems of metrics are not recognized")
	}
	if got := renderTable("# a b | action c\n x - | feed y\n"); got != "| a | b | action | c |\n|---|---|---|---|\n| x | - | feed | y |\n" {
		t.Errorf("rendered table:\n%s", got)
	}
}
