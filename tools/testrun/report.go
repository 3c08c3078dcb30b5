package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// event is one line of go test -json (go doc test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string // set for build output
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// report counts tests and prints what a person needs to see. A test that has subtests is counted only if it failed and
// none of its subtests did.
type report struct {
	out                     io.Writer
	log                     bool // print what passing tests logged
	passed, failed, skipped int

	deepest    int      // 1: tests; 2: tests of which one has a subtest, and so on
	again      []string // packages to run once more
	secondTime bool     // the packages are being run once more

	failures []failure
	slow     slow

	packages map[string]*packageRun
	builds   map[string]*strings.Builder // output of compilers, by import path
	reasons  map[string]int              // the number of skipped tests, by reason
}

type packageRun struct {
	output map[string]*strings.Builder // by test; "" is the output of the package itself
	parent map[string]bool             // tests with subtests
	broken map[string]bool             // tests with a failed subtest
	count  int
	bad    int
	skips  []string // reasons for skips
}

func newReport(out io.Writer) *report {
	return &report{
		out: out, packages: map[string]*packageRun{},
		builds: map[string]*strings.Builder{}, reasons: map[string]int{},
	}
}

// read takes the events of one go test until its output ends.
func (r *report) read(in io.Reader) error {
	dec := json.NewDecoder(in)
	for {
		var e event
		switch err := dec.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the output of go test: %w", err)
		}
		r.take(&e)
	}
}

func (r *report) take(e *event) {
	if e.Action == "build-output" {
		builder(r.builds, e.ImportPath).WriteString(e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &packageRun{output: map[string]*strings.Builder{}, parent: map[string]bool{}, broken: map[string]bool{}}
		r.packages[e.Package] = p
	}
	switch e.Action {
	case "run":
		r.deepest = max(r.deepest, 1+strings.Count(e.Test, "/"))
		if parent, ok := parentOf(e.Test); ok {
			p.parent[parent] = true
		}
	case "output":
		builder(p.output, e.Test).WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageEnded(p, e)
		} else {
			r.testEnded(p, e)
		}
	}
}

func (r *report) testEnded(p *packageRun, e *event) {
	output := p.text(e.Test)
	delete(p.output, e.Test)
	r.slow.ended(e)
	switch e.Action {
	case "fail":
		if parent, ok := parentOf(e.Test); ok {
			p.broken[parent] = true
		}
		p.bad++
		if p.broken[e.Test] {
			p.bad--
			fmt.Fprint(r.out, indent(output)) // the output of the parent itself
			return
		}
		r.fail(shorten(e.Package)+" "+e.Test, output)
	case "skip":
		p.skips = append(p.skips, skipReason(output))
	case "pass":
		if r.log {
			fmt.Fprint(r.out, indent(logged(output)))
		}
		if !p.parent[e.Test] {
			r.passed++
			p.count++
		}
	}
}

func (r *report) packageEnded(p *packageRun, e *event) {
	defer delete(r.packages, e.Package)
	if e.Action == "fail" && e.FailedBuild == "" && p.bad == 0 && raceRuntimeBroke(p.allText()) && r.postpone(e.Package, p) {
		return
	}
	for _, why := range p.skips {
		r.skipped++
		r.reasons[why]++
	}
	switch {
	case e.Action == "fail" && e.FailedBuild != "":
		r.fail(shorten(e.Package), builder(r.builds, e.FailedBuild).String())
	case e.Action == "fail" && p.bad == 0:
		// This is a panic outside of tests, a timeout, or a leak that TestMain found. The output also contains the
		// tests that had not ended.
		r.fail(shorten(e.Package), p.allText())
	case e.Action == "fail":
		fmt.Fprintf(r.out, "FAIL  %s  %.1fs\n", shorten(e.Package), e.Elapsed)
	case p.count > 0:
		fmt.Fprintf(r.out, "ok    %s  %d tests  %.1fs\n", shorten(e.Package), p.count, e.Elapsed)
	}
}

func (r *report) fail(what, output string) {
	r.failed++
	r.failures = append(r.failures, failure{what, reason(output)})
	fmt.Fprintf(r.out, "FAIL  %s\n%s", what, indent(output))
}

// summary prints the failures again, the slowest tests, the reasons for skips and, as the last line, the counts.
func (r *report) summary(took time.Duration) {
	r.list()
	r.slow.print(r.out)
	for _, why := range sortedKeys(r.reasons) {
		fmt.Fprintf(r.out, "skip  %d: %s\n", r.reasons[why], why)
	}
	fmt.Fprintf(r.out, "took %v, %d skipped\n%d passed, %d failed\n", took.Round(time.Second/10), r.skipped, r.passed, r.failed)
}

func (p *packageRun) text(test string) string {
	if b := p.output[test]; b != nil {
		return b.String()
	}
	return ""
}

// allText returns the output of the package and of its tests that have not ended.
func (p *packageRun) allText() string {
	var all strings.Builder
	for _, test := range sortedKeys(p.output) {
		all.WriteString(p.text(test))
	}
	return all.String()
}

func builder(m map[string]*strings.Builder, key string) *strings.Builder {
	if m[key] == nil {
		m[key] = new(strings.Builder)
	}
	return m[key]
}

func parentOf(test string) (string, bool) {
	i := strings.LastIndexByte(test, '/')
	if i < 0 {
		return "", false
	}
	return test[:i], true
}

// skipReason returns the last message of a test that skipped itself, without file and line.
func skipReason(output string) string {
	reason := "no reason given"
	for line := range strings.Lines(logged(output)) {
		line = strings.TrimSpace(line)
		if file, rest, ok := strings.Cut(line+" ", ": "); ok && strings.Contains(file, ".go:") {
			line = strings.TrimSpace(rest)
		}
		if line != "" {
			reason = line
		}
	}
	return reason
}

// logged returns the part of a test's output that the test itself wrote.
func logged(output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		if t := strings.TrimSpace(line); !strings.HasPrefix(t, "=== ") && !strings.HasPrefix(t, "--- ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// shorten drops the part of an import path that all packages of the repository share.
func shorten(pkg string) string {
	if _, rest, ok := strings.Cut(pkg, "/fencing-agent/fencing-agent/"); ok {
		return rest
	}
	return pkg
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("      " + line)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
