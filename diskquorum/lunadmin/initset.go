package lunadmin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// Init formats a LUN of one device. It writes nothing before the last check has passed. If it is interrupted later, it
// leaves a device that no agent accepts and that must be formatted again.
func Init(ctx context.Context, o InitOptions) (*InitResult, error) {
	results, err := initDevices(ctx, o, []string{o.Path})
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

// InitSet formats three devices as one LUN, in the order of paths; o.Path is not used. Nothing is written before all
// devices have passed all checks. If it is interrupted during the format, or fails on one device, it leaves devices
// that no agent accepts as a set.
func InitSet(ctx context.Context, o InitOptions, paths []string) ([]*InitResult, error) {
	if len(paths) != diskquorum.MaxDevices {
		return nil, fmt.Errorf("init: %d devices are not a set: a set has %d", len(paths), diskquorum.MaxDevices)
	}
	return initDevices(ctx, o, paths)
}

// superblocks returns the superblocks of a LUN with n devices: each has a different id.
func superblocks(o *InitOptions, n int) ([]diskquorum.Superblock, error) {
	set := diskquorum.Superblock{
		Version: diskquorum.FormatVersion, Cluster: o.Cluster, NodeGroup: o.NodeGroup, Slots: o.Slots, Created: time.Now().Unix(),
	}
	if n > 1 {
		set.Devices = n
		if _, err := rand.Read(set.SetID[:]); err != nil {
			return nil, fmt.Errorf("make an id: %w", err)
		}
	}
	all := make([]diskquorum.Superblock, n)
	for d := range all {
		all[d] = set
		if n > 1 {
			all[d].Device = d
		}
		if _, err := rand.Read(all[d].ID[:]); err != nil {
			return nil, fmt.Errorf("make an id: %w", err)
		}
		all[d].ID[2] = 0 // this byte is the type of the fourth entry of the protective MBR: none
		if err := all[d].Validate(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func initDevices(ctx context.Context, o InitOptions, paths []string) (results []*InitResult, err error) {
	all, err := superblocks(&o, len(paths))
	if err != nil {
		return nil, fmt.Errorf("init %s: %w", strings.Join(paths, " "), err)
	}
	if o.kernel == (kernel{}) {
		o.kernel = thisKernel
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	var names []string // the storage's names of the devices
	targets := make([]*target, 0, len(paths))
	defer func() {
		for _, t := range targets {
			err = errors.Join(err, t.close(err != nil))
		}
		if err != nil {
			results = nil
		}
	}()
	for d, path := range paths {
		if err := distinct(o.kernel, path, paths[:d]); err != nil {
			return nil, err
		}
		t, err := newTarget(ctx, o, path, &all[d])
		if err != nil {
			return nil, err
		}
		targets, names = append(targets, t), append(names, t.device.WWID())
	}
	if err := distinctNames(paths, names); err != nil {
		return nil, err
	}
	for _, t := range targets {
		if err := t.check(ctx, devnoOf(t.device.Number())); err != nil {
			return nil, err
		}
	}
	for _, t := range targets {
		err := t.format(ctx)
		if stopped := stoppedOnTheWay(err, "init", t.o.Path, "its earlier contents are partly overwritten, and it is not usable until init has succeeded: repeat the command"); stopped != err {
			return nil, stopped
		}
		if err != nil {
			return nil, fmt.Errorf("init %s: %w; the device is not usable until init has succeeded", t.o.Path, err)
		}
		results = append(results, t.result())
	}
	if len(targets) == 1 {
		return results, nil
	}
	return results, stillOurs(targets)
}

// distinct refuses a device that is one of the others under another name, or that is stored on one of them, such as a
// loop device on its file: several names of one device are not a majority.
func distinct(k kernel, path string, others []string) error {
	id, ok := identify(path) // if there is no such path yet, it has to be created, or the open reports the error
	for _, other := range others {
		if path == other {
			return fmt.Errorf("init %s: is given twice; nothing was written", path)
		}
		o, found := identify(other)
		if ok && found && (id == o || k.storage(path)[o] || k.storage(other)[id]) {
			return sameStorage(path, other)
		}
	}
	return nil
}

func sameStorage(path, other string) error {
	return fmt.Errorf("init %s: is the same storage as %s; nothing was written; a set needs three that fail independently", path, other)
}

// distinctNames refuses two paths to one LUN that are not under multipath: the storage gives both the same name.
func distinctNames(paths, names []string) error {
	for d, name := range names {
		if first := slices.Index(names, name); name != "" && first < d {
			return sameStorage(paths[d], paths[first])
		}
	}
	return nil
}

// stillOurs reads the superblocks of all devices again after all are formatted: if two devices are the same storage
// under unrelated names, the later format has overwritten the earlier one.
func stillOurs(targets []*target) error {
	for _, t := range targets {
		got, err := readAll(t.dev, 2*diskquorum.BlockSize)
		if err != nil {
			return fmt.Errorf("init %s: read it once more: %w", t.o.Path, err)
		}
		if sb, err := diskquorum.ReadSuperblock(got); err != nil || sb.ID != t.sb.ID {
			return fmt.Errorf("init %s: another device of the set is the same storage, which was formatted over this one: repeat the command with three different storages", t.o.Path)
		}
	}
	return nil
}

// target is one device to be formatted, open and locked.
type target struct {
	formatter
	device  *idle
	created bool
}

// newTarget opens one device, or creates its file.
func newTarget(ctx context.Context, o InitOptions, path string, sb *diskquorum.Superblock) (*target, error) {
	o.Path = path
	t := &target{created: o.Create}
	if o.Create {
		if err := createFile(path, diskquorum.DeviceSize(o.Slots)); err != nil {
			return nil, err
		}
	}
	dev, err := openIdle(&o)
	if err != nil {
		if o.Create {
			_ = os.Remove(path) // it was created above, and is not needed any more
		}
		return nil, err
	}
	t.device = dev
	t.formatter = formatter{o: &o, dev: &interruptible{ctx: ctx, Device: dev}, sb: sb, end: diskquorum.DeviceSize(o.Slots)}
	return t, nil
}

// close closes the device; a file that was created for a failed init is removed.
func (t *target) close(failed bool) error {
	if t.created && failed {
		_ = os.Remove(t.o.Path)
	}
	if err := t.device.Close(); err != nil {
		return fmt.Errorf("init %s: close: %w", t.o.Path, err)
	}
	return nil
}

func (t *target) result() *InitResult {
	r := &InitResult{Path: t.o.Path, Kind: t.device.Kind().String(), Bytes: diskquorum.DeviceSize(t.o.Slots), Superblock: *t.sb, Wiped: t.found, WipedBehind: len(t.wiped) * diskquorum.BlockSize}
	if w := t.device.Warning(); w != "" {
		r.Warnings = append(r.Warnings, w)
	}
	if names := t.o.kernel.partitionNames(devnoOf(t.device.Number())); len(names) > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the kernel still shows the old partitions %s: run blockdev --rereadpt %s on every node",
			strings.Join(names, ", "), t.o.Path))
	}
	return r
}
