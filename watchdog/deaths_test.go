package watchdog

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Guard: adr/0079. The Prover depends only on its input: none of its methods names the core, or a part of the core that
// it was not given.
func TestProverKnowsNoCore(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	methods := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || receiver(f) != "Prover" {
				continue
			}
			methods++
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && (id.Name == "Core" || id.Name == "guarding" || id.Name == "Effects") {
					t.Errorf("%s: %s names %s", name, f.Name.Name, id.Name)
				}
				return true
			})
		}
	}
	if methods < 60 {
		t.Errorf("%d methods of Prover found", methods)
	}
}

func receiver(f *ast.FuncDecl) string {
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	id, _ := of.(*ast.Ident)
	if id == nil {
		return ""
	}
	return id.Name
}
