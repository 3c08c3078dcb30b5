package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/gossipsim"
)

type detection struct {
	text string
	*gossipsim.Distribution
}

func detections(r *gossipsim.Report) []detection {
	return []detection{
		{"view below quorum", &r.BelowQuorum},
		{"view is exact", &r.ExactView},
		{"lost nodes reported LEFT", &r.Left},
	}
}

// printResult prints all cases in one of the formats.
func printResult(w io.Writer, format string, cases []*gossipsim.Report) error {
	if format == "markdown" {
		return printMarkdown(w, cases)
	}
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	simulateTable(t, cases)
	return t.tabs.Flush()
}

// table collects rows of cells and aligns their columns.
type table struct{ tabs *tabwriter.Writer }

// row adds one row. Errors of the writer are reported when the table is flushed.
func (t *table) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(t.tabs, "\t")
		}
		fmt.Fprint(t.tabs, c)
	}
	fmt.Fprintln(t.tabs)
}

// simulateTable prints a single case in full, and several cases in one row each.
func simulateTable(t *table, cases []*gossipsim.Report) {
	if len(cases) == 1 {
		simulateCase(t, cases[0])
		return
	}
	for _, row := range simulateRows(cases) {
		cells := make([]any, len(row))
		for i, c := range row {
			cells[i] = c
		}
		t.row(cells...)
	}
}

func simulateCase(t *table, r *gossipsim.Report) {
	c := &r.Config
	t.row("scenario", fmt.Sprintf("%s: %d nodes on %d networks, %s, seed %d, %v", c.Scenario, c.Nodes, c.Networks, c.Set, c.Seed, c.Duration))
	for i, f := range r.Schedule {
		if i == 20 {
			t.row("", fmt.Sprintf("and %d more faults", len(r.Schedule)-i))
			break
		}
		t.row("", f)
	}
	if r.Trials > 1 {
		t.row("", fmt.Sprintf("and %d more trials with the next seeds", r.Trials-1))
	}
	t.row()
	t.row("SECONDS UNTIL", "NODES", "MIN", "P50", "P90", "P99", "MAX")
	for _, d := range detections(r) {
		if d.Len() > 0 {
			t.row(d.text, d.Len(), within(r, d, 0), within(r, d, 0.5), within(r, d, 0.9), within(r, d, 0.99), within(r, d, 1))
		}
	}
	t.row()
	t.row("FALSE", "COUNT", "PER NODE-HOUR")
	for _, f := range []struct {
		text  string
		count int
	}{
		{"LEFT of a healthy node", r.False.Reports},
		{"likewise, at a slow node", r.False.AtSlow},
		{"LEFT of a slow node", r.False.OfSlow},
		{"healthy nodes reported by anybody", r.False.Incidents},
		{"LEFT by doubt, of any of these", r.False.ByDoubt},
		{"quorum lost without cause", r.False.QuorumLost},
		{"(not false: LEFTs that a fault explains)", r.Disturbed},
	} {
		t.row(f.text, f.count, perHour(f.count, r))
	}
	t.row()
	t.row("SENT PER NODE AND SECOND", "PACKETS", "B IN PACKETS", "OF THEM EVIDENCE", "B IN STREAMS")
	for _, x := range []struct {
		text string
		gossipsim.Rates
	}{{"mean", r.Mean()}, {"second with the most", r.Peak()}} {
		t.row(x.text, fmt.Sprintf("%.1f", x.Packets), fmt.Sprintf("%.0f", x.Bytes), fmt.Sprintf("%.0f", x.EvidenceBytes), fmt.Sprintf("%.0f", x.StreamBytes))
	}
	t.row()
	t.row("cost", fmt.Sprintf("%.1f virtual s in %.1f s, %d MB", r.Virtual.Seconds(), r.Wall.Seconds(), r.PeakRSS>>20))
}

// within prints a quantile in seconds, or notes that it is beyond the end of the run.
func within(r *gossipsim.Report, d detection, q float64) string {
	switch t, ok := d.Quantile(q); {
	case d.Len() == 0:
		return "-"
	case ok:
		return fmt.Sprintf("%.2f", t.Seconds())
	default:
		return fmt.Sprintf(">%.0f", (r.Config.Duration - time.Second).Seconds())
	}
}

func perHour(count int, r *gossipsim.Report) string {
	if count == 0 {
		return "0"
	}
	return fmt.Sprintf("%.3g", float64(count)/r.NodeHours)
}

// simulateRows returns the table of several cases, beginning with its head.
func simulateRows(cases []*gossipsim.Report) [][]string {
	rows := [][]string{{
		"SCENARIO", "N", "PARAMS", "BELOW QUORUM p50/max", "EXACT p50/max", "LEFT p50/p99/max",
		"FALSE LEFT/h", "INCIDENTS/h", "QUORUM LOST", "OTHER LEFT", "PACKETS/s", "B/s", "EVIDENCE", "STREAMS", "PEAK B/s", "WALL",
	}}
	for _, r := range cases {
		ds := detections(r)
		join := func(d detection, qs ...float64) string {
			if d.Len() == 0 {
				return "-"
			}
			var parts []string
			for _, q := range qs {
				parts = append(parts, within(r, d, q))
			}
			return strings.Join(parts, " / ")
		}
		mean, peak := r.Mean(), r.Peak()
		rows = append(rows, []string{
			scenarioName(&r.Config), fmt.Sprint(r.Config.Nodes), setName(r), join(ds[0], 0.5, 1), join(ds[1], 0.5, 1), join(ds[2], 0.5, 0.99, 1),
			perHour(r.False.Reports+r.False.AtSlow, r), perHour(r.False.Incidents, r), fmt.Sprint(r.False.QuorumLost), fmt.Sprint(r.Disturbed),
			fmt.Sprintf("%.1f", mean.Packets), fmt.Sprintf("%.0f", mean.Bytes+mean.StreamBytes), fmt.Sprintf("%.0f", mean.EvidenceBytes),
			fmt.Sprintf("%.0f", mean.StreamBytes), fmt.Sprintf("%.0f", peak.Bytes+peak.StreamBytes), fmt.Sprintf("%.0fs", r.Wall.Seconds()),
		})
	}
	return withoutEmptyColumns(rows)
}

// withoutEmptyColumns removes the columns that are empty in all cases.
func withoutEmptyColumns(rows [][]string) [][]string {
	for column := len(rows[0]) - 1; column >= 0; column-- {
		if slices.ContainsFunc(rows[1:], func(row []string) bool { return row[column] != "-" }) {
			continue
		}
		for i := range rows {
			rows[i] = slices.Delete(rows[i], column, column+1)
		}
	}
	return rows
}

// setName returns the name of the parameter set, with a note if its group did not form.
func setName(r *gossipsim.Report) string {
	if r.Unformed {
		return r.Config.Set + " (does not form)"
	}
	return r.Config.Set
}

// scenarioName adds the loss to the name, if it was set.
func scenarioName(c *gossipsim.Config) string {
	if c.Link.Loss > 0 {
		return fmt.Sprintf("%s %.3g%%", c.Scenario, 100*c.Link.Loss)
	}
	return c.Scenario
}

// printMarkdown prints the rows as a table for a document.
func printMarkdown(w io.Writer, cases []*gossipsim.Report) error {
	var b strings.Builder
	for i, row := range simulateRows(cases) {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
