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

// kernel is Debian's package that depends on the kernel for virtual machines; the others are what is in the image.
const kernel = "linux-image-cloud-amd64"

var packages = []string{"busybox-static", "open-iscsi"}

// Needed are the programs of this machine that the lab calls, and the packages that have them.
var Needed = map[string]string{
	"qemu-system-x86_64": "qemu-system-x86",
	"apt-get":            "apt",
	"apt-cache":          "apt",
	"dpkg-deb":           "dpkg",
	"mke2fs":             "e2fsprogs",
}

// Missing says what has to be installed here; nil: nothing.
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

// Fetch returns a folder with the unpacked packages, which is below cache.
func Fetch(ctx context.Context, cache string, progress func(string)) (tree string, err error) {
	tree = filepath.Join(cache, "tree")
	complete := filepath.Join(cache, "complete")
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
	progress(fmt.Sprintf("downloading %d packages of Debian, about 70 MB", len(names)))
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

// decompress unpacks kernel modules, which later releases of Debian keep compressed: what they depend on stands inside.
func decompress(ctx context.Context, tree string) error {
	var files []string
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

// resolve names the packages to download: the kernel, the programs and all libraries that those may need.
func resolve(ctx context.Context) ([]string, error) {
	var names []string
	out, err := output(ctx, "", "apt-cache", "depends", "--important", kernel)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); ok {
			names = append(names, "linux-image-"+name)
		}
	}
	if len(names) != 1 {
		return nil, fmt.Errorf("apt-cache depends %s: not the one kernel that was expected but %q", kernel, names)
	}
	names = append(names, packages...)
	out, err = output(ctx, "", "apt-cache", append([]string{"depends", "--recurse", "--important"}, packages...)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		// Names in the first column are the packages themselves.
		if name := strings.TrimSpace(line); strings.HasPrefix(line, "lib") && !strings.Contains(name, "perl") {
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
