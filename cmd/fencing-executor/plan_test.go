package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
)

// planned mounts two methods of a node, and returns the digest of the plan that follows from them.
func planned(t *testing.T) (dir, digest string) {
	t.Helper()
	dir = bench(t, "")
	var methods []fenceconfig.Method
	for i, text := range []string{"template=t\naction=off\nplug=1", "template=t\naction=on\nplug=1"} {
		base := "agent_name=fence_fake\nip=192.0.2.1\npassword_secret=bmc/password\ninet4-only=true\n"
		for name, content := range map[string]string{"method/method.properties": text, "template/template.properties": base, "secrets/bmc/password": "s3cret\n"} {
			put(t, filepath.Join(dir, "plan", string(rune('0'+i)), name), content)
		}
		m, _ := fenceconfig.Merge("m", text, "t", base)
		methods = append(methods, m)
	}
	return dir, fenceconfig.DigestOf(methods)
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

// All faults that make a method impossible are reported together, and no device is asked.
func TestPlan(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  []string // none: all are possible
	}{
		"nothing is missing, and one option is ignored": {func(*testing.T, string) {}, nil},
		"a Secret is missing": {func(t *testing.T, dir string) {
			_ = os.RemoveAll(filepath.Join(dir, "plan/1/secrets"))
		}, []string{"fence_fake on: read the secret for password"}},
		"a ConfigMap is missing": {func(t *testing.T, dir string) {
			_ = os.RemoveAll(filepath.Join(dir, "plan/0/template"))
		}, []string{"read the template"}},
		"the agent is missing": {func(t *testing.T, dir string) {
			_ = os.Remove(filepath.Join(dir, "fence_fake"))
		}, []string{"ask fence_fake for its metadata"}},
		"an action that it does not have, and an option that it needs": {func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "fence_fake"), strings.Replace(strings.Replace(fakeAgent, `<action name="on"/>`, "", 1), `"plug" required="0"`, `"switch" required="1"`, 1))
		}, []string{"fence_fake off: fence_fake needs the option switch", "fence_fake on: fence_fake has no action on"}},
		"a misspelt option": {func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "plan/0/method/method.properties"), "template=t\naction=off\nplgu=1")
		}, []string{"has no option plgu: is it plug?"}},
		"a Secret with two lines": {func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "plan/0/secrets/bmc/password"), "a\nb\n")
		}, []string{"contains a line break"}},
		"no methods": {func(t *testing.T, dir string) {
			_ = os.RemoveAll(filepath.Join(dir, "plan"))
		}, []string{"there is no method"}},
		"one that has changed": {func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, "plan/0/method/method.properties"), "template=t\naction=off\nplug=2")
		}, []string{"the configuration has changed"}},
	} {
		t.Run(what, func(t *testing.T) {
			dir, digest := planned(t)
			c.spoil(t, dir)
			code, r, _ := try(t, dir, time.Minute, "--action", "plan", "--digest", digest)
			if r.OK != (c.want == nil) || r.OK != (code == 0) {
				t.Errorf("%d %+v", code, r)
			}
			for _, want := range c.want {
				if !strings.Contains(r.Message, want) {
					t.Errorf("no %q in %q", want, r.Message)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "given")); err == nil {
				t.Error("an agent was run")
			}
		})
	}
}

// An option that the agent does not know is not passed to it.
func TestAnIgnoredOptionIsNotGiven(t *testing.T) {
	dir := bench(t, "template=t\naction=off\nplug=1\ninet4-only=true")
	if code, r, _ := try(t, dir, time.Minute); code != 0 || !r.OK {
		t.Fatalf("%d %+v", code, r)
	}
	text, err := os.ReadFile(filepath.Join(dir, "given"))
	if err != nil || strings.Contains(string(text), "inet4") || !strings.Contains(string(text), "plug=1") {
		t.Errorf("%s %v", text, err)
	}
}
