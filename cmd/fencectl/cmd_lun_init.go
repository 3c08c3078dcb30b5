package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

// lunInitResult is the result of fencectl lun init.
type lunInitResult struct {
	Device      string             `json:"device"`
	Kind        string             `json:"kind"`
	ID          string             `json:"id"`
	Cluster     string             `json:"cluster"`
	NodeGroup   string             `json:"nodeGroup"`
	Slots       int                `json:"slots"`
	Bytes       int64              `json:"bytes"` // that the format takes
	Overwritten []lunadmin.Finding `json:"overwritten"`
}

func newLunInitCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init DEVICE --cluster NAME --node-group GROUP --slots N",
		Short: "Format a LUN",
		Long: `Format a LUN for one node group, once, from one node. Each node needs a slot: choose as many as the group
may ever have nodes, 2 to 255. 64 slots need 0.5 MiB.

Nothing is written unless the device is idle and empty. A device that carries a partition table, file
system, LVM, RAID, encryption, sbd, sanlock, another fencing-agent format or data of an unknown format is
refused; --force overwrites it. What is mounted, held by LVM, multipath, RAID or swap, used by an agent on
this node or written by anybody while it is watched is refused even so, as is a device that is too small.

Everything is read back before the command succeeds.`,
		Example: `  fencectl lun init /dev/mapper/fence --cluster main --node-group worker --slots 64
  fencectl lun init lab.img --create --cluster lab --node-group worker --slots 4`,
		Args: operands("DEVICE"),
	}
	o := lunadmin.InitOptions{}
	cmd.Flags().StringVar(&o.Cluster, "cluster", "", "name of the cluster, as in the configuration")
	cmd.Flags().StringVar(&o.NodeGroup, "node-group", "", "name of the node group, as in the configuration")
	cmd.Flags().IntVar(&o.Slots, "slots", 0, "number of slots, 2 to 255")
	cmd.Flags().BoolVar(&o.Force, "force", false, "overwrite what the device carries, if nobody uses it")
	cmd.Flags().BoolVar(&o.Create, "create", false, "make DEVICE a new file of the size that is needed, for labs")
	for _, name := range []string{"cluster", "node-group", "slots"} {
		_ = cmd.MarkFlagRequired(name) // fails for unknown flags only
	}
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for flag, name := range map[string]string{"cluster": o.Cluster, "node-group": o.NodeGroup} {
			if err := config.CheckName(name); err != nil {
				return usageError{fmt.Errorf("--%s: %w", flag, err)}
			}
		}
		wanted := diskquorum.Superblock{ID: [16]byte{1}, Cluster: o.Cluster, NodeGroup: o.NodeGroup, Slots: o.Slots}
		if err := wanted.Validate(); err != nil {
			return usageError{err}
		}
		p := newProgress(env)
		o.Path, o.Progress = args[0], p.show
		r, err := lunadmin.Init(cmd.Context(), o)
		p.done()
		if err != nil {
			return err
		}
		for _, w := range r.Warnings {
			env.warn("warning: " + w)
		}
		result := lunInitResult{
			Device: r.Path, Kind: r.Kind, ID: fmt.Sprintf("%x", r.Superblock.ID), Cluster: r.Superblock.Cluster,
			NodeGroup: r.Superblock.NodeGroup, Slots: r.Superblock.Slots, Bytes: r.Bytes, Overwritten: r.Wiped,
		}
		if result.Overwritten == nil {
			result.Overwritten = []lunadmin.Finding{}
		}
		return out.print(env.stdout, result, func(t *table) { lunInitTable(t, &result) })
	}
	return cmd
}

func lunInitTable(t *table, r *lunInitResult) {
	t.row("device", fmt.Sprintf("%s: formatted (%s)", r.Device, r.Kind))
	t.row("cluster", r.Cluster)
	t.row("node group", r.NodeGroup)
	t.row("slots", fmt.Sprintf("%d, %d bytes", r.Slots, r.Bytes))
	t.row("id", r.ID)
	for _, f := range r.Overwritten {
		t.row("overwritten", f)
	}
}
