package vms

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// partsEnv names the variable with the Markdown file whose table of watchdogs is updated.
const partsEnv = "FENCING_VMS_WATCHDOGS"

const (
	partsHead  = "| watchdog | runs | set, read back | fires after | in the file | horizon before, after the trial | starved, killed late: reset | FENCED | without the delay |\n|---|---|---|---|---|---|---|---|---|\n"
	partsBegin = "<!-- watchdogs of virtual machines -->\n"
	partsEnd   = "<!-- end of watchdogs -->\n"
)

// partRows returns the rows of all runs, one for each part.
func partRows(rows []shown) string {
	var names []string
	of := map[string][]shown{}
	for _, r := range rows {
		if len(of[r.name]) == 0 {
			names = append(names, r.name)
		}
		of[r.name] = append(of[r.name], r)
	}
	var b strings.Builder
	for _, name := range names {
		all := of[name]
		column := func(get func(shown) time.Duration) string {
			var values []time.Duration
			for _, r := range all {
				values = append(values, get(r))
			}
			return spread(values)
		}
		r := all[len(all)-1]
		fires := column(func(r shown) time.Duration { return r.unfed })
		if r.fires == 0 {
			fires = "never"
		}
		fmt.Fprintf(&b, "| %s (%s) | %d | %s, %s | %s | %s | %s, %s | %s | %s | %s |\n", name, r.board, len(all), seconds(r.set),
			column(func(r shown) time.Duration { return r.read }), fires, r.file(),
			column(func(r shown) time.Duration { return r.before }), column(func(r shown) time.Duration { return r.after }),
			column(func(r shown) time.Duration { return r.killed }), column(func(r shown) time.Duration { return r.dead }),
			column(func(r shown) time.Duration { return r.bare }))
	}
	return b.String()
}

// file summarizes the file that the trial left on disk.
func (r shown) file() string {
	switch {
	case r.outside:
		return "no trial"
	case r.fires == 0:
		return "`failed`"
	}
	return r.says
}

// collected contains the rows of all runs of this process.
var collected []shown

func writeParts(rows []shown) error {
	collected = append(collected, rows...)
	return updateTable(os.Getenv(partsEnv), partsBegin, partsEnd, func(string) string { return partsHead + partRows(collected) })
}

func TestPartRows(t *testing.T) {
	p := part{name: "late", board: "q35", fires: 19200 * time.Millisecond}
	r := shown{part: p, set: 10 * time.Second, read: 10 * time.Second, unfed: 19200 * time.Millisecond, says: "ran", before: time.Minute, after: time.Minute, killed: 36 * time.Second, dead: time.Minute, bare: 30 * time.Second}
	later := r
	later.unfed += time.Second
	want := "| late (q35) | 2 | 10.0 s, 10.0 s | 19.2 / 20.2 / 20.2 s | ran | 60.0 s, 60.0 s | 36.0 s | 60.0 s | 30.0 s |\n"
	if got := partRows(slices.Concat([]shown{r}, []shown{later})); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
