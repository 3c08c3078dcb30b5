package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image is an image for each platform of nodes. It contains only programs and their bills of material.
type image struct {
	name, user, description string
	programs                []string
	links                   map[string]string // names in /usr/local/bin that link to a program
}

var pictures = []image{
	{
		name: "fencing-agent", user: "0:0", description: summary, programs: []string{"fencing-agent", "fencectl"},
		links: map[string]string{"kubectl-fence": "fencectl"},
	},
	{name: "fencing-controller", user: "65532:65532", description: "Gets pods off nodes that the agents have proven dead", programs: []string{"fencing-controller"}},
}

// images writes each image as an OCI layout in one archive, which skopeo, podman and ctr read and copy into registries.
func (r *release) images(context.Context) error {
	for _, i := range pictures {
		index := mutate.IndexMediaType(v1.ImageIndex(empty.Index), types.OCIImageIndex)
		for _, p := range r.nodes {
			img, err := r.picture(i, p)
			if err != nil {
				return fmt.Errorf("%s for %s: %w", i.name, p, err)
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.system, Architecture: p.machine}}})
		}
		index = mutate.Annotations(index, r.labels(i)).(v1.ImageIndex)
		ref := layout.WithAnnotations(map[string]string{refName: r.tag()})
		if err := r.layout(i.name, func(at layout.Path) error { return at.AppendIndex(index, ref) }); err != nil {
			return fmt.Errorf("%s: %w", i.name, err)
		}
	}
	return nil
}

func (r *release) labels(i image) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title": i.name, "org.opencontainers.image.description": i.description, "org.opencontainers.image.version": r.version,
		"org.opencontainers.image.revision": r.commit, "org.opencontainers.image.source": homepage, "org.opencontainers.image.url": homepage,
		"org.opencontainers.image.licenses": license, "org.opencontainers.image.vendor": vendor, "org.opencontainers.image.created": r.time.Format(created),
	}
}

// picture returns an image with two layers. The larger one changes with each version.
func (r *release) picture(i image, p platform) (v1.Image, error) {
	const bin = "usr/local/bin/"
	programs := []entry{{name: "usr/", mode: 0o755}, {name: "usr/local/", mode: 0o755}, {name: bin, mode: 0o755}}
	for _, name := range i.programs {
		data, err := os.ReadFile(r.programs[p.String()+"/"+name])
		if err != nil {
			return nil, err
		}
		programs = append(programs, entry{name: bin + name, mode: 0o755, data: data})
	}
	for link, to := range i.links {
		programs = append(programs, entry{name: bin + link, mode: 0o777, link: to})
	}
	text, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	about := []entry{{name: "usr/", mode: 0o755}, {name: "usr/share/", mode: 0o755}, {name: "usr/share/doc/", mode: 0o755}, {name: "usr/share/doc/" + i.name + "/", mode: 0o755},
		{name: "usr/share/doc/" + i.name + "/LICENSE", mode: 0o644, data: text}, {name: "usr/share/sbom/", mode: 0o755}}
	b, err := r.bill(i.name, p, i.programs...)
	if err != nil {
		return nil, err
	}
	for _, suffix := range []string{".cdx.json", ".spdx.json"} {
		text, err := r.formats()[suffix](b)
		if err != nil {
			return nil, err
		}
		about = append(about, entry{name: "usr/share/sbom/" + i.name + suffix, mode: 0o644, data: text})
	}
	var layers []mutate.Addendum
	for _, entries := range [][]entry{about, programs} {
		packed, err := r.tarball(entries)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil }, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		layers = append(layers, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "make release"}})
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.Append(img, layers...); err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = p.system, p.machine, v1.Time{Time: r.time}
	file.Config = v1.Config{
		User: i.user, Entrypoint: []string{"/" + bin + i.programs[0]}, Env: []string{"PATH=/usr/local/bin"}, WorkingDir: "/", Labels: r.labels(i),
	}
	return mutate.ConfigFile(img, file)
}

// refName is the annotation in which tools that load an archive look for the tag.
const refName = "org.opencontainers.image.ref.name"

// layout packs the folder that fill has filled.
func (r *release) layout(name string, fill func(layout.Path) error) error {
	dir := filepath.Join(r.work, name+".oci")
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := fill(path); err != nil {
		return err
	}
	var names []string
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, file)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(names)
	var entries []entry
	for _, file := range names {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: filepath.ToSlash(inside), mode: 0o644, data: data})
	}
	packed, err := r.tarball(entries)
	if err != nil {
		return err
	}
	return r.put(fmt.Sprintf("%s_%s.oci.tar", name, r.plain()), packed)
}
