package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReasonIsWhatATestSaidLast(t *testing.T) {
	for _, c := range []struct {
		name, output string
		want         []string
	}{
		{"nothing", "=== RUN   TestA\n--- FAIL: TestA (0.00s)\n", nil},
		{"short", "=== RUN   TestA\n    a_test.go:3: looking\n    a_test.go:4: why\n--- FAIL: TestA (0.00s)\n",
			[]string{"a_test.go:3: looking", "a_test.go:4: why"}},
		{"whole messages only", "    a_test.go:3: one\n        two\n        three\n    a_test.go:4: why\n        more\n    a_test.go:5: kept\n",
			[]string{"a_test.go:4: why", "more", "a_test.go:5: kept"}},
		{"a long message", "    a_test.go:3: looking\n    a_test.go:4: 1\n        2\n        3\n        4\n        5\n        6\n",
			[]string{"a_test.go:4: 1", "2", "3", "4", "5"}},
		{"no messages", "1\n2\n3\n4\n5\n6\n", []string{"2", "3", "4", "5", "6"}},
		{"panic", "    a_test.go:3: looking\npanic: boom [recovered]\n\n\tgoroutine 2 [running]:\n1\n2\n3\n4\n",
			[]string{"panic: boom [recovered]", "goroutine 2 [running]:", "1", "2", "3"}},
		{"wide", "    a_test.go:3: " + strings.Repeat("é", 400) + "\n", []string{"a_test.go:3: " + strings.Repeat("é", 143) + " …"}},
	} {
		if got := reason(c.output); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestFailuresAreNamedAtTheEnd(t *testing.T) {
	root := module(t, map[string]string{"p_test.go": header + `
func TestTable(t *testing.T) {
	t.Run("one", func(t *testing.T) {})
	t.Run("two", func(t *testing.T) { t.Error("the reason") })
}`})
	var out strings.Builder
	if err := run(t.Context(), &out, options{dir: root}, []string{"./..."}); !errors.Is(err, errFailed) {
		t.Fatalf("error %v, want %v", err, errFailed)
	}
	_, end, _ := strings.Cut(out.String(), "\nfailed: ")
	if !strings.HasPrefix(end, "example.com/m TestTable/two\n      p_test.go:") || !strings.Contains(end, "the reason\ntook ") {
		t.Errorf("the end does not name the test and its reason:\n%s", &out)
	}
	out.Reset()
	r := newReport(&out)
	for i := range listed + 3 {
		r.fail(fmt.Sprint("test ", i), "")
	}
	out.Reset()
	r.list()
	if text := out.String(); strings.Count(text, "\n") != listed+1 || !strings.HasSuffix(text, "failed: and 3 more\n") {
		t.Errorf("%d failures:\n%s", listed+3, text)
	}
}

// The last lines of .ci/run name what failed, whether a section runs tests or checks, or ends without a message.
func TestCINamesWhatFailed(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("needs make")
	}
	script, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	makefile := `
test:
	@printf 'FAIL  a/b TestX/y\n      long\n      why\nok    c\nfailed: a/b TestX/y\n      why\nfailed: a/b TestZ\ntook 1s\n3 passed, 2 failed\n'; false
verify:
	@printf 'ok    vet\nFAIL  format  0.1s  all is formatted\n      1\n      2\n      3\n      4\n      5\n      6\n1 passed, 1 failed\n'; false
fuzz:
	@echo no disk; false
sim:
	@echo 7 passed, 0 failed
`
	for name, text := range map[string]string{".ci/run": string(script), "Makefile": makefile} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, ".ci/run"), "test", "verify", "fuzz", "sim").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("error %v, want exit code 1", err)
	}
	_, end, _ := strings.Cut(string(out), "=== all sections")
	_, end, _ = strings.Cut(end, "7 passed, 0 failed\n")
	const want = `failed: test a/b TestX/y
      why
failed: test a/b TestZ
failed: verify format  0.1s  all is formatted
      1
      2
      3
      4
      5
failed: fuzz
      no disk
`
	if got, sum, _ := strings.Cut(end, "11 passed"); got != want || sum != ", 4 failed\n" {
		t.Errorf("the end is\n%s\nwant\n%s in\n%s", end, want, out)
	}
}
