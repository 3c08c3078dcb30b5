package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
)

// fakeAgent keeps the state of its plug in one file, and its input in another.
const fakeAgent = `#!/bin/sh
dir=$(dirname "$0")
if [ "$*" = "-o metadata" ]; then cat <<'END'
<resource-agent name="fence_fake"><parameters>
 <parameter name="action" required="1"><getopt mixed="-o"/></parameter>
 <parameter name="ip" required="1"><getopt mixed="-a"/></parameter>
 <parameter name="plug" required="0"><getopt mixed="-n"/></parameter>
 <parameter name="password" required="0"><getopt mixed="-p"/></parameter>
</parameters><actions><action name="on"/><action name="off"/><action name="status"/><action name="monitor"/></actions></resource-agent>
END
exit 0; fi
[ $# = 0 ] || exit 9
input=$(cat); echo "$input" >> "$dir/given"
action=$(echo "$input" | sed -n 's/^action=//p')
case "$action $(cat "$dir/mode")" in
*" hang") sleep 60 & echo $! > "$dir/child"; wait ;;
*" denied") echo "login failed for password=$(echo "$input" | sed -n 's/^password=//p')" >&2; exit 1 ;;
"status "*) [ "$(cat "$dir/plug")" = off ] && exit 2; exit 0 ;;
"off lies") exit 0 ;;
monitor*) exit 0 ;;
*) echo "$action" > "$dir/plug" ;;
esac
`

