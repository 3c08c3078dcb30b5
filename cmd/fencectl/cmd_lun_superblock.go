//go:build linux

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

func newLunSuperblockCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore-superblock DEVICE",
		Short: "Restore one copy of the superblock from the other one",
		Long: `Restore one copy of the superblock from the other one: it is damaged, blank, or overwritten by that of
another LUN. Which copy is right is not guessed: it is the one with whose id the slots are sealed. The
command says what it has found, and restores the copy only if --id says the same. Nothing else is
written, and agents may run meanwhile.

A LUN of which both copies are lost is formatted again with fencectl lun init --force, and one of a set of
three together with the others: by itself it would belong to none. A slot that cannot be read and has no
owner is freed with fencectl lun repair release-slot.`,
		Example: `  fencectl lun repair restore-superblock /dev/mapper/fence
  fencectl lun repair restore-superblock /dev/mapper/fence --id 2fb700d9724e2ae43b38f469906980fa`,
		Args: operands("DEVICE"),
	}
	id := cmd.Flags().String("id", "", "the `id` of the LUN that this device is; without it nothing is written")
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := lunadmin.Mend(cmd.Context(), args[0], *id)
		if err != nil {
			return err
		}
		env.warnings(r.Warnings)
		return out.print(env.stdout, r, func(t *table) {
			t.row("device", fmt.Sprintf("%s (%s)", r.Device.Path, r.Device.Kind))
			t.row("lun", r.ID)
			t.row("superblock", fmt.Sprintf("copy %s restored", r.Copy))
			t.row("slots", fmt.Sprintf("%d are of this LUN, and as they were", r.Slots))
		})
	}
	return cmd
}
