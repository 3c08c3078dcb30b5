// Protogen writes the Go code of the .proto files in some folders of the repository next to them. It needs only Go:
// protocompile compiles the files, and tools/go.mod pins the plugins.
//
//	cd tools && go run ./protogen ..          # write
//	cd tools && go run ./protogen -check ..   # exit 1 if a file differs from what would be written
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
)

// folders are those that make generate and make verify process.
var folders = []string{"api/v1", "netgossip/swim/wire"}

func main() {
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: protogen [-check] REPOSITORY\n\n"+
			"Writes the Go code of the .proto files in %v next to them.\n"+
			"Run it in tools/, for example: go run ./protogen ..\n\n", folders)
		flag.PrintDefaults()
	}
	check := flag.Bool("check", false, "write nothing; exit 1 if a generated file differs, is missing or has no source any more")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0), *check, folders); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// errStale means that -check found a difference.
var errStale = errors.New("generated code is not up to date: run `make generate` and commit the result")

func run(ctx context.Context, root string, check bool, folders []string) error {
	repo, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer repo.Close()
	protos, err := find(root, folders, "*.proto")
	if err != nil {
		return err
	}
	if len(protos) == 0 {
		return fmt.Errorf("no .proto file in %v below %s", folders, root)
	}
	want, err := generate(ctx, repo, protos)
	if err != nil {
		return err
	}
	have, err := find(root, folders, "*.pb.go")
	if err != nil {
		return err
	}
	for _, p := range have {
		if _, ok := want[p]; !ok {
			want[p] = nil // its source is gone
		}
	}
	return settle(repo, check, want)
}

// find lists files by their slash-separated paths below root.
func find(root string, folders []string, pattern string) (found []string, err error) {
	for _, dir := range folders {
		paths, err := filepath.Glob(filepath.Join(root, dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			found = append(found, dir+"/"+filepath.Base(p))
		}
	}
	return found, nil
}

// settle writes the wanted files, and removes those whose content is nil. With check it writes nothing, and fails with
// the names of the files that differ.
func settle(repo *os.Root, check bool, want map[string][]byte) error {
	stale := false
	for _, p := range slices.Sorted(maps.Keys(want)) {
		have, err := repo.ReadFile(p)
		done, do := "wrote", func() error { return repo.WriteFile(p, want[p], 0o644) }
		if want[p] == nil {
			done, do = "removed", func() error { return repo.Remove(p) }
		}
		switch {
		case err == nil && want[p] != nil && bytes.Equal(have, want[p]):
			continue
		case check:
			stale = true
			fmt.Println("not up to date:", p)
			continue
		}
		if err := do(); err != nil {
			return err
		}
		fmt.Println(done, p)
	}
	if stale {
		return errStale
	}
	return nil
}
