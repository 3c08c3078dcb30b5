package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	sums       = "SHA256SUMS"
	provenance = "provenance.intoto.json"
)

// digests returns the digests of all files so far, by name.
func (r *release) digests() (names []string, sum map[string]string, err error) {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return nil, nil, err
	}
	sum = map[string]string{}
	for _, f := range files {
		if f.Name() == unfinished {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.out, f.Name()))
		if err != nil {
			return nil, nil, err
		}
		names = append(names, f.Name())
		sum[f.Name()] = digest(data)
	}
	slices.Sort(names)
	return names, sum, nil
}

// krew writes the manifest for the index of kubectl's plugins.
func (r *release) krew(context.Context) error {
	_, sum, err := r.digests()
	if err != nil {
		return err
	}
	type match struct {
		Labels map[string]string `yaml:"matchLabels"`
	}
	type file struct {
		From string `yaml:"from"`
		To   string `yaml:"to"`
	}
	type target struct {
		Selector match  `yaml:"selector"`
		URI      string `yaml:"uri"`
		SHA256   string `yaml:"sha256"`
		Bin      string `yaml:"bin"`
		Files    []file `yaml:"files"`
	}
	var targets []target
	for _, p := range slices.Concat(r.nodes, r.tools) {
		archive, bin := r.archiveName("kubectl-fence", p), "kubectl-fence"
		if p.system == "windows" {
			bin += ".exe"
		}
		targets = append(targets, target{
			match{map[string]string{"os": p.system, "arch": p.machine}}, homepage + "/releases/download/" + r.version + "/" + archive, sum[archive], bin,
			[]file{{bin, "."}, {"LICENSE", "."}},
		})
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin", "metadata": map[string]string{"name": "fence"},
		"spec": map[string]any{
			"version": r.version, "homepage": homepage, "shortDescription": "Look after fencing-agent",
			"description": "Asks the agents of a group who lives, who is dead and why, and explains\nwhat fencing-controller does about a node.\n", "platforms": targets,
		},
	})
	if err != nil {
		return err
	}
	return r.put("fence.yaml", text)
}

// seal writes the release's statements about itself. Nothing is signed: no key would prove more than the place from
// which the files were downloaded.
func (r *release) seal(context.Context) error {
	names, sum, err := r.digests()
	if err != nil {
		return err
	}
	type digests map[string]string
	type resource struct {
		Name   string  `json:"name,omitempty"`
		URI    string  `json:"uri,omitempty"`
		Digest digests `json:"digest,omitempty"`
	}
	var subjects []resource
	for _, name := range names {
		subjects = append(subjects, resource{Name: name, Digest: digests{"sha256": sum[name]}})
	}
	modules, err := os.ReadFile(filepath.Join(r.root, "go.sum"))
	if err != nil {
		return err
	}
	tool, err := os.ReadFile(filepath.Join(r.root, "tools", "release", "go.sum"))
	if err != nil {
		return err
	}
	statement := map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://slsa.dev/provenance/v1", "subject": subjects,
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":          homepage + "/blob/main/docs/development/release.md",
				"externalParameters": map[string]any{"command": "make release", "version": r.version},
				"internalParameters": map[string]any{"go": runtime.Version(), "uncommittedChanges": r.dirty, "signed": false},
				"resolvedDependencies": []resource{
					{Name: "source", URI: "git+" + homepage, Digest: digests{"gitCommit": r.commit}},
					{Name: "go.sum", Digest: digests{"sha256": digest(modules)}}, {Name: "tools/release/go.sum", Digest: digests{"sha256": digest(tool)}},
				},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": homepage + "/blob/main/tools/release"}},
		},
	}
	text, err := json.MarshalIndent(statement, "", "  ")
	if err != nil {
		return err
	}
	if err := r.put(provenance, append(text, '\n')); err != nil {
		return err
	}
	if names, sum, err = r.digests(); err != nil {
		return err
	}
	var list strings.Builder
	for _, name := range names {
		fmt.Fprintf(&list, "%s  %s\n", sum[name], name)
	}
	return errors.Join(r.put(sums, []byte(list.String())), os.Remove(filepath.Join(r.out, unfinished)))
}
