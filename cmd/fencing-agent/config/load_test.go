package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// base is the smallest useful configuration, with one entry per top-level key.
var base = []string{
	"nodeName: n1",
	"nodeGroup: worker",
	`systemNetworks:
  - name: mgmt
    at: 10.0.0.1`,
	`members:
  static:
    - name: n1
      addresses: {mgmt: 10.0.0.1}
    - name: n2
      addresses: {mgmt: 10.0.0.2}
    - name: n3
      addresses: {mgmt: 10.0.0.3}`,
}

// with returns base with the given top-level entries, which replace an entry of base or are added. An empty value, such
// as "nodeName:-", removes an entry.
func with(entries ...string) string {
	out := slices.Clone(base)
	for _, e := range entries {
		key, rest, _ := strings.Cut(e, ":")
		i := slices.IndexFunc(out, func(o string) bool { return strings.HasPrefix(o, key+":") })
		switch {
		case rest == "-":
			out = slices.Delete(out, i, i+1)
		case i >= 0:
			out[i] = e
		default:
			out = append(out, e)
		}
	}
	return strings.Join(out, "\n") + "\n"
}

func noEnv(string) string { return "" }

func environment(pairs ...string) func(string) string {
	return func(key string) string {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == key {
				return v
			}
		}
		return ""
	}
}

func hostname() (string, error) { return "N3", nil }

// parse and review call Parse and Review on a machine with this name.
func parse(name string, data []byte, env func(string) string, hostname func() (string, error)) (*Config, []Problem, error) {
	r := newReport()
	r.hostname = hostname
	return r.parse(name, data, env)
}

func review(name string, data []byte, env func(string) string, hostname func() (string, error)) (*Reviewed, error) {
	r := newReport()
	r.hostname = hostname
	return r.review(name, data, env)
}

func mustParse(t *testing.T, text string, env func(string) string) (*Config, []Problem) {
	t.Helper()
	c, warnings, err := parse("agent.yaml", []byte(text), env, hostname)
	if err != nil {
		t.Fatalf("valid configuration refused:\n%v\nfile:\n%s", err, text)
	}
	return c, warnings
}

func TestMinimalConfigurationKeepsDefaults(t *testing.T) {
	got, warnings := mustParse(t, with(), noEnv)
	want := Default()
	want.NodeName, want.NodeGroup = "n1", "worker"
	want.SystemNetworks, want.Members.Static = got.SystemNetworks, got.Members.Static
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if n := got.SystemNetworks[0]; n.Port != DefaultPort || n.BindToDevice != BindAuto || n.At.Address.String() != "10.0.0.1" {
		t.Errorf("system network %+v", n)
	}
	if len(warnings) > 0 {
		t.Errorf("warnings: %v", warnings)
	}
}

func TestNamesFromEnvironment(t *testing.T) {
	mgmt := network("name: mgmt, at: eth0")
	tests := []struct {
		name, file string
		env        []string
		node       string
		group      string
	}{
		{"file wins", with(), []string{"NODE_NAME=n2", "NODE_GROUP=other"}, "n1", "worker"},
		{"environment fills", with(mgmt, "nodeName:-", "nodeGroup:-"), []string{"NODE_NAME=n2", "NODE_GROUP=other"}, "n2", "other"},
		{"environment fills empty strings", with(mgmt, `nodeName: ""`, `nodeGroup: ""`), []string{"NODE_NAME=n2", "NODE_GROUP=other"}, "n2", "other"},
		{"hostname in lower case", with(mgmt, "nodeName:-"), nil, "n3", "worker"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := mustParse(t, tt.file, environment(tt.env...))
			if c.NodeName != tt.node || c.NodeGroup != tt.group {
				t.Errorf("got %s/%s, want %s/%s", c.NodeName, c.NodeGroup, tt.node, tt.group)
			}
		})
	}
}

