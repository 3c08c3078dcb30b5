//go:build linux

package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

func newLunInspectCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect DEVICE",
		Short: "Show what is on a LUN",
		Long: `Show superblock, slots and the lease of a LUN. It is opened for reading only and never written.

The table is read twice, to show whose slot moves: a node that is alive writes its slot each heartbeat.
Ages are by the wall clocks of two nodes and prove nothing. A name in a view as #3 is the fourth node
of the roster, which has no slot.

The lease is the latest decision of an equal split. Of its holders, current ones may feed under it, the
others have given it up (renounced) or rebooted (gone). It is undecided while a later value may have been
decided, and uncertain while a slot cannot be read.

With --watch the table is read again and again until Ctrl-C: on a terminal the picture is renewed in
place, elsewhere each one is printed below the last, and -o json prints one object a line. A slot is
then shown with the time for which it has not changed on the clock of this node.

` + exitCodes,
		Example: `  fencectl lun inspect /dev/mapper/fence
  fencectl lun inspect /dev/mapper/fence -o json --interval 0
  fencectl lun inspect /dev/mapper/fence --watch
  fencectl lun inspect /dev/mapper/fence --watch --interval 200ms --count 50 -o json`,
		Args: operands("DEVICE"),
	}
	interval := cmd.Flags().Duration("interval", 0, "time between the two reads; 0: read once (default two of the slowest heartbeats; with --watch 1s)")
	watch := cmd.Flags().BoolP("watch", "w", false, "show it again and again")
	count := cmd.Flags().Int("count", 0, "with --watch: how many pictures; 0: until Ctrl-C")
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *watch {
			if *interval < 0 || *count < 0 {
				return usagef("--interval is %v and --count is %d, but neither may be negative", *interval, *count)
			}
			o := lunadmin.InspectOptions{Interval: cmp.Or(*interval, time.Second), Count: *count}
			l := newLunLive(env, out)
			err := lunadmin.Inspect(cmd.Context(), args[0], o, l.show)
			if err != nil || *count == 0 {
				return err // an interrupt means nothing for the LUN
			}
			return damagedError(args[0], l.damage)
		}
		if *count != 0 {
			return usagef("--count has a meaning only with --watch")
		}
		p := newProgress(env)
		o := lunadmin.InspectOptions{Count: 2, Interval: *interval, Progress: p.show}
		switch given := cmd.Flags().Changed("interval"); {
		case given && *interval < 0:
			return usagef("--interval is %v, but must not be negative", *interval)
		case given && *interval == 0:
			o.Count = 1
		}
		var r *lunadmin.Report
		err := lunadmin.Inspect(cmd.Context(), args[0], o, func(picture *lunadmin.Report) error { r = picture; return nil })
		p.done()
		if err != nil {
			return err
		}
		env.warnings(r.Warnings)
		if err := out.print(env.stdout, r, func(t *table) { lunTable(t, r) }); err != nil {
			return err
		}
		return damagedError(args[0], r.Damage)
	}
	return cmd
}

func lunTable(t *table, r *lunadmin.Report) {
	sb := &r.Superblock
	t.row("device", fmt.Sprintf("%s (%s), %d bytes, sectors of %d", r.Device.Path, r.Device.Kind, r.Device.Bytes, r.Device.SectorBytes))
	t.row("lun", fmt.Sprintf("cluster %s, node group %s, format %d, created %s", sb.Cluster, sb.NodeGroup, sb.Version, sb.Created))
	t.row("id", sb.ID)
	if sb.Set != nil {
		t.row("set", sb.Set.String())
	}
	t.row("lease", leaseText(&r.Lease))
	for _, h := range r.Lease.Holders {
		t.row("", fmt.Sprintf("%s, slot %d, token %s: %s", cmp.Or(h.Node, "?"), h.Slot, h.Token, h.State))
	}
	watched := "read once"
	if r.WatchedSeconds > 0 {
		watched = fmt.Sprintf("watched for %s", seconds(r.WatchedSeconds))
	}
	t.row("slots", fmt.Sprintf("%d of %d written, %s", len(r.Slots), sb.Slots, watched))
	if len(r.Slots) == 0 {
		return
	}
	t.row()
	t.row("SLOT", "OWNER", "STATE", "MOVING", "SEQUENCE", "TOKEN", "AGE", "WATCHDOG", "SAYS", "VIEW", "COPIES")
	for i := range r.Slots {
		t.row(slotCells(&r.Slots[i])...)
	}
}

func leaseText(l *lunadmin.LeaseReport) string {
	text := "none decided yet"
	if l.Instance > 0 {
		text = fmt.Sprintf("decision %d", l.Instance)
	}
	if l.Undecided {
		text += ", undecided: a later value may have been decided"
	}
	if !l.Complete {
		text += ", uncertain: a slot cannot be read"
	}
	return text
}

func slotCells(s *lunadmin.SlotReport) []any {
	copies := s.Copies[0] + "/" + s.Copies[1]
	if s.Age == nil { // unreadable
		return []any{s.Slot, "?", s.State, "?", "?", "?", "?", "?", "?", "?", copies}
	}
	moving := "-"
	if s.Moving != nil {
		moving = map[bool]string{true: "yes", false: "no"}[*s.Moving]
	}
	if s.Unchanged != nil && *s.Unchanged > 0 {
		moving += " " + seconds(*s.Unchanged)
	}
	return []any{
		s.Slot, s.Owner, s.State, moving, s.Sequence, s.Token, seconds(*s.Age), watchdogText(s.Watchdog), flagsText(s.Flags),
		cmp.Or(strings.Join(s.View, ","), "-"), copies,
	}
}

func watchdogText(w *lunadmin.WatchdogReport) string {
	switch {
	case !w.Armed:
		return "off"
	case !w.Fences:
		return seconds(w.Timeout) + ", does not fence"
	default:
		return seconds(w.Timeout)
	}
}

func flagsText(f *lunadmin.FlagsReport) string {
	var words []string
	for _, x := range []struct {
		set  bool
		word string
	}{{f.Feeding, "feeding"}, {f.Stopping, "stopping"}, {f.LUNHealthy, "lun"}, {f.APIReachable, "api"}} {
		if x.set {
			words = append(words, x.word)
		}
	}
	return cmp.Or(strings.Join(words, ","), "-")
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}
