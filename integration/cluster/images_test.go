package cluster

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestShippedDockerfile(t *testing.T) {
	i, err := dockerfile("../../deploy/Dockerfile", map[string]string{"bin/fencing-agent": "/built/fencing-agent", "bin/fencectl": "/built/fencectl"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"usr/local/bin/fencing-agent": "/built/fencing-agent", "usr/local/bin/fencectl": "/built/fencectl"}
	if !maps.Equal(i.Files, want) || !slices.Equal(i.Entrypoint, []string{"/usr/local/bin/fencing-agent"}) {
		t.Errorf("%+v", i)
	}
}

// Guard: if this builder ignored an instruction, its image would differ from the shipped one.
func TestDockerfileThatIsNotUnderstood(t *testing.T) {
	for _, line := range []string{"RUN true", "FROM debian", "COPY bin/other /usr/local/bin/", "ENV A=b"} {
		path := filepath.Join(t.TempDir(), "Dockerfile")
		if err := os.WriteFile(path, []byte("FROM scratch\n"+line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := dockerfile(path, nil); err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// Guard: the applied manifest differs from the shipped one only where nodes of namespaces require it.
func TestManifestIsTheShippedOne(t *testing.T) {
	path := ManifestIn("../..")
	shipped, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	applied, err := Manifest(path, "")
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(shipped), "\n"), strings.Split(applied, "\n")
	if len(was) != len(is) {
		t.Fatalf("%d lines, were %d", len(is), len(was))
	}
	changed := map[string]int{}
	for i := range was {
		if was[i] != is[i] {
			changed[strings.TrimSpace(is[i])]++
		}
	}
	want := map[string]int{"image: " + AgentImage: 2, "driver: none": 1}
	if !maps.Equal(changed, want) {
		t.Errorf("changed lines %v, want %v", changed, want)
	}
	var names []string
	for i := range 6 {
		names = append(names, nodeName(i))
	}
	if same, err := withMembers(applied, names[:4]); err != nil || same != applied {
		t.Errorf("the manifest lists four nodes, and a changed one is applied (%v)", err)
	}
	// One of the two belongs to the other group.
	if more, err := withMembers(applied, names); err != nil || strings.Count(more, "mgmt: 10.0.0.6\n") != 2 {
		t.Errorf("node-6 is not listed (%v)", err)
	}
}
