package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

// maxChecks keeps a slip of the finger from hours of I/O.
const maxChecks = 1_000_000

func newLunCheckCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check DEVICE",
		Short: "Measure the latency of a LUN",
		Long: `Write and read the LUN's scratch block, time each I/O and compare what is read with what was written.

It is safe while the LUN is in use, and may run on several nodes at once; run it on each node, for each
can have a bad path. An uncontended decision in an equal split takes five I/Os: the arbitration budget
must leave room for that, and lun.ioTimeout for the slowest single one.`,
		Example: `  fencectl lun check /dev/mapper/fence
  fencectl lun check /dev/mapper/fence -n 5000 -o json`,
		Args: operands("DEVICE"),
	}
	count := cmd.Flags().IntP("count", "n", 200, "how many writes and reads, 1 to 1000000")
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n := *count
		if n < 1 || n > maxChecks {
			return usagef("--count: %d is out of range, 1 to %d are possible", n, maxChecks)
		}
		p := newProgress(env)
		r, err := lunadmin.CheckPath(cmd.Context(), args[0], n, func(done int) {
			p.show(fmt.Sprintf("%d of %d rounds", done, n))
		})
		p.done()
		if err != nil {
			return err
		}
		for _, w := range r.Warnings {
			env.warn("warning: " + w)
		}
		return out.print(env.stdout, r, func(t *table) { lunCheckTable(t, r) })
	}
	return cmd
}

func lunCheckTable(t *table, r *lunadmin.CheckReport) {
	t.row("device", fmt.Sprintf("%s (%s)", r.Device.Path, r.Device.Kind))
	t.row("verified", fmt.Sprintf("%d rounds", r.Count))
	if r.Others > 0 {
		t.row("", fmt.Sprintf("in %d of them the check of another node got in between", r.Others))
	}
	t.row("decision", fmt.Sprintf("%.3f ms on a bad day: five times the slower p99", r.Decision))
	t.row()
	t.row("MS", "P50", "P90", "P99", "MAX")
	for _, op := range []struct {
		name string
		l    lunadmin.Latency
	}{{"read", r.Read}, {"write", r.Write}} {
		t.row(op.name, ms(op.l.P50), ms(op.l.P90), ms(op.l.P99), ms(op.l.Max))
	}
}

func ms(v float64) string { return fmt.Sprintf("%.3f", v) }
