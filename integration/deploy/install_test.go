package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkout creates a folder with the files that make install reads, and with the given programs.
func checkout(t *testing.T, built ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"Makefile", "deploy/systemd/fencing-agent.service"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
	}
	for _, name := range built {
		write(t, filepath.Join(dir, "bin", name), "built before\n")
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
}

// install runs make install as a root user whose PATH has no Go.
func install(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make on this machine")
	}
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"install"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GO=/nonexistent/go")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestInstallNeedsNoGo(t *testing.T) {
	dir, to := checkout(t, "fencing-agent", "fencectl"), t.TempDir()
	if out, err := install(t, dir, "DESTDIR="+to, "PREFIX=/opt/fence"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"fencing-agent", "fencectl", "kubectl-fence"} {
		if text, err := os.ReadFile(filepath.Join(to, "opt/fence/bin", name)); err != nil || string(text) != "built before\n" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	unit, err := os.ReadFile(filepath.Join(to, "opt/fence/lib/systemd/system/fencing-agent.service"))
	if err != nil || !strings.Contains(string(unit), "ExecStart=/opt/fence/bin/fencing-agent ") {
		t.Errorf("unit: %v\n%s", err, unit)
	}
}

func TestInstallSaysWhatToDoWhenNothingIsBuilt(t *testing.T) {
	for _, built := range [][]string{nil, {"fencectl"}, {"fencing-agent"}} {
		to := t.TempDir()
		out, err := install(t, checkout(t, built...), "DESTDIR="+to)
		if err == nil || !strings.Contains(out, "run make build first") {
			t.Errorf("built %v: %v\n%s", built, err, out)
		}
		if left, _ := os.ReadDir(to); len(left) > 0 {
			t.Errorf("built %v: something was installed: %v", built, left)
		}
	}
}
