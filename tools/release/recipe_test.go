package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The archive of the executor contains what its Dockerfile copies, under the names in the Dockerfile.
func TestRecipeOfTheExecutor(t *testing.T) {
	r := someRelease(t)
	text, err := os.ReadFile(filepath.Join(checkout, "deploy", "executor", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range nodes {
		name := r.archiveName(executor, p)
		files := unpack(t, unzipped(t, name, everything(t, r.out)[name]))
		for _, want := range []string{"LICENSE", "Dockerfile", "root.sh", "bin/fencing-executor"} {
			if len(files[want]) == 0 {
				t.Errorf("%s has no %s", name, want)
			}
		}
		copies := 0
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) == 3 && words[0] == "COPY" {
				copies++
				if len(files[words[1]]) == 0 {
					t.Errorf("%s has no %s, which the Dockerfile copies", name, words[1])
				}
			}
		}
		if copies == 0 || string(files["Dockerfile"]) != string(text) {
			t.Errorf("%s has another Dockerfile, or it copies nothing", name)
		}
	}
}
