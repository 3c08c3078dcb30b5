package sim

import (
	"errors"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
)

// lun is the shared LUN: an image, and the I/O under way on it.
type lun struct {
	c     *Cluster
	sb    *diskquorum.Superblock
	image []byte
	locks map[int]*Node // own-slot locks: one host each here, so only an agent's own earlier life competes

	faults map[int]*Faults // per node
	late   map[int64]int   // writes that failed and will land, by offset
}

// Faults is what one node's path to the LUN suffers.
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
	l := &lun{
		c:      c,
		sb:     &diskquorum.Superblock{Version: diskquorum.FormatVersion, Cluster: "sim", NodeGroup: "sim", Slots: max(2, c.cfg.Nodes)},
		locks:  map[int]*Node{},
		faults: map[int]*Faults{},
		late:   map[int64]int{},
	}
	l.sb.ID[0] = 1
	l.image = make([]byte, diskquorum.DeviceSize(l.sb.Slots))
	for copy := range 2 {
		if err := diskquorum.EncodeSuperblock(l.image[copy*diskquorum.BlockSize:(copy+1)*diskquorum.BlockSize], l.sb, copy); err != nil {
			panic(err)
		}
	}
	return l
}

// LUNFaults sets what a node's path to the LUN suffers from now on; nil heals it.
func (c *Cluster) LUNFaults(node int, f *Faults) {
	old := c.lun.faults[node]
	c.lun.faults[node] = f
	c.trace("LUN faults of %s: %+v", c.nodes[node].Name, f)
	if old != nil && (f == nil || !f.Hung) {
		for _, do := range old.waiting {
			do()
		}
		old.waiting = nil
	}
}

func (l *lun) lock(*Node) error { return nil }

// submit runs one I/O. A write lands somewhere between its start and its completion, a
// failed one possibly later; a read returns what has landed at some moment in between.
func (l *lun) submit(n *Node, op *diskquorum.Op) {
	o := *op
	o.Data = append([]byte(nil), op.Data...)
	f := l.faults[n.Index]
	if f == nil {
		f = &Faults{}
	}
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
	done := diskquorum.Completion{ID: o.ID, Kind: o.Kind, Started: started}
	if f.concerns(o) && (f.Down || c.rng.Float64() < f.Fail) {
		done.Err = errIO
		if o.Kind == diskquorum.OpWrite && c.rng.Float64() < f.LateOf && !l.otherIsLate(o) {
			l.late[o.Offset]++
			c.at(total+time.Duration(c.rng.Int64N(int64(f.LateBy)+1)), func() {
				l.late[o.Offset]--
				l.land(o, 0, len(o.Data))
			})
		}
	} else if o.Kind == diskquorum.OpWrite {
		l.scheduleLanding(o, f, mid, total)
	} else {
		c.at(mid, func() { done.Data = append([]byte(nil), l.image[o.Offset:o.Offset+int64(o.Length)]...) })
	}
	c.during(n, total, func() {
		done.Ended = c.now
		n.core.IOCompleted(c.now, &done)
		c.wakeNode(n, 0)
	})
}

// otherIsLate reports whether a write to the other copy of the slot will land late.
func (l *lun) otherIsLate(o *diskquorum.Op) bool {
	return l.late[o.Offset^diskquorum.BlockSize] > 0 // slots begin at even blocks
}

// scheduleLanding makes a write visible at mid, or, torn, in two parts with a read
// possible in between.
func (l *lun) scheduleLanding(o *diskquorum.Op, f *Faults, mid, total time.Duration) {
	if l.c.rng.Float64() >= f.TornOf || l.otherIsLate(o) {
		l.c.at(mid, func() { l.land(o, 0, len(o.Data)) })
		return
	}
	at := diskquorum.SectorSize * (1 + l.c.rng.IntN(len(o.Data)/diskquorum.SectorSize-1))
	l.c.at(mid, func() { l.land(o, 0, at) })
	l.c.at(total-1, func() { l.land(o, at, len(o.Data)) })
}

func (l *lun) land(o *diskquorum.Op, from, to int) {
	copy(l.image[o.Offset+int64(from):], o.Data[from:to])
}
