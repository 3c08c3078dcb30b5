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
)

var updateGolden = flag.Bool("update", false, "rewrite testdata/status/*.golden")

// ask runs fencectl against an agent, so long after noon.
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
			code, stdout, stderr := ask(t, a, 0, "status")
			if code != exitOK || stderr != "" {
				t.Fatalf("exit %d, stderr %q", code, stderr)
			}
			wantPlain(t, stdout)
			compareGolden(t, filepath.Join("testdata", "status", s.name+".golden"), stdout)
		})
	}
}

// wantPlain demands ASCII without controls, in lines that are not too long.
func wantPlain(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > pageWidth || strings.TrimRight(line, " ") != line {
			t.Errorf("a line of %d bytes, or one with spaces at its end: %q", len(line), line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("not plain text: %q", line)
		}
	}
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
	_, some, _ := ask(t, a, 0, "status")
	_, all, _ := ask(t, a, 0, "status", "--all")
	rows := func(text string) (n int) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "n") && strings.Contains(line, "v0.1.0") {
				n++
			}
		}
		return n
	}
	if got := rows(some); got != 4 { // three with trouble and this node
		t.Errorf("%d rows are shown of %d, want 4", got, many)
	}
	if got := rows(all); got != many {
		t.Errorf("%d rows are shown with --all", got)
	}
}

// TestStatusJSON reads back what is printed, and pins what scripts rely on.
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
	back.Revision = st.Revision // the hub's own
	if !proto.Equal(st, back) {
		t.Errorf("came back as %v", back)
	}
	// The file also holds what protojson varies from build to build, its spaces.
	compareGolden(t, filepath.Join("testdata", "status", "split-lost.json.golden"), stdout)
}

