package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const kubectlOfNode = `#!/bin/sh
case "$*" in
"get node n4 -o json") echo '{"metadata": {"name": "n4", "uid": "u4"}, "status": {"nodeInfo": {"bootID": "024bc581-b3a3-4be3-8d1e-5a3f0d2c9b17"}, "conditions": [{"type": "Ready", "status": "Unknown"}]}}' ;;
"get configmap fence-config-n4 --namespace fencing-controller -o name") if [ -e DIR/unmanaged ]; then echo 'Error from server (NotFound): configmaps "fence-config-n4" not found' >&2; exit 1; fi ;;
"create -f -") cat > DIR/made; if [ -e DIR/there ]; then echo 'Error from server (AlreadyExists): nodefences "node-fence-n4" already exists' >&2; exit 1; fi ;;
*) echo "asked for $*" >&2; exit 1 ;;
esac
`

func TestNodeOrder(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "kubectl")
	if err := os.WriteFile(program, []byte(strings.ReplaceAll(kubectlOfNode, "DIR", dir)), 0o755); err != nil {
		t.Fatal(err)
	}
	order := func(args ...string) (int, string, string) {
		t.Helper()
		return runIn(t, "", nil, append([]string{"node", "n4", "--kubectl", program}, args...)...)
	}
	made := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "made"))
		return string(text)
	}
	code, out, diag := order()
	if code != exitUsage || !strings.Contains(out, "n4 --boot 024bc581b3a34be3 --step power_management") || !strings.Contains(diag, "no fencing was requested") || made() != "" {
		t.Errorf("%d\n%s\n%s%s", code, out, diag, made())
	}
	if code, _, diag = order("--boot", "124bc581b3a34be3"); code != exitFailed || !strings.Contains(diag, "shows the boot 024bc581b3a34be3 now") || made() != "" {
		t.Errorf("another boot: %d %s %s", code, diag, made())
	}
	if code, _, diag = order("--boot", "024bc581b3a34be3", "--step", "recovery"); code != exitUsage || made() != "" {
		t.Errorf("another step: %d %s", code, diag)
	}
	touch := func(name string, there bool) {
		t.Helper()
		path := filepath.Join(dir, name)
		if !there {
			_ = os.Remove(path)
		} else if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	touch("unmanaged", true)
	if code, _, diag = order("--boot", "024bc581b3a34be3"); code != exitFailed || !strings.Contains(diag, "is not managed") || made() != "" {
		t.Errorf("not managed: %d %s", code, diag)
	}
	touch("unmanaged", false)
	if code, out, diag = order("--boot", "024bc581-b3a3-4be3-8d1e-5a3f0d2c9b17", "--reason", "hangs"); code != 0 || !strings.Contains(out, "asked for power_management of the boot 024bc581b3a34be3") {
		t.Errorf("%d\n%s\n%s", code, out, diag)
	}
	var o struct {
		Kind     string
		Metadata struct {
			Name        string
			Annotations map[string]string
		}
		Spec struct{ NodeName, NodeUID, Boot, Step string }
	}
	if err := json.Unmarshal([]byte(made()), &o); err != nil || o.Metadata.Name != "node-fence-n4" || o.Spec.Boot != "024bc581b3a34be3" || o.Spec.NodeUID != "u4" || o.Spec.Step != "power_management" || o.Metadata.Annotations["fencing-agent.io/reason"] != "hangs" {
		t.Errorf("%v %s", err, made())
	}
	touch("there", true)
	if code, _, diag = order("--boot", "024bc581b3a34be3"); code != exitFailed || !strings.Contains(diag, "is being fenced already") {
		t.Errorf("%d %s", code, diag)
	}
}

// Nothing refuses the example that people copy: its agents know each option.
func TestConfigCheckOfTheExample(t *testing.T) {
	const agents = "testdata/agents.json"
	text, err := os.ReadFile("../../deploy/controller/examples/nodefence.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "kubectl")
	list := configMapList(t, text)
	if err := os.WriteFile(program, []byte("#!/bin/sh\ncat <<'END'\n"+list+"\nEND\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	code, out, diag := runIn(t, "", nil, "config", "check", "-n", "fencing-controller", "--kubectl", program, "--agents", agents)
	if code != 0 || diag != "" {
		t.Errorf("%d\n%s\n%s", code, out, diag)
	}
	for _, want := range []string{
		"host0  isolation: fc-off; power_management: eaton-off eaton-on; recovery: fc-on",
		"host1  isolation: fc-off; power_management: apc-off eaton-off apc-on eaton-on; recovery: fc-on",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// configMapList returns a manifest's ConfigMaps in the form that kubectl prints.
func configMapList(t *testing.T, manifest []byte) string {
	t.Helper()
	items := []any{}
	for dec := yaml.NewDecoder(bytes.NewReader(manifest)); ; {
		var o map[string]any
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		items = append(items, o)
	}
	text, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
