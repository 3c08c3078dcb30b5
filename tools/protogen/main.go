// Protogen writes the Go code of every .proto file of the repository next to it. It
// needs nothing but Go: the files are compiled by protocompile, the plugins are the
// ones pinned in tools/go.mod.
//
//	cd tools && go run ./protogen ..          # write
//	cd tools && go run ./protogen -check ..   # exit 1 if a file is not what would be written
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: protogen [-check] REPOSITORY\n\n"+
			"Writes the Go code of every .proto file below REPOSITORY next to it.\n"+
			"Run it in tools/, for example: go run ./protogen ..\n\n")
		flag.PrintDefaults()
	}
	check := flag.Bool("check", false, "write nothing; exit 1 if a generated file differs, is missing or has lost its source")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// errStale says that -check found a difference.
var errStale = errors.New("generated code is not up to date: run `make generate` and commit the result")

func run(ctx context.Context, root string, check bool) error {
	repo, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer repo.Close()
	tree, err := scan(repo)
	if err != nil {
		return err
	}
	if len(tree.protos) == 0 {
		return fmt.Errorf("no .proto file below %s", root)
	}
	want, err := generate(ctx, repo, tree.protos)
	if err != nil {
		return err
	}
	if check {
		return compare(repo, tree, want)
	}
	return write(repo, tree, want)
}
