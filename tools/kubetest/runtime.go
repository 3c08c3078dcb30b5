package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// newRuntime is the builder of bin/runtime: containerd, runc and the CNI plugins of make cluster,
// in the versions of a module that has nothing but them.
func newRuntime(root string, out io.Writer) *builder {
	program := filepath.Join(root, "bin", "runtime")
	plain := []string{"-ldflags", "-s -w"}
	return &builder{
		name: "runtime", source: filepath.Join(root, "integration", "cluster", "cmd", "runtime"), program: program, key: program + ".key",
		release: regexp.MustCompile(`(?m)^\s*(github\.com/containerd/containerd/v2 v[\d.]+)( // indirect)?$`),
		costs:   "containerd, runc and CNI plugins, about 2 minutes on two cores",
		builds: func(string) []build {
			return []build{
				{flags: plain, packages: []string{
					"github.com/containerd/containerd/v2/cmd/containerd",
					"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
					"github.com/containerd/containerd/v2/cmd/ctr",
					"github.com/containernetworking/plugins/plugins/main/bridge",
					"github.com/containernetworking/plugins/plugins/ipam/host-local",
				}},
				// runc joins namespaces in C before Go begins, and the runtime's seccomp profile takes its library.
				{cgo: true, flags: append([]string{"-tags", "seccomp"}, plain...), packages: []string{"github.com/opencontainers/runc"}},
			}
		},
		out: out, every: 15 * time.Second,
	}
}

// runtimeNeeds says what of the host's packages is missing.
func runtimeNeeds() error {
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "gcc"
	}
	_, noCompiler := exec.LookPath(compiler)
	if noCompiler != nil || exec.Command("pkg-config", "--exists", "libseccomp").Run() != nil {
		return errors.New("runc needs a C compiler and libseccomp: apt-get install gcc libc6-dev libseccomp-dev pkg-config")
	}
	return nil
}
