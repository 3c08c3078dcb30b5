package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRunCountsAndGoesOn(t *testing.T) {
	var out strings.Builder
	fine := func(context.Context, string) error { return nil }
	failed := run(t.Context(), &out, ".", []check{
		{"bad", "what is wrong", func(context.Context, string) error { return errors.New("first line\nsecond line\n") }},
		{"absent", "", func(context.Context, string) error { return skipped{"no network"} }},
		{"good", "what is right", fine},
	})
	text := out.String()
	if failed != 1 || !strings.HasSuffix(text, "\n1 passed, 1 failed\n") {
		t.Errorf("%d failed; output:\n%s", failed, text)
	}
	for _, part := range []string{"FAIL  bad", "      first line\n      second line\n", "skip  absent", "no network", "ok    good"} {
		if !strings.Contains(text, part) {
			t.Errorf("output lacks %q:\n%s", part, text)
		}
	}
}

func TestInterruptedIsNoSuccess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stop := func(context.Context, string) error { cancel(); return nil }
	var out strings.Builder
	if failed := run(ctx, &out, ".", []check{{"a", "", stop}, {"b", "", stop}}); failed != 1 {
		t.Errorf("%d failed, want 1; output:\n%s", failed, &out)
	}
}

func TestChoose(t *testing.T) {
	if got, err := choose(nil); err != nil || len(got) != len(checks) {
		t.Errorf("no names: %d checks, error %v", len(got), err)
	}
	if got, err := choose([]string{"vet", "format"}); err != nil || len(got) != 2 || got[0].name != "vet" {
		t.Errorf("two names: %v, error %v", got, err)
	}
	if _, err := choose([]string{"vett"}); err == nil {
		t.Error("an unknown name is accepted")
	}
}

// The checks must be able to fail: each is run on a repository with exactly the fault that it must find.
func TestChecksFindTheirFault(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                        "module example.com/m\n\ngo 1.26\n",
		"ugly.go":                       "package m\nfunc  F( ) {}\n",
		"vet.go":                        "package m\n\nimport \"fmt\"\n\nfunc G() { fmt.Printf(\"%d\", \"x\") }\n",
		"integration/arch/arch_test.go": "package arch\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { t.Error(\"an arrow is wrong\") }\n",
		"cmd/fencectl/main.go":          "package main\n\nimport \"syscall\"\n\nfunc main() { _ = syscall.SO_PEERCRED }\n",
		"tools/go.mod":                  "module example.com/m/tools\n\ngo 1.26\n",
		"tools/thing/thing_test.go":     "package thing\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { t.Error(\"a tool is wrong\") }\n",
		"tools/protogen/main.go":        "package main\n\nimport \"os\"\n\nfunc main() { os.Stderr.WriteString(\"stale code\"); os.Exit(1) }\n",
		"tools/manifests/go.mod":        "module example.com/m/tools/manifests\n\ngo 1.26\n",
		"tools/manifests/main.go":       "package main\n\nimport \"os\"\n\nfunc main() { os.Stderr.WriteString(\"stale manifests\"); os.Exit(1) }\n",
	} {
		writeFile(t, root, name, text)
	}
	t.Setenv("GOPROXY", "off")
	for _, c := range []struct {
		name string
		run  func(context.Context, string) error
		want string
	}{
		{"format", checkFormat, "ugly.go"},
		{"generated", checkGenerated, "stale code"},
		{"manifests", checkManifests, "stale manifests"},
		{"repository", checkRepository, "an arrow is wrong"},
		{"platforms", checkPlatforms, "undefined: syscall.SO_PEERCRED"},
		{"vet", checkVet, "vet.go"},
		{"tools", checkTools, "a tool is wrong"},
	} {
		if err := c.run(t.Context(), root); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
	// This comes last, because a package that does not load hides the other faults.
	if err := os.WriteFile(filepath.Join(root, "import.go"), []byte("package m\n\nimport _ \"example.com/missing\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkTidy(t.Context(), root); err == nil || !strings.Contains(err.Error(), "example.com/missing") {
		t.Errorf("tidy: error %v, want one with example.com/missing", err)
	}
}

// Guard: modules. Nested modules are checked, too, except for those that are mostly Kubernetes or Cilium.
func TestNestedModulesAreChecked(t *testing.T) {
	root := t.TempDir()
	bad := "package m\n\nimport \"fmt\"\n\nfunc G() { fmt.Printf(\"%d\", \"x\") }\n"
	for name, text := range map[string]string{
		"go.mod":                          "module example.com/m\n\ngo 1.26\n",
		"m.go":                            "package m\n",
		controlPlaneModule + "/go.mod":    "module example.com/m/k\n\ngo 1.26\n",
		controlPlaneModule + "/vet.go":    bad,
		runtimeModule + "/go.mod":         "module example.com/m/r\n\ngo 1.26\n",
		ciliumModule + "/go.mod":          "module example.com/m/c\n\ngo 1.26\n",
		ciliumModule + "/vet.go":          bad,
		"bin/go.mod":                      "module example.com/m/built\n\ngo 1.26\n",
		"integration/x/testdata/m/go.mod": "module example.com/m/data\n\ngo 1.26\n",
	} {
		writeFile(t, root, name, text)
	}
	if err := checkVet(t.Context(), root); err != nil {
		t.Errorf("vet: %v", err)
	}
	if dirs, err := modules(root); err != nil || len(dirs) != 3 {
		t.Errorf("modules %q, error %v, want the root, the control plane's and the runtime's", dirs, err)
	}
	writeFile(t, root, "integration/x/go.mod", "module example.com/m/x\n\ngo 1.26\n")
	writeFile(t, root, "integration/x/vet.go", bad)
	if err := checkVet(t.Context(), root); err == nil || !strings.Contains(err.Error(), "vet.go") {
		t.Errorf("vet of a nested module: error %v, want one with vet.go", err)
	}
}

func writeFile(t *testing.T, root, name, text string) {
	t.Helper()
	p := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
