package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
)

var updateGolden = flag.Bool("update", false, "rewrite testdata/status/*.golden")

// ask runs fencectl against an agent, as if this much time had passed since noon.
func ask(t *testing.T, a *testAgent, late time.Duration, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = run(t.Context(), &environment{
		name: "fencectl", stdin: strings.NewReader(""), stdout: &out, stderr: &errs,
		getenv: func(key string) string { return map[string]string{"TZ": "UTC", envSocket: a.path}[key] },
		now:    func() time.Time { return noon.Add(late) },
	}, args)
	return code, out.String(), errs.String()
}

func TestStatusTable(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			a.set(scene(t, s.name))
			for ending, args := range map[string][]string{".golden": {"status"}, ".verbose.golden": {"status", "-v"}} {
				code, stdout, stderr := ask(t, a, 0, args...)
				if code != exitOK || stderr != "" {
					t.Fatalf("exit %d, stderr %q", code, stderr)
				}
				columns := 80
				if len(args) > 1 {
					columns = 100 // wide enough not to fold the table of nodes
				}
				wantPlain(t, stdout, columns)
				compareGolden(t, filepath.Join("testdata", "status", s.name+ending), stdout)
			}
		})
	}
}

// TestStatusFitsTheTerminal: the first screen is as wide as $COLUMNS, and its content does not depend on the width.
func TestStatusFitsTheTerminal(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	for _, s := range scenes {
		a.set(scene(t, s.name))
		words := map[string]bool{}
		for _, columns := range []string{"60", "80", "100", "1", "many", ""} {
			var out strings.Builder
			env := &environment{
				name: "fencectl", stdin: strings.NewReader(""), stdout: &out, stderr: &out, now: func() time.Time { return noon },
				getenv: func(key string) string {
					return map[string]string{"TZ": "UTC", envSocket: a.path, "COLUMNS": columns}[key]
				},
			}
			if code := run(t.Context(), env, []string{"status"}); code != exitOK {
				t.Fatalf("%s: exit %d: %s", s.name, code, out.String())
			}
			wantPlain(t, out.String(), map[string]int{"60": 60, "100": 100, "1": 60}[columns]+map[string]int{"80": 80, "many": 80, "": 80}[columns])
			words[strings.Join(strings.Fields(out.String()), " ")] = true
		}
		if len(words) != 1 {
			t.Errorf("%s: the words depend on the width: %v", s.name, words)
		}
	}
}

// wantPlain fails the test unless the text is ASCII without control characters, and no line is too long.
func wantPlain(t *testing.T, text string, columns int) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > columns || strings.TrimRight(line, " ") != line {
			t.Errorf("a line of %d bytes, or one with spaces at its end: %q", len(line), line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("not plain text: %q", line)
		}
	}
}

// full returns the complete text of a status.
func full(now time.Time, color bool, st *fencingv1.Status) string {
	v := view.Text{Now: now, Zone: time.UTC, Color: color, Verbose: true}
	return string(v.Render(st))
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *updateGolden {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (go test -update rewrites it); got:\n%s", file, got)
	}
}

func TestStatusShowsAllOnDemand(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	a.set(scene(t, "large"))
	_, some, _ := ask(t, a, 0, "status", "-v")
	_, all, _ := ask(t, a, 0, "status", "--all")
	rows := func(text string) (n int) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "n") && strings.Contains(line, "v0.1.0") {
				n++
			}
		}
		return n
	}
	if got := rows(some); got != 4 { // three nodes with trouble, and this node
		t.Errorf("%d rows are shown of %d, want 4", got, many)
	}
	if got := rows(all); got != many {
		t.Errorf("%d rows are shown with --all", got)
	}
}

// TestStatusJSON reads the printed JSON back, and pins what scripts rely on.
func TestStatusJSON(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	st := scene(t, "split-lost")
	a.set(st)
	code, stdout, stderr := ask(t, a, 0, "status", "-o", "json")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit %d, stderr %q", code, stderr)
	}
	back := new(fencingv1.Status)
	if err := protojson.Unmarshal([]byte(stdout), back); err != nil {
		t.Fatal(err)
	}
	back.Revision = st.Revision // the hub sets its own revision
	if !proto.Equal(st, back) {
		t.Errorf("came back as %v", back)
	}
	// The file also holds the spaces, which protojson varies from build to build.
	compareGolden(t, filepath.Join("testdata", "status", "split-lost.json.golden"), stdout)
}

