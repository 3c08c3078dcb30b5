//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

func newLunExportCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export DEVICE FILE",
		Short: "Save superblock and slots of a LUN to a file",
		Long: `Save superblock and slots of a LUN to a new file, for fencectl lun import. The LUN is opened for reading
only and may be in use. The superblock never changes after init: one export per LUN is enough.`,
		Example: `  fencectl lun export /dev/mapper/fence fence.lun
  fencectl lun export /dev/mapper/fence fence.lun -o json`,
		Args: operands("DEVICE", "FILE"),
	}
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := lunadmin.ExportPath(cmd.Context(), args[0], args[1])
		if err != nil {
			return err
		}
		for _, w := range r.Warnings {
			env.warn("warning: " + w)
		}
		return out.print(env.stdout, r, func(t *table) {
			t.row("device", fmt.Sprintf("%s (%s)", r.Device.Path, r.Device.Kind))
			t.row("lun", r.ID)
			t.row("slots", fmt.Sprintf("%d of %d written", r.Written, r.Slots))
			t.row("saved", fmt.Sprintf("%s, %d bytes", r.File, r.Bytes))
		})
	}
	return cmd
}

func newLunImportCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import DEVICE FILE",
		Short: "Restore what a LUN has lost, from an export",
		Long: `Restore a LUN that was damaged, from a file of fencectl lun export: copies of the superblock that do not
verify, and slots that cannot be read. What can be read is left as it is, for it is newer than the
export. A restored slot is a free one: its owner takes it, or another one, when its agent starts.

Stop all agents of the group first. The device is watched before it is written, for as long as a grant
of the lease could be in force: the longest horizon in the slots, or --horizon.
It is refused if
  - anybody writes it meanwhile, or it is mounted, held or used by an agent of this node
  - its size is not that of the exported device, or it carries the superblock of another LUN
  - it carries nothing by which it can be recognised, or something else's signature
--force overrides the last of these only. For another device there is fencectl lun init.`,
		Example: `  fencectl lun import /dev/mapper/fence fence.lun --dry-run
  fencectl lun import /dev/mapper/fence fence.lun`,
		Args: operands("DEVICE", "FILE"),
	}
	o := lunadmin.ImportOptions{}
	flags := cmd.Flags()
	flags.BoolVar(&o.DryRun, "dry-run", false, "say what would be restored, and write nothing")
	flags.BoolVar(&o.Force, "force", false, "restore it although it cannot be recognised or carries something else")
	flags.DurationVar(&o.Horizon, "horizon", 0, "how long nobody may write (default the longest in the slots)")
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Horizon < 0 {
			return usagef("--horizon: %v is negative", o.Horizon)
		}
		p := newProgress(env)
		o.Path, o.File, o.Progress = args[0], args[1], p.show
		r, err := lunadmin.Import(cmd.Context(), o)
		p.done()
		if err != nil {
			return err
		}
		for _, w := range r.Warnings {
			env.warn("warning: " + w)
		}
		return out.print(env.stdout, r, func(t *table) { lunImportTable(t, r) })
	}
	return cmd
}

func lunImportTable(t *table, r *lunadmin.ImportResult) {
	did := "restored"
	if r.DryRun {
		did = "would be restored"
	}
	slots := make([]string, len(r.Slots))
	for i, s := range r.Slots {
		slots[i] = fmt.Sprint(s)
	}
	t.row("device", fmt.Sprintf("%s (%s)", r.Device.Path, r.Device.Kind))
	t.row("lun", fmt.Sprintf("%s, exported %s", r.ID, r.Exported))
	t.row("superblock", fmt.Sprintf("copies %s: %s", did, orDash(strings.Join(r.Superblock, ", "))))
	t.row("slots", fmt.Sprintf("%s as free ones: %s; left as they are: %d", did, orDash(strings.Join(slots, ", ")), r.Kept))
	for _, what := range r.Overridden {
		t.row("overridden", what)
	}
}
