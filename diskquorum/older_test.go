package diskquorum

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// elsewhere is a second image of a device, to which the paths of some nodes lead.
type elsewhere struct {
	nodes roster.Set
	image []byte
}

// imageOf returns the image that a node's I/O on a device reaches.
func (r *rig) imageOf(node, d int) []byte {
	if e := &r.elsewhere[d]; e.image != nil && e.nodes.Has(node) {
		return e.image
	}
	return r.images[d]
}

// lies is faulty storage: it keeps whole images of the devices, and restores them.
type lies struct {
	rng    *rand.Rand
	kept   [][]byte // snapshots, by device; nil: none
	others [][]byte // image of the device that replaced an exchanged one, or nil
	turned bool     // devices 0 and 1 are exchanged
}

// lie makes the storage faulty, in some schedules: snapshots are restored for all nodes or some of them, on one device
// or all; slots are zeroed; devices are replaced with those of another group or exchanged, and corrected again.
func (e *explorer) lie() {
	l, r := e.lies, e.rig
	if l == nil || l.rng.IntN(40) > 0 {
		return
	}
	if l.kept == nil {
		l.kept, l.others = make([][]byte, len(r.images)), make([][]byte, len(r.images))
	}
	devices := []int{l.rng.IntN(len(r.images))}
	if l.rng.IntN(2) == 0 {
		devices = l.rng.Perm(len(r.images))
	}
	some := roster.SetOf(l.rng.Perm(len(r.nodes))[:len(r.nodes)/2]...)
	switch what := l.rng.IntN(10); what {
	case 0, 1, 2:
		for _, d := range devices {
			l.kept[d] = slices.Clone(r.images[d])
		}
		r.trace("a snapshot is taken of devices %v", devices)
	case 3, 4:
		for _, d := range devices {
			if l.kept[d] != nil && l.others[d] == nil && !l.turned {
				e.goBack(d, roster.FullSet(len(r.nodes)), l.kept[d])
			}
		}
	case 5:
		for _, d := range devices {
			if l.kept[d] != nil && l.others[d] == nil && !l.turned {
				e.goBack(d, some, l.kept[d])
			}
		}
	case 6:
		zeroed := append(slices.Clone(r.own[devices[0]]), make([]byte, len(r.image)-OwnSize)...)
		if d := devices[0]; l.others[d] == nil && !l.turned {
			e.goBack(d, roster.FullSet(len(r.nodes)), zeroed)
		}
	case 7:
		l.exchange(r, devices[0])
	case 8:
		l.turn(r)
	case 9:
		for d := range r.images {
			r.change(d, func() { l.putRight(r, d) })
		}
	}
}

// goBack gives an older image to all nodes or to some of them. The others go on with the present image.
func (e *explorer) goBack(d int, nodes roster.Set, image []byte) {
	r := e.rig
	r.trace("device %d goes back for %v", d, members(nodes))
	r.change(d, func() {
		if nodes == roster.FullSet(len(r.nodes)) {
			r.elsewhere[d] = elsewhere{}
			copy(r.images[d], image)
		} else {
			r.elsewhere[d] = elsewhere{nodes, slices.Clone(image)}
		}
	})
}

// change changes a device, and the oracle compares what each node is shown before and after.
func (r *rig) change(d int, do func()) {
	was := make([][]byte, len(r.nodes))
	for i := range r.nodes {
		was[i] = slices.Clone(r.imageOf(i, d))
	}
	do()
	for i, n := range r.nodes {
		r.oracle.wentBack(n, d, was[i], r.imageOf(i, d))
	}
}

// exchange replaces a device with the LUN of another group, and keeps the device's image.
func (l *lies) exchange(r *rig, d int) {
	if l.others[d] != nil || l.turned {
		return
	}
	l.others[d] = slices.Clone(r.images[d])
	clear(r.images[d])
	copy(r.images[d], replaced(r, d, 1))
	r.trace("device %d is exchanged for another group's", d)
}

// turn exchanges two devices of a set for each other.
func (l *lies) turn(r *rig) {
	if len(r.images) < 2 || l.others[0] != nil || l.others[1] != nil {
		return
	}
	l.turned = !l.turned
	was := slices.Clone(r.images[0])
	copy(r.images[0], r.images[1])
	copy(r.images[1], was)
	r.trace("devices 0 and 1 are exchanged for each other, %v", l.turned)
}

func (l *lies) putRight(r *rig, d int) {
	if d == 0 && l.turned {
		l.turn(r)
	}
	if l.others[d] != nil {
		copy(r.images[d], l.others[d])
		l.others[d] = nil
	}
	r.elsewhere[d] = elsewhere{}
	r.trace("device %d is right again", d)
}

// backTruth records what faulty storage has taken from the nodes.
type backTruth struct {
	unpromised    string                      // why only B10 is still promised; "": everything is promised
	lost          []deviceSet                 // by node: devices that went back, and that the node has not accepted again since
	unread        map[[2]int]boottime.Instant // {node, device}: since when the next read shows the node's agent that the device went back
	events, known int
}

