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

// linked returns what a program contains: packages of this module, and other modules.
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

// Guard: programs that must run when nothing else does link no more than they need.
func TestAgentAndToolHaveNoControllers(t *testing.T) {
	for _, program := range []string{"cmd/fencing-agent", "cmd/fencectl"} {
		if has := linked(t, program); strings.Contains(has, "sigs.k8s.io/controller-runtime") || program == "cmd/fencectl" && strings.Contains(has, "k8s.io/") {
			t.Errorf("%s links\n%s", program, has)
		}
	}
}

// Guard: one import can make the agent a third larger, see docs/adr/0082-what-the-agent-links.md. Foreign packages
// import text/template in any case, and it costs nothing while no template is executed.
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

// A file beside each program lists what it links, so that a reviewer sees each change of the list: an import in one
// package can bring a hundred others along.
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
				t.Errorf("%s links %s, which is new: if that is intended, run go test ./integration/arch -run TestLinkedModules -update", program, l)
			}
		}
		for _, l := range had {
			if !slices.Contains(has, l) {
				t.Errorf("%s does not link %s any more: run go test ./integration/arch -run TestLinkedModules -update", program, l)
			}
		}
	}
}
