package agent

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// startLUN opens the devices of the LUN, each with a keeper, an engine and a thread of its
// own. A device that is away is tried again for ever, since network quorum does not need
// it; one that can be read and is the wrong one is an error.
func (a *Agent) startLUN(background spawn) error {
	open := a.opts.OpenLUN
	if open == nil {
		open = OpenLUN
	}
	paths := a.cfg.LUN.Devices
	if len(paths) == 0 {
		return nil
	}
	a.superblocks = make([]*diskquorum.Superblock, len(paths))
	meters := rawdev.NewMetrics(a.reg)
	for d, path := range paths {
		k := &lunKeeper{
			device: d, path: path, cluster: a.cfg.Cluster, group: a.cfg.NodeGroup, members: a.roster.Size(), set: len(paths) > 1,
			retry: lunRetry, clock: a.clock, log: a.log, box: a.box, open: open,
			ended: meters.Instrument(path, func(c diskquorum.Completion) {
				c.Device = d
				a.box.put(func(b *batch) { b.completions = append(b.completions, c) })
			}),
			reopen: make(chan struct{}, 1), first: make(chan error), notFirst: make(chan struct{}), slot: -1,
		}
		a.luns = append(a.luns, k)
		background(func(ctx context.Context) { patiently(ctx, k.run) })
	}
	limit := time.NewTimer(a.cfg.LUN.IOTimeout)
	defer limit.Stop()
	late := false
	opened, found := make([]*diskquorum.Superblock, len(paths)), 0
	var wiped error
	for d, k := range a.luns {
		if late {
			k.startWithout(a.cfg.LUN.IOTimeout)
			continue
		}
		select {
		case err := <-k.first:
			switch {
			case err == nil:
				found++
			case k.spares(err):
				wiped = errors.Join(wiped, err)
			case !away(err):
				return err
			}
			opened[d] = k.superblock()
		case <-limit.C:
			late = true
			k.startWithout(a.cfg.LUN.IOTimeout)
		}
	}
	if wiped != nil && 2*found <= len(paths) {
		return wiped // the others do not show that this is the set it was
	}
	if err := diskquorum.CheckSet(opened); err != nil {
		return fmt.Errorf("lun.devices %v: %w", paths, err)
	}
	return nil
}

// startWithout lets the keeper go on by itself: the start of the agent waits no longer.
func (k *lunKeeper) startWithout(after time.Duration) {
	select {
	case err := <-k.first: // it was just done
		k.noteFault(err)
	default:
	}
	close(k.notFirst)
	k.log.Error("LUN does not answer; going on without it until it does", "device", k.path, "after", after)
}

// lunOpened makes the arbiter when most devices of the LUN have been opened for the first
// time, and takes in the others when they come.
func (a *Agent) lunOpened(o lunOpened) {
	path := a.luns[o.device].path
	if o.warning != "" {
		a.log.Warn("lun", "device", path, "warning", o.warning)
	}
	if a.superblocks[o.device] != nil {
		a.log.Info("LUN is back", "device", path)
		return
	}
	a.superblocks[o.device] = o.sb
	if err := diskquorum.CheckSet(a.superblocks); err != nil {
		a.superblocks[o.device] = nil
		a.log.Error("LUN device left out: correct lun.devices and restart this agent", "device", path, "error", err)
		return
	}
	a.lunNamed(diskquorum.LogID(a.superblocks), o.sb, o.storage)
	a.log.Info("LUN opened", "device", path, "slots", o.sb.Slots, "id", hex.EncodeToString(o.sb.ID[:]), "devices", len(a.luns))
	if arb := a.core.Arbiter(); arb != nil {
		arb.AddDevice(o.device, o.sb)
		return
	}
	known := 0
	for _, sb := range a.superblocks {
		if sb != nil {
			known++
		}
	}
	if 2*known <= len(a.luns) {
		return
	}
	a.core.LUNOpened(diskquorum.NewArbiter(diskquorum.ArbiterConfig{
		Devices: a.superblocks, Roster: a.roster, Evidence: a.core.Merger(), Boot: a.boot, NodeUID: diskquorum.MachineUID(a.machine), Process: a.process,
		Timing: a.timing(), PreferAPI: a.prefersAPI(), Seed: a.process,
	}))
}

// submitLUN hands the core's operations to the engines.
func (a *Agent) submitLUN(now boottime.Instant, ops []diskquorum.Op) {
	for _, op := range ops {
		a.luns[op.Device].submit(now, op)
	}
}
