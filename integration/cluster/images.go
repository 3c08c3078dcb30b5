package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fencing-agent/fencing-agent/integration/oci"
)

// ToolImage holds the namespaces of pods and is a workload; see integration/cluster/cmd/tool.
const ToolImage = "localhost/tool:1"

// AgentImage contains what deploy/Dockerfile describes, under the name in documents and manifests.
const AgentImage = "registry.example.com/fencing-agent:v0.1.0"

// NextImage is the same image with another name, for updates: nodes unpack one layer for both.
const NextImage = "registry.example.com/fencing-agent:v0.2.0"

// PluginImage is the image of a device plugin with one device.
const PluginImage = "localhost/plugin:1"

// BrokenImage is an image whose program ends at once.
const BrokenImage = "registry.example.com/fencing-agent:broken"

// ControllerImage contains what deploy/controller/Dockerfile describes.
const ControllerImage = "registry.example.com/fencing-controller:v0.1.0"

// ExecutorImage is the image that deploy/executor describes; make test-nodefence builds it with this name.
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
	controller.Name = ControllerImage
	next := agent
	agent.Name, next.Name = AgentImage, NextImage
	tool := map[string]string{"tool": c.config.Programs.Tool}
	images := []oci.Image{
		agent, next, controller,
		{Name: ToolImage, Files: tool, Entrypoint: []string{"/tool"}},
		{Name: BrokenImage, Files: tool, Entrypoint: []string{"/tool", "fail"}},
	}
	if c.config.Plugin {
		images = append(images, oci.Image{Name: PluginImage, Files: map[string]string{"plugin": c.config.Programs.Plugin}, Entrypoint: []string{"/plugin"}})
	}
	for _, i := range images {
		path := c.archive(i.Name)
		i.Public = true
		if err := i.Write(path); err != nil {
			return fmt.Errorf("image %s: %w", i.Name, err)
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

// archive returns the path of the file with an image.
func (c *Cluster) archive(image string) string {
	return filepath.Join(c.dir, strings.NewReplacer("/", "_", ":", "_").Replace(image)+".tar")
}

// dockerfile returns the image that deploy/Dockerfile describes: the files that it copies, and its entry point.
func dockerfile(path string, built map[string]string) (oci.Image, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return oci.Image{}, err
	}
	i := oci.Image{Files: map[string]string{}}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		instruction, rest, _ := strings.Cut(line, " ")
		switch words := strings.Fields(rest); {
		// USER is ignored: the pods' manifests set the user.
		case line == "" || strings.HasPrefix(line, "#"), instruction == "FROM" && rest == "scratch", instruction == "USER":
		case instruction == "COPY" && len(words) > 1:
			folder := words[len(words)-1]
			for _, from := range words[:len(words)-1] {
				if built[from] == "" || !strings.HasSuffix(folder, "/") {
					return oci.Image{}, fmt.Errorf("%s: %q: this builder does not know the file", path, line)
				}
				i.Files[strings.TrimPrefix(folder, "/")+filepath.Base(from)] = built[from]
			}
		case instruction == "ENTRYPOINT" && json.Unmarshal([]byte(rest), &i.Entrypoint) == nil:
		default:
			return oci.Image{}, fmt.Errorf("%s: %q: this builder does not know the instruction", path, line)
		}
	}
	return i, nil
}
