package vms

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// row is one reset: when it happened and what led to it, as times after the fault.
type row struct {
	scenario string
	verdict  time.Duration // 0: the agent did not log it
	granted  time.Duration // when the last node of the other half had its verdict; 0: no node won a tie
	lastFeed time.Duration // negative: it was before the fault
	reset    time.Duration
	horizon  time.Duration // 0: the agent did not cause the reset
}

// recorded contains the resets of all scenarios, and passed the number of times each has passed. Later runs add to
// both.
var (
	recorded []row
	passed   = map[string]int{}
)

// feedTolerance is the time by which the harness may hear of a feed late, or the software watchdog may be inexact.
const feedTolerance = time.Second

// note records the times of a reset.
func (s *story) note(node string, cut, reset time.Time) row {
	s.t.Helper()
	r := row{scenario: s.name, reset: reset.Sub(cut)}
	if at, ok := s.decidedAt(node, cut, starved); ok && at.Before(reset) {
		r.verdict = at.Sub(cut)
	}
	for _, other := range s.nodes {
		if at, ok := s.decidedAt(other, cut, wonSplit); ok {
			r.granted = max(r.granted, at.Sub(cut))
		}
	}
	feeds := s.feeds(node, cut.Add(-time.Minute), reset)
	if len(feeds) == 0 {
		s.fatal("%s was reset, and its kernel saw no feed in the minute before the fault", node)
	}
	r.lastFeed = feeds[len(feeds)-1].Sub(cut)
	recorded = append(recorded, r)
	return r
}

// record records the times of a reset and checks them: the watchdog must have fired its timeout after the last feed, or
// after a node that condemned itself shortened the timeout. The reset must also be within the horizon.
func (s *story) record(node string, cut, reset time.Time, horizon time.Duration) {
	s.t.Helper()
	r := s.note(node, cut, reset)
	recorded[len(recorded)-1].horizon = horizon
	s.logf("%s: starve %s, other half granted %s, last feed %s, reset %s", node, known(r.verdict), known(r.granted), seconds(r.lastFeed), seconds(r.reset))
	timeout := s.countdown(node, cut, reset)
	if counted := r.reset - r.lastFeed; counted < timeout-feedTolerance || counted > timeout+feedTolerance {
		s.fatal("%s was reset %v after its last feed, not after the watchdog's %v", node, counted, timeout)
	}
	if timeout == sentenceTimeout {
		s.logf("%s: had condemned its boot", node)
	}
	if r.reset > horizon {
		s.t.Fatalf("%s was reset %v after the fault, later than the published horizon of %v", node, r.reset, horizon)
	}
}

func known(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return seconds(d)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// spread prints least, median and greatest of the known values.
func spread(all []time.Duration) string {
	all = slices.DeleteFunc(all, func(d time.Duration) bool { return d == 0 })
	if len(all) == 0 {
		return "-"
	}
	slices.Sort(all)
	least, middle, most := seconds(all[0]), seconds(all[len(all)/2]), seconds(all[len(all)-1])
	if least == most {
		return least
	}
	return strings.TrimSuffix(least, " s") + " / " + strings.TrimSuffix(middle, " s") + " / " + most
}

// tableEnv names the variable with the Markdown file in which the table between the two marks is replaced.
const tableEnv = "FENCING_VMS_TABLE"

const (
	tableHead  = "| scenario | passed | resets | verdict: starve | other half: granted | last feed | reset | horizon |\n|---|---|---|---|---|---|---|---|\n"
	tableBegin = "<!-- resets of virtual machines -->\n"
	tableEnd   = "<!-- end of resets -->\n"
)

// table returns all scenarios that have passed as a Markdown table, in the order of names.
func table(names []string, passed map[string]int, rows []row) string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, name := range names {
		if passed[name] == 0 {
			continue
		}
		var of []row
		for _, r := range rows {
			if r.scenario == name {
				of = append(of, r)
			}
		}
		column := func(get func(row) time.Duration) string {
			var all []time.Duration
			for _, r := range of {
				all = append(all, get(r))
			}
			return spread(all)
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s | %s | %s |\n", strings.ReplaceAll(name, "|", "\\|"), passed[name], len(of),
			column(func(r row) time.Duration { return r.verdict }), column(func(r row) time.Duration { return r.granted }),
			column(func(r row) time.Duration { return r.lastFeed }), column(func(r row) time.Duration { return r.reset }),
			column(func(r row) time.Duration { return r.horizon }))
	}
	return b.String()
}

// writeTable puts the table of all runs into the requested file.
func writeTable() error {
	path := os.Getenv(tableEnv)
	if path == "" || len(recorded) == 0 {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var names []string
	for _, c := range scenarios {
		names = append(names, c.name)
	}
	changed, err := replaceTable(string(text), table(names, passed, recorded), tableBegin, tableEnd)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(changed), 0o644)
}

// updateTable replaces the table between two marks of a file with one that merge makes from it. Without a path it does
// nothing.
func updateTable(path, begin, end string, merge func(old string) string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), begin)
	old, _, _ := strings.Cut(rest, end)
	changed, err := replaceTable(string(text), merge(old), begin, end)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(changed), 0o644)
}

func replaceTable(text, table, begin, end string) (string, error) {
	before, rest, ok := strings.Cut(text, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("lacks the line %q, or after it the line %q", begin, end)
	}
	return before + begin + "\n" + table + "\n" + end + after, nil
}

func TestReplaceTable(t *testing.T) {
	rows := []row{
		{scenario: "s", verdict: 1500 * time.Millisecond, lastFeed: -time.Second, reset: 9 * time.Second, horizon: time.Minute},
		{scenario: "s", verdict: 1200 * time.Millisecond, lastFeed: time.Second, reset: 8 * time.Second, horizon: time.Minute},
		{scenario: "failed", reset: time.Second},
	}
	of := table([]string{"calm", "s", "failed"}, map[string]int{"s": 1, "calm": 2}, rows)
	got, err := replaceTable("a\n"+tableBegin+"old\n"+tableEnd+"b\n", of, tableBegin, tableEnd)
	want := "a\n" + tableBegin + "\n" + tableHead +
		"| calm | 2 | 0 | - | - | - | - | - |\n| s | 1 | 2 | 1.2 / 1.5 / 1.5 s | - | -1.0 / 1.0 / 1.0 s | 8.0 / 9.0 / 9.0 s | 60.0 s |\n\n" + tableEnd + "b\n"
	if err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := replaceTable("a\n", "", tableBegin, tableEnd); err == nil {
		t.Error("a file without marks was changed")
	}
}
