package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/cmd/fencectl/doctor"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

func found() *around {
	return &around{
		host:      "n1",
		networks:  []foundNetwork{{"eth0", netip.MustParsePrefix("10.0.0.1/24")}, {"bond0.7", netip.MustParsePrefix("10.1.0.1/24")}},
		watchdogs: []doctor.Watchdog{{Name: "watchdog0", Identity: "Software Watchdog", Timeout: "60"}, {Name: "watchdog1", Identity: "iTCO_wdt\nevil: true", Timeout: "30"}},
		luns:      []string{"wwn:6001405abcdef01234567890abcdef01"},
	}
}

func TestConfigInitDrafts(t *testing.T) {
	members := []string{"n1=10.0.0.1,10.1.0.1", "n2=10.0.0.2,10.1.0.2", "n3=10.0.0.3,10.1.0.3"}
	for name, c := range map[string]struct {
		w    wishes
		says []string
	}{
		"what was found": {wishes{group: "storage", source: "static"}, []string{"- {name: \"n1\"", "\"bond0-7\": \"10.1.0.1\"", "/dev/watchdog1", "#   wwn:6001405abcdef01234567890abcdef01", "iTCO_wdt?evil"}},
		"all flags": {
			wishes{group: "storage", cluster: "prod", source: "static", members: members, luns: []string{"wwn:6001405abcdef01234567890abcdef01"}, watchdog: "/dev/watchdog0", keyFile: "/etc/keys"},
			[]string{"n3", "tieBreak: lun", "/dev/watchdog0", "/etc/keys", "\"prod\""},
		},
		"Nodes":           {wishes{group: "worker", source: "kubernetes", networks: []string{"eth0"}}, []string{"source: kubernetes"}},
		"no such machine": {wishes{group: "worker", source: "static", networks: []string{"eth9"}, members: []string{"a=10.9.0.1", "b=10.9.0.2"}}, []string{"eth9"}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := c.w.draft(found())
			if err != nil {
				t.Fatal(err)
			}
			r, err := config.Review("draft", []byte(text), func(key string) string {
				return map[string]string{config.EnvInCluster: "x", config.EnvNodeName: "n1"}[key]
			})
			if err != nil && (name != "no such machine" || !strings.Contains(err.Error(), "n1")) {
				t.Fatalf("%v\n%s", err, text)
			}
			if err == nil && r.Config.Watchdog.Driver != config.DriverNone {
				t.Error("the first configuration arms a watchdog")
			}
			for _, says := range c.says {
				if !strings.Contains(text, says) {
					t.Errorf("it does not say %q:\n%s", says, text)
				}
			}
		})
	}
}

func TestConfigInitRefuses(t *testing.T) {
	for name, w := range map[string]wishes{
		"too few addresses": {source: "static", members: []string{"n1=10.0.0.1"}},
		"no name":           {source: "static", members: []string{"=10.0.0.1,10.1.0.1"}},
		"no address":        {source: "static", networks: []string{"eth7"}},
	} {
		if text, err := w.draft(found()); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
	if _, err := (&wishes{source: "static"}).draft(&around{}); err == nil {
		t.Error("without a network")
	}
}

// Guard: a file that is there is not written over, and nothing that would be refused is written.
func TestConfigInitWritesNewFilesOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	args := []string{"config", "init", path, "--node-group", "g", "--network", "eth0", "--member", "n1=10.0.0.1", "--member", "n2=10.0.0.2", "--member", "n3=10.0.0.3", "--root", t.TempDir()}
	if code, _, stderr := runIn(t, "", nil, args...); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runIn(t, "", nil, args...); code != exitFailed || !strings.Contains(stderr, "exists") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("changed: %v\n%s", err, after)
	}
	other := path + ".bad"
	bad := append([]string{"config", "init", other}, args[3:]...)
	if code, _, stderr := runIn(t, "", nil, append(bad, "--member", "n3=10.0.0.4")...); code != exitFailed || !strings.Contains(stderr, "nothing was written") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("it was written")
	}
	if code, _, _ := runIn(t, "", nil, "config", "init", other); code != exitUsage {
		t.Errorf("without a group: exit %d", code)
	}
}

// Guard: advice is told as config check tells it, and only of a file that was written.
func TestConfigInitTellsAdviceOfWhatItHasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	args := []string{"config", "init", path, "--node-group", "g", "--network", "eth0", "--member", "n1=10.0.0.1", "--member", "n2=10.0.0.2", "--root", t.TempDir()}
	if code, _, stderr := runIn(t, "", nil, args...); code != exitOK || !strings.HasPrefix(stderr, "fencectl: warning: ") || !strings.Contains(stderr, "\nfencectl: advice: ") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if code, _, stderr := runIn(t, "", nil, args...); code != exitFailed || strings.Count(stderr, "\n") != 1 {
		t.Errorf("the file exists: exit %d: %s", code, stderr)
	}
}

// Guard: members that would not be in the file are refused, and its first lines say how it is checked.
func TestConfigInitFromNodes(t *testing.T) {
	args := []string{"config", "init", "-", "--node-group", "g", "--network", "eth0", "--source", "kubernetes", "--root", t.TempDir()}
	if code, stdout, stderr := runIn(t, "", nil, args...); code != exitOK || !strings.Contains(stdout, "fencectl config check FILE --in-pod\n") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	if code, _, stderr := runIn(t, "", nil, append(args, "--member", "n1=10.0.0.1")...); code != exitUsage || !strings.Contains(stderr, "--member") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
