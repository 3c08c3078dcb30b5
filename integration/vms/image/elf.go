package image

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// libraryDirs lists the folders in which Debian keeps shared libraries.
var libraryDirs = []string{"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64", "usr/lib64", "usr/lib", "lib"}

// libraries returns the paths below tree of all shared libraries that the programs need, including the dynamic linker.
func libraries(tree string, programs ...string) (map[string]string, error) {
	found := map[string]string{} // by the path in the image
	todo := append([]string(nil), programs...)
	for len(todo) > 0 {
		program := todo[0]
		todo = todo[1:]
		f, err := elf.Open(program)
		if err != nil {
			return nil, fmt.Errorf("program %s: %w", program, err)
		}
		names, err := f.ImportedLibraries()
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("program %s: %w", program, err)
		}
		for _, name := range append(names, "ld-linux-x86-64.so.2") {
			at := "/lib/x86_64-linux-gnu/" + name
			if name == "ld-linux-x86-64.so.2" {
				at = "/lib64/" + name
			}
			if found[at] != "" {
				continue
			}
			library, err := locate(tree, name)
			if err != nil {
				return nil, fmt.Errorf("program %s: %w", program, err)
			}
			found[at] = library
			todo = append(todo, library)
		}
	}
	return found, nil
}

func locate(tree, name string) (string, error) {
	for _, dir := range libraryDirs {
		path := filepath.Join(tree, dir, name)
		target, err := os.Readlink(path)
		switch {
		case err != nil:
		case filepath.IsAbs(target):
			path = filepath.Join(tree, target)
		default:
			path = filepath.Join(filepath.Dir(path), target)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("no library %s in the packages", name)
}

// modules maps the names of the kernel's modules, with "_" for "-", to their files.
type modules map[string]string

// modulesDir returns the folder in which the packages of this release have the kernel's modules.
func modulesDir(tree string) string {
	dir := filepath.Join(tree, "lib", "modules")
	if _, err := os.Stat(dir); err != nil {
		return filepath.Join(tree, "usr", "lib", "modules")
	}
	return dir
}

func findModules(tree string) (modules, error) {
	m := modules{}
	err := filepath.WalkDir(modulesDir(tree), func(path string, d fs.DirEntry, err error) error {
		if name, _, ok := strings.Cut(d.Name(), ".ko"); ok && err == nil && d.Type().IsRegular() {
			m[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err == nil && len(m) == 0 {
		err = fmt.Errorf("no kernel modules below %s", tree)
	}
	return m, err
}

// order appends the module to list, and before it all modules on which it depends. A module that is built into the
// kernel has no file and is left out.
func (m modules) order(list []string, name string) ([]string, error) {
	path, ok := m[name]
	if !ok {
		return list, nil
	}
	for _, have := range list {
		if have == name {
			return list, nil
		}
	}
	needs, err := dependencies(path)
	if err != nil {
		return nil, err
	}
	for _, need := range needs {
		if list, err = m.order(list, need); err != nil {
			return nil, err
		}
	}
	return append(list, name), nil
}

func dependencies(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", path, err)
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("module %s: no section .modinfo", path)
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", path, err)
	}
	for _, field := range strings.Split(string(info), "\x00") {
		if names, ok := strings.CutPrefix(field, "depends="); ok && names != "" {
			return strings.Split(strings.ReplaceAll(names, "-", "_"), ","), nil
		}
	}
	return nil, nil
}
