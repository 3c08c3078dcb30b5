package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

const readmeHead = `# %[1]s

<!-- Made by make manifests from values.yaml and Chart.yaml. -->

%[2]s

    helm upgrade --install %[1]s CHART --namespace %[1]s --values values.yaml

%[3]s
Kubernetes %[4]s.

## Values

| key | default | meaning |
|---|---|---|
`

// readmeMore says, by the name of the chart, where to read more.
var readmeMore = map[string]string{
	"fencing-agent": `How to prepare the nodes, the namespace and the image is in
[docs/kubernetes.md](https://github.com/fencing-agent/fencing-agent/blob/main/docs/kubernetes.md#install), the keys
below ` + "`config`" + ` are in
[docs/configuration.md](https://github.com/fencing-agent/fencing-agent/blob/main/docs/configuration.md).`,
	"fencing-controller": `What it needs, what it does, and what to decide before ` + "`dryRun`" + ` becomes false is in
[docs/controller.md](https://github.com/fencing-agent/fencing-agent/blob/main/docs/controller.md#install). The keys
below ` + "`config`" + ` are told by ` + "`fencing-controller --help`" + `.`,
}

// readme returns a chart's README.md: a table made from values.yaml, whose comments are the only description of a
// value.
func readme(chart string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return nil, err
	}
	meta, err := os.ReadFile(filepath.Join(chart, "Chart.yaml"))
	if err != nil {
		return nil, err
	}
	var about struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
		KubeVersion string `yaml:"kubeVersion"`
	}
	if err := yaml.Unmarshal(meta, &about); err != nil {
		return nil, fmt.Errorf("file Chart.yaml: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("file values.yaml: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, readmeHead, about.Name, about.Description, readmeMore[about.Name], strings.TrimSuffix(about.KubeVersion, "-0"))
	if err := rows(&b, "", doc.Content[0]); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// rows writes a row for each value. If the keys of a mapping have comments, it writes a row for each key.
func rows(b *strings.Builder, path string, n *yaml.Node) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		says, example := comment(key, value)
		block := value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0 && len(value.Content) > 0
		if !block || says != "" {
			shown := ""
			if !block {
				var v any
				if err := value.Decode(&v); err != nil {
					return fmt.Errorf("values.yaml: %s: %w", at, err)
				}
				text, err := json.Marshal(v)
				if err != nil {
					return fmt.Errorf("values.yaml: %s: %w", at, err)
				}
				shown = "`" + string(text) + "`"
			}
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", at, shown, says)
		}
		for _, line := range example {
			name, meaning, _ := strings.Cut(line, "#")
			name, _, _ = strings.Cut(strings.Trim(name, " -"), ":")
			fmt.Fprintf(b, "| `%s[].%s` | | %s |\n", at, name, strings.TrimSpace(meaning))
		}
		if block {
			if err := rows(b, at, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// comment returns the comment above a value in one line, and the lines of a commented example below the value.
func comment(key, value *yaml.Node) (says string, example []string) {
	var words []string
	for line := range strings.Lines(key.HeadComment) {
		words = append(words, strings.Trim(line, "# \n"))
	}
	for line := range strings.Lines(key.FootComment + value.FootComment) {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "#"); strings.Contains(line, ":") {
			example = append(example, line)
		}
	}
	return strings.ReplaceAll(strings.TrimSpace(strings.Join(words, " ")), "|", `\|`), example
}
