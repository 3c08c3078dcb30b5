package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// plant creates files below a root.
func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const smallConfig = `nodeGroup: worker
nodeName: n1
members: {source: static, static: [{name: n1, addresses: {mgmt: 127.0.0.1}}, {name: n2, addresses: {mgmt: 127.0.0.2}}, {name: n3, addresses: {mgmt: 127.0.0.3}}]}
systemNetworks: [{name: mgmt, at: 127.0.0.1, port: 7946}]
gossip: {keyFile: /keys}
`

func TestDoctor(t *testing.T) {
	a := liveAgent(t, "healthy")
	root := plant(t, map[string]string{"sys/class/watchdog/watchdog0/identity": "iTCO_wdt\n", "sys/class/watchdog/watchdog0/timeout": "30\n", "keys": strings.Repeat("A", 43) + "=\n", "agent.yaml": smallConfig})
	code, stdout, stderr := ask(t, a, 0, "doctor", "--root", root, "--config", root+"/agent.yaml")
	if code != exitOK || !strings.Contains(stdout, "iTCO_wdt, timeout 30 s") || !strings.Contains(stdout, "/keys is readable by its owner alone") {
		t.Errorf("exit %d, %q\n%s", code, stderr, stdout)
	}
	if err := os.RemoveAll(root + "/sys"); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = ask(t, a, 0, "doctor", "--root", root, "--config", root+"/agent.yaml")
	if code != exitFailed || !strings.Contains(stdout, "there is none in /sys/class/watchdog") || !strings.Contains(stderr, "1 of ") {
		t.Errorf("exit %d, %q\n%s", code, stderr, stdout)
	}
	if code, _, _ = ask(t, a, 0, "doctor", "--root", root, "--config", root+"/none.yaml"); code != exitFailed {
		t.Errorf("a configuration that was named and is not there: exit %d", code)
	}
	// Without a configuration the output is silent about keys and LUN, as for a configuration without them.
	code, stdout, _ = ask(t, a, 0, "doctor", "--root", root)
	if _, err := os.Stat(defaultConfig); err != nil && (code != exitFailed || strings.Contains(stdout, "gossip.keyFile") || strings.Contains(stdout, "none is configured") || !strings.Contains(stdout, "were not looked at")) {
		t.Errorf("exit %d\n%s", code, stdout)
	}
	if code, _, stderr = ask(t, a, 0, "watchdog", "list", "--root", root); code != exitFailed || !strings.Contains(stderr, "no watchdog") {
		t.Errorf("exit %d, %q", code, stderr)
	}
	root = plant(t, map[string]string{"sys/class/watchdog/watchdog0/identity": "iTCO_wdt\n", "sys/class/watchdog/watchdog0/timeout": "30\n"})
	if code, stdout, _ = ask(t, a, 0, "watchdog", "list", "--root", root); code != exitOK || !strings.Contains(stdout, "/dev/watchdog0  iTCO_wdt  30s") {
		t.Errorf("exit %d\n%s", code, stdout)
	}
}