func TestNoHostname(t *testing.T) {
	_, _, err := parse("f", []byte(with("nodeName:-")), noEnv, func() (string, error) { return "", errors.New("none") })
	const want = "f: nodeName: is empty and the host has no name; allowed: the node's name, here or in $NODE_NAME"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if _, _, err := Load(path, noEnv); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
	if err := os.WriteFile(path, []byte(with()), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, _, err := Load(path, noEnv); err != nil || c.NodeName != "n1" {
		t.Errorf("got %v, %v", c, err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#", maxFileSize+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(path, noEnv); err == nil || !strings.Contains(err.Error(), "is too large") {
		t.Errorf("huge file: got %v", err)
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../deploy/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			_, warnings, err := Load(f, environment("NODE_NAME=node-1", "NODE_GROUP=worker", "KUBERNETES_SERVICE_HOST=10.96.0.1"))
			if err != nil {
				t.Error(err)
			}
			for _, w := range warnings {
				t.Errorf("warning: %v", w)
			}
		})
	}
}

// The examples are valid, for each of their nodes and on every machine.
func TestExamplesOffTheNode(t *testing.T) {
	files, err := filepath.Glob("../../../deploy/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		r, err := review(f, data, noEnv, func() (string, error) { return "laptop", nil })
		if err != nil {
			t.Error(err)
			continue
		}
		if len(r.Nodes) != len(r.Config.Members.Static) || len(r.Warnings) > 0 {
			t.Errorf("%s: checked for %v, warnings %v", f, r.Nodes, r.Warnings)
		}
	}
}

// A file is checked for one node as soon as anything names the node.
func TestReviewTakesTheNodeThatIsNamed(t *testing.T) {
	anywhere := network("name: mgmt, at: 10.0.0.0/24")
	for _, tt := range []struct {
		name, file, host string
		env              []string
		node             string
	}{
		{"by the file", with(anywhere), "laptop", nil, "n1"},
		{"by the environment", with(anywhere, "nodeName:-"), "laptop", []string{"NODE_NAME=n2"}, "n2"},
		{"by the host", with(anywhere, "nodeName:-"), "N3", nil, "n3"},
		{"by nobody", with(anywhere, "nodeName:-"), "laptop", nil, ""},
	} {
		r, err := review("f", []byte(tt.file), environment(tt.env...), func() (string, error) { return tt.host, nil })
		if err != nil || r.Config.NodeName != tt.node || (len(r.Nodes) > 0) != (tt.node == "") {
			t.Errorf("%s: %v, node %q of %v", tt.name, err, r.Config.NodeName, r.Nodes)
		}
	}
	if _, err := review("f", []byte(with(anywhere)), environment("NODE_NAME=n2"), hostname); err != nil {
		t.Error(err)
	}
	if _, _, err := parse("f", []byte(with(anywhere, "nodeName:-")), noEnv, func() (string, error) { return "laptop", nil }); err == nil {
		t.Error("an agent on a machine that is not a member starts")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(with()))
	f.Add([]byte("a: &a [*a]\nb: {<<: *a}\n"))
	f.Add([]byte("reachability: {atLeast: 1}\nsystemNetworks: [{}, ~, 5, [1]]\n? [x]\n: y\n"))
	for _, name := range []string{"full.yaml", "mistakes.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, warnings, err := parse("f", data, noEnv, hostname)
		for _, w := range warnings {
			oneLine(t, w.String())
		}
		if err != nil {
			invalid := new(Invalid)
			if c != nil || !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
				t.Fatalf("got %v, %#v", c, err)
			}
			for _, p := range invalid.Problems {
				oneLine(t, p.String())
			}
			return
		}
		text, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := parse("printed", text, noEnv, hostname)
		if err != nil {
			t.Fatalf("printed configuration refused: %v\n%s", err, text)
		}
		if second, err := again.YAML(); err != nil || string(second) != string(text) {
			t.Fatalf("printed twice: %v\n%s\nthen\n%s", err, text, second)
		}
	})
}

func oneLine(t *testing.T, s string) {
	t.Helper()
	if s == "" || strings.ContainsAny(s, "\n\r\x1b") {
		t.Errorf("not one clean line: %q", s)
	}
}
