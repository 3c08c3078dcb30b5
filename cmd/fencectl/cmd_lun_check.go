//go:build linux

package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

// maxChecks keeps a slip of the finger from hours of I/O.
const maxChecks = 1_000_000

func newLunCheckCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check DEVICE",
		Short: "Measure a LUN, and check that two nodes share it",
		Long: `Write and read the LUN's scratch block, time each I/O and compare what is read with what was written.
Nothing else is written, and no agent reads that block. With --read-only nothing is written at all: the
slot table is read as agents read it.

Of a SCSI device it also asks, and tells, whether persistent reservations and COMPARE AND WRITE are
offered. Agents need neither.

It is safe while the LUN is in use, and may run on several nodes at once; run it on each node, for each
can have a bad path. From an equal split until a half feeds by the grant it takes up to six writes, each
with a read after it. Whether that is in time depends on lun.heartbeatInterval and lun.ioTimeout, as in
"fencectl config timing", and is said here for each timing with its defaults. lun.ioTimeout must leave
room for the slowest single I/O.

That two nodes really see one LUN, without a cache in between and without half written blocks, is
checked by both together:

  1. on the first node:   fencectl lun check DEVICE --share      prints a nonce and waits
  2. on the second node:  fencectl lun check DEVICE --answer NONCE

Each then answers 50 times what the other one wrote into the scratch block. Both say whether it worked.
Repeat it with each further node as the second one.

` + exitCodes,
		Example: `  fencectl lun check /dev/mapper/fence
  fencectl lun check /dev/mapper/fence --read-only
  fencectl lun check /dev/mapper/fence -n 5000 -o json
  fencectl lun check /dev/mapper/fence --share
  fencectl lun check /dev/mapper/fence --answer 3c1d8a9e0b7f2461`,
		Args: operands("DEVICE"),
	}
	flags := cmd.Flags()
	count := flags.IntP("count", "n", 200, "how many writes and reads, 1 to 1000000")
	readOnly := flags.Bool("read-only", false, "write nothing, time reads of the slot table")
	share := flags.String("share", "", "be the first node of a check by two; --share=NONCE chooses the nonce")
	flags.Lookup("share").NoOptDefVal = newNonce
	answer := flags.String("answer", "", "be the second node: the nonce that the first one printed")
	wait := flags.Duration("wait", 2*time.Minute, "with --share and --answer: how long to wait for the other node")
	cmd.MarkFlagsMutuallyExclusive("share", "answer", "read-only")
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *share != "" || *answer != "" {
			return lunShare(cmd, env, out, args[0], *share, *answer, *wait)
		}
		n := *count
		if n < 1 || n > maxChecks {
			return usagef("--count: %d is out of range, 1 to %d are possible", n, maxChecks)
		}
		p := newProgress(env)
		r, err := lunadmin.CheckPath(cmd.Context(), args[0], n, *readOnly, func(done int) {
			p.show(fmt.Sprintf("%d of %d rounds", done, n))
		})
		p.done()
		if err != nil {
			return err
		}
		if len(decidedInTime(r)) == 0 {
			r.Warnings = append(r.Warnings, "the I/O is so slow that an equal split is decided in time with no timing: see docs/tuning.md")
		}
		for _, w := range r.Warnings {
			env.warn("warning: " + w)
		}
		if err := out.print(env.stdout, r, func(t *table) { lunCheckTable(t, r) }); err != nil {
			return err
		}
		return damagedError(args[0], r.Damage)
	}
	return cmd
}

// newNonce asks for a nonce to be made.
const newNonce = "new"

func lunShare(cmd *cobra.Command, env *environment, out *printer, device, share, answer string, wait time.Duration) error {
	text := share + answer
	var nonce uint64
	var err error
	switch {
	case wait <= 0:
		return usagef("--wait: %v is not positive", wait)
	case text == newNonce && answer == "":
		if nonce, err = lunadmin.NewNonce(); err != nil {
			return err
		}
	default:
		if nonce, err = strconv.ParseUint(text, 16, 64); err != nil || nonce == 0 {
			return usagef("--share, --answer: %q is no nonce: up to 16 hexadecimal digits, not zero", text)
		}
	}
	r, err := lunadmin.SharePath(cmd.Context(), device, lunadmin.ShareOptions{
		Nonce: nonce, Answer: answer != "", Wait: wait,
		Waiting: func(r *lunadmin.ShareReport) {
			if answer != "" {
				fmt.Fprintf(env.stderr, "looking for nonce %s on LUN %s\n", r.Nonce, r.ID)
				return
			}
			fmt.Fprintf(env.stderr, "on the second node, within %v, run:\n  %s lun check DEVICE --answer %s\n", wait, env.command(), r.Nonce)
		},
	})
	if err != nil {
		return err
	}
	for _, w := range r.Warnings {
		env.warn("warning: " + w)
	}
	return out.print(env.stdout, r, func(t *table) {
		t.row("device", fmt.Sprintf("%s (%s)", r.Device.Path, r.Device.Kind))
		t.row("shared", fmt.Sprintf("yes: %d times read here what the other node had written, and the reverse", r.Rounds))
		t.row("lun", r.ID)
		t.row("round trip", fmt.Sprintf("%s ms median, %s ms p99", ms(r.RoundTrip.P50), ms(r.RoundTrip.P99)))
		t.row("half writes", fmt.Sprintf("%d reads saw a write half done, which agents can tell", r.Torn))
		t.row("wrote", r.Wrote)
	})
}

// decidedInTime lists the timings with whose defaults an equal split is decided within A on a bad day, as "fencectl config timing"
// reckons it.
func decidedInTime(r *lunadmin.CheckReport) (out []string) {
	for _, t := range config.Timings() {
		if r.Round() <= 2*float64(config.ForTiming(t, 2).SlowestIO())/float64(time.Millisecond) {
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
		t.row("", fmt.Sprintf("in %d of them the check of another node got in between", r.Others))
	}
	t.row("damage", cmp.Or(strings.Join(r.Damage, "; "), "none: superblock and slots can be read"))
	t.row("wrote", cmp.Or(r.Wrote, "nothing"))
	t.row("decision", fmt.Sprintf("%.3f ms of I/O on a bad day: %d writes and reads at their p99", r.Decision, diskquorum.RoundsToFeed(2)))
	t.row("", "in time with timing: "+cmp.Or(strings.Join(decidedInTime(r), ", "), "none"))
	if r.SCSI != nil {
		t.row("scsi", r.SCSI.Summary())
	}
	t.row()
	t.row("MS", "P50", "P90", "P99", "MAX")
	t.row("read", ms(r.Read.P50), ms(r.Read.P90), ms(r.Read.P99), ms(r.Read.Max))
	if r.Wrote != "" {
		t.row("write", ms(r.Write.P50), ms(r.Write.P90), ms(r.Write.P99), ms(r.Write.Max))
	}
}

func ms(v float64) string { return fmt.Sprintf("%.3f", v) }
