package oci

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func unpack(t *testing.T, text []byte) (map[string][]byte, map[string]*tar.Header) {
	t.Helper()
	files, heads := map[string][]byte{}, map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, heads
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		heads[h.Name] = h
	}
}

// Every blob has the digest that is its name. The layer contains the files of the root, and none of them is setuid.
func TestImage(t *testing.T) {
	root, out := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(root, "usr", "bin"), 0o755), os.Mkdir(filepath.Join(root, "tmp"), 0o777), os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky),
		os.WriteFile(filepath.Join(root, "usr", "bin", "x"), []byte("text"), 0o755), os.Chmod(filepath.Join(root, "usr", "bin", "x"), 0o755|os.ModeSetuid),
		os.Symlink("usr/bin", filepath.Join(root, "bin")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	tree, err := Tree(root)
	if err != nil {
		t.Fatal(err)
	}
	i := Image{Name: "registry.example.com/x:v1", Files: tree, Entrypoint: []string{"/usr/bin/x"}, User: "65532:65532"}
	var made [2][]byte
	for n := range made {
		path := filepath.Join(out, fmt.Sprint(n))
		if err := i.Write(path); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		made[n] = text
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("the same root gives two images")
	}
	files, _ := unpack(t, made[0])
	for name, text := range files {
		if sum, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && fmt.Sprintf("%x", sha256.Sum256(text)) != sum {
			t.Errorf("%s has a digest other than its name", name)
		}
	}
	type ref struct {
		Digest      string
		Annotations map[string]string
	}
	var index struct{ Manifests []ref }
	var manifest struct {
		Config ref
		Layers []ref
	}
	blob := func(r ref) []byte { return files["blobs/sha256/"+strings.TrimPrefix(r.Digest, "sha256:")] }
	if err := json.Unmarshal(files["index.json"], &index); err != nil || index.Manifests[0].Annotations["io.containerd.image.name"] != i.Name {
		t.Fatalf("%v %s", err, files["index.json"])
	}
	if err := json.Unmarshal(blob(index.Manifests[0]), &manifest); err != nil || !strings.Contains(string(blob(manifest.Config)), manifest.Layers[0].Digest) {
		t.Fatalf("%v %s %s", err, blob(index.Manifests[0]), blob(manifest.Config))
	}
	inside, heads := unpack(t, blob(manifest.Layers[0]))
	if string(inside["usr/bin/x"]) != "text" || heads["usr/bin/x"].Mode != 0o755 || heads["bin"].Linkname != "usr/bin" || heads["tmp/"].Mode != 0o1777 {
		t.Errorf("%v %v", inside, heads["usr/bin/x"])
	}
}
