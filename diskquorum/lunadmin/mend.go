package lunadmin

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// MendOptions say which LUN a device is, in whose place something else stands in one copy of the superblock.
type MendOptions struct {
	Path   string
	ID     string // of the LUN, 32 hexadecimal digits: the administrator's word that it is this one; empty: ask for it
	DryRun bool
}

// Mend restores one copy of the superblock from the other one, without an export. Which copy is right is not guessed: it
// is the one whose id has sealed the slots, and the administrator has to name it. Nothing but that copy is written, which
// no agent writes: agents may run.
func Mend(ctx context.Context, o MendOptions) (*ImportResult, error) {
	dev, err := rawdev.Open(o.Path, rawdev.Options{})
	if err != nil {
		return nil, err
	}
	r, err := mend(ctx, dev, &o)
	if cerr := dev.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	r.Device = deviceReport(o.Path, dev)
	if w := dev.Warning(); w != "" {
		r.Warnings = append(r.Warnings, w)
	}
	return r, nil
}

// candidate is one copy of the superblock, and what the slots say of it.
type candidate struct {
	sb    diskquorum.Superblock
	err   error
	slots int // that are sealed with its id
}

func (c *candidate) String() string {
	if c.err != nil {
		return "is " + copyHealth(c.err)
	}
	return fmt.Sprintf("is of LUN %x (cluster %s, node group %s), with which %d slots are sealed", c.sb.ID, clean(c.sb.Cluster), clean(c.sb.NodeGroup), c.slots)
}

// candidates reads both copies of the superblock and counts for whom the slots speak.
func candidates(dev diskquorum.Device) (head []byte, both [2]candidate, err error) {
	if dev.Size() < 2*diskquorum.BlockSize {
		return nil, both, fmt.Errorf("%d bytes are no LUN", dev.Size())
	}
	if head, err = readAll(dev, 2*diskquorum.BlockSize); err != nil {
		return nil, both, err
	}
	for which := range both {
		c := &both[which]
		if c.sb, c.err = diskquorum.DecodeSuperblock(head[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], which); c.err != nil {
			continue
		}
		table, err := readAll(dev, min(int64(diskquorum.TableSize(c.sb.Slots)), dev.Size()&^(diskquorum.BlockSize-1)))
		if err != nil {
			return nil, both, err
		}
		for _, v := range readSlots(table, &c.sb) {
			for _, health := range v.copies {
				if health == copyValid || health == copyTorn || health == copyNewer {
					c.slots++
					break
				}
			}
		}
	}
	return head, both, nil
}

func mend(ctx context.Context, raw diskquorum.Device, o *MendOptions) (*ImportResult, error) {
	dev := &interruptible{ctx: ctx, Device: raw}
	head, both, err := candidates(dev)
	if err != nil {
		return nil, stoppedOnTheWay(fmt.Errorf("import %s: %w", o.Path, err), "import", o.Path, untouched)
	}
	good, err := whichIsOurs(o, &both)
	if err != nil {
		return nil, err
	}
	ours, lost := &both[good], 1-good
	r := &ImportResult{
		ID: fmt.Sprintf("%x", ours.sb.ID), DryRun: o.DryRun, Superblock: []string{string(rune('A' + lost))}, Slots: []int{}, Kept: ours.slots,
		Overridden: []string{}, Warnings: []string{},
	}
	if o.DryRun {
		return r, nil
	}
	again, err := readAll(dev, 2*diskquorum.BlockSize)
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", o.Path, err)
	}
	if firstDifference(head, again) >= 0 {
		return nil, &RefusedError{Op: "import", Path: o.Path, Forced: true, Reason: "is being written: the superblock has changed meanwhile",
			Advice: "look who formats it, and repeat the command"}
	}
	want := make([]byte, diskquorum.BlockSize)
	if err := diskquorum.EncodeSuperblock(want, &ours.sb, lost); err != nil {
		return nil, fmt.Errorf("import %s: %w", o.Path, err)
	}
	off := int64(lost) * diskquorum.BlockSize
	const half = "whether the copy was restored is not known; repeat the command"
	if _, err := dev.WriteAt(want, off); err != nil {
		return nil, stoppedOnTheWay(fmt.Errorf("import %s: %w; "+half, o.Path, err), "import", o.Path, half)
	}
	if got, err := readAll(dev, 2*diskquorum.BlockSize); err != nil || firstDifference(want, got[off:off+diskquorum.BlockSize]) >= 0 {
		return nil, fmt.Errorf("import %s: the copy reads back differently: the device loses writes, or somebody else writes it (%v)", o.Path, err)
	}
	return r, nil
}

// whichIsOurs decides by the slots, and demands that the administrator says the same.
func whichIsOurs(o *MendOptions, both *[2]candidate) (good int, err error) {
	a, b := &both[0], &both[1]
	state := fmt.Sprintf("superblock copy A %v; copy B %v", a, b)
	refuse := func(reason, advice string) (int, error) {
		return 0, &RefusedError{Op: "import", Path: o.Path, Reason: reason, Forced: true, Advice: advice}
	}
	switch {
	case a.err != nil && b.err != nil:
		return refuse("carries no superblock that can be read: "+state, "with an export of it, name that as FILE")
	case a.err == nil && b.err == nil && a.sb == b.sb:
		return refuse("has lost no copy of its superblock", "slots are restored from an export: name that as FILE")
	case a.slots > 0 && b.slots > 0:
		return refuse("carries slots of two LUNs: "+state, "nobody can say which of them it is; with an export of it, name that as FILE")
	case a.slots == 0 && b.slots == 0:
		return refuse("carries no slot that says which copy is right: "+state, "no agent has used it, so format it again with fencectl lun init --force")
	}
	if b.slots > 0 {
		good = 1
	}
	id := fmt.Sprintf("%x", both[good].sb.ID)
	switch given, err := hex.DecodeString(o.ID); {
	case o.ID == "":
		return refuse("has lost a copy of its superblock: "+state,
			fmt.Sprintf("if %s is the cluster and %s the group of this device, restore the copy with: fencectl lun repair import %s --id %s",
				clean(both[good].sb.Cluster), clean(both[good].sb.NodeGroup), o.Path, id))
	case err != nil || string(given) != string(both[good].sb.ID[:]):
		return refuse(fmt.Sprintf("is not LUN %s: %s", clean(o.ID), state), "the slots decide, not the copy that is read first: is it the right device?")
	}
	return good, nil
}
