package kube

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

// These are the definitions of the Prometheus operator's resources, from the operator's own module. None of it is
// compiled, so that no go.mod requires it.
const (
	operator    = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
	operatorSum = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
	definitions = "example/prometheus-operator-crd"
	operatorAPI = "monitoring.coreos.com"
)

// operatorKinds lists the kinds that the chart creates.
var operatorKinds = []string{"servicemonitors", "podmonitors", "prometheusrules"}

// installOperatorTypes makes the resources of the Prometheus operator known to the server, with their schemas.
func installOperatorTypes(t *testing.T, p *controlplane.ControlPlane) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", operator)
	cmd.Dir = t.TempDir() // so that no module's requirements matter
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	var module struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &module); err != nil || jsonErr != nil {
		t.Skipf("the manifests for the Prometheus operator were not checked: go mod download %s: %v\n%s%s", operator, err, complaints.Bytes(), module.Error)
	}
	if module.Sum != operatorSum {
		t.Fatalf("%s has the checksum %s, want %s", operator, module.Sum, operatorSum)
	}
	names := []string{"wait", "--for=condition=Established", "--timeout=60s"}
	for _, kind := range operatorKinds {
		text, err := os.ReadFile(filepath.Join(module.Dir, filepath.FromSlash(definitions), operatorAPI+"_"+kind+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		apply(t, p, string(text))
		names = append(names, "crd/"+kind+"."+operatorAPI)
	}
	if _, err := p.Kubectl(t.Context(), "", names...); err != nil {
		t.Fatal(err)
	}
}

// The manifests for the Prometheus operator pass its schemas, which refuse a misspelt field.
func TestOperatorManifestsPassTheServer(t *testing.T) {
	p := plane(t)
	installOperatorTypes(t, p)
	files, err := filepath.Glob(filepath.Join(manifests, "*"+monitoringPart))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, path := range files {
		text := passes(t, p, path)
		for line := range strings.Lines(text) {
			if kind, ok := strings.CutPrefix(line, "kind: "); ok {
				kinds[strings.TrimSpace(kind)] = true
			}
		}
	}
	for _, kind := range []string{"ServiceMonitor", "PodMonitor", "PrometheusRule"} {
		if !kinds[kind] {
			t.Errorf("no %s was checked", kind)
		}
	}
	const bad = "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: bad, namespace: default}\n" +
		"spec: {groups: [{name: g, rules: [{alert: A, expression: up}]}]}\n"
	if _, err := p.Kubectl(t.Context(), bad, "apply", "--server-side", "--dry-run=server", "-f", "-"); err == nil || !strings.Contains(err.Error(), "expression") {
		t.Errorf("a field that does not exist: %v", err)
	}
}
