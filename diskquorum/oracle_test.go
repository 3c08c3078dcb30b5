package diskquorum

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// oracle knows what really happened on a rig and compares the arbiters' state with it. It shares no code with them.
type oracle struct {
	fatal     func(format string, args ...any) // nil: keep the first violation
	trace     func(format string, args ...any)
	violation string

	decided map[uint64]decision // by instance: the value that some node took for decided
	ballots map[[2]uint64]int   // {instance, number} -> node
	tokens  map[Token]life      // the last process with this token, and its view
	named   map[Token]life      // the same for tokens that a decision names
	nodes   []nodeTruth
	backing map[backing]boottime.Instant

	majority int // number of devices that are a majority

	back backTruth

	adoptions, lost, won, outvoted, relayed, bridged int
}

// backing is the evidence that a node can give: the latest START of its own landed write before a read that showed that
// instance as the latest.
type backing struct {
	node     int
	instance uint64
}

type decision struct {
	grant *Grant
	since boottime.Instant // when the decision was first assumed
}

// life is one process with one view; a token may belong to only one life.
type life struct {
	node    int
	process uint64
	view    roster.Set
}

// nodeTruth is the history of one node.
type nodeTruth struct {
	states    []state
	landed    boottime.Instant // START of the last write of this process that was completed on a majority, if none has failed since
	writing   uint64           // sequence of the newest submitted record
	acked     deviceSet        // devices that have that record
	first     boottime.Instant // earliest START of those writes
	reading   uint64           // transfer of the newest read
	shown     boottime.Instant // value of landed at the last completed read
	readStart boottime.Instant
	latest    uint64 // greatest instance that this process took for decided
	lapsed    Token  // a grant to this token has run out in this process

	start [MaxDevices]shownStart // by device
}

// shownStart is what the reads of a device have shown about its first blocks.
type shownStart struct {
	ours bool // the last completed read showed this group's superblock
	at   boottime.Instant
}

// state holds a node's token and view from an instant on. No boot: the node did not run. No token: it had not claimed
// its slot yet.
type state struct {
	from  boottime.Instant
	boot  uint64
	token Token
	view  roster.Set
}

func newOracle(n, devices int) oracle {
	return oracle{majority: devices/2 + 1, decided: map[uint64]decision{}, ballots: map[[2]uint64]int{}, tokens: map[Token]life{}, named: map[Token]life{}, backing: map[backing]boottime.Instant{}, nodes: make([]nodeTruth, n), back: backTruth{lost: make([]deviceSet, n), unread: map[[2]int]boottime.Instant{}}}
}

// add records a violation of a promise that needs correct storage (see wentBack).
func (o *oracle) add(format string, args ...any) {
	if o.back.unpromised == "" {
		o.must(format, args...)
	}
}

// must records a violation of a promise that does not depend on the storage.
func (o *oracle) must(format string, args ...any) {
	if o.violation == "" {
		o.violation = fmt.Sprintf(format, args...)
		if o.trace != nil {
			o.trace("VIOLATION: %s", o.violation)
		}
		if o.fatal != nil {
			o.fatal("%s", o.violation)
		}
	}
}

func (o *oracle) started(n *rigNode) {
	t := &o.nodes[n.index]
	*t = nodeTruth{states: t.states}
}

func (o *oracle) killed(n *rigNode) {
	t := &o.nodes[n.index]
	t.states = append(t.states, state{from: n.r.now})
}

// submitted checks an I/O: only one at a time, and writes only to this node's slot.
func (o *oracle) submitted(n *rigNode, op *Op) {
	if n.ios[op.Device] != nil {
		o.must("n%d: a second I/O while one is in flight", n.index)
	}
	t := &o.nodes[n.index]
	if seen := &t.start[op.Device]; op.Kind == OpWrite && (!seen.ours || n.r.now.Sub(seen.at) > n.r.timing.Heartbeat) {
		o.must("n%d: begins a write of device %d, which it saw last %v ago, ours %v", n.index, op.Device, n.r.now.Sub(seen.at), seen.ours)
		return
	}
	if op.Kind == OpRead {
		if t.reading != n.arb.cur.id {
			t.reading, t.readStart = n.arb.cur.id, n.r.now
		}
		return
	}
	if len(op.Data) != BlockSize || op.Offset != SlotOffset(n.index, 0) && op.Offset != SlotOffset(n.index, 1) {
		o.must("n%d: writes %d bytes at %d, outside its slot", n.index, len(op.Data), op.Offset)
		return
	}
	if seq := recordSequence(op.Data); seq > t.writing {
		t.writing, t.acked, t.landed = seq, 0, 0
	}
	if p := &n.arb.prop; p.phase == phaseWrite1 {
		key := [2]uint64{p.instance, p.number}
		if owner, ok := o.ballots[key]; ok && owner != n.index {
			o.add("n%d and n%d both use ballot %d of instance %d", owner, n.index, p.number, p.instance)
		}
		o.ballots[key] = n.index
	}
}

