package vms

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A lab in which nothing can fail proves nothing. These mutants are agents that lack one guard. The scenario that tests
// this guard must fail with the given message.

var mutants = flag.Bool("mutants", false, "run agents with a guard taken away: each must fail its scenario")

// mutantEnv names the variable with the mutant from which the agents of a lab are built.
const mutantEnv = "FENCING_VMS_MUTANT"

// mutant is an agent without one of its guards.
type mutant struct {
	name     string // what is wrong with it
	file     string // below the module's root
	from, to string // from must occur exactly once
	scenario string
	watchdog bool   // the scenario is part of TestWatchdogs
	says     string // a regular expression for the scenario's failure
}

var mutantAgents = []mutant{
	{
		name: "the feeder ignores the deadline", file: "watchdog/wdt/loop.go",
		from: "	if !now.Before(until) || f.sentenced() {\n		f.setStatus(Starved)", to: "	if until < 0 {\n		f.setStatus(Starved)",
		scenario: "one node cut off", says: `n2: reset: n2 was not reset`,
	},
	{
		name: "a half without grant goes on", file: "watchdog/decide.go",
		from:     "return Decision{Action: Starve, Reason: ReasonSplitLost} // at once (L8)",
		to:       "return Decision{Action: Feed, Reason: ReasonSplitLost, Until: in.Now.Add(in.LossLease)}",
		scenario: "equal split", says: `one half is reset: nobody was reset`,
	},
	{
		name: "a verdict is honoured after its time", file: "cmd/fencing-agent/agent/guard.go",
		from: "		until = d.Until\n", to: "		until = now.Add(time.Hour)\n",
		scenario: "paused for 13 s and cut off", says: `n3 was fed .* after it was resumed`,
	},
	{
		name: "a node is taken for dead before its horizon", file: "watchdog/claims.go",
		from: "s.due = s.due.Add(longest)", to: "s.due = s.due.Add(2*time.Second)",
		scenario: "one node cut off", says: `took n2 for dead .* before its reset`,
	},
	{
		name: "nobody holds by the LUN", file: "watchdog/lun.go",
		from: "return c.cfg.Hold && c.hears() && c.cfg.OnLoss", to: "return false && c.hears() && c.cfg.OnLoss",
		scenario: "all networks lost", says: `all hold by the LUN: not within .*: n[1-4] is at`,
	},
	{
		name: "a hold goes on beside those who live", file: "watchdog/lun.go",
		from:     "	if !c.Holds() {\n		h.heard.Vacant = 0\n	}",
		to:       "	if c.Holds() && c.outcome != netgossip.Majority {\n		h.heard = diskquorum.Hearing{Vacant: now.Add(c.cfg.dated())}\n	}",
		scenario: "all networks lost, three find each other first", says: `n4: reset: n4 was not reset`,
	},
	{
		name: "no watchdog is late", file: "watchdog/port.go",
		from: "	if Late(timeout, latest) {\n", to: "	if Late(timeout, latest) && latest < 0 {\n",
		scenario: "iTCO_wdt, strap off", watchdog: true, says: `it has fired after 19.*, and the agent reckons with 10s`,
	},
	{
		name: "what was tried is forgotten with the next boot", file: "cmd/fencing-agent/trials/trials.go",
		from: "	m := calibration.Measured(s.trials, identity, s.Firmware, s.boot)\n", to: "	var m watchdog.Measured\n	_ = calibration.Measured\n",
		scenario: "iTCO_wdt, not in the table", watchdog: true, says: `it has fired after 19.*, and the agent reckons with 10s`,
	},
}

// test returns the name of the test that contains the mutant's scenario.
func (m *mutant) test() string {
	if m.watchdog {
		return "TestWatchdogs"
	}
	return "TestScenarios"
}

// root is the path of the module from this folder.
const root = "../.."

// overlay writes the source of mutants into dir and returns the flag that makes the go command compile it in place of
// the working tree's files.
func overlay(dir string, all ...mutant) (string, error) {
	replace := map[string]string{}
	for _, m := range all {
		path, err := filepath.Abs(filepath.Join(root, m.file))
		if err != nil {
			return "", err
		}
		from := path
		if changed, ok := replace[path]; ok {
			from = changed
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(text), m.from); n != 1 {
			return "", fmt.Errorf("mutant %q: %s has %d times, not once: %s", m.name, m.file, n, m.from)
		}
		replace[path] = filepath.Join(dir, filepath.Base(m.file))
		if err := os.WriteFile(replace[path], []byte(strings.Replace(string(text), m.from, m.to, 1)), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return "-overlay=" + name, os.WriteFile(name, list, 0o600)
}

// chosenMutant returns the mutant that the environment names, or nil.
func chosenMutant() (*mutant, error) {
	name := os.Getenv(mutantEnv)
	if name == "" {
		return nil, nil
	}
	for i := range mutantAgents {
		if mutantAgents[i].name == name {
			return &mutantAgents[i], nil
		}
	}
	return nil, fmt.Errorf("%s: no mutant %q", mutantEnv, name)
}

// TestMutants runs the scenario of each mutant in a separate process, which must fail for the right reason.
func TestMutants(t *testing.T) {
	if !*mutants {
		t.Skip("-mutants (make test-vms KIND=mutants) runs agents without their guards in virtual machines")
	}
	need(t)
	for _, m := range mutantAgents {
		t.Run(m.name, func(t *testing.T) {
			began := time.Now()
			out := runScenario(t.Context(), m)
			test := m.test() + "/" + strings.ReplaceAll(m.scenario, " ", "_")
			if !strings.Contains(out, "--- FAIL: "+test) {
				t.Fatalf("%q did not fail: either nothing there tells this mutant from the agent, or it could not run:\n%s", m.scenario, out)
			}
			says := regexp.MustCompile(".*" + m.says + ".*").FindString(out)
			if says == "" {
				t.Fatalf("%q failed, but not with %q:\n%s", m.scenario, m.says, out)
			}
			t.Logf("%v: %q fails: %s", time.Since(began).Round(time.Second), m.scenario, strings.TrimSpace(says))
		})
	}
}

// runScenario returns the output of the test.
func runScenario(ctx context.Context, m mutant) string {
	pattern := "^" + m.test() + "$/^" + regexp.QuoteMeta(strings.ReplaceAll(m.scenario, " ", "_")) + "$"
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.v", "-test.run", pattern, "-long")
	cmd.Env = append(os.Environ(), mutantEnv+"="+m.name, tableEnv+"=")
	if m.watchdog {
		cmd.Env = append(cmd.Env, kernelEnv+"="+boardKernel)
	}
	// The signal comes when the thread that started the process ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, _ := cmd.CombinedOutput() // it must fail, and its output contains the reason
	return string(out)
}

// TestMutantsApply checks that every mutant in the list still applies to the source.
func TestMutantsApply(t *testing.T) {
	for _, m := range mutantAgents {
		if _, err := overlay(t.TempDir(), m); err != nil {
			t.Error(err)
		}
		known := m.watchdog && slices.ContainsFunc(parts, func(p part) bool { return p.name == m.scenario })
		for _, c := range scenarios {
			known = known || !m.watchdog && c.name == m.scenario
		}
		if !known {
			t.Errorf("mutant %q: no scenario %q", m.name, m.scenario)
		}
	}
}
