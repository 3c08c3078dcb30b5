//go:build linux

package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

func newLunReleaseCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release-slot DEVICE NODE",
		Short: "Give the slot of a removed node back",
		Long: `Give the slot of a node that is gone for good back, so that another node can have it. A node that
comes back finds its slot by its name: nothing has to be released for a reboot or a repair.

The slot is watched first, for as long as its owner could live on without writing it: the horizon
that its agent states in the slot, or --horizon. Older agents state none, and have their watchdog's
timeout and 20 s: for these give the time budget for an equal split that fencectl status prints.
It is refused if
  - the slot changes meanwhile, or an agent of this node has it locked: the owner is alive
  - a node that writes the LUN says that it hears from the owner
  - no other node writes the LUN, so no node can confirm that the owner is gone
  - the owner's watchdog was not armed or does not fence: time proves nothing then
  - a copy of the slot cannot be read and may hide something newer
A slot whose agent was stopped as planned needs no watchdog and no witness.

--force overrides all of these but the first. Be sure that the node is switched off: two nodes in one
slot can make both halves of an equal split live. What the slot knows of past decisions is kept.`,
		Example: `  fencectl lun repair release-slot /dev/mapper/fence n7
  fencectl lun repair release-slot /dev/mapper/fence n7 --horizon 50s -o json
  fencectl lun repair release-slot /dev/mapper/fence --slot 6 --force`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return operands("DEVICE")(cmd, args) // without NODE, --slot names it
		},
	}
	o := lunadmin.ReleaseOptions{}
	flags := cmd.Flags()
	flags.IntVar(&o.Slot, "slot", -1, "the slot by its number, for one that cannot be read or a name that owns two")
	flags.DurationVar(&o.Horizon, "horizon", 0, "how long the slot must stand still (default what it states)")
	flags.BoolVar(&o.Force, "force", false, "the node is switched off, release the slot in spite of what speaks against it")
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 {
			o.Node = args[1]
		}
		switch {
		case (o.Node == "") == (o.Slot == -1):
			return usagef("name either the node or --slot")
		case o.Horizon < 0:
			return usagef("--horizon is %v, but must not be negative", o.Horizon)
		}
		p := newProgress(env)
		o.Progress = p.show
		r, err := lunadmin.Release(cmd.Context(), args[0], o)
		p.done()
		if err != nil {
			return err
		}
		env.warnings(r.Warnings)
		return out.print(env.stdout, r, func(t *table) {
			t.row("device", fmt.Sprintf("%s (%s)", r.Device.Path, r.Device.Kind))
			t.row("slot", fmt.Sprintf("%d, of %s: free", r.Slot, cmp.Or(r.Node, "-")))
			t.row("watched", (time.Duration(r.Watched * float64(time.Second))).Round(100*time.Millisecond))
			for _, what := range r.Overridden {
				t.row("overridden", what)
			}
		})
	}
	return cmd
}