// bench sets up a mounted method and an agent.
func bench(t *testing.T, method string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"method/method.properties": method, "template/template.properties": "agent_name=fence_fake\nip=192.0.2.1\npassword_secret=bmc/password\n",
		"secrets/bmc/password": "s3cret\n", "fence_fake": fakeAgent, "mode": "", "plug": "on",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func try(t *testing.T, dir string, within time.Duration, more ...string) (int, result, string) {
	t.Helper()
	var out, diag bytes.Buffer
	args := append([]string{"run", "--dir", dir, "--agents", dir, "--not-after", time.Now().Add(within).Format(time.RFC3339Nano), "--node", "n4"}, more...)
	code := run(t.Context(), args, &out, &diag)
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil && code != 2 {
		t.Fatalf("%v: %s%s", err, out.String(), diag.String())
	}
	if strings.Contains(out.String()+diag.String(), "s3cret") {
		t.Errorf("it shows the password: %s%s", out.String(), diag.String())
	}
	return code, r, diag.String()
}

func set(t *testing.T, dir, file, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const minute = time.Minute

func TestOffIsConfirmed(t *testing.T) {
	dir := bench(t, "template=t\naction=off\nplug=4\n")
	code, r, _ := try(t, dir, minute)
	if code != 0 || !r.OK || r.Status != "off" {
		t.Errorf("%d %+v", code, r)
	}
	given, _ := os.ReadFile(filepath.Join(dir, "given"))
	if want := "ip=192.0.2.1\nplug=4\npassword=s3cret\nnodename=n4\naction=off\n"; !strings.HasPrefix(string(given), want) || !strings.HasSuffix(string(given), "action=status\n") {
		t.Errorf("given: %s", given)
	}
	set(t, dir, "plug", "on")
	set(t, dir, "mode", "lies")
	if code, r, _ = try(t, dir, minute); code != 1 || r.OK || !strings.Contains(r.Message, "but the plug is on") {
		t.Errorf("a device that says off and is on: %d %+v", code, r)
	}
	set(t, dir, "method/method.properties", "template=t\naction=off\nconfirm=none\n")
	if code, r, _ = try(t, dir, minute); code != 0 || r.Status != "" {
		t.Errorf("without confirmation: %d %+v", code, r)
	}
}

func TestCheckSwitchesNothing(t *testing.T) {
	dir := bench(t, "template=t\naction=off\n")
	if code, r, _ := try(t, dir, minute, "--action", "check"); code != 1 || r.Status != "on" {
		t.Errorf("on: %d %+v", code, r)
	}
	set(t, dir, "plug", "off")
	if code, r, _ := try(t, dir, minute, "--action", "check"); code != 0 || r.Status != "off" {
		t.Errorf("off: %d %+v", code, r)
	}
	set(t, dir, "mode", "denied")
	if code, r, _ := try(t, dir, minute, "--action", "check"); code != 1 || r.Status != "unknown" || !strings.Contains(r.Message, "***") {
		t.Errorf("denied: %d %+v", code, r)
	}
	if given, _ := os.ReadFile(filepath.Join(dir, "given")); strings.Contains(string(given), "action=off") {
		t.Error("it switched")
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		method, want string
		more         []string
	}{
		{"template=t\nplug=1", "action is not given", nil},
		{"template=t\naction=off\nplgu=1", "has no option plgu", nil},
		{"template=t\naction=off", "has changed", []string{"--digest", "x"}},
		{"template=t\naction=off\npassword_secret=bmc/none", "read the secret for password", nil},
		{"template=t\naction=off\nagent_name=fence_none", "ask fence_none for its metadata", nil},
	} {
		dir := bench(t, c.method)
		code, r, _ := try(t, dir, minute, c.more...)
		if code != 1 || !strings.Contains(r.Message, c.want) {
			t.Errorf("%q: %d %+v", c.method, code, r)
		}
		if plug, _ := os.ReadFile(filepath.Join(dir, "plug")); string(plug) != "on" {
			t.Errorf("%q: it switched", c.method)
		}
	}
	dir := bench(t, "template=t\naction=off")
	set(t, dir, "secrets/bmc/password", "a\naction=on")
	if code, r, _ := try(t, dir, minute); code != 1 || !strings.Contains(r.Message, "line break") {
		t.Errorf("a secret with a line break: %+v", r)
	}
}

// The output of a device is shown on terminals.
func TestMessageHasNoControlCharacters(t *testing.T) {
	if got := mask("login \x1b[2Jfailed\x07 \u202eoff", fenceconfig.Method{}, nil); got != "login ?[2Jfailed? ?off" {
		t.Errorf("%q", got)
	}
}

func TestTooLate(t *testing.T) {
	dir := bench(t, "template=t\naction=off")
	if code, r, _ := try(t, dir, -time.Second); code != 1 || !strings.Contains(r.Message, "too late") {
		t.Errorf("%d %+v", code, r)
	}
	if plug, _ := os.ReadFile(filepath.Join(dir, "plug")); string(plug) != "on" {
		t.Error("it switched")
	}
}

// A time limit that has passed is a failure, and ends what the agent has started. On a busy machine the agent may not
// start anything within the first limit, so the next one is longer.
func TestDeadline(t *testing.T) {
	child := ""
	for limit := 3 * time.Second; child == ""; limit *= 4 {
		if limit > time.Minute {
			t.Fatal("the agent has started nothing within 48 s")
		}
		dir := bench(t, "template=t\naction=off")
		set(t, dir, "mode", "hang")
		if code, r, _ := try(t, dir, limit); code != 1 || !strings.Contains(r.Message, "its time is up") {
			t.Fatalf("%d %+v", code, r)
		}
		text, _ := os.ReadFile(filepath.Join(dir, "child")) // no file: the agent did not get that far
		child = strings.TrimSpace(string(text))
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-tick.C {
		state, err := os.ReadFile(filepath.Join("/proc", child, "stat"))
		if err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
	}
	t.Error("what the agent started runs on")
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"walk"}, {"run"}, {"run", "--dir", "x"}, {"run", "--dir", "x", "--not-after", "soon"}, {"run", "--dir", "x", "--not-after", "2026-03-01T12:00:00Z", "--action", "off"}} {
		var out, diag bytes.Buffer
		if code := run(context.Background(), args, &out, &diag); code != 2 || diag.Len() == 0 {
			t.Errorf("%v: %d %s", args, code, diag.String())
		}
	}
}

func TestMetadataOfAll(t *testing.T) {
	dir := bench(t, "")
	var out, diag bytes.Buffer
	if code := run(t.Context(), []string{"metadata", "--agents", dir}, &out, &diag); code != 0 || !strings.Contains(out.String(), `"fence_fake"`) {
		t.Errorf("%d %s%s", code, out.String(), diag.String())
	}
}

func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`<resource-agent><parameters><parameter name="a"/></parameters><actions><action name="on"/></actions></resource-agent>`))
	f.Fuzz(func(t *testing.T, text []byte) { _, _ = parseMetadata(text) })
}
