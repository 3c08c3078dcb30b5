package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// kinds is the order in which objects are applied: objects to which others refer come first. A policy that limits what
// a role allows exists before the role.
var kinds = []string{
	"Namespace", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ServiceAccount", "ClusterRole", "ClusterRoleBinding",
	"Role", "RoleBinding", "ConfigMap", "Service", "DaemonSet", "Deployment", "PodDisruptionBudget", "NetworkPolicy",
	"PodMonitor", "ServiceMonitor", "PrometheusRule",
}

// object is one rendered object.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	text       string
}

// render renders the chart with the values of example and returns the manifests by file name. Objects that need the
// Prometheus operator's resources are in a separate file, because a cluster without that operator refuses them.
func render(chartPath, example string) (map[string][]byte, error) {
	objects, err := template(chartPath, example)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(filepath.Base(example), ".yaml")
	header := fmt.Sprintf("# Made by make manifests from deploy/chart with the values of deploy/chart/examples/%s.yaml.\n", name)
	if header, err = withComment(header, example); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, o := range objects {
		file := name + ".yaml"
		if strings.HasPrefix(o.APIVersion, "monitoring.coreos.com/") {
			file = name + "-monitoring.yaml"
		}
		if files[file] == nil {
			files[file] = []byte(header)
		}
		files[file] = fmt.Appendf(files[file], "---\n%s\n", o.text)
	}
	return files, nil
}

// withComment appends the comment at the beginning of an example: what the manifest is for, and what a fault costs.
func withComment(header, example string) (string, error) {
	text, err := os.ReadFile(example)
	if err != nil {
		return "", err
	}
	header += "#\n"
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		header += line
	}
	return header, nil
}

// controllerHeader says what an operator has to know before applying the manifest.
const controllerHeader = `# Made by make manifests from deploy/controller/chart. fencing-controller has its own namespace: the agents' is privileged, this
# one is restricted. docs/controller.md says what it does and what to decide before dryRun becomes false. Set the image first: there
# is no public one. The policies name the namespace and the account: if you edit these, edit the policies, or they match nothing.
`

// renderController renders the controller's chart with its defaults, except for its image, which nobody has built yet.
func renderController(chartPath string) ([]byte, error) {
	chart, err := loader.Load(chartPath)
	if err != nil {
		return nil, err
	}
	objects, err := objectsOf(chart, map[string]any{"image": map[string]any{"repository": "registry.example.com/fencing-controller", "tag": "CHANGE-ME"}})
	if err != nil {
		return nil, err
	}
	text := []byte(controllerHeader)
	for _, o := range objects {
		text = fmt.Appendf(text, "---\n%s\n", o.text)
	}
	return text, nil
}

func template(chartPath, example string) ([]object, error) {
	chart, err := loader.Load(chartPath)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(example)
	if err != nil {
		return nil, err
	}
	var given map[string]any
	if err := yaml.Unmarshal(text, &given); err != nil {
		return nil, err
	}
	return objectsOf(chart, given)
}

// objectsOf renders a chart without its tests, and returns the objects in the order in which to apply them.
func objectsOf(chart *chartv2.Chart, given map[string]any) ([]object, error) {
	// Plain manifests are applied without Helm, which would need the namespace before.
	given["createNamespace"] = true
	release := common.ReleaseOptions{Name: chart.Name(), Namespace: chart.Name(), Revision: 1, IsInstall: true}
	values, err := util.ToRenderValues(chart, given, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, values)
	if err != nil {
		return nil, err
	}
	var objects []object
	for name, text := range rendered {
		if path.Ext(name) != ".yaml" || strings.Contains(name, "/templates/tests/") {
			continue // these are notes, parts and tests
		}
		more, err := split(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, more...)
	}
	slices.SortFunc(objects, func(a, b object) int {
		if d := slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind); d != 0 {
			return d
		}
		return strings.Compare(a.text, b.text)
	})
	return objects, nil
}

var (
	separator = regexp.MustCompile(`(?m)^---\s*$`)
	trailing  = regexp.MustCompile(`(?m)[ \t]+$`)
)

// split splits the text of one rendered template into objects. The text of each object, including comments, is not
// changed, so that the manifests explain themselves.
func split(text string) ([]object, error) {
	var objects []object
	for _, part := range separator.Split(text, -1) {
		var o object
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, part)
		}
		if o.Kind == "" {
			continue
		}
		if !slices.Contains(kinds, o.Kind) {
			return nil, fmt.Errorf("kind %s has no place in the order of kinds", o.Kind)
		}
		o.text = trailing.ReplaceAllString(strings.TrimSpace(part), "")
		objects = append(objects, o)
	}
	return objects, nil
}
