package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/history"
)

// pastFile writes the file of an agent whose node was reset, and which was then stopped in an orderly way.
func pastFile(t *testing.T, present bool) string {
	t.Helper()
	at := func(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }
	records := []history.Record{
		{Boot: 0x024bc581b3a34be3, Wall: at(0), Kind: history.Started, Text: "version v0.1.0"},
		{Boot: 0x024bc581b3a34be3, Wall: at(2), Kind: history.Decision, Action: "feed", Reason: "network_quorum", Quorum: true, Text: "majority of the group is reachable (4 of 4, 3 needed)"},
		{Boot: 0x024bc581b3a34be3, Wall: at(2.4), Kind: history.Watchdog, Text: "armed", Armed: true},
		{Boot: 0x024bc581b3a34be3, Wall: at(32), Kind: history.Sample, Armed: true, Slack: 25 * time.Second, Write: 2 * time.Millisecond, Read: time.Millisecond},
		{Boot: 0x024bc581b3a34be3, Wall: at(40), Kind: history.Gone, Nodes: []string{"n1", "n2"}},
		{Boot: 0x024bc581b3a34be3, Wall: at(43.1), Kind: history.Decision, Action: "hold", Reason: "split_pending", Quorum: true, Text: "equal split (2 of 4), being decided"},
		{Boot: 0x024bc581b3a34be3, Wall: at(45.2), Kind: history.Decision, Action: "starve", Reason: "split_lost", Text: "equal split (2 of 4), the LUN's grant names the other half"},
		{Boot: 0x024bc581b3a34be3, Wall: at(45.2), Kind: history.LastWords, Reason: "split_lost", Armed: true, Text: "equal split (2 of 4), the LUN's grant names the other half"},
		{Boot: 0x53f1c0de0badcafe, Wall: at(160), Kind: history.Started, Text: "version v0.1.0"},
		{Boot: 0x53f1c0de0badcafe, Wall: at(200), Kind: history.Stopped},
	}
	if present {
		records = append(records, history.Record{Boot: presentBoot(), Wall: at(300), Kind: history.Started, Text: "version v0.2.0"})
	}
	const slots = 32
	b := make([]byte, history.Size(slots))
	copy(b, history.Header(slots))
	for i := range records {
		records[i].Seq = uint64(i + 1)
		copy(b[history.Offset(int(records[i].Seq)%slots):], history.Encode(&records[i]))
	}
	path := filepath.Join(t.TempDir(), "members-history")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func askHistory(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = run(t.Context(), &environment{
		name: "fencectl", stdin: strings.NewReader(""), stdout: &out, stderr: &errs,
		getenv: func(key string) string { return map[string]string{"TZ": "UTC"}[key] }, now: func() time.Time { return noon },
	}, append([]string{"history"}, args...))
	return code, out.String(), errs.String()
}

func TestHistory(t *testing.T) {
	path := pastFile(t, false)
	code, stdout, stderr := askHistory(t, "--file", path, "--boot", "-2")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit %d, %q", code, stderr)
	}
	wantPlain(t, stdout, 80)
	compareGolden(t, filepath.Join("testdata", "history.golden"), stdout)

	_, stdout, _ = askHistory(t, "--file", path)
	for _, want := range []string{"boot -2 (024bc581b3a34be3) ended NOT FED:", "boot -1 (53f1c0de0badcafe) ended after a planned stop of the agent:"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
	_, stdout, _ = askHistory(t, "--file", pastFile(t, true))
	for _, want := range []string{"boot -2 (024b", "boot -1 (53f1", "boot 0 (", ") goes on"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
}

func TestHistoryJSON(t *testing.T) {
	code, stdout, _ := askHistory(t, "--file", pastFile(t, false), "-o", "json", "--boot", "024bc581b3a34be3")
	var boots []pastBoot
	if err := json.Unmarshal([]byte(stdout), &boots); err != nil || code != exitOK {
		t.Fatalf("exit %d, %v", code, err)
	}
	if len(boots) != 1 || boots[0].Number != -2 || boots[0].End != history.EndStarved || boots[0].Reason != "split_lost" || len(boots[0].Records) != 8 {
		t.Errorf("%+v", boots)
	}
}

func TestHistoryThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "members.json")
	if err := os.WriteFile(foreign, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--file", filepath.Join(dir, "none")}, "does not exist: if the agent's members.cacheFile has another path, say so with --file"},
		{[]string{"--file", foreign}, "is not a history of fencing-agent; give the file"},
		{[]string{"--file", dir}, "is not a regular file"},
		{[]string{"--file", pastFile(t, false), "--boot", "-7"}, "no boot -7 in"},
	} {
		code, stdout, stderr := askHistory(t, c.args...)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
}
