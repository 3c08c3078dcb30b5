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

	faults map[path]*Faults
	ledger ledger

	forge func(*diskquorum.Slot) // changes what is written; nil: nothing does
}

// path is one node's way to one device.
type path struct{ node, device int }

// Faults is what one node's path to a device of the LUN suffers.
type Faults struct {
	Writes  bool          // Down, Hung and Fail concern writes only: reads work
	Down    bool          // every I/O fails, after a while
	Hung    bool          // I/O does not complete until the fault is lifted
	Slow    time.Duration // added to each I/O at random, up to this
	Fail    float64       // share of I/O that fails
	LateOf  float64       // share of failed writes that land nevertheless, up to LateBy after
	LateBy  time.Duration
	TornOf  float64 // share of writes whose sectors land apart in time
	waiting []func()
}

var errIO = errors.New("input/output error")

func newLUN(c *Cluster) *lun {
	l := &lun{c: c, faults: map[path]*Faults{}, ledger: newLedger()}
	devices := max(1, c.cfg.Devices)
	for d := range devices {
		sb := &diskquorum.Superblock{Version: diskquorum.FormatVersion, Cluster: "sim", NodeGroup: "sim", Slots: max(2, c.cfg.Nodes), Echoes: !c.cfg.OldLUN}
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
	return l
}

// LUNFaults sets what a node's paths to these devices of the LUN suffer from now on, or all
// its paths if none is named; nil heals them.
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
			own := *f // what waits, waits on this path
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

// submit runs one I/O. A write lands somewhere between its start and its completion, a
// failed one possibly later; a read returns what has landed at some moment in between.
func (l *lun) submit(n *Node, op *diskquorum.Op) {
	o := *op
	o.Data = append([]byte(nil), op.Data...)
	if l.forge != nil && op.Kind == diskquorum.OpWrite && op.Offset < diskquorum.ScratchOffset(l.sbs[0].Slots) {
		l.rewrite(&o)
	}
	f := l.faults[path{n.Index, op.Device}]
	if f == nil {
		f = &Faults{}
	}
	l.noteBegun(n, &o)
	started := l.c.now
	run := func() { l.run(n, &o, f, started) }
	if f.Hung && f.concerns(&o) {
		f.waiting = append(f.waiting, run)
		return
	}
	run()
}

func (f *Faults) concerns(o *diskquorum.Op) bool { return !f.Writes || o.Kind == diskquorum.OpWrite }

func (l *lun) run(n *Node, o *diskquorum.Op, f *Faults, started boottime.Instant) {
	c := l.c
	total := 500*time.Microsecond + time.Duration(c.rng.Int64N(int64(5*time.Millisecond)))
	if f.Slow > 0 {
		total += time.Duration(c.rng.Int64N(int64(f.Slow)))
	}
	mid := time.Duration(c.rng.Int64N(int64(total)))
	done := diskquorum.Completion{ID: o.ID, Device: o.Device, Kind: o.Kind, Started: started}
	if f.concerns(o) && (f.Down || c.rng.Float64() < f.Fail) {
		done.Err = errIO
		if o.Kind == diskquorum.OpWrite && c.rng.Float64() < f.LateOf {
			c.at(total+time.Duration(c.rng.Int64N(int64(f.LateBy)+1)), func() { l.land(o, 0, len(o.Data)) })
		}
	} else if o.Kind == diskquorum.OpWrite {
		l.scheduleLanding(o, f, mid, total)
	} else {
		c.at(mid, func() {
			done.Data = append([]byte(nil), l.images[o.Device][o.Offset:o.Offset+int64(o.Length)]...)
			l.noteRead(n, o)
		})
	}
	c.during(n, total, func() {
		done.Ended = c.now
		n.core.IOCompleted(c.now, &done)
		c.wakeNode(n, 0)
	})
}

// scheduleLanding makes a write visible at mid, or, torn, in two parts with a read
// possible in between.
func (l *lun) scheduleLanding(o *diskquorum.Op, f *Faults, mid, total time.Duration) {
	if l.c.rng.Float64() >= f.TornOf {
		l.c.at(mid, func() { l.land(o, 0, len(o.Data)) })
		return
	}
	at := diskquorum.SectorSize * (1 + l.c.rng.IntN(len(o.Data)/diskquorum.SectorSize-1))
	l.c.at(mid, func() { l.land(o, 0, at) })
	l.c.at(total-1, func() { l.land(o, at, len(o.Data)) })
}

func (l *lun) rewrite(o *diskquorum.Op) {
	var s diskquorum.Slot
	id, block := l.sbs[o.Device].ID, int(o.Offset/diskquorum.BlockSize)-2
	if err := diskquorum.DecodeSlot(o.Data, id, block/2, block%2, &s); err != nil {
		panic(err)
	}
	l.forge(&s)
	if err := diskquorum.EncodeSlot(o.Data, id, &s, block%2); err != nil {
		panic(err)
	}
}

func (l *lun) land(o *diskquorum.Op, from, to int) {
	copy(l.images[o.Device][o.Offset+int64(from):], o.Data[from:to])
	l.noteLanded(o, to == len(o.Data))
}
