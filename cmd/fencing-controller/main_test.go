package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for path, text := range map[string]string{good: "dryRun: false\n", bad: "dryrun: 1\nstorm: {evicting: 0}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "--config FILE is missing"},
		{"--config", 2, "flag needs an argument"},
		{"--config x y", 2, `unexpected argument "y"`},
		{"--config x --log-level loud", 2, "debug, info, warn or error"},
		{"--help", 0, "maxDeadPercent: 100"},
		{"--version", 0, "fencing-controller "},
		{"--config " + good + " --check", 0, ""},
		{"--config " + bad + " --check", 1, "bad.yaml:2: storm.evicting: \"0\" is not possible; allowed: 1 to 1000"},
		{"--config " + filepath.Join(dir, "none"), 1, "no such file"},
		{"storage", 2, "storage: --storage-url is missing; --driver is missing; see"}, // one line
		{"storage --node-fences --storage-url http://x --driver d", 2, "with --node-fences no storage is asked: remove --storage-url, --storage-credentials and --storage-ca; --node-fences needs --cleanup delete"},
		{"storage --node-fences --driver d --cleanup delete --node-fencer-timeout 1m", 2, "with --node-fences it must be at most 25s"},
		{"--config " + good, 1, "this is not a pod and no kubeconfig is given"},
	} {
		var out, diag bytes.Buffer
		if code := run(strings.Fields(c.args), &out, &diag); code != c.code || !strings.Contains(out.String()+diag.String(), c.want) {
			t.Errorf("%q: exit code %d, %s%s", c.args, code, out.String(), diag.String())
		}
	}
}
