package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const program = `package main

import (
	"fmt"

	"k8s.io/component-base/version"
)

func main() { fmt.Println("hello from", version.Get()) }
`

// repository is one whose Kubernetes is small.
func repository(t *testing.T) string {
	t.Helper()
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":               "module example.com/kubetest\n\ngo 1.26\n\nrequire (\n\tk8s.io/kubernetes v1.2.3\n\tk8s.io/component-base v0.2.3\n)\n\nreplace (\n\tk8s.io/kubernetes => ./k\n\tk8s.io/component-base => ./c\n)\n",
		"main.go":              program,
		"k/go.mod":             "module k8s.io/kubernetes\n",
		"c/go.mod":             "module k8s.io/component-base\n",
		"c/version/version.go": "package version\n\nvar gitVersion, gitMajor, gitMinor string\n\nfunc Get() string { return gitVersion + \" \" + gitMajor + \" \" + gitMinor }\n",
	} {
		write(t, filepath.Join(root, "integration", "kube", "cmd", "kubetest", name), text)
	}
	return root
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// built runs the builder and tells whether it compiled, and what the program says.
func built(t *testing.T, root string) (compiled bool, says string) {
	t.Helper()
	var log strings.Builder
	b := newBuilder(root, &log)
	b.every = 0
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(b.program).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(log.String(), "is built after"), strings.TrimSpace(string(out))
}

// Guard: the key. It builds when the source has changed and at no other time.
func TestBuildsOncePerSource(t *testing.T) {
	root := repository(t)
	if compiled, says := built(t, root); !compiled || says != "hello from v1.2.3 1 2" {
		t.Fatalf("first run: compiled %v, says %q", compiled, says)
	}
	if compiled, _ := built(t, root); compiled {
		t.Error("the same source was compiled again")
	}
	source := filepath.Join(root, "integration", "kube", "cmd", "kubetest", "main.go")
	write(t, source, strings.Replace(program, "hello", "greetings", 1))
	if compiled, says := built(t, root); !compiled || says != "greetings from v1.2.3 1 2" {
		t.Errorf("changed source: compiled %v, says %q", compiled, says)
	}
	if err := os.Remove(filepath.Join(root, "bin", "kubetest")); err != nil {
		t.Fatal(err)
	}
	if compiled, _ := built(t, root); !compiled {
		t.Error("a program that is gone was not built again")
	}
}

// Guard: the rename. A build that fails neither leaves a program nor counts as done.
func TestFailedBuildSaysWhy(t *testing.T) {
	root := repository(t)
	write(t, filepath.Join(root, "integration", "kube", "cmd", "kubetest", "main.go"), "package main\n\nfunc main() { undefinedName() }\n")
	b := newBuilder(root, io.Discard)
	for range 2 {
		if err := b.run(t.Context()); err == nil || !strings.Contains(err.Error(), "undefinedName") {
			t.Errorf("error %v, want one with undefinedName", err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(root, "bin", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestReleaseIsMandatory(t *testing.T) {
	root := repository(t)
	write(t, filepath.Join(root, "integration", "kube", "cmd", "kubetest", "go.mod"), "module example.com/kubetest\n")
	if err := newBuilder(root, io.Discard).run(t.Context()); err == nil || !strings.Contains(err.Error(), "requires no release") {
		t.Errorf("error %v", err)
	}
}

// Guard: a folder of programs is replaced as a whole, and only by a build of all of them.
func TestFolderOfPrograms(t *testing.T) {
	root := t.TempDir()
	t.Setenv("GOPROXY", "off")
	source := filepath.Join(root, "integration", "cluster", "cmd", "runtime")
	write(t, filepath.Join(source, "go.mod"), "module example.com/runtime\n\ngo 1.26\n\n// github.com/containerd/containerd/v2\n")
	write(t, filepath.Join(source, "one", "main.go"), "package main\n\nfunc main() {}\n")
	write(t, filepath.Join(source, "two", "main.go"), "package main\n\nfunc main() {}\n")
	var log strings.Builder
	b := newRuntime(root, &log)
	b.release = regexp.MustCompile(`(containerd/v2)`)
	packages := []string{"./one"}
	b.builds = func(string) []build { return []build{{packages: packages}, {cgo: true, packages: []string{"./two"}}} }
	for _, again := range []bool{false, true} {
		log.Reset()
		if err := b.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if compiled := strings.Contains(log.String(), "is built after"); compiled == again {
			t.Errorf("compiled %v: %s", compiled, &log)
		}
	}
	packages = []string{"./gone"}
	write(t, filepath.Join(source, "go.mod"), "module example.com/runtime\n\ngo 1.26\n\n// another github.com/containerd/containerd/v2\n")
	if err := b.run(t.Context()); err == nil {
		t.Error("no error of a build without one of its programs")
	}
	if have, _ := filepath.Glob(filepath.Join(root, "bin", "*", "*")); len(have) != 2 {
		t.Errorf("programs %v", have)
	}
}
