package main

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
)

// index opens the archive of an image.
func index(t *testing.T, archive []byte) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	for name, data := range unpack(t, archive) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	at, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := at.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	m, err := outer.IndexManifest()
	if err != nil || len(m.Manifests) != 1 || m.Manifests[0].Annotations[refName] != "v1.2.4-dev.20250615150640_gabababababab" {
		t.Fatalf("%+v, %v", m, err)
	}
	inner, err := outer.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(inner); err != nil {
		t.Error(err)
	}
	return inner
}

// Each image is checked layer by layer: it contains only what is listed here.
func TestImages(t *testing.T) {
	r := someRelease(t)
	for _, i := range pictures {
		all := index(t, everything(t, r.out)[i.name+"_"+r.plain()+".oci.tar"])
		m, err := all.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Manifests) != len(nodes) {
			t.Fatalf("%s: %d platforms", i.name, len(m.Manifests))
		}
		for n, p := range nodes {
			if got := m.Manifests[n].Platform; got.OS != p.system || got.Architecture != p.machine {
				t.Errorf("%s: platform %v, want %v", i.name, got, p)
			}
			img, err := all.Image(m.Manifests[n].Digest)
			if err != nil {
				t.Fatal(err)
			}
			checkImage(t, r, i, p, img)
		}
	}
}

func checkImage(t *testing.T, r *release, i image, p platform, img v1.Image) {
	t.Helper()
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if c.User != i.user || !slices.Equal(c.Entrypoint, []string{"/usr/local/bin/" + i.programs[0]}) || file.Architecture != p.machine ||
		c.Labels["org.opencontainers.image.version"] != someVersion || c.Labels["org.opencontainers.image.revision"] != r.commit {
		t.Errorf("%s: %+v", i.name, file)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	files := map[string][]byte{}
	for _, l := range layers {
		in, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(files, unpack(t, data))
	}
	for name := range files {
		if !strings.HasSuffix(name, "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	want := []string{"usr/share/doc/" + i.name + "/LICENSE", "usr/share/sbom/" + i.name + ".cdx.json", "usr/share/sbom/" + i.name + ".spdx.json"}
	for _, name := range i.programs {
		want = append(want, "usr/local/bin/"+name)
	}
	for name := range i.links {
		want = append(want, "usr/local/bin/"+name)
	}
	if slices.Sort(want); !slices.Equal(names, want) {
		t.Errorf("%s has %q, want %q", i.name, names, want)
	}
	checkBills(t, files["usr/share/sbom/"+i.name+".spdx.json"], files["usr/share/sbom/"+i.name+".cdx.json"], i.programs)
}

// checkBills reads both formats with their libraries. They must list the same modules, the programs, and the modules of
// each agent.
func checkBills(t *testing.T, spdxText, cdxText []byte, programs []string) {
	t.Helper()
	doc, err := spdxjson.Read(bytes.NewReader(spdxText))
	if err != nil {
		t.Fatal(err)
	}
	if doc.SPDXVersion != spdx.Version || doc.CreationInfo.Created != "2025-06-15T15:06:40Z" || len(doc.Relationships) != len(doc.Packages) {
		t.Errorf("%s, %s, %d packages, %d relationships", doc.SPDXVersion, doc.CreationInfo.Created, len(doc.Packages), len(doc.Relationships))
	}
	var modules, components []string
	for _, p := range doc.Packages {
		if p.PrimaryPackagePurpose == "LIBRARY" {
			modules = append(modules, p.PackageName+"@"+p.PackageVersion)
		}
	}
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(bytes.NewReader(cdxText), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, c := range *bom.Components {
		switch c.Type {
		case cdx.ComponentTypeLibrary:
			components = append(components, c.Name+"@"+c.Version)
		case cdx.ComponentTypeFile:
			found++
		}
	}
	if !slices.Equal(modules, components) || found == 0 || found > len(programs) {
		t.Errorf("%d programs; SPDX has %q\nCycloneDX %q", found, modules, components)
	}
	text := strings.Join(modules, "\n")
	for _, want := range []string{"stdlib@1.", "go.yaml.in/yaml/v3@v3."} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s among %q", want, modules)
		}
	}
}
