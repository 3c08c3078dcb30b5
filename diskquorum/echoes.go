package diskquorum

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// The others' blocks can be dated by this node's clock alone (E1 to E3). Each write of an echo block carries a ping. A
// node that reads the ping echoes it in its next block, so that block was composed after the ping. The block may land
// any time later, but its contents were true after the instant of the ping.
//
// Echo blocks are not part of the lease: they are written and read between its I/Os, on each device separately. One
// device that shows a block is enough for its date, and a failed or late write does not revert a decision.

// pingsKept is the number of its latest pings that a node can date. It does not write more in the time for which a date
// counts.
const pingsKept = 1024

// crowded is the number of slots above which echo blocks are written and read only every other heartbeat.
const crowded = 64

// echoes holds the contents of this node's echo block, and what the node has read in the others' echo blocks.
type echoes struct {
	round    uint32 // number of the round of reads; a write follows each round
	began    boottime.Instant
	spoken   bool   // Testify was called after the step before
	answered uint32 // the round of the read that ended last
	told     uint32 // the round for which the latest block was composed
	nonce    uint32 // nonce of this process's pings
	count    uint32 // counter of the latest ping
	composed [pingsKept]boottime.Instant
	own      Echo
	echoed   []Ping // by slot, the pings that own echoes
	heard    []Ping // by slot, the latest ping read
	peers    []testified
	lanes    []echoLane
}

// testified holds the newest statement that was read in the echo block of a slot.
type testified struct {
	Echo
	date boottime.Instant // when the ping of this process that it echoes was composed; 0: it has no date
}

// echoLane is the state for one device.
type echoLane struct {
	wrote uint32 // counter of the ping that was last handed out for writing
	read  uint32 // round of the latest read
	pings []Ping // by slot, as last read
	last  bool   // the I/O that ended last was on the echo blocks
}

func newEchoes(process uint64, slots, devices int) echoes {
	e := echoes{
		nonce: max(1, uint32(process)^uint32(process>>32)), echoed: make([]Ping, slots), heard: make([]Ping, slots),
		peers: make([]testified, slots), lanes: make([]echoLane, devices),
	}
	for d := range e.lanes {
		e.lanes[d].pings = make([]Ping, slots)
	}
	return e
}

// echoPace returns the time between two pings.
func (a *Arbiter) echoPace() time.Duration {
	if a.Slots() > crowded {
		return 2 * a.timing.Heartbeat
	}
	return a.timing.Heartbeat
}

// Testify reads the others' echo blocks once per heartbeat and then writes t into this node's echo block. It writes at
// once when the node begins to live or no longer lives (M3). Call it after Step and after the decision that t
// describes: a block is true when it is composed, after everything that it echoes (E4). It returns Step's Output with
// these I/Os added.
func (a *Arbiter) Testify(now boottime.Instant, t *Testimony) *Output {
	e := &a.echo
	if a.claim != claimActive {
		return &a.out
	}
	e.spoken = true
	a.beginRound(now)
	a.wakeAt(a.roundDue())
	last := e.composed[e.count%pingsKept]
	switch {
	case e.told != e.answered:
		a.testify(now, t)
		e.told = e.answered
	case e.count > 0 && e.own.turns(t) && now >= last.Add(a.timing.Heartbeat/10):
		a.testify(now, t)
	case e.count > 0 && e.own.turns(t):
		a.wakeAt(last.Add(a.timing.Heartbeat / 10))
	}
	for d := range a.lanes {
		a.dispatchEcho(now, d)
	}
	a.out.Ops = a.ops
	return &a.out
}

// roundDue returns when the next round of reads begins. While all members are in view, it begins together with a
// heartbeat of the slot, if one is due at about that time: one read of the superblock is then enough for both writes
// (B10).
func (a *Arbiter) roundDue() boottime.Instant {
	at := a.echo.began.Add(a.echoPace())
	if due := a.writeDue(); a.view.Len() == a.expected && max(due, at).Sub(min(due, at)) < a.timing.Heartbeat/2 {
		return due
	}
	return at
}

// beginRound begins the next round of reads when it is due.
func (a *Arbiter) beginRound(now boottime.Instant) {
	if e := &a.echo; e.round == 0 || now >= a.roundDue() {
		e.round, e.began = e.round+1, now
	}
}

// readLength returns how many bytes of a device the table read covers. It includes the echo blocks, which follow the
// table, if they are due. On a slow device a longer I/O takes no more time than a short one.
func (a *Arbiter) readLength(now boottime.Instant, d int) int {
	e, slots := &a.echo, a.Slots()
	if !e.spoken {
		return TableSize(slots)
	}
	if a.beginRound(now); e.lanes[d].read == e.round {
		return TableSize(slots)
	}
	e.lanes[d].read = e.round
	return int(DeviceSize(slots))
}

// turns reports whether others wait for this node's new statement (M3).
func (t *Testimony) turns(now *Testimony) bool {
	return t.Lives != now.Lives || t.Sentence != now.Sentence
}

// testify composes the block. The instant of its ping is taken before any write of it is submitted (E1).
func (a *Arbiter) testify(now boottime.Instant, t *Testimony) {
	e := &a.echo
	e.count++
	e.composed[e.count%pingsKept] = now
	copy(e.echoed, e.heard)
	e.own = Echo{
		Index: a.slot, Process: a.process, Boot: a.boot, Ping: Ping{Nonce: e.nonce, Counter: e.count}, Testimony: *t,
		RosterEpoch: a.roster.Epoch, RosterDigest: a.roster.Digest, RosterSize: a.roster.Size(), RosterIndex: a.roster.Self,
		Decided: a.ballot.DecidedInstance, Token: a.token,
	}
	e.own.Granted = a.Named()
	if e.own.judge(a.boot, a.roster.Name(a.roster.Self)); t.Sentence > 0 && a.judged.counter == 0 {
		a.judged.counter = e.count
	}
}

