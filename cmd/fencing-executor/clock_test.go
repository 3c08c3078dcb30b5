package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestClocks(t *testing.T) {
	made := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		made string
		ago  time.Duration // since the Job was created, by this node's clock
		want string
	}{
		{stamp(made), 0, ""}, {stamp(made), 59 * time.Second, ""}, {stamp(made), -15 * time.Second, ""}, {"", -time.Hour, ""},
		{stamp(made), 60 * time.Second, "it is too late"},
		{stamp(made), 80 * time.Second, "20s after that. The Job was made at 2026-03-01T12:00:00Z by the controller's clock"},
		{"", 80 * time.Second, "this node's clock says 2026-03-01T12:01:20Z, 20s after that"},
		{stamp(made), -16 * time.Second, "16s before that; at most 15s are allowed"},
	} {
		err := clock(made.Add(time.Minute), c.made, made.Add(c.ago))
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v after: %v, want %q", c.ago, err, c.want)
		}
	}
}

// A node whose clock is behind does nothing, whatever the request is.
func TestNothingByAClockThatIsBehind(t *testing.T) {
	dir := bench(t, "template=t\naction=off\nplug=1")
	t.Setenv(madeVariable, time.Now().Add(time.Minute).UTC().Format(time.RFC3339))
	code, r, _ := try(t, dir, 2*time.Minute)
	if text := state(t, dir); code != 1 || r.OK || text != "on" || !strings.Contains(r.Message, "clock is wrong") {
		t.Errorf("%d %+v, the plug is %s", code, r, text)
	}
}

func state(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "plug"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
