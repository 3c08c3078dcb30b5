package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// guide is the page about fencectl.
func guide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "fencectl.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGuideShowsWhatIsPrinted: the examples in the guide equal the golden files.
func TestGuideShowsWhatIsPrinted(t *testing.T) {
	for _, scene := range []string{"status/healthy", "status/split-lost", "status/healthy.verbose", "status/split-lost.verbose", "history"} {
		printed, err := os.ReadFile(filepath.Join("testdata", scene+".golden"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(guide(t), "```\n"+string(printed)+"```\n") {
			t.Errorf("docs/fencectl.md does not show %s as it is printed: copy the golden file there", scene)
		}
	}
	if !strings.Contains(guide(t), "```\n"+strings.TrimPrefix(eventLines, "\n")+"```\n") {
		t.Error("docs/fencectl.md does not show the events as they are printed: copy eventLines there")
	}
}

// TestGuideNamesFieldsThatExist looks up every path of the page in printed JSON.
func TestGuideNamesFieldsThatExist(t *testing.T) {
	printed, err := os.ReadFile(filepath.Join("testdata", "status", "split-lost.json.golden"))
	if err != nil {
		t.Fatal(err)
	}
	var status any
	if err := json.Unmarshal(printed, &status); err != nil {
		t.Fatal(err)
	}
	paths := regexp.MustCompile("`((?:\\.[a-zA-Z]+(?:\\[\\])?)+)`").FindAllStringSubmatch(guide(t), -1)
	if len(paths) < 20 {
		t.Fatalf("only %d paths found on the page", len(paths))
	}
	for _, path := range paths {
		at := status
		for _, step := range strings.Split(strings.TrimPrefix(path[1], "."), ".") {
			name, list := strings.CutSuffix(step, "[]")
			fields, ok := at.(map[string]any)
			if at, ok = fields[name], ok && fields[name] != nil; !ok {
				t.Errorf("%s: there is no %s", path[1], name)
				break
			}
			if list {
				at = at.([]any)[0]
			}
		}
	}
}

// TestGuideNamesEveryCommand: the guide must not leave out a command.
func TestGuideNamesEveryCommand(t *testing.T) {
	for _, c := range newRootCommand(&environment{name: "fencectl"}).Commands() {
		if !strings.Contains(guide(t), "`"+c.Name()+"`") && !strings.Contains(guide(t), "`"+c.Name()+" ") {
			t.Errorf("docs/fencectl.md does not mention %s", c.Name())
		}
	}
}

// TestTuningShowsTheTimings: the table of the times until death equals the output.
func TestTuningShowsTheTimings(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "tuning.md"))
	if err != nil {
		t.Fatal(err)
	}
	code, out, diag := runIn(t, "", nil, "config", "timing")
	if code != 0 {
		t.Fatalf("config timing: %d, %s", code, diag)
	}
	if !strings.Contains(string(text), "```\n"+out+"```\n") {
		t.Errorf("docs/tuning.md does not show what `fencectl config timing` prints: copy this there:\n%s", out)
	}
}

// TestReadmeShowsTheSums: what a cut and a crash cost with the examples of the README is what `config timing` prints.
func TestReadmeShowsTheSums(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	sum := func(timing config.Timing, lun bool, set func(*config.Config)) (cut, crash int) {
		c := config.ForTiming(timing, 4, lun)
		set(c)
		return int(math.Round(c.Announced().Seconds())), int(math.Ceil((c.Budget(c.LatestReset()).Horizon() + watchdog.ProofDelay).Seconds()))
	}
	asItIs := func(*config.Config) {}
	for _, timing := range []config.Timing{config.TimingDefault, config.TimingFast} {
		cut, crash := sum(timing, true, asItIs)
		if row := fmt.Sprintf(" | %d s; %d s if it cannot write to the LUN | %d s |\n", cut, crash, crash); !strings.Contains(string(text), row) {
			t.Errorf("%s with a LUN: the README lacks %q", timing, row)
		}
	}
	_, late := sum(config.TimingDefault, true, func(c *config.Config) { c.Watchdog.Device = "identity:iTCO_wdt" })
	_, without := sum(config.TimingDefault, false, asItIs)
	_, lease := sum(config.TimingDefault, false, func(c *config.Config) { c.Members.Source = config.SourceKubernetes })
	for what, crash := range map[string]int{"`iTCO_wdt`": late, "without a LUN": without, "a Lease of the API server": lease} {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^\|.*%s.* \| %d s \| %[2]d s \|$`, what, crash)).Match(text) {
			t.Errorf("%s: the README lacks %d s", what, crash)
		}
	}
}

// TestConsumersShowAScriptThatWorks: the script on the page runs its failover only for a node that is fenced.
func TestConsumersShowAScriptThatWorks(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "consumers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(text), "```sh\n")
	script, _, ok := strings.Cut(script, "```\n")
	if !ok || !strings.Contains(script, "do-failover") {
		t.Fatal("docs/consumers.md has no script")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "fencectl")); err != nil { // TestMain is fencectl under that name
		t.Fatal(err)
	}
	for name, text := range map[string]string{"failover": script, "do-failover": "#!/bin/sh\necho taken over from \"$1\"\n"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a := liveAgent(t, "peer-fenced")
	for _, c := range []struct {
		node, limit string
		code        int
		last        string
	}{
		{"n4", "3m", exitOK, "taken over from n4\n"},
		{"n3", "300ms", exitTimeout, "nothing was taken over from n3\n"},
		{"n", "3m", exitFailed, "nothing was taken over from n\n"},
		{"", "3m", exitFailed, "nothing was taken over from \n"},
		{"-h", "3m", exitFailed, "nothing was taken over from -h\n"},
		{"--help", "3m", exitFailed, "nothing was taken over from --help\n"},
	} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", filepath.Join(bin, "failover"), c.node)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), envSocket+"="+a.path, "LIMIT="+c.limit)
		out, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != c.code || !strings.HasSuffix(string(out), c.last) {
			t.Errorf("failover %q: exit code %d, want %d, and at last %q; got:\n%s", c.node, got, c.code, c.last, out)
		}
	}
}
