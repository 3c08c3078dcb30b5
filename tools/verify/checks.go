package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// checks are run in this order, the quick ones first.
var checks = []check{
	{"format", "gofmt has nothing to change", checkFormat},
	{"generated", "generated code matches its sources", checkGenerated},
	{"manifests", "deploy/manifests matches the charts; alerts and dashboard are PromQL", checkManifests},
	{"tidy", "go.mod and go.sum are complete and contain nothing else", checkTidy},
	{"repository", "imports, sizes, words, links (integration/arch), and each mutant compiles", checkRepository},
	{"platforms", "fencectl builds for the platforms of operators", checkPlatforms},
	{"vet", "go vet", checkVet},
	{"staticcheck", "staticcheck, pinned in tools/go.mod", checkStaticcheck},
	{"govulncheck", "no known vulnerability is reached", checkVulnerabilities},
	{"tools", "tests of the tools", checkTools},
}

// toolsModule is the folder of the module that pins the tools.
const toolsModule = "tools"

// manifestsModule renders the chart; no other module contains Helm and Prometheus.
const manifestsModule = "tools/manifests"

// releaseModule makes packages and images, and contains the libraries for that.
const releaseModule = "tools/release"

// controlPlaneModule is the module of bin/kubetest: one small file on top of all of Kubernetes, which would have to be
// compiled to check it.
const controlPlaneModule = "integration/kube/cmd/kubetest"

// runtimeModule pins containerd, runc and CNI plugins, and has no package.
const runtimeModule = "integration/cluster/cmd/runtime"

// attacherModule pins csi-attacher, and has no package.
const attacherModule = "integration/cluster/cmd/attacher"

// ciliumModule uses all of Cilium, which would have to be downloaded and compiled. `make test-cilium` checks it.
const ciliumModule = "deploy/cilium"

// modules returns the folders of the repository's Go modules except for Cilium's, the root first.
func modules(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (name == "testdata" || name == "bin" || name == "dist" || strings.HasPrefix(name, ".")) {
			return fs.SkipDir
		}
		if path == filepath.Join(root, ciliumModule) {
			return fs.SkipDir
		}
		if name == "go.mod" {
			dirs = append(dirs, filepath.Dir(path))
		}
		return nil
	})
	slices.Sort(dirs)
	return dirs, err
}

// eachModule runs the check in every module except for those of the control plane, the runtime and the attacher.
func eachModule(root string, check func(dir string) error) error {
	dirs, err := modules(root)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if dir == filepath.Join(root, controlPlaneModule) || dir == filepath.Join(root, runtimeModule) || dir == filepath.Join(root, attacherModule) {
			continue
		}
		if err := check(dir); err != nil {
			return err
		}
	}
	return nil
}

func checkFormat(ctx context.Context, root string) error {
	out, err := output(ctx, root, "gofmt", "-l", ".")
	if err != nil {
		return err
	}
	if len(out) > 0 {
		return fmt.Errorf("run gofmt -w on:\n%s", out)
	}
	return nil
}

func checkGenerated(ctx context.Context, root string) error {
	_, err := output(ctx, filepath.Join(root, toolsModule), "go", "run", "./protogen", "-check", "..")
	return err
}

func checkManifests(ctx context.Context, root string) error {
	_, err := output(ctx, filepath.Join(root, manifestsModule), "go", "run", ".", "-check", filepath.Join("..", ".."))
	return err
}

func checkTidy(ctx context.Context, root string) error {
	dirs, err := modules(root)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if _, err := output(ctx, dir, "go", "mod", "tidy", "-diff"); err != nil {
			return fmt.Errorf("run go mod tidy in %s: %w", dir, err)
		}
	}
	return nil
}

func checkRepository(ctx context.Context, root string) error {
	_, err := output(ctx, root, "go", "test", "-count=1", "./integration/arch/...", "./integration/mutants")
	return err
}

func checkVet(ctx context.Context, root string) error {
	return eachModule(root, func(dir string) error {
		_, err := output(ctx, dir, "go", "vet", "./...")
		return err
	})
}

func checkStaticcheck(ctx context.Context, root string) error {
	pin, err := filepath.Abs(filepath.Join(root, toolsModule, "go.mod"))
	if err != nil {
		return err
	}
	return eachModule(root, func(dir string) error {
		_, err := output(ctx, dir, "go", "tool", "-modfile="+pin, "staticcheck", "./...")
		return err
	})
}

// platforms lists platforms of fencectl on which no agent runs.
var platforms = []string{"darwin/arm64", "windows/amd64"}

func checkPlatforms(ctx context.Context, root string) error {
	for _, p := range platforms {
		system, machine, _ := strings.Cut(p, "/")
		if _, err := outputWith(ctx, root, []string{"GOOS=" + system, "GOARCH=" + machine, "CGO_ENABLED=0"}, "go", "build", "-o", os.DevNull, "./cmd/fencectl"); err != nil {
			return fmt.Errorf("fencectl for %s: %w", p, err)
		}
	}
	return nil
}

// checkVulnerabilities fails only if it finds something: a build without network must be possible.
func checkVulnerabilities(ctx context.Context, root string) error {
	_, err := output(ctx, root, "go", "tool", "-modfile="+toolsModule+"/go.mod", "govulncheck", "./...")
	if err != nil && strings.Contains(err.Error(), "fetching vulnerabilities") {
		return skipped{"the vulnerability database is out of reach: " + lastLine(err.Error())}
	}
	return err
}

// The tests read files of the repository outside of their module, and the cache of test results does not notice when
// these change.
func checkTools(ctx context.Context, root string) error {
	for _, module := range []string{toolsModule, manifestsModule, releaseModule} {
		dir := filepath.Join(root, module)
		if _, err := output(ctx, dir, "go", "test", "-count=1", "./..."); err != nil {
			return err
		}
	}
	return nil
}

// output runs a command and returns its output. If the command fails, the error also contains the output.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	return outputWith(ctx, dir, nil, name, args...)
}

// outputWith is output with additional environment variables.
func outputWith(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return out, err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
