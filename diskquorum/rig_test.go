package diskquorum

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// rig is a LUN in memory with arbiters on it. Nothing happens by itself: a test, or the seeded scheduler of
// explore_test.go, advances the clock, steps the arbiters and decides the result of every I/O, sector by sector. An
// oracle checks every step (oracle_test.go).
//
// # Faults
//
// An I/O may take any time. The sectors of a write land one by one and in any order, and so are the blocks of a read
// copied. A write that is reported as failed may have partly landed, and the rest is lost or lands at any later time.
// An agent can be killed at any moment; its write is then still under way. An agent of the same boot gets the slot's
// lock only when that write has ended; one of another boot gets it at once, and the write may land later.
//
// Any number of writes of a slot may land late, to both copies and on each device, in any
// order, in parts, and up to lateWrite after they failed.
//
// The late writes that an agent leaves behind when it dies are limited (bury).
//
// With three devices, all this happens on each of them separately. No device is guaranteed to work: the arbiters must
// wait until at least two of three do.
type rig struct {
	now    boottime.Instant
	timing Timing
	sb     *Superblock   // of the first device
	sbs    []*Superblock // of all
	images [][]byte
	image  []byte   // of the first device
	own    [][]byte // the superblocks, by device

	elsewhere []elsewhere // by device
	nodes     []*rigNode
	late      []*rigIO // writes for which no agent waits, but which may still land
	oracle    oracle
	logf      func(format string, args ...any) // nil: no trace
	nonce     uint64
}

// rigNode is one machine. It is the Evidence of its arbiter.
type rigNode struct {
	r       *rig
	index   int
	roster  *roster.Roster
	arb     *Arbiter // nil: no agent runs
	boot    uint64
	process uint64
	prefer  bool
	seed    uint64

	view     roster.Set
	tieSince boottime.Instant
	tie      bool
	api      bool
	stop     bool
	quorum   int // 0: more than half

	out      Output
	said     netgossip.Statement // the statement that peers hear
	heard    []heard
	ios      []*rigIO  // by device
	orphans  []*rigIO  // the writes of a killed agent of this boot: the kernel still has them
	hangs    deviceSet // paths on which no I/O ends
	wantLock bool
	locked   []bool
	readBufs [][]byte
}

type heard struct {
	statement *netgossip.Statement
	relay     netgossip.Relay
	at        boottime.Instant
}

// rigIO is an I/O under way.
type rigIO struct {
	op      Op
	node    int
	started boottime.Instant
	data    []byte // data of a write, or the data that a read has copied so far
	todo    uint32 // write: sectors that have not landed; read: blocks that have not been copied
	failed  boottime.Instant
}

var errRigIO = errors.New("input/output error")

// rigRoster returns the list of n nodes, for the node self.
func rigRoster(n, self int) *roster.Roster {
	members := make([]roster.Member, n)
	for i := range members {
		members[i].Name = fmt.Sprintf("n%d", i)
	}
	list, err := roster.New(1, members, members[self].Name)
	if err != nil {
		panic(err)
	}
	return list
}

func rigTiming() Timing {
	return Timing{
		Heartbeat: time.Second, IOTimeout: 2 * time.Second, MaxAge: 4 * time.Second, Grant: 5 * time.Second,
		Arbitrate: 10 * time.Second, Expire: 7 * time.Second, PreferenceDelay: 2 * time.Second, Stagger: time.Second,
	}
}

// rigWatchdog is W of every node of a rig.
const rigWatchdog = 3 * time.Second

// newRig formats a LUN and boots n nodes that see each other, without agents.
func newRig(n int, timing Timing) *rig { return newSetRig(n, 1, timing) }