// wentBack evaluates a device that shows nodes other contents than before. B11 promises less than B1 to B9 promise for
// correct storage: one value per instance, and no grant that others do not know. Even this needs that each node which
// lost records runs an agent that can notice it: records are missing that the agent has written or read, and failed
// writes cannot be the cause. Some agents cannot notice it: one that has read and written nothing since the snapshot,
// the next agent of a node whose slot does not state it, one whose path leads to a copy in which nothing is missing
// yet, and one that writes both copies of its slot before it reads. From then on only B10 is promised: the storage has
// lost promises, and no node knows it.
func (o *oracle) wentBack(n *rigNode, d int, was, is []byte) {
	t := &o.back
	lost := n.r.elsewhere[d].image != nil && n.r.elsewhere[d].nodes.Has(n.index) // these nodes miss the others' later writes
	if !lost && bytes.Equal(was, is) {
		return // the records that it has not read yet are still there
	}
	delete(t.unread, [2]int{n.index, d})
	for at := OwnSize; at < len(is); at += BlockSize {
		lost = lost || recordSequence(is[at:at+BlockSize]) < recordSequence(was[at:at+BlockSize])
	}
	// The snapshot may have been taken in the middle of a write: the sector with the sequence had landed, and others had not.
	for i := range n.r.sb.Slots {
		for which := range copiesPerSlot {
			at, s, id := SlotOffset(i, which), Slot{}, n.r.sbs[d].ID
			lost = lost || DecodeSlot(was[at:at+BlockSize], id, i, which, &s) == nil && DecodeSlot(is[at:at+BlockSize], id, i, which, &s) != nil
		}
	}
	if !lost {
		return
	}
	t.events++
	t.lost[n.index].add(d)
	switch {
	case n.arb == nil:
		o.promiseNothing(n, "no agent runs on it")
	case !knowsBack(n, d, is):
		o.promiseNothing(n, "its agent cannot tell")
	default:
		t.known++
		t.unread[[2]int{n.index, d}] = n.r.now
	}
}

// endedBack follows the I/O of a node on a device that went back: its writes may destroy both copies of its slot, which
// would have shown it, and the first read that began since must show it.
func (o *oracle) endedBack(n *rigNode, io *rigIO, c *Completion) {
	key := [2]int{n.index, c.Device}
	since, unread := o.back.unread[key]
	if !unread || n.arb.lanes[c.Device].back || n.arb.Foreign(c.Device) != nil {
		delete(o.back.unread, key)
		return
	}
	if !knowsBack(n, c.Device, n.r.imageOf(n.index, c.Device)) {
		o.promiseNothing(n, "it has written over what would have told it before it read")
	} else if c.Kind == OpRead && c.Started >= since && io.op.Offset == 0 && io.op.Length > OwnSize && c.Err == nil {
		o.add("n%d has read device %d, which went back, and does not know", n.index, c.Device)
	}
}

func (o *oracle) promiseNothing(n *rigNode, why string) {
	if o.back.unpromised == "" {
		o.back.unpromised = why
		n.r.trace("nothing is promised any more: n%d: %s", n.index, why)
	}
}

// knowsBack reports whether one read of an image shows an agent that the image went back.
func knowsBack(n *rigNode, d int, image []byte) bool {
	l := &n.arb.lanes[d]
	if l.back {
		return true
	}
	for i := range n.r.sb.Slots {
		older, late := 0, false
		p := &n.arb.table.devices[d].slots[i].past
		for which := range copiesPerSlot {
			at := SlotOffset(i, which)
			seq := recordSequence(image[at : at+BlockSize])
			var s Slot
			if err := DecodeSlot(image[at:at+BlockSize], n.r.sbs[d].ID, i, which, &s); err != nil && bytes.ContainsFunc(image[at:at+BlockSize], func(b rune) bool { return b != 0 }) {
				seq = ^uint64(0) // torn, even if the sector with the sequence is missing: it proves nothing
			}
			late = late || seq != 0 && s.Late != 0
			if seq < p.shown[which] {
				older++
			}
			if i == n.arb.slot && seq < l.landed[which] && !mayLand(l.failed[which], l.right[which]) && !mayLand(n.arb.claimSince, l.right[which]) {
				return true
			}
		}
		if older == copiesPerSlot && !late && !p.explained() {
			return true
		}
	}
	return false
}

// startedBack evaluates the start of an agent on a device that went back.
func (o *oracle) startedBack(n *rigNode) {
	for d := range n.r.images {
		if !o.back.lost[n.index].has(d) {
			continue
		}
		said := false
		for which := range copiesPerSlot {
			var s Slot
			at := SlotOffset(n.index, which)
			if DecodeSlot(n.r.imageOf(n.index, d)[at:at+BlockSize], n.r.sbs[d].ID, n.index, which, &s) == nil {
				said = said || s.Late>>d&1 != 0
			}
		}
		if !said {
			o.promiseNothing(n, "its slot does not say to the next agent that the device went back")
		}
	}
}

// steppedBack follows an agent's state of devices that went back.
func (o *oracle) steppedBack(n *rigNode) {
	lost := &o.back.lost[n.index]
	if *lost == 0 {
		return
	}
	if n.arb.legacy.late != 0 && !mayLand(n.arb.legacy.since, n.r.now) {
		o.promiseNothing(n, "two minutes are over since the agent was restarted")
	}
}
