//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

func newLunUpgradeCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade DEVICE",
		Short: "Give a LUN of an older version what newer agents can use",
		Long: `Give a LUN that an older version formatted what newer ones have: a protective MBR, by which blkid, wipefs
and installers see that it is not empty, and echo blocks, by which a group holds while all its networks are
silent (lun.hold). Agents may run meanwhile, older ones too: these neither see nor need any of it. Newer ones
begin to use echo blocks within ten heartbeats.

The MBR is in bytes of the superblock that nobody reads; to add it changes one sector.

The echo blocks lie behind the slots, so the LUN has to be large enough: 12 KiB and 12 KiB for each slot.
Nothing that is there already is changed, but for one flag of the superblock. Of a LUN of three
devices, upgrade each. A LUN that has all of it is left as it is.

It is refused if
  - the LUN is too small: enlarge it on the storage first
  - data lies where the blocks would be, or the copy of an old partition table at the end of the device, which
    tools would restore beside a protective MBR; --force overwrites it`,
		Example: `  fencectl lun repair upgrade /dev/mapper/fence
  fencectl lun repair upgrade /dev/mapper/fence -o json`,
		Args: operands("DEVICE"),
	}
	o := lunadmin.UpgradeOptions{}
	cmd.Flags().BoolVar(&o.Force, "force", false, "overwrite data behind the slots that nobody needs any more")
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p := newProgress(env)
		o.Progress = p.show
		r, err := lunadmin.UpgradePath(cmd.Context(), args[0], o)
		p.done()
		if err != nil {
			return err
		}
		for _, w := range r.Warnings {
			env.warn("warning: " + w)
		}
		return out.print(env.stdout, r, func(t *table) {
			what := "got " + strings.Join(r.Added, " and ")
			if !r.Changed {
				what = "up to date, left as it was"
			}
			t.row("device", fmt.Sprintf("%s: %s (%s)", r.Device.Path, what, r.Device.Kind))
			t.row("slots", fmt.Sprintf("%d, %d bytes", r.Slots, r.Bytes))
			t.row("id", r.ID)
		})
	}
	return cmd
}