// newSetRig is newRig with a LUN of that many devices.
func newSetRig(n, devices int, timing Timing) *rig {
	r := &rig{now: boottime.Instant(time.Hour), timing: timing, nonce: 0xB0}
	for d := range devices {
		sb := &Superblock{Version: FormatVersion, ID: sampleID, Cluster: "rig", NodeGroup: "rig", Slots: n}
		if sb.ID[15] += byte(d); devices > 1 {
			sb.SetID, sb.Devices, sb.Device = sampleID, devices, d
		}
		image := make([]byte, TableSize(n))
		for which := range superblockBlocks {
			if err := EncodeSuperblock(image[which*BlockSize:(which+1)*BlockSize], sb, which); err != nil {
				panic(err)
			}
		}
		r.sbs, r.images = append(r.sbs, sb), append(r.images, image)
		r.own = append(r.own, slices.Clone(image[:OwnSize]))
	}
	r.sb, r.image, r.elsewhere = r.sbs[0], r.images[0], make([]elsewhere, devices)
	r.oracle = newOracle(n, devices)
	for i := range n {
		list := rigRoster(n, i)
		node := &rigNode{
			r: r, index: i, roster: list, boot: r.newNonce(), view: roster.FullSet(n), heard: make([]heard, n),
			ios: make([]*rigIO, devices), orphans: make([]*rigIO, devices), locked: make([]bool, devices),
		}
		for range devices {
			node.readBufs = append(node.readBufs, make([]byte, TableSize(n)))
		}
		r.nodes = append(r.nodes, node)
	}
	return r
}

// startedRig returns a rig whose agents all run and have claimed their slots. A violation that the oracle finds fails
// the test at once.
func startedRig(t *testing.T, n int) *rig {
	t.Helper()
	r := newRig(n, rigTiming())
	r.oracle.fatal = t.Fatalf
	if testing.Verbose() {
		r.logf = t.Logf
	}
	r.startAll()
	return r
}

// rigWrites is the approximate number of writes that each slot of a started rig has had.
const rigWrites = 1000

func (r *rig) startAll() {
	for i := range r.nodes {
		r.start(i)
	}
	r.run(4 * time.Second)
	for _, n := range r.nodes {
		n.arb.seq += rigWrites
	}
	r.run(3 * time.Second)
}

func (r *rig) newNonce() uint64 {
	r.nonce++
	return r.nonce
}

func (r *rig) trace(format string, args ...any) {
	if r.logf != nil {
		r.logf("%9v "+format, append([]any{r.now.Sub(boottime.Instant(time.Hour))}, args...)...)
	}
}

// start starts the agent of a node whose agent does not run.
func (r *rig) start(i int) {
	n := r.nodes[i]
	n.process = r.newNonce()
	n.arb = NewArbiter(ArbiterConfig{
		Devices: r.sbs, Roster: n.roster, Evidence: n, NodeUID: "uid", Boot: n.boot, Process: n.process,
		Timing: r.timing, PreferAPI: n.prefer, Seed: n.seed,
	})
	n.out, n.tie = Output{}, false
	clear(n.locked)
	r.oracle.started(n)
	r.oracle.startedBack(n)
	r.trace("n%d starts, boot %x process %x", i, n.boot, n.process)
}

// kill ends the agent at once. Its write stays with the kernel.
func (r *rig) kill(i int) {
	n := r.nodes[i]
	r.trace("n%d is killed", i)
	for d, io := range n.ios {
		if io != nil && io.op.Kind == OpWrite {
			n.orphans[d] = io
		}
	}
	clear(n.ios)
	r.bury(n)
	n.arb, n.wantLock, n.out, n.said = nil, false, Output{}, netgossip.Statement{}
	r.oracle.killed(n)
}

// bury limits the late writes that a dying agent leaves behind, on each device. They may be to both copies only if its
// records stated failed writes. If a record without that statement may still land, it must be the last write to its
// copy: otherwise it could hide the statement from the next agent.
func (r *rig) bury(n *rigNode) {
	for d := range n.ios {
		var of [copiesPerSlot][]*rigIO
		for _, io := range append(slices.Clone(r.late), n.orphans[d]) {
			if io != nil && io.op.Device == d && r.slotOf(io) == n.index {
				which := io.op.Offset / BlockSize % copiesPerSlot
				of[which] = append(of[which], io)
			}
		}
		if len(of[0]) == 0 || len(of[1]) == 0 {
			continue
		}
		said := n.arb.records[n.arb.recorded%copiesPerSlot].Late>>n.arb.lanes[d].place&1 != 0
		for which := range of {
			for _, io := range of[which] {
				unsaid := io.data[slLate]>>n.arb.lanes[d].place&1 == 0 && len(of[which]) > 1
				if !said && which == 0 || unsaid {
					r.drop(n, io)
				}
			}
		}
	}
}

// drop loses a write that might have landed late.
func (r *rig) drop(n *rigNode, io *rigIO) {
	r.late = slices.DeleteFunc(r.late, func(l *rigIO) bool { return l == io })
	if n.orphans[io.op.Device] == io {
		io.todo = 0 // it ends without a trace
	}
}

