package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// ToolImage holds the namespaces of pods and is a workload; integration/cluster/cmd/tool.
const ToolImage = "localhost/tool:1"

// AgentImage has what deploy/Dockerfile says, under the name that docs and manifests use.
const AgentImage = "registry.example.com/fencing-agent:v0.1.0"

// NextImage is the same by another name, for updates: nodes unpack one layer for both.
const NextImage = "registry.example.com/fencing-agent:v0.2.0"

// PluginImage is that of a device plugin with one device.
const PluginImage = "localhost/plugin:1"

// BrokenImage is one whose program ends at once.
const BrokenImage = "registry.example.com/fencing-agent:broken"

// image is what an image is made of: files of the host by their path in it, and what it runs.
type image struct {
	name  string
	files map[string]string
	run   []string
}

// ControllerImage has what deploy/controller/Dockerfile says.
const ControllerImage = "registry.example.com/fencing-controller:v0.1.0"

// ExecutorImage is what deploy/executor describes; make test-nodefence builds it under this name.
const ExecutorImage = "registry.example.com/fencing-executor:v0.1.0"

// makeImages writes an archive for each image.
func (c *Cluster) makeImages() error {
	p := c.config.Programs
	built := map[string]string{"bin/fencing-agent": p.Agent, "bin/fencectl": p.Fencectl, "bin/fencing-controller": p.Controller}
	if c.simulated() {
		built["bin/fencing-agent"] = p.GuardedAgent
	}
	agent, err := dockerfile(p.Dockerfile, built)
	if err != nil {
		return err
	}
	controller, err := dockerfile(p.ControllerFile, built)
	if err != nil {
		return err
	}
	controller.name = ControllerImage
	next := agent
	agent.name, next.name = AgentImage, NextImage
	tool := map[string]string{"tool": c.config.Programs.Tool}
	images := []image{
		agent, next, controller,
		{name: ToolImage, files: tool, run: []string{"/tool"}},
		{name: BrokenImage, files: tool, run: []string{"/tool", "fail"}},
	}
	if c.config.Plugin {
		images = append(images, image{name: PluginImage, files: map[string]string{"plugin": c.config.Programs.Plugin}, run: []string{"/plugin"}})
	}
	for _, i := range images {
		path := c.archive(i.name)
		if err := i.write(path); err != nil {
			return fmt.Errorf("image %s: %w", i.name, err)
		}
		c.images = append(c.images, path)
	}
	if c.config.Executor {
		if _, err := os.Stat(p.Executor); err != nil {
			return fmt.Errorf("%w: make test-nodefence builds it", err)
		}
		c.images = append(c.images, p.Executor)
	}
	return nil
}

// archive is the file with an image.
func (c *Cluster) archive(image string) string {
	return filepath.Join(c.dir, strings.NewReplacer("/", "_", ":", "_").Replace(image)+".tar")
}

// dockerfile is the image that deploy/Dockerfile describes: what it copies, and its entry point.
func dockerfile(path string, built map[string]string) (image, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return image{}, err
	}
	i := image{files: map[string]string{}}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		instruction, rest, _ := strings.Cut(line, " ")
		switch words := strings.Fields(rest); {
		// USER: the pods' manifests say who runs.
		case line == "" || strings.HasPrefix(line, "#"), instruction == "FROM" && rest == "scratch", instruction == "USER":
		case instruction == "COPY" && len(words) > 1:
			folder := words[len(words)-1]
			for _, from := range words[:len(words)-1] {
				if built[from] == "" || !strings.HasSuffix(folder, "/") {
					return image{}, fmt.Errorf("%s: %q: this builder knows no such file", path, line)
				}
				i.files[strings.TrimPrefix(folder, "/")+filepath.Base(from)] = built[from]
			}
		case instruction == "ENTRYPOINT" && json.Unmarshal([]byte(rest), &i.run) == nil:
		default:
			return image{}, fmt.Errorf("%s: %q: this builder knows no such instruction", path, line)
		}
	}
	return i, nil
}

// write writes the image as an archive of the OCI image layout, with one layer that is not
// compressed. containerd imports it by its name.
func (i image) write(path string) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	const vnd = "application/vnd.oci.image."
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	blob := func(kind string, content []byte) map[string]any {
		digest := fmt.Sprintf("%x", sha256.Sum256(content))
		if err == nil {
			err = add(archive, "blobs/sha256/"+digest, content, 0o644)
		}
		return map[string]any{"mediaType": kind, "digest": "sha256:" + digest, "size": len(content)}
	}
	encode := func(v any) []byte {
		text, failed := json.Marshal(v)
		if err == nil {
			err = failed
		}
		return text
	}
	layers := []any{blob(vnd+"layer.v1.tar", layer)}
	config := blob(vnd+"config.v1+json", encode(map[string]any{
		"architecture": runtime.GOARCH, "os": runtime.GOOS, "config": map[string]any{"Entrypoint": i.run},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	}))
	manifest := blob(vnd+"manifest.v1+json", encode(map[string]any{"schemaVersion": 2, "mediaType": vnd + "manifest.v1+json", "config": config, "layers": layers}))
	manifest["annotations"] = map[string]string{"io.containerd.image.name": i.name}
	if err != nil {
		return err
	}
	if err := add(archive, "oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644); err != nil {
		return err
	}
	if err := add(archive, "index.json", encode(map[string]any{"schemaVersion": 2, "manifests": []any{manifest}}), 0o644); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func (i image) layer() ([]byte, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(i.files)) { // so that the same files are the same layer
		content, err := os.ReadFile(i.files[name])
		if err != nil {
			return nil, err
		}
		if err := add(archive, name, content, 0o755); err != nil {
			return nil, err
		}
	}
	err := archive.Close() // before the bytes are taken: it writes the end
	return out.Bytes(), err
}

func add(archive *tar.Writer, name string, content []byte, mode int64) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}
