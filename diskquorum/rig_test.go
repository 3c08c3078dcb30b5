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
)

// rig is a LUN in memory with arbiters on it. Nothing happens by itself: a test, or the
// seeded scheduler of explore_test.go, moves the time, steps the arbiters and decides what
// becomes of every I/O, sector by sector. An oracle looks at every step (oracle_test.go).
//
// # Faults
//
// An I/O takes as long as it likes. The sectors of a write land one by one and in any
// order, and the blocks of a read are looked at likewise. A write that is reported as
// failed may have landed in part, and the rest is lost or lands at any later time. An agent
// can be killed at any moment; its write is then under way still. An agent of the same boot
// gets the slot's lock only when that write has ended; one of another boot gets it at once,
// and the write may land later.
//
// The limit: while a write aimed at one copy of a slot may land late, no write to the other
// copy may land late too; and until it has landed and the owner has written both copies
// again, the owner's writes land as a whole. Else the two could wipe out both copies.
type rig struct {
	now    boottime.Instant
	timing Timing
	sb     *Superblock
	image  []byte
	nodes  []*rigNode
	late   []*rigIO // writes nobody waits for that may still land
	oracle oracle
	logf   func(format string, args ...any) // nil: no trace
	nonce  uint64
}

// rigNode is one machine. It is the Evidence of its arbiter.
type rigNode struct {
	r       *rig
	index   int
	roster  *netgossip.Roster
	arb     *Arbiter // nil: no agent runs
	boot    uint64
	process uint64
	prefer  bool
	seed    uint64

	view     netgossip.Set
	tieSince boottime.Instant
	tie      bool
	api      bool
	stop     bool

	out      Output
	said     netgossip.Statement // what peers hear
	heard    []heard
	io       *rigIO
	orphan   *rigIO // the write of a killed agent of this boot: the kernel has it still
	wantLock bool
	whole    int // the next so many writes land as a whole
	readBuf  []byte
}

type heard struct {
	statement *netgossip.Statement
	at        boottime.Instant
}

// rigIO is an I/O under way.
type rigIO struct {
	op      Op
	started boottime.Instant
	data    []byte // of a write, or what a read has seen so far
	todo    uint32 // write: sectors that have not landed; read: blocks not looked at
}

var errRigIO = errors.New("input/output error")

func rigTiming() Timing {
	return Timing{
		Heartbeat: time.Second, IOTimeout: 2 * time.Second, MaxAge: 4 * time.Second, Grant: 5 * time.Second,
		Arbitrate: 10 * time.Second, Expire: 7 * time.Second, PreferenceDelay: 2 * time.Second, Stagger: time.Second,
	}
}

// rigWatchdog is W of every node of a rig.
const rigWatchdog = 3 * time.Second

// newRig formats a LUN and boots n nodes that see each other, without agents.
func newRig(n int, timing Timing) *rig {
	r := &rig{now: boottime.Instant(time.Hour), timing: timing, nonce: 0xB0}
	r.sb = &Superblock{Version: FormatVersion, ID: sampleID, Cluster: "rig", NodeGroup: "rig", Slots: n}
	r.image = make([]byte, TableSize(n))
	for which := range superblockBlocks {
		if err := EncodeSuperblock(r.image[which*BlockSize:(which+1)*BlockSize], r.sb, which); err != nil {
			panic(err)
		}
	}
	r.oracle = newOracle(n)
	members := make([]netgossip.Member, n)
	for i := range members {
		members[i].Name = fmt.Sprintf("n%d", i)
	}
	for i := range n {
		roster, err := netgossip.NewRoster(1, members, members[i].Name)
		if err != nil {
			panic(err)
		}
		r.nodes = append(r.nodes, &rigNode{
			r: r, index: i, roster: roster, boot: r.newNonce(), view: netgossip.FullSet(n),
			heard: make([]heard, n), readBuf: make([]byte, TableSize(n)),
		})
	}
	return r
}

// startedRig is a rig whose agents all run and have claimed their slots. A violation that
// the oracle finds fails the test at once.
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

// rigWrites is how many writes each slot of a started rig has behind it, about.
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
		Superblock: r.sb, Roster: n.roster, Evidence: n, NodeUID: "uid", Boot: n.boot, Process: n.process,
		Timing: r.timing, PreferAPI: n.prefer, Seed: n.seed,
	})
	n.out, n.tie = Output{}, false
	r.oracle.started(n)
	r.trace("n%d starts, boot %x process %x", i, n.boot, n.process)
}