func TestStatusCheck(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	for _, tt := range []struct {
		scene string
		late  time.Duration
		want  string // part of the error; empty: no error
	}{
		{"healthy", 0, ""},
		{"healthy", -time.Hour, ""}, // the wall clock was set back
		{"network-cut", 0, ""},
		{"network-down", 0, ""},
		{"lun-failed", 0, ""},
		{"split-pending", 0, ""},
		{"split-won", 0, ""},
		{"split-lost", 0, "no permission to feed: equal split (2 of 4), the LUN's grant names the other half"},
		{"maintenance", 0, "no permission to feed: disarmed for maintenance"},
		{"starting", 0, "no permission to feed: starting"},
		{"exclude", 0, "no quorum: this node is cut off"},
		{"standing-still", 0, "the agent stands still, its status is 12s old"},
		{"healthy", 12 * time.Second, "the agent stands still, its status is 12s old"},
	} {
		a.set(scene(t, tt.scene))
		for _, format := range []string{formatTable, formatJSON} {
			code, stdout, stderr := ask(t, a, tt.late, "status", "--check", "-o", format)
			wantCode := exitOK
			if tt.want != "" {
				wantCode = exitFailed
			}
			if code != wantCode || (tt.want == "") != (stderr == "") || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") > 1 {
				t.Errorf("%s after %v: exit %d, stderr %q; want %q", tt.scene, tt.late, code, stderr, tt.want)
			}
			if _, without, _ := ask(t, a, tt.late, "status", "-o", format); stdout != without || stdout == "" {
				t.Errorf("%s: --check changes the output", tt.scene)
			}
		}
	}
}

