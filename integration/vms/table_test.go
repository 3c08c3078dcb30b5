package vms

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// row is one reset: when it happened and what led to it, as times since the fault.
type row struct {
	scenario, node string
	verdict        time.Duration // 0: the agent did not say
	granted        time.Duration // when the last of the other half had its verdict; 0: no tie was won
	lastFeed       time.Duration // negative: before the fault
	reset          time.Duration
	horizon        time.Duration
}

// recorded are the resets of all scenarios.
var recorded []row

// feedTolerance is how late the harness may hear of a feed, and how exact the software watchdog is.
const feedTolerance = time.Second

// record keeps the times of a reset and checks them: the watchdog must have fired its timeout after the last feed,
// and all of it within the horizon.
func (s *story) record(node string, cut, reset time.Time, horizon time.Duration) {
	s.t.Helper()
	r := row{scenario: s.name, node: node, reset: reset.Sub(cut), horizon: horizon}
	if at, ok := s.decidedAt(node, cut, starved); ok && at.Before(reset) {
		r.verdict = at.Sub(cut)
	}
	for _, other := range nodes {
		if at, ok := s.decidedAt(other, cut, wonSplit); ok {
			r.granted = max(r.granted, at.Sub(cut))
		}
	}
	feeds := s.feeds(node, cut.Add(-time.Minute), reset)
	if len(feeds) == 0 {
		s.fatal("%s was reset, and its kernel saw no feed in the minute before the fault", node)
	}
	last := feeds[len(feeds)-1]
	r.lastFeed = last.Sub(cut)
	recorded = append(recorded, r)
	s.logf("%s", r)
	if counted := reset.Sub(last); counted < watchdogTimeout-feedTolerance || counted > watchdogTimeout+feedTolerance {
		s.fatal("%s was reset %v after its last feed, not after the watchdog's %v", node, counted, watchdogTimeout)
	}
	if r.reset > horizon {
		s.t.Fatalf("%s was reset %v after the fault, later than the published horizon of %v", node, r.reset, horizon)
	}
}

func (r row) String() string {
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |", r.scenario, r.node, known(r.verdict), known(r.granted),
		seconds(r.lastFeed), seconds(r.reset), seconds(r.horizon))
}

func known(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return seconds(d)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// tableEnv names a Markdown file in which the table between the two marks is replaced.
const tableEnv = "FENCING_VMS_TABLE"

const (
	tableHead  = "| scenario | node | verdict: starve | other half: granted | last feed | reset | horizon |\n|---|---|---|---|---|---|---|\n"
	tableBegin = "<!-- resets of virtual machines -->\n"
	tableEnd   = "<!-- end of resets -->\n"
)

// table is all resets as Markdown.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, r := range rows {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}

// writeTable puts the table into the file that was asked for.
func writeTable() error {
	path := os.Getenv(tableEnv)
	if path == "" || len(recorded) == 0 {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := replaceTable(string(text), table(recorded), tableBegin, tableEnd)
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
	r := row{scenario: "s", node: "n1", verdict: 1500 * time.Millisecond, lastFeed: -time.Second, reset: 9 * time.Second, horizon: time.Minute}
	got, err := replaceTable("a\n"+tableBegin+"old\n"+tableEnd+"b\n", table([]row{r}), tableBegin, tableEnd)
	want := "a\n" + tableBegin + "\n" + tableHead +
		"| s | n1 | 1.5 s | - | -1.0 s | 9.0 s | 60.0 s |\n\n" + tableEnd + "b\n"
	if err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := replaceTable("a\n", "", tableBegin, tableEnd); err == nil {
		t.Error("a file without marks was changed")
	}
}