// kill ends the agent at once. Its write stays with the kernel.
func (r *rig) kill(i int) {
	n := r.nodes[i]
	r.trace("n%d is killed", i)
	if n.io != nil && n.io.op.Kind == OpWrite {
		n.orphan = n.io
	}
	n.arb, n.io, n.wantLock, n.out, n.said = nil, nil, false, Output{}, netgossip.Statement{}
	r.oracle.killed(n)
}

// reboot gives a node whose agent does not run another boot. What its last write has not
// landed yet may land late, or is lost.
func (r *rig) reboot(i int, late bool) {
	n := r.nodes[i]
	if n.arb != nil {
		r.kill(i)
	}
	n.boot = r.newNonce()
	r.trace("n%d reboots", i)
	if n.orphan != nil {
		r.abandon(n.orphan, late)
	}
	n.orphan = nil
}

// Statement makes a rigNode the evidence of its arbiter.
func (n *rigNode) Statement(peer int) (*netgossip.Statement, boottime.Instant) {
	return n.heard[peer].statement, n.heard[peer].at
}

// statement is what the node says of itself, as watchdog.Core would compose it.
func (n *rigNode) statement() netgossip.Statement {
	return netgossip.Statement{
		Boot: n.boot, RosterEpoch: n.roster.Epoch, RosterDigest: n.roster.Digest, Token: n.out.Token,
		Seen: n.view, View: n.view, Guard: netgossip.Guard{Armed: true, Fences: true, Timeout: rigWatchdog},
		LUNHealthy: n.out.Healthy, APIReachable: n.api,
	}
}

// step steps an arbiter and takes the I/O it wants.
func (r *rig) step(i int) *Output {
	n := r.nodes[i]
	tie := 2*n.view.Len() == len(r.nodes)
	if tie && !n.tie {
		n.tieSince = r.now
	}
	n.tie = tie
	before := n.out
	n.out = *n.arb.Step(r.now, &Input{View: n.view, Tie: tie, TieSince: n.tieSince, Own: n.statement(), Stop: n.stop})
	n.said = n.statement()
	if n.out.Split != before.Split {
		r.trace("n%d: %v %s (token %v)", i, n.out.Split, n.out.Why, n.out.Token)
	}
	if n.out.Ended != nil {
		r.trace("n%d: ballot ended: %+v", i, *n.out.Ended)
	}
	r.oracle.stepped(n, &before)
	if n.out.Op != nil {
		r.submit(n, n.out.Op)
	}
	if n.out.Lock >= 0 {
		n.wantLock = true
	}
	r.grantLock(n)
	return &n.out
}

func (r *rig) grantLock(n *rigNode) {
	if n.wantLock && n.orphan == nil {
		n.wantLock = false
		n.arb.Locked(r.now, nil)
	}
}

func (r *rig) submit(n *rigNode, op *Op) {
	r.oracle.submitted(n, op)
	io := &rigIO{op: *op, started: r.now}
	if op.Kind == OpWrite {
		io.data, io.todo = append([]byte(nil), op.Data...), 1<<sectorsPerBlock-1
		r.traceWrite(io, "n%d writes", n.index)
	} else {
		io.data, io.todo = n.readBuf, 1<<(len(r.image)/BlockSize)-1
	}
	io.op.Data = nil
	n.io = io
}

func (r *rig) traceWrite(io *rigIO, format string, args ...any) {
	if r.logf == nil {
		return
	}
	var s Slot
	i := int(io.op.Offset/BlockSize) - superblockBlocks
	if err := DecodeSlot(io.data, r.sb.ID, i/copiesPerSlot, i%copiesPerSlot, &s); err != nil {
		r.trace("%v", err)
		return
	}
	b := &s.Ballot
	r.trace(format+" slot %d seq %d state %d token %v view %v inst %d mbal %d bal %d value %v decided %d", append(args, s.Index, s.Sequence, s.State,
		s.Statement.Token, members(s.Statement.View), b.Instance, b.MBal, b.Bal, b.Value, b.DecidedInstance)...)
}

// progress lands the sectors of a write, or looks at the blocks of a read, that mask names.
func (r *rig) progress(io *rigIO, mask uint32) {
	size := SectorSize
	if io.op.Kind == OpRead {
		size = BlockSize
	} else if r.nodes[r.slotOf(io)].whole > 0 && !slices.Contains(r.late, io) {
		mask = wholeIO
	}
	for todo := io.todo & mask; todo != 0; todo &= todo - 1 {
		at := bits.TrailingZeros32(todo) * size
		if io.op.Kind == OpRead {
			copy(io.data[at:at+size], r.image[at:])
		} else {
			copy(r.image[int(io.op.Offset)+at:], io.data[at:at+size])
		}
	}
	io.todo &^= mask
}

