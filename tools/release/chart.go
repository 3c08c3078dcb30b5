package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	chartfile "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/chart/v2/util"
)

// These are the media types of the parts of a chart in a registry.
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// charts contains the folders of the charts, by the names in their Chart.yaml.
var charts = map[string]string{"fencing-agent": "deploy/chart", "fencing-controller": "deploy/controller/chart"}

// charts packs the charts of the agents and of the controller.
func (r *release) charts(context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(charts)) {
		if err := r.chart(name, filepath.Join(r.root, filepath.FromSlash(charts[name]))); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// chart packs a chart with Helm's own code and the release's version: as an archive for helm, and as an OCI layout for
// tools that copy into registries.
func (r *release) chart(name, dir string) error {
	c, err := loader.Load(dir)
	if err != nil {
		return err
	}
	c.Metadata.Version, c.Metadata.AppVersion = r.plain(), r.version
	r.commitTime(c)
	file, err := util.Save(c, r.work)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := r.put(filepath.Base(file), data); err != nil {
		return err
	}
	meta, err := json.Marshal(c.Metadata)
	if err != nil {
		return err
	}
	return r.layout(name+"-chart", func(at layout.Path) error { return r.chartLayout(at, name, meta, data) })
}

// chartLayout writes what helm push would store in a registry for the archive.
func (r *release) chartLayout(at layout.Path, name string, meta, archive []byte) error {
	blob := func(data []byte, media types.MediaType) (v1.Descriptor, error) {
		hash, size, err := v1.SHA256(bytes.NewReader(data))
		if err != nil {
			return v1.Descriptor{}, err
		}
		return v1.Descriptor{MediaType: media, Size: size, Digest: hash}, at.WriteBlob(hash, io.NopCloser(bytes.NewReader(data)))
	}
	config, err := blob(meta, chartConfig)
	if err != nil {
		return err
	}
	content, err := blob(archive, chartContent)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: []v1.Descriptor{content},
		Annotations: map[string]string{"org.opencontainers.image.title": name, "org.opencontainers.image.version": r.plain(), "org.opencontainers.image.created": r.time.Format(created)},
	})
	if err != nil {
		return err
	}
	named, err := blob(manifest, types.OCIManifestSchema1)
	if err != nil {
		return err
	}
	named.Annotations = map[string]string{refName: strings.TrimPrefix(r.tag(), "v")}
	return at.AppendDescriptor(named)
}

// commitTime removes the files' own times, which are those of the checkout.
func (r *release) commitTime(c *chartfile.Chart) {
	c.ModTime, c.SchemaModTime = r.time, r.time
	for _, f := range c.Raw {
		f.ModTime = r.time
	}
	for _, f := range c.Templates {
		f.ModTime = r.time
	}
	for _, f := range c.Files {
		f.ModTime = r.time
	}
}
