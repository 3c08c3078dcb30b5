package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const fakeConfigMaps = `#!/bin/sh
case "$*" in "get configmaps --namespace fencing --output json") ;; *) echo "asked for $*" >&2; exit 1 ;; esac
cat <<'END'
{"items": [
 {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "x"}},
 {"metadata": {"name": "fence-config-n1"}, "data": {"config.properties": "node_name=n1\npower_management=on off\n"}},
 {"metadata": {"name": "fence-method-on-n1"}, "data": {"method.properties": "template=fence-method-template-bmc\naction=on\n"}},
 {"metadata": {"name": "fence-method-off-n1"}, "data": {"method.properties": "template=fence-method-template-bmc\naction=ACTION\n"}},
 {"metadata": {"name": "fence-method-template-bmc"}, "data": {"template.properties": "agent_name=fence_ipmilan\nip=192.0.2.1\npassword=s3cret\n"}}
]}
END
`

func TestConfigCheckOfFencing(t *testing.T) {
	program := filepath.Join(t.TempDir(), "kubectl")
	write := func(action string) {
		if err := os.WriteFile(program, []byte(strings.Replace(fakeConfigMaps, "ACTION", action, 1)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("off")
	code, out, diag := runIn(t, "", nil, "config", "check", "-n", "fencing", "--kubectl", program)
	if code != 0 || !strings.Contains(out, "isolation: none; power_management: off on; recovery: none") || !strings.Contains(diag, "password is in a ConfigMap") {
		t.Errorf("%d\n%s\n%s", code, out, diag)
	}
	if strings.Contains(out+diag, "s3cret") {
		t.Error("it shows a password")
	}
	write("reboot")
	code, out, diag = runIn(t, "", nil, "config", "check", "-n", "fencing", "--kubectl", program)
	if code != 1 || !strings.Contains(out, "refused") || !strings.Contains(diag, "allowed: on, off") {
		t.Errorf("%d\n%s\n%s", code, out, diag)
	}
	if code, _, _ = runIn(t, "", nil, "config", "check", "-n", "fencing", "FILE"); code != 2 {
		t.Errorf("a file beside it: %d", code)
	}
	agents := filepath.Join(t.TempDir(), "agents.json")
	if err := os.WriteFile(agents, []byte(`{"fence_ipmilan": {"actions": ["on", "off", "status"], "parameters": [{"name": "ip"}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	write("off")
	code, _, diag = runIn(t, "", nil, "config", "check", "-n", "fencing", "--kubectl", program, "--agents", agents)
	if code != 0 || !strings.Contains(diag, "fence_ipmilan does not know the option password, and runs without it") {
		t.Errorf("%d\n%s", code, diag)
	}
	// The ConfigMap fence-agents describes the agent, too, but the file has priority.
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	known := `{"items": [{"metadata": {"name": "fence-agents"}, "data": {"metadata.json": "{\"fence_ipmilan\": {\"actions\": [\"on\", \"off\", \"status\"], \"parameters\": [{\"name\": \"password\"}]}}"}},`
	if err := os.WriteFile(program, []byte(strings.Replace(string(text), `{"items": [`, known, 1)), 0o755); err != nil {
		t.Fatal(err)
	}
	code, _, diag = runIn(t, "", nil, "config", "check", "-n", "fencing", "--kubectl", program)
	if code != 0 || !strings.Contains(diag, "fence_ipmilan does not know the option ip") || strings.Contains(diag, "the option password") {
		t.Errorf("%d\n%s", code, diag)
	}
	code, _, diag = runIn(t, "", nil, "config", "check", "-n", "fencing", "--kubectl", program, "--agents", agents)
	if code != 0 || !strings.Contains(diag, "fence_ipmilan does not know the option password, and runs without it") {
		t.Errorf("%d\n%s", code, diag)
	}
}

// The check fails for text that looks like a part of the configuration but is not read.
func TestConfigCheckOfWhatIsNotRead(t *testing.T) {
	program := filepath.Join(t.TempDir(), "kubectl")
	text := strings.Replace(strings.Replace(fakeConfigMaps, "ACTION", "off", 1), `{"items": [`, `{"items": [{"metadata": {"name": "fence-stage-one"}, "data": {"priority": "5"}},`, 1)
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	code, out, diag := runIn(t, "", nil, "config", "check", "-n", "fencing", "--kubectl", program)
	if code != 1 || !strings.Contains(diag, "fence-stage-one: this is not read") || strings.Contains(out, "refused") {
		t.Errorf("%d\n%s\n%s", code, out, diag)
	}
}

// A quota, or anything else that refuses the executors' pods, is found before a node fails.
func TestConfigCheckOfExecutors(t *testing.T) {
	for answer, want := range map[string]struct {
		code int
		says string
	}{
		`pods "x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=9, limited: pods=9`:        {1, "no executor would start: "},
		`pods "x" is forbidden: minimum cpu usage per Container is 200m, but request is 100m`:                   {1, "minimum cpu usage"},
		`pods "x" is forbidden: violates PodSecurity "restricted:latest"`:                                       {1, "PodSecurity"},
		`pods is forbidden: User "me" cannot create resource "pods" in API group "" in the namespace "fencing"`: {0, "is not known"},
		`Unable to connect to the server: timeout`:                                                              {0, "is not known"},
		``: {0, ""},
	} {
		program := filepath.Join(t.TempDir(), "kubectl")
		reply := `"create --dry-run=server -f -") cat > "$0.pod"; `
		if answer != "" {
			reply += "echo 'Error from server (Forbidden): " + answer + "' >&2; exit 1"
		}
		text := strings.Replace(strings.Replace(fakeConfigMaps, "ACTION", "off", 1), `case "$*" in `, `case "$*" in `+reply+" ;;\n", 1)
		if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		code, _, diag := runIn(t, "", nil, "config", "check", "-n", "fencing", "--kubectl", program)
		if code != want.code || !strings.Contains(diag, want.says) || want.says == "" && strings.Contains(diag, "executor") {
			t.Errorf("%q: %d\n%s", answer, code, diag)
		}
		pod, err := os.ReadFile(program + ".pod")
		if err != nil || !strings.Contains(string(pod), `"cpu":"100m"`) || !strings.Contains(string(pod), `"namespace":"fencing"`) {
			t.Errorf("%v %s", err, pod)
		}
	}
}
