package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A mutant that does not compile attacks nothing, and only a run of all mutants, which takes hours, would report it.
// Each mutant is therefore type-checked, with the exports of the imported packages that the go command provides.
func TestMutantsCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("type-checks each mutant, which takes a minute; make verify does it")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all, err := allMutants(root)
	if err != nil {
		t.Fatal(err)
	}
	c := newCompiler(t, root)
	for _, m := range all {
		changed, err := m.apply(root)
		if err != nil {
			continue // TestMutantsApply reports this
		}
		if err := c.compiles(changed); err != nil {
			t.Errorf("%q: %v", m.name(), err)
		}
	}
	file := filepath.Join("diskquorum", "layout.go")
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	if c.compiles(map[string][]byte{file: append(text, "\nvar _ int = \"\"\n"...)}) == nil {
		t.Error("a mutant that does not compile is accepted")
	}
}

// compiler type-checks packages with changed files.
type compiler struct {
	root     string
	fset     *token.FileSet
	imports  types.Importer
	packages map[string][]string // names of the files, by the folder relative to root
	parsed   map[string]*ast.File
}

func newCompiler(t *testing.T, root string) *compiler {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	c := &compiler{root: root, fset: token.NewFileSet(), packages: map[string][]string{}, parsed: map[string]*ast.File{}}
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if dir, err := filepath.Rel(root, p.Dir); err == nil {
			c.packages[dir] = p.GoFiles
		}
	}
	c.imports = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return c
}

// compiles type-checks the packages of the changed files, which are named by their paths relative to root.
func (c *compiler) compiles(changed map[string][]byte) error {
	dirs := map[string]bool{}
	for file := range changed {
		dirs[filepath.Dir(file)] = true
	}
	for dir := range dirs {
		var files []*ast.File
		for _, name := range c.packages[dir] {
			file, err := c.file(filepath.Join(dir, name), changed)
			if err != nil {
				return err
			}
			files = append(files, file)
		}
		check := types.Config{Importer: c.imports}
		if _, err := check.Check(dir, c.fset, files, nil); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) file(path string, changed map[string][]byte) (*ast.File, error) {
	if text, is := changed[path]; is {
		return parser.ParseFile(c.fset, path, text, parser.SkipObjectResolution)
	}
	if f := c.parsed[path]; f != nil {
		return f, nil
	}
	f, err := parser.ParseFile(c.fset, filepath.Join(c.root, path), nil, parser.SkipObjectResolution)
	c.parsed[path] = f
	return f, err
}
