package lunadmin

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

const opMend = "restore-superblock"

// MendResult describes what was restored. Its JSON form is part of fencectl's interface.
type MendResult struct {
	Opened
	ID    string `json:"id"`
	Copy  string `json:"copy"`  // copy of the superblock: A or B
	Slots int    `json:"slots"` // number of slots that are sealed with the id
}

// Mend restores one copy of the superblock from the other one. It does not guess which copy is right: the right copy is
// the one whose id has sealed the slots, and the administrator has to name that id. id is the LUN's id, 32 hexadecimal
// digits, or empty to ask for it. Mend only writes the other copy, which no agent writes: agents may run.
func Mend(ctx context.Context, path, id string) (r *MendResult, err error) {
	err = onDevice(ctx, opMend, path, rawdev.Options{}, func(dev *rawdev.Device, opened Opened) error {
		if r, err = mend(ctx, dev, path, id); err == nil {
			r.add(opened)
		}
		return err
	})
	return r, err
}

// candidate is one copy of the superblock, with the number of slots that confirm it.
type candidate struct {
	sb    diskquorum.Superblock
	err   error
	slots int // slots that are sealed with its id
}

func (c *candidate) String() string {
	if c.err != nil {
		return "is " + copyHealth(c.err)
	}
	return fmt.Sprintf("is of LUN %x (cluster %s, node group %s), with which %d slots are sealed", c.sb.ID, clean(c.sb.Cluster), clean(c.sb.NodeGroup), c.slots)
}

// candidates reads both copies of the superblock and counts which LUN ids the slots are sealed with.
func candidates(dev diskquorum.Device) (head []byte, both [2]candidate, err error) {
	if dev.Size() < 2*diskquorum.BlockSize {
		return nil, both, fmt.Errorf("the device has %d bytes, too few for a LUN", dev.Size())
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

func mend(ctx context.Context, raw diskquorum.Device, path, id string) (*MendResult, error) {
	dev := &interruptible{ctx: ctx, Device: raw}
	head, both, err := candidates(dev)
	if err != nil {
		return nil, stoppedOnTheWay(err, opMend, path, untouched)
	}
	good, err := whichIsOurs(path, id, &both)
	if err != nil {
		return nil, err
	}
	ours, lost := &both[good], 1-good
	r := &MendResult{ID: fmt.Sprintf("%x", ours.sb.ID), Copy: string(rune('A' + lost)), Slots: ours.slots, Opened: Opened{Warnings: []string{}}}
	again, err := readAll(dev, 2*diskquorum.BlockSize)
	if err != nil {
		return nil, err
	}
	if firstDifference(head, again) >= 0 {
		return nil, &RefusedError{Op: opMend, Path: path, Forced: true, Reason: "is being written: the superblock has changed meanwhile",
			Advice: "find out who formats it, and repeat the command"}
	}
	want := make([]byte, diskquorum.BlockSize)
	if err := diskquorum.EncodeSuperblock(want, &ours.sb, lost); err != nil {
		return nil, err
	}
	off := int64(lost) * diskquorum.BlockSize
	const half = "whether the copy was restored is not known; repeat the command"
	if _, err := dev.WriteAt(want, off); err != nil {
		return nil, stoppedOnTheWay(fmt.Errorf("%w; "+half, err), opMend, path, half)
	}
	if got, err := readAll(dev, 2*diskquorum.BlockSize); err != nil || firstDifference(want, got[off:off+diskquorum.BlockSize]) >= 0 {
		return nil, fmt.Errorf("the copy reads back differently: the device loses writes, or another program writes to it (%v)", err)
	}
	return r, nil
}

// again is the advice for a device that cannot be mended. A device of a set must not be formatted alone: it would not
// belong to any set.
const again = "format it again with fencectl lun init --force; format a device of a set only together with the others"

// whichIsOurs decides by the slots, and requires that the administrator has named the same id.
func whichIsOurs(path, id string, both *[2]candidate) (good int, err error) {
	a, b := &both[0], &both[1]
	state := fmt.Sprintf("superblock copy A %v; copy B %v", a, b)
	refuse := func(reason, advice string) (int, error) {
		return 0, &RefusedError{Op: opMend, Path: path, Reason: reason, Forced: true, Advice: advice}
	}
	switch {
	case a.err != nil && b.err != nil:
		return refuse("carries no superblock that can be read: "+state, "no agent accepts it, so "+again)
	case a.err == nil && b.err == nil && a.sb == b.sb:
		return refuse("has lost no copy of its superblock", "a slot that cannot be read is freed with: fencectl lun repair release-slot")
	case a.slots > 0 && b.slots > 0:
		return refuse("carries slots of two LUNs: "+state, "it cannot be decided which of them the device belongs to: if neither is needed any more, "+again)
	case a.slots == 0 && b.slots == 0:
		return refuse("carries no slot that says which copy is right: "+state, "no agent has used it, so "+again)
	}
	if b.slots > 0 {
		good = 1
	}
	ours := fmt.Sprintf("%x", both[good].sb.ID)
	switch given, err := hex.DecodeString(id); {
	case id == "":
		return refuse("has lost a copy of its superblock: "+state,
			fmt.Sprintf("if %s is the cluster and %s the group of this device, restore the copy with: fencectl lun repair restore-superblock %s --id %s",
				clean(both[good].sb.Cluster), clean(both[good].sb.NodeGroup), path, ours))
	case err != nil || string(given) != string(both[good].sb.ID[:]):
		return refuse(fmt.Sprintf("is not LUN %s: %s", clean(id), state), "the slots decide, not the copy that is read first: is it the right device?")
	}
	return good, nil
}
