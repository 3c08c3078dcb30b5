package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const modulePath = "github.com/fencing-agent/fencing-agent"

// root is the path of the repository from the folder of these tests.
const root = "../.."

// source is one parsed Go file.
type source struct {
	path      string // relative to the repository's root
	pkg       string // its folder, "." for the root
	test      bool
	generated bool
	lines     int
	fset      *token.FileSet
	file      *ast.File
}

// at returns the position of a node, for messages.
func (s *source) at(n ast.Node) string {
	p := s.fset.Position(n.Pos())
	return p.String()
}

// imports maps the import paths of the file to the names under which it uses them.
func (s *source) imports() map[string]string {
	m := map[string]string{}
	for _, i := range s.file.Imports {
		p := strings.Trim(i.Path.Value, `"`)
		m[p] = path.Base(strings.TrimSuffix(p, "/v2"))
		if i.Name != nil {
			m[p] = i.Name.Name
		}
	}
	return m
}

func parse(name string, text []byte) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &source{
		path: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(file), lines: strings.Count(string(text), "\n"), fset: fset, file: file,
	}, nil
}

// sources parses every Go file of the repository, once for all tests.
var sources = sync.OnceValues(func() ([]*source, error) {
	var all []*source
	err := walk(func(name string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		s, err := parse(name, text)
		if err == nil {
			all = append(all, s)
		}
		return err
	})
	return all, err
})

// walk calls f with the path of each file of the repository, except for files that are built and files that only tests
// read.
func walk(f func(name string) error) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			switch base := path.Base(name); {
			case name == ".":
			case name == "bin", name == "dist", base == "testdata", strings.HasPrefix(base, ".") && name != ".ci":
				return fs.SkipDir
			}
			return nil
		}
		return f(name)
	})
}

func all(t *testing.T) []*source {
	t.Helper()
	s, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	if len(s) < 100 {
		t.Fatalf("found only %d Go files", len(s))
	}
	return s
}

// report fails the test with all problems.
func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

// wantProblem checks a rule on one file that breaks it, or, if want is empty, on one that does not.
func wantProblem(t *testing.T, problems []string, want string) {
	t.Helper()
	text := strings.Join(problems, "\n")
	switch {
	case want == "" && text != "":
		t.Errorf("complains without cause: %s", text)
	case want != "" && !strings.Contains(text, want):
		t.Errorf("problems %q, want one with %q", text, want)
	}
}

func mustParse(t *testing.T, name, text string) *source {
	t.Helper()
	s, err := parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
