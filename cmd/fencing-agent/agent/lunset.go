package agent

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/keeper"
	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// lunRetry is the time between two attempts to open a device.
const lunRetry = 5 * time.Second

// lunSet is the devices of the LUN, by their position in lun.devices.
type lunSet struct {
	keepers     []*keeper.Keeper
	superblocks []*diskquorum.Superblock // nil: not opened yet
	leftOut     []error                  // why a device does not count until this agent is restarted; nil: it may count
	troubles    []troubleLog
	failed      bool // the LUN is given up until the agent is restarted
	strangers   strangers
}

// startLUN opens the devices of the LUN, each with a keeper and an engine. A missing device, or one without a
// superblock of this project, is retried for ever, since network quorum does not need it. A device that can be read,
// but is the wrong one, is an error.
func (a *Agent) startLUN(background spawn) error {
	paths := a.cfg.LUN.Devices
	if len(paths) == 0 {
		return nil
	}
	a.lun.superblocks, a.lun.leftOut = make([]*diskquorum.Superblock, len(paths)), make([]error, len(paths))
	meters := rawdev.NewMetrics(a.opts.Registry)
	for d, path := range paths {
		k := keeper.New(keeper.Config{
			Device: d, Path: path, Cluster: a.cfg.Cluster, Group: a.cfg.NodeGroup, Members: a.roster.Size(), Set: len(paths) > 1,
			Retry: lunRetry, Clock: a.clock, Log: a.log, Open: a.opts.OpenLUN, Metrics: meters, Stands: lunadmin.Stands,
			Opened: func(o keeper.Opened) { a.box.put(func(b *batch) { b.lun = append(b.lun, o) }) },
			Locked: func(device int, err error) {
				a.box.put(func(b *batch) { b.locked = append(b.locked, lunLocked{device, err}) })
			},
			Ended: func(c diskquorum.Completion) { a.box.put(func(b *batch) { b.completions = append(b.completions, c) }) },
		})
		a.lun.keepers = append(a.lun.keepers, k)
		background(k.Run)
	}
	a.lun.troubles = make([]troubleLog, len(paths))
	limit := time.NewTimer(a.cfg.LUN.IOTimeout)
	defer limit.Stop()
	late := false
	opened := make([]*diskquorum.Superblock, len(paths))
	for d, k := range a.lun.keepers {
		if late {
			k.StartWithout(a.cfg.LUN.IOTimeout)
			continue
		}
		select {
		case err := <-k.First():
			if err != nil && !keeper.Absent(err) && !keeper.Away(err) {
				return err
			}
			opened[d] = k.Superblock()
		case <-limit.C:
			late = true
			k.StartWithout(a.cfg.LUN.IOTimeout)
		}
	}
	if err := diskquorum.CheckSet(opened); err != nil {
		odd := diskquorum.OddOne(opened)
		if odd < 0 {
			return fmt.Errorf("lun.devices %v: %w", paths, err)
		}
		a.leaveOut(odd, err)
	}
	return nil
}

// leaveOut excludes a device of a set. The other devices are most of the set, and stay in use.
func (a *Agent) leaveOut(device int, why error) {
	a.lun.leftOut[device] = fmt.Errorf("the device is left out: %w; correct lun.devices, or format all devices of the set together, and restart this agent", why)
	a.log.Error("a LUN device is left out: correct lun.devices and restart this agent", "device", a.lun.keepers[device].Path, "error", why)
}

// lunOpened creates the arbiter when most devices of the LUN have been opened for the first time, and adds the other
// devices once they are opened.
func (a *Agent) lunOpened(o keeper.Opened) {
	path := a.lun.keepers[o.Device].Path
	if o.Warning != "" {
		a.log.Warn("the LUN was opened, with a warning", "device", path, "warning", o.Warning)
	}
	if a.lun.leftOut[o.Device] != nil {
		return
	}
	if a.lun.superblocks[o.Device] != nil {
		a.log.Info("the LUN is back", "device", path)
		return
	}
	a.lun.superblocks[o.Device] = o.Superblock
	if err := diskquorum.CheckSet(a.lun.superblocks); err != nil {
		a.lun.superblocks[o.Device] = nil
		a.leaveOut(o.Device, err)
		return
	}
	a.lunNamed(diskquorum.LogID(a.lun.superblocks), o.Superblock, o.Storage)
	a.log.Info("LUN opened", "device", path, "slots", o.Superblock.Slots, "id", hex.EncodeToString(o.Superblock.ID[:]), "devices", len(a.lun.keepers))
	if arb := a.core.Arbiter(); arb != nil {
		arb.AddDevice(o.Device, o.Superblock)
		return
	}
	known := 0
	for _, sb := range a.lun.superblocks {
		if sb != nil {
			known++
		}
	}
	if 2*known <= len(a.lun.keepers) {
		return
	}
	a.core.LUNOpened(diskquorum.NewArbiter(diskquorum.ArbiterConfig{
		Devices: a.lun.superblocks, Roster: a.roster, Evidence: a.core.Merger(), Boot: a.self.boot, NodeUID: diskquorum.MachineUID(a.self.machine), Process: a.self.process,
		Timing: a.timing(), PreferAPI: a.prefersAPI(), Seed: a.self.process,
	}))
}

// submitLUN passes the core's operations to the engines.
func (a *Agent) submitLUN(now boottime.Instant, ops []diskquorum.Op) {
	for _, op := range ops {
		a.lun.keepers[op.Device].Submit(now, op)
	}
}

// lunAnswered handles the outcomes of operations.
func (a *Agent) lunAnswered(now boottime.Instant, ended []diskquorum.Completion) {
	for i := range ended {
		a.lun.keepers[ended[i].Device].Observe(&ended[i])
		a.core.IOCompleted(now, &ended[i])
		if arb := a.core.Arbiter(); arb != nil && ended[i].Err == nil && arb.Foreign(ended[i].Device) != nil {
			a.lun.keepers[ended[i].Device].LookAgain() // closes a device that is not the group's, and reports what is there instead
		}
	}
}
