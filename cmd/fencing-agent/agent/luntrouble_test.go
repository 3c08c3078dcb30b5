package agent

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

func TestTroubleLog(t *testing.T) {
	const patience = 10 * time.Second
	type step struct {
		after   time.Duration // since the step before
		trouble string
		want    string // what is logged
	}
	for name, steps := range map[string][]step{
		"start is given time": {{0, "not opened yet", ""}, {3 * time.Second, "not claimed", ""}, {time.Second, "", ""}, {time.Hour, "", ""}},
		"a bad start is told": {{0, "damaged", ""}, {patience - 1, "damaged", ""}, {1, "damaged", "damaged"}, {time.Hour, "damaged", ""}},
		"at once when it was well, once": {{0, "", ""}, {time.Second, "hangs", "hangs"}, {time.Second, "hangs", ""}, {time.Hour, "hangs", ""}, {1, "", ""},
			{lunCalm - 1, "", ""}, {1, "", "ended"}, {time.Hour, "", ""}, {1, "hangs", "hangs"}},
		"flapping makes one line":    {{0, "", ""}, {1, "hangs", "hangs"}, {lunCalm / 2, "", ""}, {lunCalm / 2, "hangs", ""}, {lunCalm / 2, "", ""}, {lunCalm - 1, "hangs", ""}},
		"another trouble that lasts": {{0, "", ""}, {1, "hangs", "hangs"}, {1, "damaged", ""}, {lunCalm, "damaged", "damaged"}, {1, "hangs", ""}, {1, "damaged", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var l troubleLog
			now := boottime.Instant(time.Hour)
			for i, s := range steps {
				now = now.Add(s.after)
				began, ended := l.note(now, s.trouble, patience)
				got := began
				if ended {
					got = "ended" + began
				}
				if got != s.want {
					t.Fatalf("step %d: logged %q, want %q", i, got, s.want)
				}
			}
		})
	}
}
