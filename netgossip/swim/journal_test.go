package swim

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		refused := map[refusal]int{}
		j := newJournal(slog.New(slog.NewTextHandler(&out, nil)), func(r refusal) { refused[r]++ })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); j.run(ctx) }()
		for range 10 {
			for _, line := range []string{
				"[ERR] memberlist: discarding packet with unacceptable label \"x\": from=1.2.3.4:5\n",
				"[ERR] memberlist: Stream: no installed keys could decrypt the message from=1.2.3.4:5\n",
				"[ERR] memberlist: Failed to decode ping request: EOF from=1.2.3.4:5\n",
				"[ERR] memberlist: Push/Pull with n3 failed: timeout\n",
				"[WARN] memberlist: Refuting a suspect message (from: n2)\n",
				"[DEBUG] memberlist: Stream connection from=1.2.3.4:5\n",
				"no level at all",
			} {
				if n, err := j.Write([]byte(line)); n != len(line) || err != nil {
					t.Errorf("Write(%q) = %d, %v", line, n, err)
				}
			}
			time.Sleep(10 * time.Second)
		}
		cancel()
		<-done
		for r, want := range map[refusal]int{refusedLabel: 10, refusedKey: 10, refusedMalformed: 10} {
			if refused[r] != want {
				t.Errorf("%s counted %d times, want %d", r, refused[r], want)
			}
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		// Four kinds of trouble in 100 s: twice each, the second time with a count.
		if len(lines) != 8 || strings.Count(out.String(), "skipped=5") != 4 {
			t.Errorf("log:\n%s", out.String())
		}
		if strings.Contains(out.String(), "Refuting") || strings.Contains(out.String(), "Stream connection") {
			t.Error("noise above debug level")
		}
	})
}

func TestJournalNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(slog.New(slog.DiscardHandler), func(refusal) {})
		j.log = slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))
		for range 10 * cap(j.entries) { // nobody runs it
			j.warn("key", "text")
		}
	})
}

func TestSplitLevel(t *testing.T) {
	for line, want := range map[string]struct {
		level slog.Level
		text  string
	}{
		"[ERR] memberlist: a":   {slog.LevelError, "a"},
		"[ERROR] memberlist: a": {slog.LevelError, "a"},
		"[WARN] memberlist: a":  {slog.LevelWarn, "a"},
		"[INFO] memberlist: a":  {slog.LevelDebug, "a"},
		"[ERR] a: [b] c":        {slog.LevelError, "a: [b] c"},
		"[unfinished":           {slog.LevelDebug, "[unfinished"},
		"":                      {slog.LevelDebug, ""},
	} {
		if level, text := splitLevel(line); level != want.level || text != want.text {
			t.Errorf("splitLevel(%q) = %v, %q", line, level, text)
		}
	}
}
