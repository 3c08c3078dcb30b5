package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// plant makes files below a root.
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
	root := plant(t, map[string]string{"sys/class/watchdog/watchdog0/identity": "iTCO_wdt\n", "sys/class/watchdog/watchdog0/timeout": "30\n", "keys": "x", "agent.yaml": smallConfig})
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
	// Without a configuration nothing is said of keys and LUN, as if there were one without them.
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

func TestKeyNew(t *testing.T) {
	a := liveAgent(t, "healthy")
	path := filepath.Join(t.TempDir(), "keys")
	if code, stdout, stderr := ask(t, a, 0, "key", "new", path); code != exitOK || stdout != "" {
		t.Fatalf("exit %d, %q, %q", code, stdout, stderr)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if key, bad := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text))); bad != nil || len(key) != keyBytes || err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%d bytes, %v, %v", len(key), bad, err)
	}
	if code, _, stderr := ask(t, a, 0, "key", "new", path); code != exitFailed || !strings.Contains(stderr, "may hold the key of a group that runs") {
		t.Errorf("again: exit %d, %q", code, stderr)
	}
	if again, _ := os.ReadFile(path); string(again) != string(text) {
		t.Error("the key was replaced")
	}
	if code, stdout, _ := ask(t, a, 0, "key", "new", "-"); code != exitOK || len(strings.TrimSpace(stdout)) != 44 || strings.TrimSpace(stdout) == strings.TrimSpace(string(text)) {
		t.Errorf("to stdout: exit %d", code)
	}
}

// Guard: a key may begin with a character that is no letter, has a comment behind it, and stand where a file is cut.
func TestBundleBlotsEveryKey(t *testing.T) {
	const other, odd = "+29tZSBvdGhlciBzZWNyZXQgb2YgMzIgYnl0ZXMhISE=", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX" // 32 and 24 bytes
	b := &bundle{keys: keysOf(filepath.Join(plant(t, map[string]string{"keys": odd + "#of 2025\n"}), "keys"))}
	log := strings.Repeat("x", 1<<10) + " " + other + strings.Repeat(" ", maxBundleFile-20)
	for name, text := range map[string]string{"a sign": "key " + other, "a comment": "key " + odd, "a path": "of/" + other[1:], "the cut": log} {
		b.files = nil
		b.add("agent.log", []byte(text), nil)
		got := string(b.content(&b.files[0]))
		if strings.Contains(got, odd) || strings.Contains(got, other[len(other)-20:]) || len(got) > maxBundleFile {
			t.Errorf("%s: %.100s", name, got)
		}
	}
}

// Guard: no key is in a bundle, wherever it stands: not the group's own, and nothing that looks like one.
func TestBundleHasNoKeys(t *testing.T) {
	const own, odd = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX" // of 32 and of 24 bytes
	others := []string{"c29tZSBvdGhlciBzZWNyZXQgb2YgMzIgYnl0ZXMhISE=", "c2l4dGVlbiBieXRlcyEhIQ==", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl"}
	private := "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIB\n-----END EC PRIVATE KEY-----"
	past, err := os.ReadFile(pastFile(t, false))
	if err != nil {
		t.Fatal(err)
	}
	root := plant(t, map[string]string{
		"keys": own + "\n" + odd + "\n", "agent.yaml": smallConfig, "proc/version": "Linux " + own + " " + others[0],
		"var/lib/fencing-agent/members-history": string(past),
	})
	a := liveAgent(t, "healthy", func(st *fencingv1.Status) { st.Self.Version = own + odd })
	out := filepath.Join(t.TempDir(), "b.tar.gz")
	b := &bundle{
		env: &environment{getenv: func(key string) string { return map[string]string{envSocket: a.path}[key] }, stderr: io.Discard},
		program: func(context.Context, string, ...string) ([]byte, error) {
			return []byte("log " + odd + " " + strings.Join(others, " ") + " " + private), nil
		},
	}
	b.collect(t.Context(), &agentFlags{timeout: answerPatience}, &machineFlags{root: root, config: root + "/agent.yaml"})
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := b.write(f); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names[h.Name] = string(text)
		for _, secret := range append([]string{own, odd, "MHcCAQEEIB"}, others...) {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s has the secret %s", h.Name, secret)
			}
		}
	}
	for _, want := range []string{"status.json", "config.yaml", "history.txt", "doctor.json", "agent.log", "kernel.txt", "missing.txt"} {
		if _, ok := names["fencing-agent/"+want]; !ok {
			t.Errorf("%s is missing: %s", want, names["fencing-agent/missing.txt"])
		}
	}
	if !strings.Contains(names["fencing-agent/config.yaml"], "nodeGroup: worker") || !strings.Contains(names["fencing-agent/agent.log"], "log [key]") || !strings.Contains(names["fencing-agent/history.txt"], "LAST WORDS") || !strings.Contains(names["fencing-agent/missing.txt"], "system.txt") {
		t.Errorf("%q", names)
	}
}