// A script that checks a node would take exit code 0 to mean that the node is healthy.
func TestHelpIsNoCheck(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	a.set(scene(t, "healthy"))
	for _, args := range [][]string{{"--check", "-h"}, {"--help", "--check"}} {
		if code, stdout, stderr := ask(t, a, 0, append([]string{"status"}, args...)...); code != exitUsage || stdout == "" || !strings.Contains(stderr, "--help checks nothing") {
			t.Errorf("%v: exit %d, stderr %q", args, code, stderr)
		}
	}
	if code, _, stderr := ask(t, a, 0, "status", "--help"); code != exitOK || stderr != "" {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
}

// TestForeignWordsSteerNoTerminal covers what a peer could do with texts that it controls.
func TestForeignWordsSteerNoTerminal(t *testing.T) {
	st := scene(t, "lun-failed")
	nodeOf(st, "n2").Version = "v\x1b[2J\x07\u202e"
	st.Luns[0].Error = "two\nlines and \x1b]0;a title\x07"
	st.Networks[0].Name = "mgm\u00fc"
	text := full(noon, false, st)
	wantPlain(t, text, 100)
	for _, want := range []string{" mgm?  ", " v?[2J??\n", " two lines and ?]0;a title?;"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// TestWordsOfTrouble covers the texts that the scenes do not need.
func TestWordsOfTrouble(t *testing.T) {
	st := scene(t, "healthy")
	st.Luns[0].ForeignWriter, st.Luns[0].Healthy, st.Luns[0].Claimed = true, false, false
	st.Api = &fencingv1.ApiStatus{Configured: true, Age: secs(7)}
	st.TimeBudget.HorizonMajority = secs(99) // computed by a rule that this program does not know
	st.Networks[0].Members[0].EvidenceAge = secs(7)
	st.Networks[1].Members = st.Networks[1].Members[1:]
	st.Watchdog.SentenceBar = fencingv1.SentenceBar_SENTENCE_BAR_WATCHDOG
	st.Watchdog.Nowayout, st.Watchdog.Pretimeout, st.Watchdog.LastBootReset = true, secs(10), true
	n2 := nodeOf(st, "n2")
	n2.SeesThisNode, n2.SameRoster, n2.Stopping = false, false, true
	text := full(noon, false, st)
	for _, want := range []string{
		"FAILED, another writer in this node's slot: two agents run under one name; slot 0 not relied on yet,",
		"lost to a majority: 1m39s in all; known parts: 4s evidence, 5s feed, ", "announces no self-fence: its timeout is too short - nowayout: cannot be disarmed - pretimeout 10s - this boot follows a reset",
		"kube API      NOT REACHABLE 7.0s ago", "answering, but not reaching this node in turn: n2", "with another list of nodes (compare the members in its configuration): n2",
		"\nn2    stopping   ok 7.0s  -        yes      OTHER   ",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestStatusColors(t *testing.T) {
	st := scene(t, "split-lost")
	painted := full(noon, true, st)
	if !strings.Contains(painted, "\x1b[1;31mFEEDING\x1b[0m") {
		t.Errorf("the alarm has no color: %q", painted[:200])
	}
	for _, escape := range []string{"\x1b[32m", "\x1b[33m", "\x1b[1;31m", "\x1b[0m"} {
		painted = strings.ReplaceAll(painted, escape, "")
	}
	if old := full(noon.Add(time.Minute), true, scene(t, "healthy")); strings.Contains(old, "\x1b[32m") {
		t.Errorf("what an agent said that stands still looks good: %q", old)
	}
	// Color changes neither words nor columns.
	if want := full(noon, false, st); painted != want {
		t.Errorf("without its colors it reads\n%s", painted)
	}
}

// TestStatusOfAnEmptyMessage: an agent of another version may leave out anything.
func TestStatusOfAnEmptyMessage(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	for _, st := range []*fencingv1.Status{
		{}, {Nodes: []*fencingv1.NodeStatus{nil, {}}, Networks: []*fencingv1.NetworkStatus{{Members: []*fencingv1.NetworkMember{{}}}}},
		{Verdict: &fencingv1.Verdict{Permission: 99, Reason: 99}, Watchdog: &fencingv1.WatchdogStatus{State: 99}, Nodes: []*fencingv1.NodeStatus{{Name: "x", State: 99}}},
		{Luns: []*fencingv1.LunStatus{{}}, LunLease: &fencingv1.LunLease{Instance: 1}, Api: &fencingv1.ApiStatus{Configured: true}},
	} {
		a.set(st)
		if code, stdout, stderr := ask(t, a, 0, "status"); code != exitOK || !strings.Contains(stdout, "NO VERDICT") {
			t.Errorf("exit %d, stderr %q, stdout\n%s", code, stderr, stdout)
		}
	}
}

// Nothing is parsed from the agent's sentence: with another sentence the page is the same, if the agent sets the
// fields.
func TestAgentsSentenceIsNotTakenApart(t *testing.T) {
	for _, name := range []string{"healthy", "split-won", "split-lost", "split-pending", "lease", "maintenance"} {
		st, page := scene(t, name), view.Text{Now: noon, Zone: time.UTC, Verbose: true}
		want := string(page.Render(st))
		for _, text := range []string{"", "reworded", "of the Lease", "another holder vouches", "names this node: x"} {
			st.Verdict.Text = text
			if got := string(page.Render(st)); got != want {
				t.Errorf("%s, with the sentence %q:\n%s\nwant\n%s", name, text, got, want)
			}
		}
		// An agent from before the fields has everything in its sentence.
		st.Verdict.TieBreaker, st.Verdict.Detail, st.Verdict.GivenUp, st.Verdict.DisarmedBy, st.Verdict.Text = 0, "", "", nil, "the older agent's sentence"
		if got := string(page.Render(st)); !strings.Contains(got, "the older agent's sentence") {
			t.Errorf("%s of an older agent:\n%s", name, got)
		}
	}
}

func TestStatusBeforeTheFirstView(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	code, stdout, stderr := ask(t, a, 0, "status")
	want := fmt.Sprintf("fencectl: agent at %s: the agent has no view of its group yet", a.path)
	if code != exitFailed || stdout != "" || !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