// dispatchEcho hands out the next echo-block I/O of an idle device: the write of the latest block, or the read of this
// round.
func (a *Arbiter) dispatchEcho(now boottime.Instant, d int) {
	l, e, slots := &a.lanes[d], &a.echo, a.Slots()
	p := &e.lanes[d]
	if !l.usable() {
		return
	}
	if l.inFlight {
		a.takeAlong(d)
		return
	}
	switch {
	case a.inFlight && a.sluggish(): // the transfer, or the next one, would have to wait for this device
	case p.wrote != e.count && !a.barred(now, d) && !(a.sluggish() && now.Add(a.pace.write) >= a.writeDue()): // otherwise it is written together with the slot
		if err := EncodeEcho(l.buf, a.table.devices[d].id, slots, &e.own, e.echoed); err != nil {
			return // impossible: the slot is in the table
		}
		if l.echo = true; a.handOut(now, d, Op{Kind: OpWrite, Offset: EchoOffset(slots, a.slot), Data: l.buf}) {
			p.wrote = e.count
		}
	case p.read != e.round:
		p.read, l.echo = e.round, true
		a.handOut(now, d, Op{Kind: OpRead, Offset: EchoOffset(slots, 0), Length: EchoSize(slots)})
	}
}

// takeAlong adds the latest echo block to the write of the slot, if this step hands out one.
func (a *Arbiter) takeAlong(d int) {
	l, e, slots := &a.lanes[d], &a.echo, a.Slots()
	if p := &e.lanes[d]; p.wrote != e.count && l.op.Kind == OpWrite && !l.echo {
		for i := range a.ops {
			if op := &a.ops[i]; op.ID == l.op.ID && EncodeEcho(l.block, a.table.devices[d].id, slots, &e.own, e.echoed) == nil {
				op.Beside, op.BesideAt = l.block, EchoOffset(slots, a.slot)
				l.op, p.wrote = *op, e.count
			}
		}
	}
}

// yields reports whether the next heartbeat of the slot waits for one I/O on the echo blocks, which Testify hands out:
// otherwise a slow device would have no time for echo blocks. There are exceptions: nothing comes between a write and
// the read that follows it (L6), a write that others wait for does not wait, and neither does the write of a node that
// lives by a grant.
func (a *Arbiter) yields(now boottime.Instant, in *Input) bool {
	e := &a.echo
	if !e.spoken || a.dirty || a.granted || a.readsFollow(in) || a.sinceRead > 0 && now >= a.readDue(in) {
		return false
	}
	for d := range a.lanes {
		l, p := &a.lanes[d], &e.lanes[d]
		due := p.read != e.round || now >= a.roundDue()
		if l.usable() && !l.inFlight && due && !p.last && !a.barred(now, d) {
			a.wakeAt(now.Add(a.timing.Heartbeat / 10)) // if Testify is not called any more
			return true
		}
	}
	return false
}

// echoed handles the end of an I/O on the echo blocks. A failed write is not repeated: the next one has newer contents.
func (a *Arbiter) echoed(c *Completion) {
	slots := a.Slots()
	a.noteSentence(c)
	if c.Kind == OpRead {
		a.echo.answered = max(a.echo.answered, a.echo.lanes[c.Device].read)
	}
	if c.Kind != OpRead || c.Err != nil || len(c.Data) < EchoSize(slots) {
		return
	}
	prompt := c.Ended.Sub(c.Started) <= a.timing.IOTimeout
	for slot := range slots {
		block := c.Data[slot*BlockSize : (slot+1)*BlockSize]
		rec, echoed, err := DecodeEcho(block, a.table.devices[c.Device].id, slots, slot, a.slot)
		if err != nil {
			continue // no evidence: the block does not exist yet, is being written, or is damaged
		}
		if a.hearSentence(slot, &rec); slot == a.slot {
			continue
		}
		if prompt {
			a.hearPing(c.Device, slot, rec.Ping)
		}
		a.take(slot, &rec, a.dateOf(echoed))
	}
}

// hearPing records a ping to be echoed. A slow read does not count: it may show a new ping together with an old log
// (E2). One of three devices may still show the block of an earlier process, so only changes count.
func (a *Arbiter) hearPing(d, slot int, p Ping) {
	e := &a.echo
	was := e.lanes[d].pings[slot]
	e.lanes[d].pings[slot] = p
	if h := e.heard[slot]; p != was && (p.Nonce != h.Nonce || p.Counter > h.Counter) {
		e.heard[slot] = p
	}
}

// dateOf returns the instant of an echoed ping, if the ping is exactly one of this process (E3); 0: it is not. A ping
// of an earlier process, or of the slot's former owner, may be greater. A ping that is not among the latest is greater
// than the newest, or too old to count.
func (a *Arbiter) dateOf(p Ping) boottime.Instant {
	e := &a.echo
	if p.Nonce != e.nonce || p.Counter == 0 || e.count-p.Counter >= pingsKept {
		return 0
	}
	return e.composed[p.Counter%pingsKept]
}

// take keeps the newest statement of a slot's echo block. Without a date it proves nothing; but if its writer now
// states that it lives, its earlier statements no longer count.
func (a *Arbiter) take(slot int, rec *Echo, date boottime.Instant) {
	p := &a.echo.peers[slot]
	same := p.Ping.Nonce == rec.Ping.Nonce
	switch {
	case same && rec.Ping.Counter <= p.Ping.Counter: // already known, or late
	case date > 0 && (same || date >= p.date):
		*p = testified{Echo: *rec, date: date}
	case date == 0 && same && rec.Lives:
		*p = testified{Echo: *rec}
	}
}