func TestStatusCheck(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	for _, tt := range []struct {
		scene string
		late  time.Duration
		want  string // of the error; empty: none
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

// A script that checks a node takes exit code 0 for its health.
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

// TestForeignWordsSteerNoTerminal: what could be done by a peer that controls its own words.
func TestForeignWordsSteerNoTerminal(t *testing.T) {
	st := scene(t, "lun-failed")
	nodeOf(st, "n2").Version = "v\x1b[2J\x07\u202e"
	st.Luns[0].Error = "two\nlines and \x1b]0;a title\x07"
	st.Networks[0].Name = "mgm\u00fc"
	text := string(statusView{now: noon, zone: time.UTC}.render(st))
	wantPlain(t, text)
	for _, want := range []string{" mgm?  ", " v?[2J??\n", " two lines and ?]0;a title?;"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// TestWordsOfTrouble are those that the scenes do not need.
func TestWordsOfTrouble(t *testing.T) {
	st := scene(t, "healthy")
	st.Luns[0].ForeignWriter, st.Luns[0].Healthy, st.Luns[0].Claimed = true, false, false
	st.Api = &fencingv1.ApiStatus{Configured: true, Age: secs(7)}
	st.TimeBudget.HorizonMajority = secs(99) // reckoned in a way that this program does not know
	st.Networks[0].Members[0].EvidenceAge = secs(7)
	st.Networks[1].Members = st.Networks[1].Members[1:]
	st.Watchdog.SentenceBar = fencingv1.SentenceBar_SENTENCE_BAR_MEMBER
	st.Watchdog.Nowayout, st.Watchdog.Pretimeout, st.Watchdog.LastBootReset = true, secs(10), true
	n2 := nodeOf(st, "n2")
	n2.SeesThisNode, n2.SameRoster, n2.Stopping = false, false, true
	text := string(statusView{now: noon, zone: time.UTC}.render(st))
	for _, want := range []string{
		"FAILED, another writer in this node's slot: two agents run under one name; slot 0 not relied on yet,",
		"lost to a majority: 1m39s in all; known parts: 4s evidence, 5s feed, ", "does not condemn itself: a member's agent is older - nowayout: cannot be disarmed - pretimeout 10s - this boot follows a reset",
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
	painted := string(statusView{now: noon, zone: time.UTC, color: true}.render(st))
	if !strings.Contains(painted, "\x1b[1;31mFEEDING\x1b[0m") {
		t.Errorf("the alarm has no color: %q", painted[:200])
	}
	for _, escape := range append(escapes[good:], "\x1b[0m") {
		painted = strings.ReplaceAll(painted, escape, "")
	}
	if old := string(statusView{now: noon.Add(time.Minute), zone: time.UTC, color: true}.render(scene(t, "healthy"))); strings.Contains(old, escapes[good]) {
		t.Errorf("what an agent said that stands still looks good: %q", old)
	}
	// Color changes neither words nor columns.
	if want := string(statusView{now: noon, zone: time.UTC}.render(st)); painted != want {
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

// Nothing is read out of the agent's sentence: any other one shows the same page, as long as the agent fills in the fields.
func TestAgentsSentenceIsNotTakenApart(t *testing.T) {
	for _, name := range []string{"healthy", "split-won", "split-lost", "split-pending", "lease", "maintenance"} {
		st, page := scene(t, name), statusView{now: noon, zone: time.UTC}
		want := string(page.render(st))
		for _, text := range []string{"", "reworded", "of the Lease", "another holder vouches", "names this node: x"} {
			st.Verdict.Text = text
			if got := string(page.render(st)); got != want {
				t.Errorf("%s, with the sentence %q:\n%s\nwant\n%s", name, text, got, want)
			}
		}
		// An agent from before the fields says it itself.
		st.Verdict.TieBreaker, st.Verdict.Detail, st.Verdict.GivenUp, st.Verdict.DisarmedBy, st.Verdict.Text = 0, "", "", nil, "the older agent's sentence"
		if got := string(page.render(st)); !strings.Contains(got, "the older agent's sentence") {
			t.Errorf("%s of an older agent:\n%s", name, got)
		}
	}
}

// TestConsequences walks through what a verdict can mean for a node.
func TestConsequences(t *testing.T) {
	const (
		feed, hold     = fencingv1.Permission_PERMISSION_FEED, fencingv1.Permission_PERMISSION_HOLD
		starve, disarm = fencingv1.Permission_PERMISSION_STARVE, fencingv1.Permission_PERMISSION_DISARM
		armed, starved = fencingv1.WatchdogState_WATCHDOG_STATE_ARMED, fencingv1.WatchdogState_WATCHDOG_STATE_STARVED
		off, faulty    = fencingv1.WatchdogState_WATCHDOG_STATE_UNARMED, fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY
	)
	device := func(state fencingv1.WatchdogState, running bool, fed float64) *fencingv1.WatchdogStatus {
		return &fencingv1.WatchdogStatus{Driver: "device", State: state, Armed: running, Timeout: secs(30), LastFeedAge: secs(fed)}
	}
	dry := func(state fencingv1.WatchdogState, fed float64) *fencingv1.WatchdogStatus {
		return &fencingv1.WatchdogStatus{Driver: "none", State: state, Timeout: secs(30), LastFeedAge: secs(fed)}
	}
	stuck := device(armed, true, 1)
	stuck.Nowayout = true
	unknown := device(starved, true, 0)
	unknown.Timeout, unknown.LastFeedAge = nil, nil
	for _, tt := range []struct {
		permission fencingv1.Permission
		quorum     bool
		policy     string
		watchdog   *fencingv1.WatchdogStatus
		want       string
	}{
		{feed, true, "fence", device(armed, true, 1), ""},
		{hold, true, "fence", device(armed, true, 1), ""},
		{feed, true, "fence", device(off, false, 0), "but the watchdog is not armed: nothing would reset this node"},
		{feed, true, "fence", device(faulty, true, 0), "but the watchdog is faulty: unknown"},
		{feed, true, "fence", dry(armed, 1), "driver none: a dry run, nothing would reset this node"},
		{feed, false, "exclude", device(armed, true, 1), "policy exclude: it is not reset, consumers are told that it has left"},
		{feed, false, "wait", device(armed, true, 1), "policy wait: it is not reset and goes on"},
		{starve, false, "fence", device(armed, true, 1), "the watchdog resets this node in about 29s, unless it may feed again before"},
		{starve, false, "fence", device(starved, true, 30), "the watchdog should have reset this node 0.0s ago"},
		{starve, false, "fence", device(off, false, 0), "the watchdog is not armed: nothing resets this node"},
		{starve, false, "fence", device(faulty, false, 0), "the watchdog is not armed: nothing resets this node"},
		{starve, false, "fence", unknown, "the watchdog resets this node when its timeout has passed"},
		{starve, false, "fence", dry(starved, 31.5), "driver none: a watchdog would have reset this node 1.5s ago"},
		{starve, false, "fence", dry(armed, 10), "driver none: a watchdog would reset this node in about 20s, unless it may feed again before"},
		{starve, false, "fence", dry(off, 0), "the watchdog is not armed: nothing resets this node"},
		{disarm, true, "fence", device(armed, true, 1), "the watchdog is still armed"},
		{disarm, true, "fence", stuck, "the watchdog cannot be disarmed (nowayout): it stays armed"},
		{disarm, true, "fence", device(off, false, 0), "the watchdog is off: nothing resets this node meanwhile"},
	} {
		st := &fencingv1.Status{
			Verdict:  &fencingv1.Verdict{Permission: tt.permission, Quorum: tt.quorum, OnQuorumLoss: tt.policy},
			Watchdog: tt.watchdog,
		}
		if got := consequence(st).text; got != tt.want {
			t.Errorf("%v with %v: %q, want %q", tt.permission, tt.watchdog, got, tt.want)
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

// TestLinkCells walks through what can be known of a peer on a network.
func TestLinkCells(t *testing.T) {
	for want, member := range map[string]*fencingv1.NetworkMember{
		"ok 0.3s":    {Alive: true, Reachable: true, EvidenceAge: secs(0.3), StateAge: secs(60)},
		"STALE 5.1s": {Alive: true, EvidenceAge: secs(5.1), StateAge: secs(1.1)},
		"LOST 5.1s":  {EvidenceAge: secs(5.1), StateAge: secs(1.1)},
		"LOST >1.1s": {StateAge: secs(1.1)}, // of an older agent, which forgets the answer when memberlist declares a death
		"NEVER":      {Alive: true},
	} {
		member.Name = "n2"
		m := newMatrix(&fencingv1.Status{
			Self:     &fencingv1.NodeIdentity{Name: "n1"},
			Networks: []*fencingv1.NetworkStatus{{Name: "mgmt", Up: true, Members: []*fencingv1.NetworkMember{member}}},
		})
		if got := m.link(0, "n2").text; got != want {
			t.Errorf("%v is shown as %q, want %q", member, got, want)
		}
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0s", 99 * time.Millisecond: "0.0s", 3210 * time.Millisecond: "3.2s", 9990 * time.Millisecond: "9.9s",
		59900 * time.Millisecond: "59s", 185 * time.Second: "3m05s", 7800 * time.Second: "2h10m",
		103 * time.Hour: "4d07h", -1500 * time.Millisecond: "-1.5s",
	} {
		if got := brief(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		time.Minute: "1m", 90 * time.Second: "1m30s", 2 * time.Hour: "2h", 1500 * time.Millisecond: "1.5s", 40 * time.Second: "40s",
	} {
		if got := exact(secs(d.Seconds())); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}
