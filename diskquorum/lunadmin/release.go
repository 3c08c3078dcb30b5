package lunadmin

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
)

// ReleaseOptions defines which slot to release, and how strict to be.
type ReleaseOptions struct {
	Node string // owner of the slot; empty: by Slot
	Slot int    // index, or -1: by Node
	// Force states that the administrator has made sure that the node is off. It never overrides that a slot changes
	// while it is watched, or that an agent of this host has locked it.
	Force    bool
	Horizon  time.Duration // how long the slot must not change; 0: as the slot states
	Progress func(string)
}

// ReleaseResult describes what was done. Its JSON form is part of fencectl's interface.
type ReleaseResult struct {
	Opened
	Slot       int      `json:"slot"`
	Node       string   `json:"node"` // empty: the former owner is unknown
	Watched    float64  `json:"watchedSeconds"`
	Overridden []string `json:"overridden"` // objections that Force has overridden
}

const opRelease = "release-slot"

// Release writes the record "free" into both copies of a slot whose owner is proven to be gone. The slot's part of the
// log of decisions stays in it, because the next owner continues from it (lease.md B1). The token stays, too: a
// released holder expires like any other.
func Release(ctx context.Context, path string, o ReleaseOptions) (r *ReleaseResult, err error) {
	err = onDevice(ctx, opRelease, path, rawdev.Options{}, func(dev *rawdev.Device, opened Opened) error {
		if r, err = release(ctx, dev, path, o); err == nil {
			r.add(opened)
		}
		return err
	})
	return r, err
}

// lockingDevice is a device whose slots can be locked against agents of this host.
type lockingDevice interface {
	diskquorum.Device
	LockSlot(slot int) error
}

func release(ctx context.Context, dev lockingDevice, path string, o ReleaseOptions) (*ReleaseResult, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	r := &releaser{o: &o, path: path, dev: &interruptible{ctx: ctx, Device: dev}}
	if err := r.open(); err != nil {
		return nil, err
	}
	if err := dev.LockSlot(r.slot); errors.Is(err, rawdev.ErrSlotLocked) {
		return nil, r.refuse("an agent on this host uses the slot, or an I/O of an earlier one may still land", "stop it; --force does not override that")
	} else if err != nil {
		return nil, err
	}
	if err := r.decide(ctx); err != nil {
		return nil, stoppedOnTheWay(err, opRelease, r.path, untouched)
	}
	if err := r.write(ctx); err != nil {
		return nil, err
	}
	return r.result, nil
}

type releaser struct {
	o      *ReleaseOptions
	path   string
	dev    diskquorum.Device
	sb     *diskquorum.Superblock
	slot   int
	views  []slotView // slots in the last read
	result *ReleaseResult
}

func (r *releaser) refuse(reason, advice string) error {
	return &RefusedError{Op: opRelease, Path: r.path, Reason: reason, Forced: true, Advice: advice}
}

// open finds the slot.
func (r *releaser) open() (err error) {
	if r.sb, err = openLUN(r.dev); err != nil {
		return err
	}
	table, err := readAll(r.dev, int64(diskquorum.TableSize(r.sb.Slots)))
	if err != nil {
		return err
	}
	r.views = readSlots(table, r.sb)
	r.slot = r.o.Slot
	if r.o.Node != "" {
		if r.slot, err = findOwner(r.views, r.o.Node); err != nil {
			return err
		}
	}
	if r.slot < 0 || r.slot >= r.sb.Slots {
		return fmt.Errorf("slot %d: the LUN has the slots 0 to %d", r.slot, r.sb.Slots-1)
	}
	v := &r.views[r.slot]
	if v.blank() || v.record != nil && v.record.State == diskquorum.SlotFree && !v.hides() {
		return fmt.Errorf("slot %d is already free", r.slot)
	}
	r.result = &ReleaseResult{Opened: Opened{Warnings: []string{}}, Slot: r.slot, Overridden: []string{}}
	if v.record != nil {
		r.result.Node = clean(v.record.NodeName)
	}
	return nil
}

