package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// calls contains the arrows between the files of one package: which file uses which functions and methods of which
// other file.
type calls map[string]map[string][]string

// nothing is the importer of a check that needs only one package.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) { return types.NewPackage(path, path), nil }

// callsOf finds the arrows of a package. The files are those of the package, all parsed with one file set.
func callsOf(fset *token.FileSet, files []*ast.File) (calls, *types.Package) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: nothing{}, Error: func(error) {}} // identifiers of other packages are unknown
	pkg, _ := conf.Check("p", fset, files, info)                     // and cause errors here, which do not matter
	in := func(p token.Pos) string { return path.Base(fset.Position(p).Filename) }
	found := calls{}
	for id, o := range info.Uses {
		f, ok := o.(*types.Func)
		if !ok || f.Pkg() != pkg || in(id.Pos()) == in(f.Pos()) {
			continue
		}
		from, to := in(id.Pos()), in(f.Pos())
		if found[from] == nil {
			found[from] = map[string][]string{}
		}
		found[from][to] = append(found[from][to], f.Name())
	}
	return found, pkg
}

// circle returns a path along the arrows that returns to its start, or "".
func (c calls) circle() string {
	done := map[string]bool{}
	var walk func(file string, way []string) string
	walk = func(file string, way []string) string {
		if i := slices.Index(way, file); i >= 0 {
			return strings.Join(append(way[i:], file), " -> ")
		}
		if done[file] {
			return ""
		}
		for _, to := range slices.Sorted(maps.Keys(c[file])) {
			if found := walk(to, append(way, file)); found != "" {
				return found
			}
		}
		done[file] = true
		return ""
	}
	for _, file := range slices.Sorted(maps.Keys(c)) {
		if found := walk(file, nil); found != "" {
			return found
		}
	}
	return ""
}

// maxAgentFields limits the fields of the one object that a goroutine owns: fields that belong together get a type.
const maxAgentFields = 20

// readDown parses the files of a package. It fails if they call each other in a circle, or if it finds too few calls
// from top.
func readDown(t *testing.T, dir, top string) *types.Package {
	t.Helper()
	fset, files := token.NewFileSet(), []*ast.File(nil)
	for _, s := range all(t) {
		if s.pkg != dir || s.test {
			continue
		}
		// All files need one file set.
		again, err := parser.ParseFile(fset, filepath.Join(root, s.path), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, again)
	}
	found, pkg := callsOf(fset, files)
	if len(found[top]) < 5 {
		t.Fatalf("found only %v from %s", found[top], top)
	}
	if c := found.circle(); c != "" {
		t.Errorf("the files of %s call each other in a circle: %s: move what both need to a file below", dir, c)
	}
	return pkg
}

// The agent connects all parts and is read from the top down: loop.go and agent.go know the rooms, and no room calls
// back into them.
func TestAgentIsReadFromItsTopDown(t *testing.T) {
	pkg := readDown(t, "cmd/fencing-agent/agent", "loop.go")
	if n := pkg.Scope().Lookup("Agent").Type().Underlying().(*types.Struct).NumFields(); n > maxAgentFields {
		t.Errorf("Agent has %d fields, more than %d: give those that belong together a type", n, maxAgentFields)
	}
}

// A step of the decision is read in the same way: core.go lists its stages, and no stage calls one above it.
func TestCoreIsReadFromItsTopDown(t *testing.T) { readDown(t, "watchdog", "core.go") }

func TestCirclesAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"func (t *T) b() { t.c() }": "a.go -> b.go -> c.go -> a.go",
		"func (t *T) b() {}":        "",
	} {
		fset, files := token.NewFileSet(), []*ast.File(nil)
		for _, f := range []string{"a.go\nimport \"x\"\ntype T struct{ y x.Y }\nfunc (t *T) a() { t.b() }", "b.go\n" + text, "c.go\nfunc (t *T) c() { t.a() }"} {
			name, body, _ := strings.Cut(f, "\n")
			file, err := parser.ParseFile(fset, name, "package p\n"+body+"\n", parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		if found, _ := callsOf(fset, files); found.circle() != want {
			t.Errorf("%s: %q, want %q", text, found.circle(), want)
		}
	}
}
