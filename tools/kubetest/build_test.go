// Package kubetest tests build.sh, which builds bin/kubetest and bin/runtime.
package kubetest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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

const kubetestModule = "integration/kube/cmd/kubetest/"

// repository creates a repository with these files, whose builds need no network.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	root := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(root, name), text)
	}
	return root
}

// kubernetes creates a repository with a small module in place of Kubernetes.
func kubernetes(t *testing.T) string {
	return repository(t, map[string]string{
		kubetestModule + "go.mod":               "module example.com/kubetest\n\ngo 1.26\n\nrequire (\n\tk8s.io/kubernetes v1.2.3\n\tk8s.io/component-base v0.2.3\n)\n\nreplace (\n\tk8s.io/kubernetes => ./k\n\tk8s.io/component-base => ./c\n)\n",
		kubetestModule + "main.go":              program,
		kubetestModule + "k/go.mod":             "module k8s.io/kubernetes\n",
		kubetestModule + "c/go.mod":             "module k8s.io/component-base\n",
		kubetestModule + "c/version/version.go": "package version\n\nvar gitVersion, gitMajor, gitMinor string\n\nfunc Get() string { return gitVersion + \" \" + gitMajor + \" \" + gitMinor }\n",
	})
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

func run(t *testing.T, args ...string) (said string, err error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "./build.sh", args...).CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), err
}

// built runs the script. It reports whether the script compiled, and returns the output of the program.
func built(t *testing.T, root string) (compiled bool, says string) {
	t.Helper()
	said, err := run(t, root)
	if err != nil {
		t.Fatal(said)
	}
	out, err := exec.Command(filepath.Join(root, "bin", "kubetest")).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(said, "is built after"), strings.TrimSpace(string(out))
}

// Guard: the key. It builds when the source has changed, and otherwise never.
func TestBuildsOncePerSource(t *testing.T) {
	root := kubernetes(t)
	if compiled, says := built(t, root); !compiled || says != "hello from v1.2.3 1 2" {
		t.Fatalf("first run: compiled %v, says %q", compiled, says)
	}
	if compiled, _ := built(t, root); compiled {
		t.Error("the same source was compiled again")
	}
	write(t, filepath.Join(root, kubetestModule, "main.go"), strings.Replace(program, "hello", "greetings", 1))
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

// Guard: the move at the end. A build that fails leaves no program, and does not count as done.
func TestFailedBuildSaysWhy(t *testing.T) {
	root := kubernetes(t)
	write(t, filepath.Join(root, kubetestModule, "main.go"), "package main\n\nfunc main() { undefinedName() }\n")
	for range 2 {
		if said, err := run(t, root); err == nil || !strings.Contains(said, "undefinedName") {
			t.Errorf("%v, and it does not name undefinedName: %s", err, said)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(root, "bin", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestReleaseIsMandatory(t *testing.T) {
	root := kubernetes(t)
	write(t, filepath.Join(root, kubetestModule, "go.mod"), "module example.com/kubetest\n")
	if said, err := run(t, root); err == nil || !strings.Contains(said, "requires no release") {
		t.Errorf("%v: %s", err, said)
	}
}

// Guard: a folder of programs is replaced as a whole, and only after all of them were built.
func TestFolderOfPrograms(t *testing.T) {
	const module, main = "integration/cluster/cmd/runtime/", "package main\n\nfunc main() {}\n"
	files := map[string]string{"tools/pkg-config": "#!/bin/sh\n", module + "go.mod": "module example.com/runtime\n\ngo 1.26\n\nrequire (\n\tgithub.com/containerd/containerd/v2 v2.0.1\n\tgithub.com/containernetworking/plugins v1.0.0\n\tgithub.com/opencontainers/runc v1.0.0\n)\n\nreplace (\n\tgithub.com/containerd/containerd/v2 => ./c\n\tgithub.com/containernetworking/plugins => ./p\n\tgithub.com/opencontainers/runc => ./r\n)\n"}
	for path, name := range map[string]string{"c": "github.com/containerd/containerd/v2", "p": "github.com/containernetworking/plugins", "r": "github.com/opencontainers/runc"} {
		files[module+path+"/go.mod"] = "module " + name + "\n"
	}
	for _, path := range []string{"c/cmd/containerd", "c/cmd/containerd-shim-runc-v2", "c/cmd/ctr", "p/plugins/main/bridge", "p/plugins/ipam/host-local", "r"} {
		files[module+path+"/main.go"] = main
	}
	root := repository(t, files)
	if err := os.Chmod(filepath.Join(root, "tools", "pkg-config"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(root, "tools")+":"+os.Getenv("PATH"))
	t.Setenv("CC", "go") // a program that exists
	for _, again := range []bool{false, true} {
		said, err := run(t, root, "runtime")
		if compiled := strings.Contains(said, "is built after"); err != nil || compiled == again {
			t.Errorf("%v, compiled %v: %s", err, compiled, said)
		}
	}
	write(t, filepath.Join(root, module, "r", "main.go"), "package main\n")
	write(t, filepath.Join(root, module, "go.mod"), files[module+"go.mod"]+"\n// another key\n")
	if _, err := run(t, root, "runtime"); err == nil {
		t.Error("no error of a build without one of its programs")
	}
	if have, _ := filepath.Glob(filepath.Join(root, "bin", "*", "*")); len(have) != 6 {
		t.Errorf("programs %v", have)
	}
}