func findOwner(views []slotView, node string) (int, error) {
	found, unreadable := []int{}, []int{}
	for _, v := range views {
		switch {
		case v.record != nil && v.record.State != diskquorum.SlotFree && v.record.NodeName == node:
			found = append(found, v.index)
		case v.record == nil && !v.blank():
			unreadable = append(unreadable, v.index)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return 0, fmt.Errorf("%s owns the slots %v: two nodes use one name; correct that, then name the slot with --slot", node, found)
	case len(unreadable) > 0:
		return 0, fmt.Errorf("%s owns no slot that can be read; the slots %v cannot: if it is one of them, name it with --slot", node, unreadable)
	}
	return 0, fmt.Errorf("%s owns no slot here", node)
}

// decide watches the slot and collects the objections against releasing it.
func (r *releaser) decide(ctx context.Context) error {
	rec := r.views[r.slot].record
	stopped := rec != nil && rec.State == diskquorum.SlotStopped
	d := r.o.Horizon
	switch {
	case stopped || r.o.Force:
		d = signOfLife(rec)
	case d == 0:
		d = horizon(rec)
	}
	started := time.Now()
	v := vigil{r.dev, r.sb, r.o.Progress}
	table, moved, err := v.keep(ctx, d, func(moved map[int]bool) error {
		if moved[r.slot] {
			return r.refuse(fmt.Sprintf("slot %d of %s is being written: its owner is alive", r.slot, r.owner()),
				"stop its agent; a planned stop needs no --force, and --force does not override this")
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.result.Watched = time.Since(started).Seconds()
	r.views = readSlots(table, r.sb)
	against := r.against(moved, stopped)
	if len(against) > 0 && !r.o.Force {
		return r.refuse(strings.Join(against, "; "),
			"if you have made sure that the node is switched off, --force releases the slot; should it run, two nodes may use one slot and two halves may live")
	}
	r.result.Overridden = append(r.result.Overridden, against...)
	return nil
}

func (r *releaser) owner() string {
	if name := r.result.Node; name != "" {
		return name
	}
	return "an unknown node"
}

// against lists the reasons why the owner may still run. A node without a path to the LUN goes on running with a
// network majority and writes nothing. So a slot that does not change is not proof, and other nodes must state that
// they do not see the node.
func (r *releaser) against(moved map[int]bool, stopped bool) []string {
	v := &r.views[r.slot]
	if v.hides() {
		return []string{fmt.Sprintf("slot %d cannot be read: its contents may be newer than the known record", r.slot)}
	}
	var out []string
	witnesses := 0
	for i := range r.views {
		other := r.views[i].record
		if i == r.slot || !moved[i] || other == nil || other.State != diskquorum.SlotActive {
			continue
		}
		witnesses++
		st := &other.Statement
		if st.RosterDigest == v.record.Statement.RosterDigest && (st.Seen.Has(v.record.RosterIndex) || st.View.Has(v.record.RosterIndex)) {
			out = append(out, fmt.Sprintf("%s hears from %s", clean(other.NodeName), r.owner()))
		}
	}
	if stopped {
		return out
	}
	if witnesses == 0 {
		out = append(out, fmt.Sprintf("no other node writes the LUN, so no node can confirm that %s is gone", r.owner()))
	}
	if g := &v.record.Statement.Guard; !g.Armed || !g.Fences {
		out = append(out, fmt.Sprintf("%s had no armed watchdog that fences: time proves nothing", r.owner()))
	}
	return out
}

// write replaces both copies, the older one first, and checks that the record stays.
func (r *releaser) write(ctx context.Context) error {
	s, err := freed(&r.views[r.slot], latestOf(r.views))
	if err != nil {
		return err
	}
	if err := writeSlot(r.dev, r.sb, s); err != nil {
		const half = "the slot may be half released; repeat the command"
		return stoppedOnTheWay(fmt.Errorf("%w; "+half, err), opRelease, r.path, half)
	}
	v := vigil{r.dev, r.sb, r.o.Progress}
	_, moved, err := v.keep(ctx, max(time.Second, min(maxWatch, 2*s.HeartbeatInterval)), nil)
	if err != nil {
		return stoppedOnTheWay(err, opRelease, r.path,
			fmt.Sprintf("slot %d was released; whether its owner takes it back was not watched to the end: see fencectl lun inspect", r.slot))
	}
	if moved[r.slot] {
		r.result.Warnings = append(r.result.Warnings, fmt.Sprintf("slot %d was taken again at once; see fencectl lun inspect", r.slot))
	}
	return nil
}

// decision is the value of one instance of the log.
type decision struct {
	instance uint64
	grant    *diskquorum.Grant
}

// latestOf returns the latest decision in any slot.
func latestOf(views []slotView) (d decision) {
	for _, v := range views {
		if v.record != nil && v.record.Ballot.DecidedInstance > d.instance {
			d = decision{v.record.Ballot.DecidedInstance, v.record.Ballot.Decided}
		}
	}
	return d
}

// unreadableBase is the first sequence for a slot that cannot be read at all: far greater than an owner can reach by
// writing.
const unreadableBase = 1 << 62

// firstWrites is the range of a slot's first sequences. A torn write among them is recognised although the rest of its
// block is zero, so a release continues in small steps there.
const firstWrites = 16

// freed returns the record that releases a slot. Its sequence is greater than the visible one by a random distance, and
// so greater than that of any write which an earlier owner may still have under way (B3).
func freed(v *slotView, latest decision) (*diskquorum.Slot, error) {
	distance, err := random63()
	if err != nil {
		return nil, err
	}
	s := diskquorum.Slot{Index: v.index, Sequence: unreadableBase + distance>>2}
	if v.record != nil {
		s = *v.record
		if s.Sequence += 3; s.Sequence > firstWrites {
			s.Sequence += 2 * (distance >> 31)
		}
	}
	s.State, s.Process, s.WallTime = diskquorum.SlotFree, distance, time.Now().UnixMilli()
	s.Statement.Feeding, s.Statement.Stopping, s.Statement.LUNHealthy = false, false, false
	carry(&s.Ballot, latest)
	return &s, nil
}

// carry copies a later decision into a ballot, and drops what this decision makes obsolete.
func carry(b *diskquorum.Ballot, latest decision) {
	if latest.instance > b.DecidedInstance {
		b.DecidedInstance, b.Decided = latest.instance, latest.grant
	}
	if b.Instance <= b.DecidedInstance {
		b.Instance, b.MBal, b.Bal, b.Value = 0, 0, 0, nil
	}
}

// writeSlot writes a record to both copies, each with a different sequence, and reads it back. The first write goes to
// the copy that does not hold the newest record.
func writeSlot(dev diskquorum.Device, sb *diskquorum.Superblock, s *diskquorum.Slot) error {
	want, got := make([]byte, diskquorum.BlockSize), make([]byte, diskquorum.BlockSize)
	for range 2 {
		which := int(s.Sequence % 2)
		if err := diskquorum.EncodeSlot(want, sb.ID, s, which); err != nil {
			return err
		}
		off := diskquorum.SlotOffset(s.Index, which)
		if _, err := dev.WriteAt(want, off); err != nil {
			return err
		}
		if _, err := dev.ReadAt(got, off); err != nil {
			return err
		}
		if firstDifference(want, got) >= 0 {
			return fmt.Errorf("slot %d reads back differently: the device loses writes, or its owner came back", s.Index)
		}
		s.Sequence++
	}
	return nil
}

func random63() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("make an id: %w", err)
	}
	return binary.LittleEndian.Uint64(b[:]) >> 1, nil
}