// completed records what a completed I/O proves. A node that renews its anchor has determined the latest decision from
// a read.
func (o *oracle) completed(n *rigNode, io *rigIO, c *Completion, renewed bool) {
	t := &o.nodes[n.index]
	o.sawStart(n, io, c)
	if c.Kind == OpWrite {
		if recordSequence(io.data) != t.writing || t.landed != 0 {
			return
		}
		if t.acked == 0 || c.Started < t.first {
			t.first = c.Started
		}
		if t.acked.add(c.Device); t.acked.len() >= o.majority {
			t.landed = t.first
		}
		return
	}
	if t.landed != 0 {
		t.shown = t.landed
	}
	a := n.arb
	if renewed && a.anchor != 0 {
		o.backing[backing{n.index, a.lease.latest}] = t.shown
		// An agent that was restarted on a device that went back accepts what it reads. Its token has changed, and it
		// begins no ballot with that device (B11).
		for inst, d := range o.decided {
			if restarted := o.back.lost[n.index] != 0 && a.legacy.late != 0; !restarted && inst > a.lease.latest && d.since < t.readStart {
				o.add("n%d concludes from a read that instance %d is the latest decision, and %d was decided before that", n.index, a.lease.latest, inst)
			}
		}
	}
	o.believes(n, a.lease.latest, a.lease.grant)
}

// sawStart records what an I/O has shown of the first blocks of a device. Schedules overwrite both of them.
func (o *oracle) sawStart(n *rigNode, io *rigIO, c *Completion) {
	start := c.Own
	if c.Kind == OpRead && io.op.Offset == 0 {
		start = c.Data
	}
	if start == nil {
		return
	}
	seen := &o.nodes[n.index].start[c.Device]
	own, blank := 0, make([]byte, BlockSize)
	seen.ours = true
	for at := 0; at < OwnSize; at += BlockSize { // a read may see one block zeroed and the other not yet
		switch block := start[at : at+BlockSize]; {
		case bytes.Equal(block, n.r.own[c.Device][at:at+BlockSize]):
			own++
		case !bytes.Equal(block, blank):
			seen.ours = false
		}
	}
	if seen.ours = seen.ours && own > 0; seen.ours {
		seen.at = c.Ended
	}
}

func recordSequence(block []byte) uint64 { return binary.LittleEndian.Uint64(block[trailerSequence:]) }

func (o *oracle) believes(n *rigNode, inst uint64, g *Grant) {
	if inst == 0 {
		return
	}
	switch known, ok := o.decided[inst]; {
	case !ok:
		o.decided[inst] = decision{g, n.r.now}
		for _, h := range g.Holders {
			o.named[h.Token] = o.tokens[h.Token]
		}
		n.r.trace("n%d: instance %d is decided: %v", n.index, inst, g.Holders)
	case !same(known.grant, g):
		o.add("instance %d has two values: %v and, at n%d, %v", inst, known.grant, n.index, g)
	}
}

// stepped checks the state of an arbiter after a step.
func (o *oracle) stepped(n *rigNode, before *Output) {
	t, a, now := &o.nodes[n.index], n.arb, n.r.now
	inst, g := a.Decision()
	o.believes(n, inst, g)
	if inst < t.latest {
		o.add("n%d knew the decision of instance %d and now that of %d", n.index, t.latest, inst)
	}
	t.latest = inst
	if e := n.out.Ended; e != nil && e.Decided && e.Adopted {
		o.adoptions++
	}
	token := n.out.Token
	o.checkToken(n, token)
	if before.Split == tie.Won && before.Until <= now {
		t.lapsed = before.Token
	}
	if s := len(t.states); s == 0 || t.states[s-1].token != token || t.states[s-1].view != n.view {
		t.states = append(t.states, state{now, n.boot, token, n.view})
	}
	switch n.out.Split {
	case tie.Lost:
		o.lost++
	case tie.Won:
		if o.won++; n.hangs != 0 {
			o.outvoted++
		}
		if n.out.Why != "" {
			o.bridged++
		}
		o.checkWon(n)
	}
}

