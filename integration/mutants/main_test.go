package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The list must fit the source, or the next run proves nothing. This is the part of that check which takes no time.
func TestMutantsApply(t *testing.T) {
	all, err := allMutants("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range all {
		if m.rule == "" || m.what == "" || len(m.edits) == 0 || seen[m.name()+m.in[0]] {
			t.Errorf("%q has no rule, no description, no edit or a namesake", m.name())
		}
		seen[m.name()+m.in[0]] = true
		changed, err := m.apply("../..")
		if err != nil {
			t.Error(err)
		}
		for file, text := range changed {
			if original, err := os.ReadFile(filepath.Join("../..", file)); err != nil || bytes.Equal(original, text) {
				t.Errorf("%q does not change %s: %v", m.name(), file, err)
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module m\n\ngo 1.26\n",
		"p/p.go":      "package p\n\nfunc Guarded(n int) bool { return n > 0 }\n\nfunc Untested() int { return 1 }\n",
		"p/p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestGuard(t *testing.T) {\n\tif Guarded(0) {\n\t\tt.Fatal(\"no guard\")\n\t}\n}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	mutate := func(what, from, to string) mutant {
		return mutant{rule: "X1", what: what, edits: []edit{{"p/p.go", []string{from}, []string{to}}}, in: []string{"./p"}}
	}
	good := mutate("guard gone", "n > 0", "true")
	var out bytes.Buffer
	err := execute(context.Background(), &lab{root: dir, timeout: 5 * time.Minute}, []mutant{
		good, mutate("nobody cares", "return 1", "return 2"), mutate("not there", "n > 7", "true"), mutate("no Go", "n > 0", "("),
	}, false, &out)
	text := out.String()
	if err == nil || !strings.Contains(text, "1 caught, 1 survived, 2 broken") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, line := range []string{"caught    X1: guard gone", "SURVIVED  X1: nobody cares", "BROKEN    X1: not there", "BROKEN    X1: no Go"} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	if !strings.Contains(text, "TestGuard") {
		t.Errorf("the failing test is not named:\n%s", text)
	}
	out.Reset()
	if err := execute(context.Background(), &lab{root: dir, timeout: 5 * time.Minute}, []mutant{good}, false, &out); err != nil {
		t.Errorf("every mutant is caught: %v\n%s", err, out.String())
	}
}

func TestUsage(t *testing.T) {
	var out, diag bytes.Buffer
	if code := run(context.Background(), []string{"-list", "-run", "^B4: "}, &out, &diag); code != 0 || strings.Count(out.String(), "B4: ") != 3 {
		t.Errorf("exit code %d, list:\n%s", code, out.String())
	}
	if code := run(context.Background(), []string{"-run", "("}, &out, &diag); code != 2 || !strings.Contains(diag.String(), "-run") {
		t.Errorf("exit code %d, %s", code, diag.String())
	}
	if code := run(context.Background(), []string{"-x"}, &out, &diag); code != 2 {
		t.Errorf("exit code %d", code)
	}
}

// The text in a list is used unchanged: tabs, several lines, several files, other packages.
func TestParse(t *testing.T) {
	const text = "# a comment\n\nB1: two files\nin ./p ./q\nat a.go\n-\tif x {\n-\t\ty()\n+\tif false {\nat q/b.go\n-gone()\n\nlive: one\nat a.go\n-+1\n+-1\n"
	got, err := parse(text, "p")
	want := []mutant{
		{"B1", "two files", []edit{{"p/a.go", []string{"\tif x {", "\t\ty()"}, []string{"\tif false {"}}, {"q/b.go", []string{"gone()"}, nil}}, []string{"./p", "./q"}},
		{"live", "one", []edit{{"p/a.go", []string{"+1"}, []string{"-1"}}}, []string{"./p"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %q\nwant %q", err, got, want)
	}
	for _, wrong := range []string{"no rule\n", "at a.go\n", "-x\n", "B1: x\n-x\n", "B1: x\nB2: y\n", "B1: x\nat a.go\nstray\n"} {
		if got, err := parse(wrong, "p"); err == nil {
			t.Errorf("%q is taken for %q", wrong, got)
		}
	}
}
