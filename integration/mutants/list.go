package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// listName is the path of a package's list of mutants, relative to the package.
const listName = "/testdata/mutants.txt"

// allMutants reads the lists of all packages below root.
func allMutants(root string) (all []mutant, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		dir, isList := strings.CutSuffix(filepath.ToSlash(below), listName)
		if !isList {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		list, err := parse(string(text), dir)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, list...)
		return nil
	})
	return all, err
}

// parse reads the list of the package in dir.
func parse(text, dir string) (list []mutant, err error) {
	var m *mutant
	var e *edit
	for n, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || line[0] == '#':
			m, e = nil, nil
		case e != nil && line[0] == '-':
			e.from = append(e.from, line[1:])
		case e != nil && line[0] == '+':
			e.to = append(e.to, line[1:])
		case m != nil && strings.HasPrefix(line, "at "):
			file := line[len("at "):]
			if !strings.Contains(file, "/") {
				file = dir + "/" + file
			}
			m.edits = append(m.edits, edit{file: file})
			e = &m.edits[len(m.edits)-1]
		case m != nil && strings.HasPrefix(line, "in "):
			m.in = strings.Fields(line)[1:]
		default:
			rule, what, ok := strings.Cut(line, ": ")
			if !ok || m != nil {
				return nil, fmt.Errorf("line %d belongs to no mutant: %s", n+1, line)
			}
			list = append(list, mutant{rule: rule, what: what, in: []string{"./" + dir}})
			m = &list[len(list)-1]
		}
	}
	return list, nil
}
