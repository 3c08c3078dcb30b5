// Manifests renders deploy/chart with each of its examples, with Helm's own engine, into deploy/manifests, and makes
// the charts' README.md from their values. It checks what a template cannot: that values match the schema, and that
// Prometheus can parse the queries of alerts and dashboard.
//
//	cd tools/manifests && go run . ../..         # write
//	cd tools/manifests && go run . -check ../..  # fail if that would change something
//
// It is a separate module, because Helm and Prometheus need more than all other tools together. It needs no cluster
// and no network.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	chartDir    = "deploy/chart"
	manifestDir = "deploy/manifests"

	controllerChart    = "deploy/controller/chart"
	controllerManifest = "deploy/controller/controller.yaml"
)

func main() {
	check := flag.Bool("check", false, "write nothing, fail if something would change")
	flag.Usage = func() { fmt.Fprintln(flag.CommandLine.Output(), "usage: manifests [-check] REPOSITORY") }
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	chart := filepath.Join(root, chartDir)
	if err := checkQueries(chart); err != nil {
		return err
	}
	examples, err := filepath.Glob(filepath.Join(chart, "examples", "*.yaml"))
	if err != nil {
		return err
	}
	if len(examples) == 0 {
		return fmt.Errorf("%s has no examples", chart)
	}
	files := map[string][]byte{}
	for _, example := range examples {
		rendered, err := render(chart, example)
		if err != nil {
			return fmt.Errorf("render %s: %w", example, err)
		}
		maps.Copy(files, rendered)
	}
	dir := filepath.Join(root, manifestDir)
	pages, err := pages(root)
	if err != nil {
		return err
	}
	if check {
		var problems []error
		for path, text := range pages {
			if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, text) {
				problems = append(problems, fmt.Errorf("run make manifests: %s is not what its chart says: %s", path, firstDifference(have, text)))
			}
		}
		return errors.Join(append(problems, compare(dir, files))...)
	}
	for path, text := range pages {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	if err := write(dir, files); err != nil {
		return err
	}
	fmt.Printf("%d examples of %s rendered into %d files of %s\n", len(examples), chartDir, len(files), manifestDir)
	return nil
}

// pages returns the files beside the manifests that are made from a chart, by their paths.
func pages(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, dir := range []string{chartDir, controllerChart} {
		text, err := readme(filepath.Join(root, dir))
		if err != nil {
			return nil, err
		}
		files[filepath.Join(root, dir, "README.md")] = text
	}
	controller, err := renderController(filepath.Join(root, controllerChart))
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", controllerChart, err)
	}
	files[filepath.Join(root, controllerManifest)] = controller
	return files, nil
}

func write(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if _, ok := files[filepath.Base(name)]; !ok {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compare fails with all differences between the files of dir and their expected contents.
func compare(dir string, files map[string][]byte) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch have, err := os.ReadFile(filepath.Join(dir, name)); {
		case err != nil:
			problems = append(problems, err)
		case !bytes.Equal(have, files[name]):
			problems = append(problems, fmt.Errorf("%s is not what the chart renders: %s", name, firstDifference(have, files[name])))
		}
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if _, ok := files[filepath.Base(name)]; !ok {
			problems = append(problems, fmt.Errorf("%s is rendered from no example", filepath.Base(name)))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("run make manifests:\n%w", errors.Join(problems...))
	}
	return nil
}

func firstDifference(have, want []byte) string {
	a, b := strings.Split(string(have), "\n"), strings.Split(string(want), "\n")
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return fmt.Sprintf("line %d has %q", i+1, a[i])
		}
	}
	return fmt.Sprintf("it ends at line %d", len(a))
}
