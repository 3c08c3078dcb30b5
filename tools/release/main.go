// Release makes everything that a release consists of, only from this checkout and Go modules: programs, packages,
// images, charts, bills of material, checksums, provenance. The same commit gives the same bytes.
//
//	cd tools/release && go run . ../..               # into dist/release
//	cd tools/release && go run . -out DIR ../..
//
// It is a separate module, because it needs more libraries than the whole product. It needs no network except for
// Go's module cache, no root, no container tool and no packager, and it signs nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
)

func main() {
	out := flag.String("out", "", "folder for the release, emptied first (default: dist/release of the checkout)")
	only := flag.String("only", "", "SYSTEM/MACHINE of nodes, such as linux/amd64: make only a part of the release, to examine it")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: release [-out DIR] [-only SYSTEM/MACHINE] CHECKOUT")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Arg(0), *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, root, out, only string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	s, err := describe(ctx, root)
	if err != nil {
		return err
	}
	if out == "" {
		out = filepath.Join(root, "dist", "release")
	}
	work, err := os.MkdirTemp("", "fencing-agent-release-")
	if err != nil {
		return err
	}
	r := &release{source: s, root: root, out: out, work: work, nodes: nodes, tools: tools}
	if only != "" {
		r.tools, r.nodes = nil, slices.DeleteFunc(slices.Clone(nodes), func(p platform) bool { return p.String() != only })
		if len(r.nodes) == 0 {
			return fmt.Errorf("-only %s: one of %v", only, nodes)
		}
	}
	return errors.Join(r.make(ctx), os.RemoveAll(work))
}

// release is one run: the paths from which it reads, and to which it writes.
type release struct {
	source
	root string // the checkout
	out  string // the release
	work string // for intermediate files

	nodes, tools []platform

	programs map[string]string // by system/machine/name
	pages    map[string][]byte // manual pages, by file name
	shells   map[string][]byte // completion, by shell
}

// make runs the steps in order; each writes its files to out.
func (r *release) make(ctx context.Context) error {
	if err := r.empty(); err != nil {
		return err
	}
	fmt.Println("release: programs")
	if err := r.build(ctx); err != nil {
		return fmt.Errorf("programs: %w", err)
	}
	fmt.Println("release: manual pages and completion")
	if err := r.document(ctx); err != nil {
		return fmt.Errorf("manual pages and completion: %w", err)
	}
	if err := r.assemble(ctx); err != nil {
		return err
	}
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	fmt.Printf("%d files of %s in %s\n", len(files), r.version, r.out)
	return nil
}

// assemble makes everything else from the programs and their pages.
func (r *release) assemble(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"bills of material", r.billOfMaterials}, {"archives", r.archives},
		{"packages", r.packages}, {"images", r.images}, {"charts", r.charts}, {"krew manifest", r.krew}, {"provenance and checksums", r.seal},
	} {
		fmt.Println("release:", step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// empty creates the folder, or removes the files of an earlier release from it. It does not touch a folder with other
// files.
func (r *release) empty() error {
	entries, err := os.ReadDir(r.out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(r.out, sums)); err != nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(r.out, unfinished)); err != nil {
			return fmt.Errorf("%s holds something other than a release: name another folder, or empty it", r.out)
		}
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, unfinished), nil, 0o644)
}

// unfinished marks a folder whose release is not complete.
const unfinished = ".unfinished"

// put writes a file of the release.
func (r *release) put(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}
