package main

import (
	"cmp"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// timingRow is one line of the table of times. Durations print as "1m20s" in JSON, too.
type timingRow struct {
	Timing   config.Timing `json:"timing"`
	Nodes    int           `json:"nodes"`
	DMax     string        `json:"dMax"`
	A        string        `json:"a"`
	G        string        `json:"g"`
	F        string        `json:"f"`
	W        string        `json:"w"`
	IO       string        `json:"slowestIO"` // longest I/O with which an equal split is decided within A
	Majority string        `json:"deadAfterMajority"`
	Tie      string        `json:"deadAfterTie,omitempty"` // for an even number of nodes
	Fenced   string        `json:"fencedAfter"`            // the later of the two, and the time to prove it, measured from when the other nodes miss the node
}

func newTimingRow(t config.Timing, n int) timingRow {
	c := config.ForTiming(t, n)
	w := c.Watchdog.Timeout
	b := c.Budget(w)
	r := timingRow{
		Timing: t, Nodes: n, DMax: b.MaxAge.String(), A: b.Arbitrate.String(), G: b.Grant.String(), F: b.Feed.String(), W: w.String(), IO: c.SlowestIO().String(),
		Majority: b.Majority().String(), Fenced: (b.Horizon() + watchdog.ProofDelay).Round(100 * time.Millisecond).String(),
	}
	if n%2 == 0 {
		r.Tie = b.Tie().String()
	}
	return r
}

func newConfigTimingCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "timing [N...]",
		Short: "Print how long a lost node may live, for each timing",
		Long: `Print the time budget of the timings fast, default and careful for groups of N nodes.

DEAD is the time from the loss of a node, to a majority or in an equal split, until it cannot be
running any more: D_max + F + 2 W + 1s, or max(D_max + A, G) + F + 2 W + 1s. FENCED is when its
death is proven to consumers: the longer of the two and 1.5 s. That counts from when the others miss the
node, some 2 s after the loss and D_max at the latest, in an equal split from the grant; groups of hundreds
need some 2 s more, and groups with agents of an older version 7 s. I/O is how long each I/O on the LUN may take for an equal split
to be decided within A. What a configuration file comes to is said by "fencectl config check".`,
		Example: `  fencectl config timing
  fencectl config timing 4 16 -o json`,
	}
	out := newPrinter(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		sizes := []int{2, 3, 4, 10, 50, 100, 300, 1000}
		if len(args) > 0 {
			sizes = nil
		}
		for _, a := range args {
			n, err := strconv.Atoi(a)
			if err != nil || n < 1 || n > 1024 {
				return usagef("nodes is %q, but must be 1 to 1024", a)
			}
			sizes = append(sizes, n)
		}
		var rows []timingRow
		for _, t := range config.Timings() {
			for _, n := range sizes {
				rows = append(rows, newTimingRow(t, n))
			}
		}
		return out.print(env.stdout, rows, func(t *table) {
			t.row("TIMING", "N", "D_MAX", "A", "G", "F", "W", "I/O", "DEAD, MAJORITY", "DEAD, TIE", "FENCED")
			for _, r := range rows {
				t.row(r.Timing, r.Nodes, r.DMax, r.A, r.G, r.F, r.W, r.IO, r.Majority, cmp.Or(r.Tie, "-"), r.Fenced)
			}
		})
	}
	return cmd
}