// reboot gives a node without a running agent another boot. The part of its last write that has not landed may land
// late, or is lost.
func (r *rig) reboot(i int, late bool) {
	n := r.nodes[i]
	if n.arb != nil {
		r.kill(i)
	}
	n.boot = r.newNonce()
	r.trace("n%d reboots", i)
	for _, io := range n.orphans {
		if io != nil {
			r.abandon(io, late)
		}
	}
	clear(n.orphans)
}

// Statement makes a rigNode the evidence of its arbiter.
func (n *rigNode) Statement(peer int) (*netgossip.Statement, boottime.Instant) {
	return n.heard[peer].statement, n.heard[peer].at
}

// Relay makes a rigNode the evidence of its arbiter.
func (n *rigNode) Relay(peer int) netgossip.Relay { return n.heard[peer].relay }

// statement returns the node's statement about itself, as watchdog.Core would compose it.
func (n *rigNode) statement() netgossip.Statement {
	return netgossip.Statement{
		Boot: n.boot, RosterEpoch: n.roster.Epoch, RosterDigest: n.roster.Digest, Token: n.out.Token,
		Seen: n.view, View: n.view, Guard: netgossip.Guard{Armed: true, Fences: true, Timeout: rigWatchdog},
		LUNHealthy: n.out.Healthy, APIReachable: n.api,
	}
}

// step steps an arbiter and starts the I/O that it requests.
func (r *rig) step(i int) *Output {
	n := r.nodes[i]
	half := 2*n.view.Len() == len(r.nodes)
	if half && !n.tie {
		n.tieSince = r.now
	}
	n.tie = half
	before := n.out
	n.out = *n.arb.Step(r.now, &Input{Input: tie.Input{View: n.view, Tie: half, TieSince: n.tieSince, Quorum: n.quorum, Stop: n.stop}, Own: n.statement()})
	n.said = n.statement()
	if n.out.Split != before.Split {
		r.trace("n%d: %v %s (token %v)", i, n.out.Split, n.out.Why, n.out.Token)
	}
	if n.out.Ended != nil {
		r.trace("n%d: ballot ended: %+v", i, *n.out.Ended)
	}
	r.oracle.steppedBack(n)
	r.oracle.stepped(n, &before)
	for k := range n.out.Ops {
		r.submit(n, &n.out.Ops[k])
	}
	if n.out.Lock >= 0 {
		n.wantLock = true // even if it already holds the lock: then the result is reported again
		clear(n.locked)
	}
	r.grantLock(n)
	return &n.out
}

func (r *rig) grantLock(n *rigNode) {
	if !n.wantLock {
		return
	}
	n.wantLock = false
	for d, orphan := range n.orphans {
		if n.locked[d] {
			continue
		}
		if n.locked[d] = orphan == nil; n.locked[d] {
			n.arb.Locked(r.now, d, nil)
		}
		n.wantLock = n.wantLock || !n.locked[d]
	}
}

func (r *rig) submit(n *rigNode, op *Op) {
	r.oracle.submitted(n, op)
	d := op.Device
	io := &rigIO{op: *op, node: n.index, started: r.now}
	io.op.Data = nil
	if op.Kind == OpRead {
		io.data, io.todo = n.readBufs[d], 1<<(len(r.image)/BlockSize)-1
		n.ios[d] = io
		r.trace("n%d reads device %d, transfer %d", n.index, d, n.arb.cur.id)
		return
	}
	if !n.locked[d] { // the write does not begin: an earlier agent's write may still land
		n.arb.Complete(r.now, &Completion{ID: op.ID, Device: d, Kind: op.Kind, Started: r.now, Ended: r.now, Err: errRigIO})
		return
	}
	io.data, io.todo = append([]byte(nil), op.Data...), 1<<sectorsPerBlock-1
	r.traceWrite(io, "n%d writes", n.index)
	n.ios[d] = io
}

func (r *rig) traceWrite(io *rigIO, format string, args ...any) {
	if r.logf == nil {
		return
	}
	var s Slot
	i := int(io.op.Offset/BlockSize) - superblockBlocks
	if err := DecodeSlot(io.data, r.sbs[io.op.Device].ID, i/copiesPerSlot, i%copiesPerSlot, &s); err != nil {
		r.trace("%v", err)
		return
	}
	b := &s.Ballot
	r.trace(format+" device %d slot %d seq %d state %d token %v view %v inst %d mbal %d bal %d value %v decided %d", append(args, io.op.Device, s.Index, s.Sequence, s.State,
		s.Statement.Token, members(s.Statement.View), b.Instance, b.MBal, b.Bal, b.Value, b.DecidedInstance)...)
}

