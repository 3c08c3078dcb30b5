package image

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

// CloudKernel is Debian's package that depends on the kernel for virtual machines.
const CloudKernel = "linux-image-cloud-amd64"

// packages lists the packages in the image besides a kernel.
var packages = []string{"busybox-static", "open-iscsi"}

// Needed maps the host's programs that the lab calls to the packages that contain them.
var Needed = map[string]string{
	"qemu-system-x86_64": "qemu-system-x86",
	"apt-get":            "apt",
	"apt-cache":          "apt",
	"dpkg-deb":           "dpkg",
	"mke2fs":             "e2fsprogs",
}

// Missing returns an error that says what to install on the host, or nil.
func Missing() error {
	var programs, from []string
	for program, pkg := range Needed {
		if _, err := exec.LookPath(program); err != nil {
			programs, from = append(programs, program), append(from, pkg)
		}
	}
	if len(programs) == 0 {
		return nil
	}
	slices.Sort(programs)
	slices.Sort(from)
	return fmt.Errorf("not found in PATH: %s; on Debian: apt-get install --no-install-recommends %s",
		strings.Join(programs, ", "), strings.Join(slices.Compact(from), " "))
}

// Fetch returns a folder below cache with the unpacked packages of the lab. Kernel is the package of Debian that
// depends on the kernel.
func Fetch(ctx context.Context, cache, kernel string, progress func(string)) (tree string, err error) {
	return fetch(ctx, cache, progress, func(ctx context.Context) ([]string, error) {
		linux, err := kernelPackage(ctx, kernel)
		if err != nil {
			return nil, err
		}
		names, err := withLibraries(ctx, packages)
		return append(names, linux), err
	})
}

// FetchPrograms returns a folder below cache with more packages and the libraries on which they depend.
func FetchPrograms(ctx context.Context, cache string, progress func(string), packages ...string) (tree string, err error) {
	return fetch(ctx, cache, progress, func(ctx context.Context) ([]string, error) { return withLibraries(ctx, packages) })
}

func fetch(ctx context.Context, cache string, progress func(string), resolve func(context.Context) ([]string, error)) (tree string, err error) {
	tree = filepath.Join(cache, "tree")
	complete := filepath.Join(cache, completeFile)
	if _, err := os.Stat(complete); err == nil {
		return tree, nil
	}
	debs := filepath.Join(cache, "debs")
	for _, dir := range []string{tree, debs} {
		if err := os.RemoveAll(dir); err != nil {
			return "", err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	names, err := resolve(ctx)
	if err != nil {
		return "", err
	}
	progress(fmt.Sprintf("downloading %d packages of Debian, some 30 to 70 MB", len(names)))
	if _, err := output(ctx, debs, "apt-get", append([]string{"download"}, names...)...); err != nil {
		return "", fmt.Errorf("%w; has this machine run apt-get update?", err)
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return "", err
	}
	for _, deb := range files {
		if _, err := output(ctx, debs, "dpkg-deb", "-x", deb, tree); err != nil {
			return "", err
		}
	}
	if err := decompress(ctx, tree); err != nil {
		return "", err
	}
	return tree, os.WriteFile(complete, []byte(strings.Join(files, "\n")+"\n"), 0o644)
}

// completeFile is a file in the folder of a complete tree, and names its packages.
const completeFile = "complete"

// Version returns the version of a package in a tree that was fetched.
func Version(tree, name string) (string, error) {
	path := filepath.Join(filepath.Dir(tree), completeFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for file := range strings.Lines(string(text)) {
		if fields := strings.Split(filepath.Base(file), "_"); len(fields) == 3 && fields[0] == name {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("%s: no package %s", path, name)
}

// decompress unpacks kernel modules. Later releases of Debian compress them, and their dependencies are named inside.
func decompress(ctx context.Context, tree string) error {
	var files []string
	if _, err := os.Stat(modulesDir(tree)); os.IsNotExist(err) {
		return nil // the tree contains only programs
	}
	err := filepath.WalkDir(modulesDir(tree), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".ko.xz") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		return err
	}
	_, err = output(ctx, "", "xz", append([]string{"-d"}, files...)...)
	return err
}

// kernelPackage returns the package of the kernel on which another package depends.
func kernelPackage(ctx context.Context, kernel string) (string, error) {
	out, err := output(ctx, "", "apt-cache", "depends", "--important", kernel)
	if err != nil {
		return "", err
	}
	var names []string
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); ok {
			names = append(names, "linux-image-"+name)
		}
	}
	if len(names) != 1 {
		return "", fmt.Errorf("apt-cache depends %s: expected one kernel, found %q", kernel, names)
	}
	return names[0], nil
}

// withLibraries adds all libraries that the packages may need.
func withLibraries(ctx context.Context, packages []string) ([]string, error) {
	out, err := output(ctx, "", "apt-cache", append([]string{"depends", "--recurse", "--important"}, packages...)...)
	if err != nil {
		return nil, err
	}
	names := slices.Clone(packages)
	for line := range strings.Lines(out) {
		// Names in the first column are the packages themselves. elogind is left out: it replaces systemd's library,
		// which is there.
		library := strings.HasPrefix(line, "lib") || strings.HasPrefix(line, "zlib")
		if name := strings.TrimSpace(line); library && !strings.Contains(name, "perl") && !strings.Contains(name, "elogind") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	return string(out), nil
}
