package sim

import (
	"bytes"
	"math/rand/v2"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// shown is what a node has read in the first blocks of a device.
type shown struct {
	ours bool
	at   boottime.Instant // the end of the last read that contained our data
}

// Replace overwrites a device's superblock, as mkfs, a partition table or zeros do.
func (c *Cluster) Replace(device int, with byte) {
	c.trace("device %d has foreign data", device)
	copy(c.lun.images[device], bytes.Repeat([]byte{with}, diskquorum.OwnSize))
}

// GiveBack restores the superblock of a device.
func (c *Cluster) GiveBack(device int) {
	c.trace("device %d is ours again", device)
	c.lun.giveBack(device)
}

func (l *lun) giveBack(device int) {
	for which := range 2 {
		if err := diskquorum.EncodeSuperblock(l.images[device][which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], l.sbs[device], which); err != nil {
			panic(err)
		}
	}
}

// noteShown records what a node has read in the first blocks of a device.
func (l *lun) noteShown(n *Node, device int, start []byte) {
	sb, err := diskquorum.ReadSuperblock(start)
	s := shown{ours: err == nil && sb.ID == l.sbs[device].ID, at: l.c.now}
	if !s.ours {
		s.at = l.shown[path{n.Index, device}].at
	}
	l.shown[path{n.Index, device}] = s
}

// checkOurs checks a write that begins: the last read must have returned our data, and must be no older than a
// heartbeat (B10).
func (l *lun) checkOurs(n *Node, op *diskquorum.Op) {
	s := l.shown[path{n.Index, op.Device}]
	if age := l.c.now.Sub(s.at); op.Kind == diskquorum.OpWrite && (!s.ours || age > l.c.times(n).Timing.Heartbeat) {
		l.c.check.add("%s begins a write of device %d at %d, having last read our superblock %v ago (ours at the last read: %v)", n.Name, op.Device, op.Offset, age, s.ours)
	}
}

// turnOver makes a device foreign, or restores all devices.
func (c *Cluster) turnOver(rng *rand.Rand) {
	if c.lun == nil || rng.IntN(6) > 0 {
		return
	}
	if d := rng.IntN(len(c.lun.images)); rng.IntN(2) == 0 {
		c.Replace(d, byte(rng.IntN(3)))
		return
	}
	for d := range c.lun.images {
		c.GiveBack(d)
	}
}

// start returns the first blocks if an I/O has read them, or nil.
func (t *transfer) start() []byte {
	if t.Kind == diskquorum.OpRead && t.Offset == 0 && t.err == nil {
		return t.Data
	}
	return t.own
}
