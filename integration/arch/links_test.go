package arch

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// linked is what a program contains: the packages of this module, and the modules of others.
func linked(t *testing.T, program string) string {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{if .Module.Main}}{{.ImportPath}}{{else}}{{.Module.Path}}{{end}}{{end}}", "./"+program)
	list.Dir, list.Env = root, append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	lines := strings.Fields(string(out))
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n") + "\n"
}

// Guard: what has to run when nothing else does links no more than it needs.
func TestAgentAndToolHaveNoControllers(t *testing.T) {
	for _, program := range []string{"cmd/fencing-agent", "cmd/fencectl"} {
		if has := linked(t, program); strings.Contains(has, "sigs.k8s.io/controller-runtime") || program == "cmd/fencectl" && strings.Contains(has, "k8s.io/") {
			t.Errorf("%s links\n%s", program, has)
		}
	}
}

// Guard: one import makes the agent a third larger, see docs/adr/0082-what-the-agent-links.md. Packages of others have
// text/template in any case, and it costs nothing while nobody executes a template.
func TestWhatTheAgentDoesNotLink(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-tags", "grpcnotrace", "-f", `{{range .Imports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}`, "./cmd/fencing-agent")
	list.Dir, list.Env = root, append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		by, what, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found {
			continue
		}
		if own := strings.HasPrefix(by, "github.com/fencing-agent/fencing-agent/"); what == "k8s.io/api/core/v1" || own && (what == "text/template" || what == "html/template") {
			t.Errorf("%s imports %s", by, what)
		}
	}
}

// What a program links is in a file beside it, so that a change of it is seen by who reads the change, and not by
// chance: an import in one package brings a hundred others along.
func TestLinkedModules(t *testing.T) {
	for _, program := range []string{"cmd/fencing-agent", "cmd/fencectl", "cmd/fencing-controller"} {
		file := filepath.Join("testdata", "links-"+path.Base(program)+".txt")
		got := linked(t, program)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		had, has := strings.Fields(string(text)), strings.Fields(got)
		for _, l := range has {
			if !slices.Contains(had, l) {
				t.Errorf("%s links %s, which it did not: if it is to, run go test ./integration/arch -run TestLinkedModules -update", program, l)
			}
		}
		for _, l := range had {
			if !slices.Contains(has, l) {
				t.Errorf("%s does not link %s any more: run go test ./integration/arch -run TestLinkedModules -update", program, l)
			}
		}
	}
}
