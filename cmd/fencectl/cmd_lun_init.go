//go:build linux

package main

import (
	"context"
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
	Bytes       int64              `json:"bytes"` // the size of the format
	Overwritten []lunadmin.Finding `json:"overwritten"`
	WipedBehind int                `json:"wipedBehindBytes"` // cleared after the end of the format, because of signatures there
}

// lunSetResult is the result of init for three devices.
type lunSetResult struct {
	SetID   string          `json:"setId"`
	Devices []lunInitResult `json:"devices"`
}

func newLunInitCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init DEVICE [DEVICE2 DEVICE3] --cluster NAME --node-group GROUP --slots N",
		Short: "Format a LUN",
		Long: `Format a LUN for one node group, once, from one node. Each node needs a slot: choose as many as the group
may ever have nodes, 2 to 255. 64 slots need 0.8 MiB.

Three devices become one set: a LUN that works as long as any two of them do. They are formatted together,
and lun.devices lists exactly these three; take three that fail independently.

Nothing is written unless each device is idle and empty. Empty is a device of which all this is zero: the area
of the format, the first 8 MiB, the last MiB, up to 1024 blocks spread evenly over the rest (one at each MiB if it
has up to 1 GiB), and all places where one of 50 formats has its signature: partition tables, file systems, LVM, RAID, DRBD, ZFS, encryption, sbd,
sanlock, another fencing-agent format. What has a name is refused by it, all else as "data of an unknown
format". Data that lies between the samples is not seen: wipefs -n DEVICE and the owner know more.

--force overwrites what the device carries: the area of the format, every signature that was found, and the
last 128 KiB. Other data is left as it is, and is of no use to anybody then. What was overwritten is said.

Idle is a device that nobody uses, neither itself nor one of its partitions nor the disk of which it is one: no
mount, swap, LVM, multipath, RAID, no agent of this node, no program that has it open for writing. Under --force
all that is to be overwritten is watched first, and so are the LUNs in its partitions: what anybody writes
meanwhile is refused. --force overrides none of this, nor that a device is too small.

To blkid, wipefs, lsblk, file, mkfs and installers a LUN is a protective MBR (PTTYPE PMBR), and so not empty.
The kernel makes no partition of it.

Everything is read back before the command succeeds.`,
		Example: `  fencectl lun init /dev/mapper/fence --cluster main --node-group worker --slots 64
  fencectl lun init /dev/mapper/fence-a /dev/mapper/fence-b /dev/mapper/fence-c --cluster main --node-group worker --slots 64
  fencectl lun init lab.img --create --cluster lab --node-group worker --slots 4`,
		Args: oneOrSet,
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
		if err := checkWanted(&o); err != nil {
			return err
		}
		p := newProgress(env)
		o.Progress = p.show
		results, err := initLUN(cmd.Context(), o, args)
		p.done()
		if err != nil {
			return err
		}
		for _, r := range results {
			env.warnings(r.Warnings)
		}
		if len(results) == 1 {
			result := lunInitOf(results[0])
			return out.print(env.stdout, result, func(t *table) { lunInitTable(t, &result) })
		}
		set := lunSetResult{SetID: fmt.Sprintf("%x", results[0].Superblock.SetID)}
		for _, r := range results {
			set.Devices = append(set.Devices, lunInitOf(r))
		}
		return out.print(env.stdout, set, func(t *table) {
			t.row("set", fmt.Sprintf("%s, of %d devices", set.SetID, len(set.Devices)))
			for i := range set.Devices {
				lunInitTable(t, &set.Devices[i])
			}
		})
	}
	return cmd
}

// checkWanted checks the flags.
func checkWanted(o *lunadmin.InitOptions) error {
	for flag, name := range map[string]string{"cluster": o.Cluster, "node-group": o.NodeGroup} {
		if err := config.CheckName(name); err != nil {
			return usageError{fmt.Errorf("--%s: %w", flag, err)}
		}
	}
	wanted := diskquorum.Superblock{ID: [16]byte{1}, Cluster: o.Cluster, NodeGroup: o.NodeGroup, Slots: o.Slots}
	if err := wanted.Validate(); err != nil {
		return usageError{err}
	}
	return nil
}

// oneOrSet requires one device, or the three devices of a set.
func oneOrSet(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usagef("DEVICE is missing")
	case 1, diskquorum.MaxDevices:
		return nil
	}
	return usagef("%d devices cannot form a useful majority: give 1 or %d", len(args), diskquorum.MaxDevices)
}

func initLUN(ctx context.Context, o lunadmin.InitOptions, paths []string) ([]*lunadmin.InitResult, error) {
	if len(paths) > 1 {
		return lunadmin.InitSet(ctx, o, paths)
	}
	o.Path = paths[0]
	r, err := lunadmin.Init(ctx, o)
	return []*lunadmin.InitResult{r}, err
}

func lunInitOf(r *lunadmin.InitResult) lunInitResult {
	result := lunInitResult{
		Device: r.Path, Kind: r.Kind, ID: fmt.Sprintf("%x", r.Superblock.ID), Cluster: r.Superblock.Cluster,
		NodeGroup: r.Superblock.NodeGroup, Slots: r.Superblock.Slots, Bytes: r.Bytes, Overwritten: r.Wiped, WipedBehind: r.WipedBehind,
	}
	if result.Overwritten == nil {
		result.Overwritten = []lunadmin.Finding{}
	}
	return result
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
	if r.WipedBehind > 0 {
		t.row("wiped", fmt.Sprintf("%d bytes behind the format, where that had its signatures", r.WipedBehind))
	}
}
