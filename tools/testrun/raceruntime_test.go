package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const (
	broken = `ThreadSanitizer: CHECK failed: tsan_rtl.cpp:327 \"((addr + size)) <= ((TraceMemEnd()))\" (0x1, 0x2) (tid=7)`
	crash  = `
func crash(words string) { os.Stderr.WriteString(words + "\n"); os.Exit(66) }
func first() bool { f, err := os.OpenFile("been-here", os.O_CREATE|os.O_EXCL, 0o600); if err != nil { return false }; f.Close(); return true }
`
	crashHeader = "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n"
)

func crashing(t *testing.T, tests string) (string, error) {
	t.Helper()
	root := module(t, map[string]string{"p/p_test.go": crashHeader + crash + tests, "q/q_test.go": header + "func TestFine(t *testing.T) {}\n"})
	var out strings.Builder
	err := run(t.Context(), &out, options{dir: root}, []string{"-count=1", "./..."})
	return out.String(), err
}

func TestSecondChanceAfterTheRaceRuntimeBroke(t *testing.T) {
	text, err := crashing(t, `
func TestBefore(t *testing.T) {}
func TestSkipped(t *testing.T) { t.Skip("no root here") }
func TestBreaks(t *testing.T) { if first() { crash("`+broken+`") } }`)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	// Nothing from the first run of p counts, and q is not run again.
	if got := lastLine(text); got != "3 passed, 0 failed" {
		t.Errorf("last line %q\n%s", got, text)
	}
	mustContain(t, text, "again ", "78156", "skip  1: no root here")
	if n := strings.Count(text, "again "); n != 1 {
		t.Errorf("%d lines about it\n%s", n, text)
	}
}

func TestSecondTimeFails(t *testing.T) {
	text, err := crashing(t, `func TestBreaks(t *testing.T) { crash("`+broken+`") }`)
	if !errors.Is(err, errFailed) {
		t.Fatalf("error %v, want %v\n%s", err, errFailed, text)
	}
	if got := lastLine(text); got != "1 passed, 1 failed" {
		t.Errorf("last line %q\n%s", got, text)
	}
}

// If anything else went wrong, it must not be lost in the second run.
func TestNoSecondChance(t *testing.T) {
	for name, tests := range map[string]string{
		"another crash": `func TestBreaks(t *testing.T) { if first() { crash("SIGSEGV") } }`,
		"a failed test": `func TestFails(t *testing.T) { if first() { t.Error("the reason") } }
func TestZBreaks(t *testing.T) { if _, err := os.Stat("second"); err != nil { os.WriteFile("second", nil, 0o600); crash("` + broken + `") } }`,
		"a race":    `func TestBreaks(t *testing.T) { if first() { crash("WARNING: DATA RACE\n` + broken + `") } }`,
		"a panic":   `func TestBreaks(t *testing.T) { if first() { crash("panic: boom\n` + broken + `") } }`,
		"a timeout": `func TestBreaks(t *testing.T) { if first() { crash("panic: test timed out after 1s\n` + broken + `") } }`,
	} {
		t.Run(name, func(t *testing.T) {
			if text, err := crashing(t, tests); !errors.Is(err, errFailed) {
				t.Errorf("error %v, want %v\n%s", err, errFailed, text)
			}
		})
	}
}

func TestWithPackages(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"-race", "./..."}, []string{"-race", "P"}},
		{[]string{"-race", "-run", "X", "./a", "../b", "-v"}, []string{"-race", "-run", "X", "P", "-v"}},
		{[]string{"-race", "."}, []string{"-race", "P"}},
		{[]string{"-race", "example.com/p"}, nil},
	} {
		got, ok := withPackages(c.args, []string{"P"})
		if ok != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q %v, want %q", c.args, got, ok, c.want)
		}
	}
}
