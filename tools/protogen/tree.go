package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// tree is what the repository has: slash-separated paths relative to its root.
type tree struct {
	protos    []string // sources
	generated []string // *.pb.go files that are there now
}

// scan looks for sources and generated files everywhere but in test data, in hidden
// folders and in other modules, whose files are not ours to generate.
func scan(repo *os.Root) (tree, error) {
	var t tree
	fsys := repo.FS()
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(fsys, p, d.Name())
		}
		switch {
		case strings.HasSuffix(p, ".proto"):
			t.protos = append(t.protos, p)
		case strings.HasSuffix(p, ".pb.go"):
			t.generated = append(t.generated, p)
		}
		return nil
	})
	return t, err
}

func skipDir(fsys fs.FS, p, name string) error {
	if p == "." {
		return nil
	}
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return fs.SkipDir
	}
	if _, err := fs.Stat(fsys, path.Join(p, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// write stores the wanted files that differ and removes generated files whose source is gone.
func write(repo *os.Root, t tree, want map[string][]byte) error {
	for _, p := range slices.Sorted(maps.Keys(want)) {
		if got, err := repo.ReadFile(p); err == nil && bytes.Equal(got, want[p]) {
			continue
		}
		if err := repo.WriteFile(p, want[p], 0o644); err != nil {
			return err
		}
		fmt.Println("wrote", p)
	}
	for _, p := range orphans(t, want) {
		if err := repo.Remove(p); err != nil {
			return err
		}
		fmt.Println("removed", p)
	}
	return nil
}

// compare prints one line per difference and returns errStale if there is any.
func compare(repo *os.Root, t tree, want map[string][]byte) error {
	stale := false
	for _, p := range slices.Sorted(maps.Keys(want)) {
		switch got, err := repo.ReadFile(p); {
		case err != nil:
			fmt.Println("missing", p)
			stale = true
		case !bytes.Equal(got, want[p]):
			fmt.Println("differs", p)
			stale = true
		}
	}
	for _, p := range orphans(t, want) {
		fmt.Println("has no source", p)
		stale = true
	}
	if stale {
		return errStale
	}
	return nil
}

func orphans(t tree, want map[string][]byte) []string {
	var out []string
	for _, p := range t.generated {
		if _, ok := want[p]; !ok {
			out = append(out, p)
		}
	}
	return out
}