// checkToken: a token belongs to one view of one process, for good (L1). The next process may reuse a token that no
// slot ever showed: no grant can name it.
func (o *oracle) checkToken(n *rigNode, token Token) {
	if token == (Token{}) {
		return
	}
	is := life{n.index, n.process, n.view}
	if was, ok := o.tokens[token]; ok && was != is && (was.process == is.process || was.node != is.node) {
		o.add("n%d: token %v meant %+v and now means %+v", n.index, token, was, is)
	}
	if was, ok := o.named[token]; ok && was != is {
		o.add("n%d: token %v, which was granted to %+v, now means %+v", n.index, token, was, is)
	}
	o.tokens[token] = is
	if token.Nonce != n.boot {
		o.add("n%d: token %v of another boot than %x", n.index, token, n.boot)
	}
}

// checkWon: what must be true when a node feeds under a grant (L6, I3, I4).
func (o *oracle) checkWon(n *rigNode) {
	t, until, grant := &o.nodes[n.index], n.out.Until, n.r.timing.Grant
	inst, g := n.arb.lease.latest, n.arb.lease.grant
	if d, ok := o.decided[inst]; !ok || !same(d.grant, g) {
		o.add("n%d feeds under %v, which is not the decision of instance %d", n.index, g, inst)
		return
	}
	next, superseded := o.decided[inst+1]
	if superseded && (n.arb.relayed == 0 || until > next.since.Add(grant)) {
		o.add("n%d feeds until %v under instance %d although %d is decided since %v", n.index, until, inst, inst+1, next.since)
	}
	if own := t.shown != 0 && until <= t.shown.Add(grant); !own {
		o.relayed++
		if by := o.backed(n, inst, g); until > by.Add(grant) {
			o.add("n%d feeds until %v although its last landed write began at %v, and the last of another holder at %v", n.index, until, t.shown, by)
		}
	}
	if t.lapsed == n.out.Token {
		o.add("n%d feeds again with token %v, whose grant ran out", n.index, t.lapsed)
	}
	var holders roster.Set
	for _, h := range g.Holders {
		holders.Add(int(h.Slot))
		if int(h.Slot) == n.index && h.Token != n.out.Token {
			o.add("n%d feeds with token %v under a grant to %v", n.index, n.out.Token, h.Token)
		}
	}
	if holders != n.view {
		o.add("n%d feeds with view %v under a grant to %v", n.index, members(n.view), members(holders))
	}
	for _, h := range g.Holders {
		since := until - boottime.Instant(grant)
		if int(h.Slot) == n.index || o.was(int(h.Slot), h.Token, n.view, since) {
			continue
		}
		if !o.rejoined(int(h.Slot), h.Token.Nonce, n.index, since) {
			o.add("n%d feeds until %v with n%d, which since %v had never both token %v and view %v, nor counted it and a majority",
				n.index, until, h.Slot, since, h.Token, members(n.view))
		}
	}
}

// backed returns the latest write by which another holder can vouch for the instance.
func (o *oracle) backed(n *rigNode, inst uint64, g *Grant) (by boottime.Instant) {
	for _, h := range g.Holders {
		if int(h.Slot) != n.index {
			by = max(by, o.backing[backing{int(h.Slot), inst}])
		}
	}
	return by
}

// was reports whether a node had the token and the view at some moment since the instant.
func (o *oracle) was(node int, token Token, view roster.Set, since boottime.Instant) bool {
	states := o.nodes[node].states
	for i := len(states) - 1; i >= 0; i-- {
		if states[i].token == token && states[i].view == view {
			return true
		}
		if states[i].from < since {
			return false
		}
	}
	return false
}

// rejoined reports whether a node, in that boot, counted a majority with the other node in it at some
// moment since the instant (L14). An agent that was restarted counts before its slot is claimed.
func (o *oracle) rejoined(node int, boot uint64, other int, since boottime.Instant) bool {
	states := o.nodes[node].states
	for i := len(states) - 1; i >= 0; i-- {
		if s := &states[i]; s.boot == boot && s.view.Has(other) && 2*s.view.Len() > len(o.nodes) {
			return true
		}
		if states[i].from < since {
			return false
		}
	}
	return false
}

// same compares two grants field by field.
func same(g, h *Grant) bool {
	if g == nil || h == nil || g.RosterEpoch != h.RosterEpoch || g.RosterDigest != h.RosterDigest || len(g.Holders) != len(h.Holders) {
		return g == h
	}
	for i := range g.Holders {
		if g.Holders[i] != h.Holders[i] {
			return false
		}
	}
	return true
}
