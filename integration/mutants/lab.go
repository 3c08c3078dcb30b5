package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutant is the source without one guard.
type mutant struct {
	rule  string // a rule of docs/lease.md, or a word if none of its rules applies
	what  string // what is wrong with the mutant
	edits []edit
	in    []string // packages whose tests must fail
}

// edit replaces a text of whole lines that occurs exactly once in a file.
type edit struct {
	file     string // path relative to the root
	from, to []string
}

func (m *mutant) name() string { return m.rule + ": " + m.what }

// apply returns the changed files by their paths relative to root.
func (m *mutant) apply(root string) (map[string][]byte, error) {
	changed := map[string][]byte{}
	for _, e := range m.edits {
		text, ok := changed[e.file]
		if !ok {
			var err error
			if text, err = os.ReadFile(filepath.Join(root, e.file)); err != nil {
				return nil, fmt.Errorf("mutant %q: %w", m.name(), err)
			}
		}
		from, to := strings.Join(e.from, "\n"), strings.Join(e.to, "\n")
		if n := bytes.Count(text, []byte(from)); n != 1 {
			return nil, fmt.Errorf("mutant %q: %s has %d times, not once: %s", m.name(), e.file, n, from)
		}
		changed[e.file] = bytes.Replace(text, []byte(from), []byte(to), 1)
	}
	return changed, nil
}

type verdict string

const (
	caught   verdict = "caught"
	survived verdict = "SURVIVED"
	broken   verdict = "BROKEN" // it does not apply or does not compile
)

type result struct {
	verdict verdict
	tests   []string // tests that failed
	output  string
}

// by returns the names of the tests that caught a mutant.
func (r *result) by(all bool) string {
	if len(r.tests) > 1 && !all {
		return fmt.Sprintf("%s and %d more", r.tests[0], len(r.tests)-1)
	}
	return strings.Join(r.tests, " ")
}

// lab runs tests on mutated source.
type lab struct {
	root    string // root of the module
	dir     string // folder for overlays
	tests   string // which tests to run; empty: all
	timeout time.Duration
}

// find finds the module that contains the working directory.
func (l *lab) find(ctx context.Context) error {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env GOMOD: %w", err)
	}
	path := strings.TrimSpace(string(mod))
	if filepath.Base(path) != "go.mod" {
		return errors.New("no go.mod here: run it inside the repository")
	}
	l.root = filepath.Dir(path)
	return nil
}

func (l *lab) open() (err error) {
	l.dir, err = os.MkdirTemp("", "mutants")
	return err
}

func (l *lab) close() { _ = os.RemoveAll(l.dir) } // a leftover in the temporary directory does no harm

// test runs the mutant's tests until one fails.
func (l *lab) test(ctx context.Context, m mutant) result {
	overlay, err := l.overlay(&m)
	if err != nil {
		return result{verdict: broken, tests: []string{err.Error()}}
	}
	args := []string{"test", "-overlay", overlay, "-vet=off", "-short", "-failfast", "-count=1", "-timeout", l.timeout.String(), "-run", l.tests}
	cmd := exec.CommandContext(ctx, "go", append(args, m.in...)...)
	cmd.Dir = l.root
	out, err := cmd.CombinedOutput()
	if err == nil {
		return result{verdict: survived}
	}
	r := result{verdict: caught, tests: failedTests(out), output: string(out)}
	if bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")) {
		r.verdict = broken
	}
	return r
}

// overlay writes the mutated files, and the list that makes the go command use them.
func (l *lab) overlay(m *mutant) (string, error) {
	changed, err := m.apply(l.root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range changed {
		as := filepath.Join(l.dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(as, text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(l.root, file)] = as
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(l.dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

var failLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)|^(panic: .*)|^(\S+\.go:\d+:\d+: .*)`)

// failedTests lists the failed top-level tests.
func failedTests(out []byte) []string {
	var tests []string
	for _, m := range failLine.FindAllSubmatch(out, -1) {
		if name := string(slices.Concat(m[1:]...)); !slices.Contains(tests, name) {
			tests = append(tests, name)
		}
	}
	return tests
}
