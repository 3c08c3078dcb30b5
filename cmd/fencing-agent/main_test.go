package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestUsage(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		code   int
		stdout string // the beginning of the expected output
		stderr string // all of the expected output
	}{
		{"help", []string{"--help"}, 0, usage, ""},
		{"short help", []string{"-h"}, 0, usage, ""},
		{"help wins", []string{"--config", "x", "-h"}, 0, usage, ""},
		{"version", []string{"--version"}, 0, "fencing-agent " + versionText() + "\n", ""},
		{"nothing", nil, 2, "", "fencing-agent: --config FILE is missing; see fencing-agent --help\n"},
		{"unknown flag", []string{"--confg", "x"}, 2, "", "fencing-agent: flag provided but not defined: -confg; see fencing-agent --help\n"},
		{"flag without value", []string{"--config"}, 2, "", "fencing-agent: flag needs an argument: -config; see fencing-agent --help\n"},
		{"operand", []string{"--config", "x", "y"}, 2, "", "fencing-agent: unexpected argument \"y\"; see fencing-agent --help\n"},
		{"log format", []string{"--config", "x", "--log-format", "xml"}, 2, "",
			"fencing-agent: --log-format is \"xml\", but must be text or json; see fencing-agent --help\n"},
		{"log level", []string{"--config", "x", "--log-level", "loud"}, 2, "",
			"fencing-agent: --log-level is \"loud\", but must be debug, info, warn or error; see fencing-agent --help\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(tt.args, &stdout, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if stdout.String() != tt.stdout || stderr.String() != tt.stderr {
				t.Errorf("stdout %q\nstderr %q", stdout.String(), stderr.String())
			}
		})
	}
}

func TestUnreadableConfigurationIsAFailure(t *testing.T) {
	var stdout, stderr bytes.Buffer
	path := filepath.Join(t.TempDir(), "none.yaml")
	if code := run([]string{"--config", path}, &stdout, &stderr); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if text := stderr.String(); strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "fencing-agent: read configuration: ") || stdout.Len() > 0 {
		t.Errorf("stdout %q\nstderr %q", stdout.String(), text)
	}
}

// TestEachMistakeIsALine also checks that warnings are log lines beside the errors.
func TestEachMistakeIsALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	const file = `
nodeName: n1
nodeGroup: [worker]
systemNetworks: [{name: mgmt, at: eth0}]
watchdog: {driver: none, onFence: reboot}
members: {static: [{name: n2, addresses: {mgmt: 10.0.0.2}}]}
colour: blue
`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"--config", path}, &stdout, &stderr); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	var mistakes, warnings []string
	for line := range strings.Lines(stderr.String()) {
		var entry struct{ Level, Warning string }
		switch rest, ok := strings.CutPrefix(line, "fencing-agent: "+path+":"); {
		case ok:
			mistakes = append(mistakes, rest)
		case json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "WARN":
			warnings = append(warnings, entry.Warning)
		default:
			t.Errorf("neither a mistake nor a warning: %q", line)
		}
	}
	want := []string{"nodeGroup: ", "members.static: does not list this node", "colour: is not a known key"}
	if len(mistakes) != len(want) {
		t.Errorf("mistakes %q", mistakes)
	}
	for i, w := range want {
		if i < len(mistakes) && !strings.Contains(mistakes[i], w) {
			t.Errorf("mistake %q, want %q", mistakes[i], w)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "watchdog.onFence: has no effect") {
		t.Errorf("warnings %q", warnings)
	}
}

func TestLogFormatAndLevel(t *testing.T) {
	parsed := func(args ...string) flags {
		f, err := parse(append(args, "--config", "x"), &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, tt := range []struct {
		args       []string
		json, info bool
	}{
		{nil, true, true}, // a buffer is not a terminal
		{[]string{"--log-format", "json"}, true, true},
		{[]string{"--log-format", "text"}, false, true},
		{[]string{"--log-level", "warn"}, true, false},
		{[]string{"--log-level", "DEBUG"}, true, true},
	} {
		var out bytes.Buffer
		log := logger(parsed(tt.args...), &out, &out)
		log.Info("info")
		log.Error("error")
		if got := strings.Contains(out.String(), "info"); got != tt.info {
			t.Errorf("%v: info logged: %v", tt.args, got)
		}
		first, _, _ := strings.Cut(out.String(), "\n")
		if got := json.Valid([]byte(first)); got != tt.json {
			t.Errorf("%v: JSON: %v: %s", tt.args, got, first)
		}
	}
}

// TestOutlivesItsOnlookers starts the program with a stderr that is not read, and hangs up its terminal while it waits
// for its configuration: it must still end by itself.
func TestOutlivesItsOnlookers(t *testing.T) {
	const fifoEnv = "FENCING_AGENT_TEST_CONFIG"
	if path := os.Getenv(fifoEnv); path != "" {
		os.Args = []string{"fencing-agent", "--config", path}
		main()
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	r, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env, cmd.Stderr = append(os.Environ(), fifoEnv+"="+fifo), stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = r.Close(), stderr.Close()
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // returns when the program reads it
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	_ = w.Close() // an empty configuration, about which it complains to stderr
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, want exit status 1", cmd.ProcessState)
	}
}
