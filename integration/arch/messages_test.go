package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// product lists the folders whose programs log for people.
var product = []string{"api", "cmd", "diskquorum", "history", "k8s", "netgossip", "watchdog"}

// verbs matches the words that identify a message as a sentence. Add a verb when a message needs it.
var verbs = regexp.MustCompile(`(?i)\b(use|uses|is|are|was|were|has|have|had|does|do|did|cannot|can|could|will|would|may|` +
	`accepted|ask|asks|changed|come|comes|confirmed|deleted|differs|ended|expired|fails|failed|flaps|follow|follows|found|founds|gets|gives|go|goes|hears|keeps|lived|lives|loses|reaches|make|moved|` +
	`answers|obeyed|obeys|opened|ordered|panicked|refuse|refused|refuses|remembers|removed|reported|runs|shows|speaks|started|stay|stays|stopped|takes|took|withdrew|writes|wrote|` +
	`closing|following|leaving|listening|looking|opening|serving|starting|stopping|storing|taking|trying|waiting|watching)\b`)

// messageProblems checks a message: the part up to its first colon must be a sentence, and not a package name or a
// heading.
func messageProblems(at, message string) []string {
	head, _, _ := strings.Cut(message, ": ")
	if !verbs.MatchString(head) {
		return []string{fmt.Sprintf("%s: the log message %q has no verb before its colon: a person reads it at night", at, message)}
	}
	return nil
}

// levels maps the methods of a slog.Logger to the index of the message among their arguments.
var levels = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "Log": 2, "LogAttrs": 2,
}

// logger reports whether a call is one of a logger, such as log.Info, a.log.Info or o.Logger.Info.
func logger(c *ast.CallExpr) (message ast.Expr, is bool) {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, false
	}
	i, ok := levels[s.Sel.Name]
	on := name(s.X)
	if call, is := s.X.(*ast.CallExpr); is { // such as log.With(...).Info
		if with, is := call.Fun.(*ast.SelectorExpr); is && with.Sel.Name == "With" {
			on = name(with.X)
		}
	}
	if !ok || len(c.Args) <= i || !slices.Contains([]string{"log", "logger", "slog"}, strings.ToLower(on)) {
		return nil, false
	}
	return c.Args[i], true
}

// name returns the last name of an expression.
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// constant returns the constant part of a message, without what is added at run time.
func constant(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ := strconv.Unquote(e.Value) // the compiler has already parsed it
			return text
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return constant(e.X) + constant(e.Y)
		}
	}
	return ""
}

// messages returns the constant messages of one package's files, by the place where they are written. If a function
// receives the message as a parameter, it is found at the function's calls; if it has a name, where the name gets its
// value.
func messages(files []*source) map[string]string {
	out, named, handed := map[string]string{}, map[string]bool{}, map[string]int{}
	take := func(s *source, e ast.Expr) {
		if text := constant(e); text != "" {
			out[s.at(e)] = text
		}
	}
	for _, s := range files {
		for _, d := range s.file.Decls {
			f, _ := d.(*ast.FuncDecl)
			local := map[string]bool{}
			ast.Inspect(d, func(n ast.Node) bool {
				c, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if m, is := logger(c); is {
					if text := constant(m); text != "" {
						out[s.at(m)] = text
					} else if i := parameter(f, name(m)); i >= 0 {
						handed[f.Name.Name] = i
					} else if name(m) != "" {
						named[name(m)], local[name(m)] = true, true
					}
				}
				return true
			})
			ast.Inspect(d, func(n ast.Node) bool {
				if a, is := n.(*ast.AssignStmt); is && len(a.Rhs) == len(a.Lhs) {
					for i, to := range a.Lhs {
						if local[name(to)] {
							take(s, a.Rhs[i])
						}
					}
				}
				return true
			})
		}
	}
	for _, s := range files {
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if i, is := handed[name(n.Fun)]; is && i < len(n.Args) {
					take(s, n.Args[i])
				}
			case *ast.KeyValueExpr:
				if named[name(n.Key)] {
					take(s, n.Value)
				}
			case *ast.ValueSpec:
				for i, id := range n.Names {
					if named[id.Name] && i < len(n.Values) {
						take(s, n.Values[i])
					}
				}
			}
			return true
		})
	}
	return out
}

// parameter returns the index of f's parameter with this name; -1: there is none.
func parameter(f *ast.FuncDecl, name string) int {
	if f == nil || name == "" {
		return -1
	}
	i := 0
	for _, field := range f.Type.Params.List {
		for _, id := range field.Names {
			if id.Name == name {
				return i
			}
			i++
		}
	}
	return -1
}

func TestLogMessagesAreSentences(t *testing.T) {
	packages := map[string][]*source{}
	for _, s := range all(t) {
		if top, _, _ := strings.Cut(s.pkg, "/"); slices.Contains(product, top) && !s.test && !s.generated && !strings.HasSuffix(s.pkg, "test") {
			packages[s.pkg] = append(packages[s.pkg], s)
		}
	}
	for _, s := range packages["api/trouble"] { // its sentences are messages, too
		ast.Inspect(s.file, func(n ast.Node) bool {
			if kv, ok := n.(*ast.KeyValueExpr); ok && (name(kv.Key) == "Sentence" || name(kv.Key) == "Over") {
				report(t, messageProblems(s.at(kv), constant(kv.Value)))
			}
			return true
		})
	}
	count := 0
	for _, files := range packages {
		for at, text := range messages(files) {
			count++
			report(t, messageProblems(at, text))
		}
	}
	if count < 200 {
		t.Errorf("found %d messages only", count)
	}
}

func TestMessageRulesCanFail(t *testing.T) {
	s, err := parse("p/p.go", []byte(`package p
const applyFirst = "old schema"
func f() {
	a.log.Error("http listener", "error", err)
	s.Logger.With("node", n).Warn("members: " + "watch", "err", err)
	log.Log(ctx, level, "decision")
	o.Logger.Error(applyFirst)
	complain("lun", err)
	a.log.Info("cannot serve metrics")
	t.Error("this is a test's")
}
func complain(msg string, err error) { a.log.Warn(msg, "error", err) }
`))
	if err != nil {
		t.Fatal(err)
	}
	found := messages([]*source{s})
	for _, text := range []string{"http listener", "members: watch", "decision", "old schema", "lun"} {
		at := ""
		for place, message := range found {
			if message == text {
				at = place
			}
		}
		if at == "" {
			t.Errorf("%q is not found among %q", text, found)
		}
		wantProblem(t, messageProblems(at, text), "has no verb")
	}
	if len(found) != 6 {
		t.Errorf("found %q", found)
	}
	wantProblem(t, messageProblems("p/p.go:1", "disk: it is full"), "has no verb")
	wantProblem(t, messageProblems("p/p.go:1", "watching Nodes failed; lists may be old"), "")
}
