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
		Long: `Save superblock and slots of a LUN to a new file, for fencectl lun repair import. The LUN is opened for reading
only and may be in use. The superblock never changes after init: one export per LUN is enough.`,
		Example: `  fencectl lun repair export /dev/mapper/fence fence.lun
  fencectl lun repair export /dev/mapper/fence fence.lun -o json`,
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
		Use:   "import DEVICE [FILE]",
		Short: "Restore what a LUN has lost, from an export or its other superblock",
		Long: `Restore a LUN that was damaged, from a file of fencectl lun repair export: copies of the superblock that do not
verify, and slots that cannot be read. What can be read is left as it is, for it is newer than the
export. A restored slot is a free one: its owner takes it, or another one, when its agent starts.

Stop all agents of the group first. The device is watched before it is written, for as long as a grant
of the lease could be in force: the longest horizon in the slots, or --horizon.
It is refused if
  - anybody writes it meanwhile, or it is mounted, held or used by an agent of this node
  - its size is not that of the exported device, or it carries the superblock of another LUN
  - it carries nothing by which it can be recognised, or something else's signature
--force overrides the last of these only. For another device there is fencectl lun init.

Without FILE one copy of the superblock is restored from the other one: damaged, blank, or overwritten by that of
another LUN. Which copy is right is not guessed: it is the one with whose id the slots are sealed. The command says
what it has found, and restores the copy only if --id says the same. Agents may run meanwhile.`,
		Example: `  fencectl lun repair import /dev/mapper/fence fence.lun --dry-run
  fencectl lun repair import /dev/mapper/fence fence.lun
  fencectl lun repair import /dev/mapper/fence
  fencectl lun repair import /dev/mapper/fence --id 2fb700d9724e2ae43b38f469906980fa`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return operands("DEVICE")(cmd, args)
		},
	}
	o := lunadmin.ImportOptions{}
	id := ""
	flags := cmd.Flags()
	flags.BoolVar(&o.DryRun, "dry-run", false, "say what would be restored, and write nothing")
	flags.BoolVar(&o.Force, "force", false, "restore it although it cannot be recognised or carries something else")
	flags.DurationVar(&o.Horizon, "horizon", 0, "how long nobody may write (default the longest in the slots)")
	flags.StringVar(&id, "id", "", "without FILE: the `id` of the LUN that this device is")
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Horizon < 0 {
			return usagef("--horizon: %v is negative", o.Horizon)
		}
		if len(args) == 2 && id != "" {
			return usagef("--id: is for a superblock that is restored from its other copy, without FILE")
		}
		if len(args) == 1 && (o.Force || o.Horizon != 0) {
			return usagef("--force, --horizon: have a meaning only with FILE")
		}
		r, err := lunRestore(cmd, env, &o, args, id)
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

// lunRestore restores from an export, or the superblock from its other copy.
func lunRestore(cmd *cobra.Command, env *environment, o *lunadmin.ImportOptions, args []string, id string) (*lunadmin.ImportResult, error) {
	if len(args) == 1 {
		return lunadmin.Mend(cmd.Context(), lunadmin.MendOptions{Path: args[0], ID: id, DryRun: o.DryRun})
	}
	p := newProgress(env)
	defer p.done()
	o.Path, o.File, o.Progress = args[0], args[1], p.show
	return lunadmin.Import(cmd.Context(), *o)
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
	lun := r.ID
	if r.Exported != "" {
		lun += ", exported " + r.Exported
	}
	t.row("lun", lun)
	t.row("superblock", fmt.Sprintf("copies %s: %s", did, orDash(strings.Join(r.Superblock, ", "))))
	t.row("slots", fmt.Sprintf("%s as free ones: %s; left as they are: %d", did, orDash(strings.Join(slots, ", ")), r.Kept))
	for _, what := range r.Overridden {
		t.row("overridden", what)
	}
}