const wholeIO = ^uint32(0)

func (r *rig) slotOf(io *rigIO) int {
	return (int(io.op.Offset/BlockSize) - superblockBlocks) / copiesPerSlot
}

// lateFor returns the writes to a slot that may land late.
func (r *rig) lateFor(slot int) (late []*rigIO) {
	for _, io := range r.late {
		if r.slotOf(io) == slot {
			late = append(late, io)
		}
	}
	return late
}

// finish completes the I/O of a node and steps it.
func (r *rig) finish(i int) *Output {
	r.complete(i)
	return r.step(i)
}

// complete ends the I/O of a node well.
func (r *rig) complete(i int) {
	n := r.nodes[i]
	io := n.io
	r.progress(io, wholeIO)
	n.io = nil
	c := &Completion{ID: io.op.ID, Kind: io.op.Kind, Started: io.started, Ended: r.now}
	if io.op.Kind == OpRead {
		c.Data = io.data
	} else if n.whole > 0 && len(r.lateFor(i)) == 0 {
		n.whole--
	}
	anchor := n.arb.anchor
	n.arb.Complete(r.now, c)
	r.oracle.completed(n, c, n.arb.anchor != anchor)
}

// lose fails the I/O of a node; late keeps what has not landed of a write for later.
func (r *rig) lose(i int, late bool) {
	n := r.nodes[i]
	io := n.io
	n.io = nil
	late = r.abandon(io, late)
	r.trace("n%d: I/O fails, late %v, sectors left %08b", i, late, io.todo)
	n.arb.Complete(r.now, &Completion{ID: io.op.ID, Kind: io.op.Kind, Started: io.started, Ended: r.now, Err: errRigIO})
}

// abandon ends a write without success: what has not landed of it is kept for later, or
// lost. It keeps the rig's limit, and reports whether the write may land late.
func (r *rig) abandon(io *rigIO, late bool) bool {
	if io.op.Kind != OpWrite || io.todo == 0 {
		return false
	}
	slot := r.slotOf(io)
	for _, l := range r.lateFor(slot) {
		if l.op.Offset != io.op.Offset {
			late = false
		}
	}
	if late {
		r.late = append(r.late, io)
		r.nodes[slot].whole = copiesPerSlot
	} else if r.nodes[slot].whole > 0 && io.todo != 1<<sectorsPerBlock-1 {
		r.progress(io, wholeIO)
	}
	return late
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

// gossip lets node i hear what node j says now.
func (r *rig) gossip(i, j int) {
	if from := r.nodes[j]; from.arb != nil && i != j && !from.said.View.IsEmpty() {
		st := from.said
		r.nodes[i].heard[j] = heard{&st, r.now}
	}
}

// setView is what the network tells a node from now on.
func (r *rig) setView(i int, view ...int) {
	r.nodes[i].view = netgossip.SetOf(view...)
	r.trace("n%d sees %v", i, view)
}

// run lets d pass without faults: whoever runs is stepped ten times per heartbeat, I/O is
// prompt, and nodes that count each other talk.
func (r *rig) run(d time.Duration) {
	for end := r.now.Add(d); r.now < end; {
		r.now = min(end, r.now.Add(r.timing.Heartbeat/10))
		for i, n := range r.nodes {
			if n.arb == nil {
				continue
			}
			for j, m := range r.nodes {
				if n.view.Has(j) && m.view.Has(i) {
					r.gossip(i, j)
				}
			}
			ios := 0
			for r.step(i); n.io != nil && ios < restless; r.finish(i) {
				r.now += boottime.Instant(time.Millisecond)
				ios++
			}
			if ios == restless {
				r.oracle.add("n%d does I/O without a pause", i)
				return
			}
		}
	}
}

// restless is more I/O than any node does in a row.
const restless = 100

// settle lets every node see its group and waits until each half is ready to put a grant
// forward, with all ballots held back. Then they are let go, and nobody has moved yet.
func (r *rig) settle(groups ...[]int) {
	for _, g := range groups {
		for _, i := range g {
			r.setView(i, g...)
		}
	}
	r.hold(boottime.Never)
	r.run(3 * time.Second)
	r.hold(0)
}

// hold keeps every node that runs from beginning a ballot before the instant.
func (r *rig) hold(until boottime.Instant) {
	for _, n := range r.nodes {
		if n.arb != nil {
			n.arb.retryAt = until
		}
	}
}

func members(s netgossip.Set) []int {
	out := []int{}
	for i := range s.All() {
		out = append(out, i)
	}
	return out
}
