package sim

import (
	"errors"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// lun is the shared LUN: the images of its devices, and the I/O under way on them.
type lun struct {
	c      *Cluster
	sbs    []*diskquorum.Superblock
	images [][]byte

	faults    map[path]*Faults
	faultless Faults
	buffers   [][]byte // free buffers for later transfers
	lent      [][]byte // [node*devices + device]: the buffers of the last completion
	ledger    ledger
	shown     map[path]shown // the superblocks that reads have returned
}

type path struct{ node, device int }

// Faults describes one node's path to a device of the LUN.
type Faults struct {
	Writes  bool          // Down, Hung and Fail affect only writes; reads work
	Down    bool          // every I/O fails, after a while
	Hung    bool          // I/O does not complete until the fault is lifted
	Takes   time.Duration // added to each I/O
	Slow    time.Duration // added to each I/O at random, up to this
	Fail    float64       // share of I/O that fails
	LateOf  float64       // share of failed writes that still land, at most LateBy later
	LateBy  time.Duration
	TornOf  float64 // share of writes whose sectors land at different times
	waiting []func()
}

var errIO = errors.New("input/output error")

func newLUN(c *Cluster) *lun {
	l := &lun{c: c, faults: map[path]*Faults{}, ledger: newLedger(), shown: map[path]shown{}}
	devices := max(1, c.cfg.Devices)
	for d := range devices {
		sb := &diskquorum.Superblock{Version: diskquorum.FormatVersion, Cluster: "sim", NodeGroup: "sim", Slots: max(2, c.cfg.Nodes)}
		if sb.ID[0] = byte(1 + d); devices > 1 {
			sb.SetID[0], sb.Devices, sb.Device = 9, devices, d
		}
		image := make([]byte, diskquorum.DeviceSize(sb.Slots))
		for copy := range 2 {
			if err := diskquorum.EncodeSuperblock(image[copy*diskquorum.BlockSize:(copy+1)*diskquorum.BlockSize], sb, copy); err != nil {
				panic(err)
			}
		}
		l.sbs, l.images = append(l.sbs, sb), append(l.images, image)
	}
	l.lent = make([][]byte, c.cfg.Nodes*devices)
	return l
}

// LUNFaults sets the faults of a node's paths to these devices of the LUN, or to all of them if no device is named; nil
// ends the faults.
func (c *Cluster) LUNFaults(node int, f *Faults, devices ...int) {
	if len(devices) == 0 {
		for d := range c.lun.images {
			devices = append(devices, d)
		}
	}
	c.trace("LUN faults of %s on devices %v: %+v", c.nodes[node].Name, devices, f)
	for _, d := range devices {
		at := path{node, d}
		old := c.lun.faults[at]
		delete(c.lun.faults, at)
		if f != nil {
			own := *f // a copy, because a transfer that waits does so on this path
			c.lun.faults[at] = &own
		}
		if old == nil {
			continue
		}
		waiting := old.waiting
		old.waiting = nil
		if f != nil && f.Hung {
			c.lun.faults[at].waiting = waiting
			continue
		}
		for _, do := range waiting {
			do()
		}
	}
}

// transfer is one pending I/O.
type transfer struct {
	diskquorum.Op
	node    *Node
	faults  *Faults
	started boottime.Instant
	err     error
	beside  *transfer // the transfer of the block that is written at the same time
	own     []byte
}

// submit runs one I/O. A write lands between its start and its completion; a failed one may land later. A read returns
// what had landed at some moment in between.
func (l *lun) submit(n *Node, op *diskquorum.Op) {
	l.takeBack(n, op.Device)
	t := &transfer{Op: *op, node: n, faults: &l.faultless, started: l.c.now}
	if op.Kind == diskquorum.OpWrite {
		t.Data = append(l.buffer(), op.Data...)
	}
	if op.Beside != nil {
		beside := diskquorum.Op{ID: op.ID, Device: op.Device, Kind: op.Kind, Offset: op.BesideAt, Data: append(l.buffer(), op.Beside...)}
		t.beside = &transfer{Op: beside, node: n, faults: t.faults, started: t.started}
	}
	l.noteBegun(n, &t.Op)
	l.checkOurs(n, &t.Op)
	if t.beside != nil {
		l.noteBegun(n, &t.beside.Op)
		l.checkOurs(n, &t.beside.Op)
	}
	if f := l.faults[path{n.Index, op.Device}]; f != nil {
		t.faults = f
		if t.beside != nil {
			t.beside.faults = f
		}
		if f.Hung && f.concerns(&t.Op) {
			f.waiting = append(f.waiting, func() { l.run(t) })
			return
		}
	}
	l.run(t)
}

// buffer returns an empty buffer, usually one that was used before.
func (l *lun) buffer() []byte {
	last := len(l.buffers) - 1
	if last < 0 {
		return nil
	}
	b := l.buffers[last]
	l.buffers = l.buffers[:last]
	return b[:0]
}

// lend hands the read data to a node, which owns it until its next I/O on the device, as [diskquorum.Completion]
// documents.
func (l *lun) lend(n *Node, device int, data []byte) []byte {
	l.takeBack(n, device)
	l.lent[n.Index*len(l.images)+device] = data
	return data
}

func (l *lun) takeBack(n *Node, device int) {
	if lent := &l.lent[n.Index*len(l.images)+device]; *lent != nil {
		l.buffers = append(l.buffers, *lent)
		*lent = nil
	}
}

func (f *Faults) concerns(o *diskquorum.Op) bool { return !f.Writes || o.Kind == diskquorum.OpWrite }

func (l *lun) run(t *transfer) {
	c, f := l.c, t.faults
	total := 500*time.Microsecond + time.Duration(c.rng.Int64N(int64(5*time.Millisecond))) + f.Takes
	if f.Slow > 0 {
		total += time.Duration(c.rng.Int64N(int64(f.Slow)))
	}
	l.carry(t, total)
	if t.beside != nil {
		l.carry(t.beside, total)
	}
	c.during(t.node, total, func() { l.complete(t) })
}

// carry lets an I/O take effect within its duration, or not at all.
func (l *lun) carry(t *transfer, total time.Duration) {
	c, f := l.c, t.faults
	mid := time.Duration(c.rng.Int64N(int64(total)))
	if f.concerns(&t.Op) && (f.Down || c.rng.Float64() < f.Fail) {
		t.err = errIO
		if t.Kind == diskquorum.OpWrite && c.rng.Float64() < f.LateOf {
			c.at(total+time.Duration(c.rng.Int64N(int64(f.LateBy)+1)), func() { l.land(t, 0, len(t.Data)) })
		}
	} else if t.Kind == diskquorum.OpWrite {
		l.scheduleLanding(t, mid, total)
	} else {
		c.at(mid, func() {
			t.Data = append(l.buffer(), l.images[t.Device][t.Offset:t.Offset+int64(t.Length)]...)
			l.noteRead(t.node, &t.Op)
		})
	}
	if t.Own && !f.Down && (f.Fail == 0 || c.rng.Float64() >= f.Fail) { // it is a separate command
		c.at(mid, func() { t.own = append([]byte(nil), l.images[t.Device][:diskquorum.OwnSize]...) })
	}
}

func (l *lun) complete(t *transfer) {
	c := l.c
	done := diskquorum.Completion{ID: t.ID, Device: t.Device, Kind: t.Kind, Started: t.started, Ended: c.now, Err: t.err, Own: t.own}
	if start := t.start(); start != nil {
		l.noteShown(t.node, t.Device, start)
	}
	if t.beside != nil {
		done.BesideErr = t.beside.err
	}
	if t.Kind == diskquorum.OpRead {
		done.Data = l.lend(t.node, t.Device, t.Data)
	}
	t.node.core.IOCompleted(c.now, &done)
	c.wakeNode(t.node, 0)
}

// scheduleLanding makes a write visible at mid. A torn write lands in two parts, and a read is possible in between.
func (l *lun) scheduleLanding(t *transfer, mid, total time.Duration) {
	if l.c.rng.Float64() >= t.faults.TornOf {
		l.c.at(mid, func() { l.land(t, 0, len(t.Data)) })
		return
	}
	at := diskquorum.SectorSize * (1 + l.c.rng.IntN(len(t.Data)/diskquorum.SectorSize-1))
	l.c.at(mid, func() { l.land(t, 0, at) })
	l.c.at(total-1, func() { l.land(t, at, len(t.Data)) })
}

func (l *lun) land(t *transfer, from, to int) {
	copy(l.images[t.Device][t.Offset+int64(from):], t.Data[from:to])
	l.noteLanded(&t.Op, to == len(t.Data))
	if to == len(t.Data) {
		l.buffers = append(l.buffers, t.Data)
	}
}
