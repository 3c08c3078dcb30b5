//go:build linux

package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

// maxChecks keeps a typing error from causing hours of I/O.
const maxChecks = 1_000_000

func newLunCheckCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check DEVICE",
		Short: "Measure a LUN, and see whether nodes share it",
		Long: `Write and read the LUN's scratch block, time each I/O and compare what is read with what was written.
Nothing else is written, and no agent reads that block. With --read-only nothing is written at all: the
slot table is read as agents read it.

It is safe while the LUN is in use, and may run on several nodes at once; run it on each node, for each
can have a bad path. From an equal split until a half feeds by the grant it takes up to six writes, each
with a read after it. Whether that is in time depends on lun.heartbeatInterval and lun.ioTimeout, as in
"fencectl config timing", and is said here for each timing with its defaults. lun.ioTimeout must leave
room for the slowest single I/O.

That two nodes really see one LUN, without a cache in between, is seen when it runs on both at once, for
some seconds (-n 20000): each then reads now and then what the other one has written, and says how often.
A node that does not say so sees another LUN, or a cache.

` + exitCodes,
		Example: `  fencectl lun check /dev/mapper/fence
  fencectl lun check /dev/mapper/fence --read-only
  fencectl lun check /dev/mapper/fence -n 20000 -o json`,
		Args: operands("DEVICE"),
	}
	flags := cmd.Flags()
	count := flags.IntP("count", "n", 200, "how many writes and reads, 1 to 1000000")
	readOnly := flags.Bool("read-only", false, "write nothing, time reads of the slot table")
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n := *count
		if n < 1 || n > maxChecks {
			return usagef("--count is %d, but must be 1 to %d", n, maxChecks)
		}
		p := newProgress(env)
		r, err := lunadmin.Check(cmd.Context(), args[0], lunadmin.CheckOptions{Count: n, ReadOnly: *readOnly, Progress: func(done int) {
			p.show(fmt.Sprintf("%d of %d rounds", done, n))
		}})
		p.done()
		if err != nil {
			return err
		}
		if len(decidedInTime(r)) == 0 {
			r.Warnings = append(r.Warnings, "the I/O is so slow that no timing decides an equal split in time: see docs/tuning.md")
		}
		env.warnings(r.Warnings)
		if err := out.print(env.stdout, r, func(t *table) { lunCheckTable(t, r) }); err != nil {
			return err
		}
		return damagedError(args[0], r.Damage)
	}
	return cmd
}

// decidedInTime lists the timings whose defaults allow an equal split to be decided within A on a bad day, as "fencectl
// config timing" computes it.
func decidedInTime(r *lunadmin.CheckReport) (out []string) {
	for _, t := range config.Timings() {
		if r.Round() <= 2*float64(config.ForTiming(t, 2, true).SlowestIO())/float64(time.Millisecond) {
			out = append(out, string(t))
		}
	}
	return out
}

func lunCheckTable(t *table, r *lunadmin.CheckReport) {
	t.row("device", fmt.Sprintf("%s (%s)", r.Device.Path, r.Device.Kind))
	if r.Set != nil {
		t.row("set", r.Set.String())
	}
	t.row("verified", fmt.Sprintf("%d rounds", r.Count))
	if r.Others > 0 {
		t.row("shared", fmt.Sprintf("in %d of them the check of another node got in between: it sees this LUN, too", r.Others))
	}
	t.row("damage", cmp.Or(strings.Join(r.Damage, "; "), "none: superblock and slots can be read"))
	t.row("wrote", cmp.Or(r.Wrote, "nothing"))
	t.row("decision", fmt.Sprintf("%.3f ms of I/O on a bad day: %d writes and reads at their p99", r.Decision, diskquorum.RoundsToFeed(2)))
	t.row("", "in time with timing: "+cmp.Or(strings.Join(decidedInTime(r), ", "), "none"))
	t.row()
	t.row("MS", "P50", "P90", "P99", "MAX")
	t.row("read", ms(r.Read.P50), ms(r.Read.P90), ms(r.Read.P99), ms(r.Read.Max))
	if r.Wrote != "" {
		t.row("write", ms(r.Write.P50), ms(r.Write.P90), ms(r.Write.P99), ms(r.Write.Max))
	}
}

func ms(v float64) string { return fmt.Sprintf("%.3f", v) }
