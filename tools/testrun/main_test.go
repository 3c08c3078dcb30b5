package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module is a new module with the given files.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files["go.mod"] = "module example.com/m\n\ngo 1.26\n"
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func mustContain(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("output lacks %q:\n%s", part, text)
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return lines[len(lines)-1]
}

const header = "package p\n\nimport \"testing\"\n\n"

func TestCountsLeavesAndShowsOnlyFailures(t *testing.T) {
	root := module(t, map[string]string{
		"good/good_test.go": header + `
func TestPlain(t *testing.T) { t.Log("a quiet word") }
func TestTable(t *testing.T) {
	t.Run("one", func(t *testing.T) {})
	t.Run("two", func(t *testing.T) {})
}
func TestSkipped(t *testing.T) { t.Skip("no root here") }
func TestSkippedLater(t *testing.T) { t.Log("looking"); t.Skip("\nno disk here") }`,
		"bad/bad_test.go": header + `
func TestFails(t *testing.T) { t.Fatal("the reason") }
func TestTable(t *testing.T) {
	t.Run("one", func(t *testing.T) {})
	t.Run("two", func(t *testing.T) { t.Error("the second reason") })
}`,
		"panics/panics_test.go": header + `func TestPanics(t *testing.T) { panic("boom") }`,
		"broken/broken_test.go": header + `func TestBroken(t *testing.T) { undefinedName() }`,
		"empty/empty.go":        "package p\n",
		"leaks/leaks_test.go": `package p

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) { m.Run(); fmt.Println("a goroutine leaked"); os.Exit(1) }
func TestFine(t *testing.T) {}`,
	})
	var out strings.Builder
	err := run(t.Context(), &out, options{dir: root}, []string{"./..."})
	if !errors.Is(err, errFailed) {
		t.Fatalf("error %v, want %v", err, errFailed)
	}
	text := out.String()
	// Passed: plain, two and one of the tables, fine. Failed: two tests, a panic, a build, a TestMain.
	if got := lastLine(text); got != "5 passed, 5 failed" {
		t.Errorf("last line %q\n%s", got, text)
	}
	mustContain(t, text, "the reason", "the second reason", "boom", "undefinedName", "a goroutine leaked", "skip  1: no root here", "skip  1: no disk here", "2 skipped")
	if strings.Contains(text, "quiet word") {
		t.Errorf("a passing test's log was printed:\n%s", text)
	}
}

func TestLogPrintsWhatPassingTestsSaid(t *testing.T) {
	root := module(t, map[string]string{"p_test.go": header + `func TestPlain(t *testing.T) { t.Log("a word") }`})
	var out strings.Builder
	if err := run(t.Context(), &out, options{dir: root, log: true}, []string{"./..."}); err != nil {
		t.Fatal(err)
	}
	mustContain(t, out.String(), "a word", "1 passed, 0 failed")
}

// A mistyped package or flag runs no test at all, and must not look like success.
func TestNothingRunIsAFailure(t *testing.T) {
	root := module(t, map[string]string{"p.go": "package p\n"})
	for _, args := range [][]string{{"./missing"}, {"-nosuchflag", "./..."}} {
		var out strings.Builder
		if err := run(t.Context(), &out, options{dir: root}, args); err == nil {
			t.Errorf("go test %v: no error\n%s", args, &out)
		}
	}
}

// A scenario is a subtest. If no subtest has the requested name, the tests around it pass and have done nothing, which
// must not look like success either.
func TestNoSubtestOfThatNameIsAFailure(t *testing.T) {
	root := module(t, map[string]string{"p_test.go": header + `
func TestPlain(t *testing.T) {}
func TestScenarios(t *testing.T) { t.Run("first", func(t *testing.T) {}) }`})
	for pattern, passes := range map[string]bool{"/(^first$)": true, "/(second)": false} {
		var out strings.Builder
		err := run(t.Context(), &out, options{dir: root}, []string{"-run", pattern, "./..."})
		if passes && err != nil || !passes && !errors.Is(err, errFailed) {
			t.Errorf("-run %s: error %v\n%s", pattern, err, &out)
		}
		if line := "FAIL  no test has a name that -run " + pattern + " asks for\n"; strings.Contains(out.String(), line) == passes {
			t.Errorf("-run %s: the output has that line, or lacks it: %q\n%s", pattern, line, &out)
		}
	}
}

func TestPatternsAskForSubtests(t *testing.T) {
	for args, want := range map[string]int{
		"./...":                           1,
		"-run TestPlain .":                1,
		"-run / .":                        1,
		"-run /(second) .":                2,
		"--run=^TestScenarios$/(a/b|c) .": 2,
		"-count=1 -run A/^[0-9/]+$/c .":   3,
		"-run A|B/c .":                    1,
		"-run A/b|B/c/d .":                2,
		"-test.run=A/b .":                 2,
		". -args -run A/b":                1,
		"-run":                            1,
	} {
		if _, got := askedFor(strings.Fields(args)); got != want {
			t.Errorf("go test %s: tests of depth %d are asked for, want %d", args, got, want)
		}
	}
}

// The failing target fails before any input: on a busy machine the time may be up before the first one.
func TestFuzzRunsEveryTarget(t *testing.T) {
	fuzz := "func FuzzFine(f *testing.F) { f.Fuzz(func(*testing.T, []byte) {}) }\n"
	root := module(t, map[string]string{
		"a/a_test.go": header + fuzz,
		"b/b_test.go": header + fuzz + "func FuzzBad(f *testing.F) { f.Fatal(\"found it\") }\n",
	})
	var out strings.Builder
	if err := run(t.Context(), &out, options{dir: root, fuzz: 100 * time.Millisecond}, []string{"./..."}); !errors.Is(err, errFailed) {
		t.Fatalf("error %v, want %v\n%s", err, errFailed, &out)
	}
	mustContain(t, out.String(), "a FuzzFine", "b FuzzFine", "found it", "2 passed, 1 failed")
}
