package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
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
	if !maps.Equal(i.files, want) || !slices.Equal(i.run, []string{"/usr/local/bin/fencing-agent"}) {
		t.Errorf("%+v", i)
	}
}

// Guard: an instruction that this builder leaves out would make another image than the shipped one.
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

// Every blob has the digest that it is called by, and the index leads to all of them.
func TestImageLayout(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "image.tar")
	if err := (image{name: "localhost/x:1", files: map[string]string{"bin/x": program}, run: []string{"/bin/x"}}).write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(bytes.NewReader(text)); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
		if digest, ok := strings.CutPrefix(header.Name, "blobs/sha256/"); ok && fmt.Sprintf("%x", sha256.Sum256(files[header.Name])) != digest {
			t.Errorf("%s has another digest", header.Name)
		}
	}
	type descriptor struct {
		Digest      string
		Annotations map[string]string
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 || index.Manifests[0].Annotations["io.containerd.image.name"] != "localhost/x:1" {
		t.Fatalf("%v: %s", err, files["index.json"])
	}
	blob := func(digest string) []byte { return files["blobs/sha256/"+strings.TrimPrefix(digest, "sha256:")] }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := json.Unmarshal(blob(index.Manifests[0].Digest), &manifest); err != nil || len(manifest.Layers) != 1 {
		t.Fatalf("%v: %+v", err, manifest)
	}
	header, err := tar.NewReader(bytes.NewReader(blob(manifest.Layers[0].Digest))).Next()
	if err != nil || header.Name != "bin/x" || header.Mode != 0o755 || !bytes.Contains(blob(manifest.Config.Digest), []byte(manifest.Layers[0].Digest)) {
		t.Errorf("%v: %+v", err, header)
	}
}

// Guard: nothing of the shipped manifest is different but what nodes of namespaces cannot have.
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
		t.Errorf("four nodes are the manifest's, and something else is applied (%v)", err)
	}
	if more, err := withMembers(applied, names); err != nil || strings.Count(more, "mgmt: 10.0.0.6\n") != 2 { // the other group's, too
		t.Errorf("node-6 is not listed (%v)", err)
	}
}
