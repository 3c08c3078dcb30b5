package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The texts that people read, the messages of the programs and the documents, name no key that was removed.
func TestNobodyIsSentToAKeyThatWent(t *testing.T) {
	var old []string
	for _, m := range movedKeys {
		old = append(old, strings.ReplaceAll(regexp.QuoteMeta(m.old), `\[\]`, `(\[\w*\])?`))
	}
	names := regexp.MustCompile(`(^|[^\w.])(` + strings.Join(old, "|") + `)\b`)
	records := []string{"docs/adr", "docs/measurements", "cmd/fencing-agent/config"} // texts from before the removal, and the table itself
	read := 0
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		within, err := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(records, within) || d.Name() == ".git" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(path, "_test.go") || within == "CHANGELOG.md":
			return nil
		case !slices.Contains([]string{".go", ".md", ".yaml", ".json", ".tpl"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read++
		for i, line := range strings.Split(string(text), "\n") {
			if m := names.FindStringSubmatch(line); m != nil {
				t.Errorf("%s:%d: %s is not a key any more", within, i+1, m[2])
			}
		}
		return nil
	})
	if err != nil || read < 100 {
		t.Fatalf("%d files, %v", read, err)
	}
}