// progress lands the sectors of a write, or copies the blocks of a read, that mask names.
func (r *rig) progress(io *rigIO, mask uint32) {
	size, image := SectorSize, r.imageOf(io.node, io.op.Device)
	if io.op.Kind == OpRead {
		size = BlockSize
	}
	for todo := io.todo & mask; todo != 0; todo &= todo - 1 {
		at := bits.TrailingZeros32(todo) * size
		if io.op.Kind == OpRead {
			copy(io.data[at:at+size], image[at:])
		} else {
			copy(image[int(io.op.Offset)+at:], io.data[at:at+size])
		}
	}
	io.todo &^= mask
}

const wholeIO = ^uint32(0)

func (r *rig) slotOf(io *rigIO) int {
	return (int(io.op.Offset/BlockSize) - superblockBlocks) / copiesPerSlot
}

// finish completes the I/O of a node on the first device and steps it.
func (r *rig) finish(i int) *Output {
	r.complete(i)
	return r.step(i)
}

// complete ends the I/O of a node on the first device successfully.
func (r *rig) complete(i int) { r.completeOn(i, 0) }

func (r *rig) completeOn(i, d int) {
	n := r.nodes[i]
	io := n.ios[d]
	r.progress(io, wholeIO)
	n.ios[d] = nil
	c := &Completion{ID: io.op.ID, Device: d, Kind: io.op.Kind, Started: io.started, Ended: r.now}
	if io.op.Kind == OpRead {
		c.Data = io.data
	}
	if io.op.Own {
		c.Own = append([]byte(nil), r.imageOf(i, d)[:OwnSize]...)
	}
	anchor, latest := n.arb.anchor, n.arb.lease.latest
	n.arb.Complete(r.now, c)
	r.oracle.endedBack(n, io, c)
	// The same write may also be the evidence for a newer decision.
	r.oracle.completed(n, io, c, n.arb.anchor != anchor || n.arb.lease.latest != latest)
}

// lose fails the I/O of a node on the first device; with late, the part of a write that has not landed may land later.
func (r *rig) lose(i int, late bool) { r.loseOn(i, 0, late) }

func (r *rig) loseOn(i, d int, late bool) {
	n := r.nodes[i]
	io := n.ios[d]
	n.ios[d] = nil
	late = r.abandon(io, late)
	r.trace("n%d: I/O on device %d fails, late %v, sectors left %08b", i, d, late, io.todo)
	n.arb.Complete(r.now, &Completion{ID: io.op.ID, Device: d, Kind: io.op.Kind, Started: io.started, Ended: r.now, Err: errRigIO})
}

// abandon ends a write without success: the part that has not landed is kept for later, or lost. It reports whether the
// write may land late.
func (r *rig) abandon(io *rigIO, late bool) bool {
	if io.op.Kind != OpWrite || io.todo == 0 || !late {
		return false
	}
	io.failed = r.now
	r.late = append(r.late, io)
	return true
}

// forgetLate drops the late writes that cannot land any more.
func (r *rig) forgetLate() {
	r.late = slices.DeleteFunc(r.late, func(io *rigIO) bool { return r.now.Sub(io.failed) > lateWrite })
}

// landLate lets late write k land, or the sectors of it that mask names.
func (r *rig) landLate(k int, mask uint32) {
	io := r.late[k]
	r.progress(io, mask)
	r.traceWrite(io, "late write lands, sectors left %08b:", io.todo)
	if io.todo == 0 {
		r.late = append(r.late[:k], r.late[k+1:]...)
	}
}

// gossip lets node i hear node j's present statement.
func (r *rig) gossip(i, j int) {
	if from := r.nodes[j]; from.arb != nil && i != j && !from.said.View.IsEmpty() {
		st := from.said
		r.nodes[i].heard[j] = heard{&st, from.out.Relay, r.now}
	}
}

// setView sets the view of a node from now on.
func (r *rig) setView(i int, view ...int) {
	r.nodes[i].view = roster.SetOf(view...)
	r.trace("n%d sees %v", i, view)
}
