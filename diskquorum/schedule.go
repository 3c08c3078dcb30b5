package diskquorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// fullViewReadEvery is how many heartbeats pass between two table reads while the network view is full: nothing has to
// be decided then, and the read only updates the knowledge of decisions and foreign writers.
const fullViewReadEvery = 10

var errCounter = errors.New("tie counter is used up: reboot this node")

// schedule picks the next transfer. There is at most one, and it is never given up.
func (a *Arbiter) schedule(now boottime.Instant, in *Input) {
	a.pick(now, in)
	a.dispatch(now)
}

func (a *Arbiter) pick(now boottime.Instant, in *Input) {
	switch {
	case a.inFlight:
		a.wakeAfter(now, a.submitted.Add(a.timing.IOTimeout+1))
		return
	case a.claim == claimFailed || a.claim == claimLocking && !a.wantLock:
		return
	case a.wantLock:
		a.wantLock = false
		a.out.Lock = a.slot
		return
	}
	switch a.prop.phase {
	case phaseWrite1, phaseWrite2:
		a.submitWrite(now)
		return
	case phaseRead1, phaseRead2:
		if at := a.prop.again; now < at {
			a.wakeAt(at)
			return
		}
		a.submitRead(now)
		return
	}
	switch {
	case a.sinceRead > 0 && now >= a.readDue(in) && (!a.dirty || a.passed):
		a.submitRead(now) // otherwise a LUN on which an I/O takes a heartbeat would be written and never read
	case now >= a.writeDue():
		if !a.yields(now, in) {
			a.passed = a.sinceRead > 0 && now >= a.readDue(in)
			a.submitWrite(now)
		}
	case now >= a.readDue(in):
		a.submitRead(now)
	default:
		a.wakeAt(min(a.writeDue(), a.readDue(in)))
	}
}

func (a *Arbiter) wakeAt(t boottime.Instant) { a.out.Wake = min(a.out.Wake, t) }

// writeDue returns when the slot has to be written next: each heartbeat, and soon after a change that others wait for.
func (a *Arbiter) writeDue() boottime.Instant {
	switch {
	case a.claim < claimWriting:
		return boottime.Never
	case a.stop && !a.dirty:
		return boottime.Never // the slot says stopped, which is the last record
	case a.lastWrite.IsZero():
		return 0
	case a.dirty:
		return a.lastWrite.Add(a.timing.Heartbeat / 10)
	default:
		return a.lastWrite.Add(a.timing.Heartbeat)
	}
}

// repeatAtOnce is how many consecutive reads may fail before the next one is delayed.
const repeatAtOnce = 3

// readDue returns when the table has to be read next. It delays reads after failures: otherwise a device that fails at
// once would be read again at once, for as long as writes succeed or none is due.
func (a *Arbiter) readDue(in *Input) boottime.Instant {
	due := a.afterStranded(a.readWanted(in))
	if a.readFailures >= repeatAtOnce {
		due = max(due, a.lastRead.Add(a.timing.Heartbeat/10))
	}
	return due
}

// readWanted returns when a read is useful. While all members are in view, that is rarely, and right before a
// heartbeat, which needs a read of the superblock anyway (B10). While a member is missing, it is after every write of
// this node (L6 needs the pair). In a tie it is twice per heartbeat, and until the slot is claimed, each heartbeat.
func (a *Arbiter) readWanted(in *Input) boottime.Instant {
	afterWrite := boottime.Never
	if a.sinceRead > 0 && a.lastWriteOK {
		afterWrite = 0
	}
	switch {
	case a.lastRead.IsZero(), a.claim == claimRereading:
		return 0
	case a.claim == claimWriting:
		return afterWrite
	case a.claim != claimActive:
		return a.lastRead.Add(a.timing.Heartbeat)
	case in.Tie:
		return min(afterWrite, a.lastRead.Add(a.timing.Heartbeat/2))
	case a.readsFollow(in):
		return afterWrite
	case a.sinceRead >= fullViewReadEvery:
		return a.writeDue()
	default:
		return boottime.Never
	}
}

// readsFollow reports whether each write of the slot is followed by a read of the table.
func (a *Arbiter) readsFollow(in *Input) bool {
	return in.Tie || a.view.Len() < a.expected || in.Look
}

func (a *Arbiter) submitWrite(now boottime.Instant) {
	before := a.recorded
	if a.leap {
		a.seq, a.leap = a.seq+retries, false
	}
	a.seq++
	a.dirty = false
	a.records[a.seq%copiesPerSlot] = a.compose(now)
	a.recorded = a.seq
	if a.carried.IsZero() {
		a.carried = now
	}
	a.lastWrite, a.lastWriteOK, a.readBack = now, false, false
	a.begin(now, OpWrite)
	if a.prop.secondCopy() {
		a.alsoWrite(before)
	}
}

// compose builds the whole record, for every write (B1).
func (a *Arbiter) compose(now boottime.Instant) Slot {
	st := a.own
	st.Token, st.View = a.token, a.view
	rec := Slot{
		Index: a.slot, State: SlotClaiming, Sequence: a.seq,
		NodeName: a.roster.Name(a.roster.Self), NodeUID: a.uid, Process: a.process,
		RosterIndex: a.roster.Self, RosterSize: a.roster.Size(),
		Statement: st, HeartbeatInterval: a.timing.Heartbeat, GrantLifetime: a.timing.Grant,
		WallTime: a.wall, Ballot: a.ballot, Late: a.lateDevices(now),
	}
	switch {
	case a.stop:
		rec.State = SlotStopped
	case a.claim == claimActive:
		rec.State = SlotActive
	}
	return rec
}

func (a *Arbiter) submitRead(now boottime.Instant) {
	a.lastRead, a.passed = now, false
	a.begin(now, OpRead)
}

func (a *Arbiter) wrote(now boottime.Instant, c *Completion) {
	a.lapse(now) // before a write that took too long ends the silence
	if c.Err != nil {
		a.dirty = true
		// The good record is in the other copy, so the next write tries the same copy again. If it tore the good copy
		// instead, readers would fall back to a record from before both.
		a.seq++
		a.abort("write of this node's slot: " + c.Err.Error())
		return
	}
	a.lastWriteOK, a.writeStart, a.lastGood = true, c.Started, c.Ended
	a.sinceRead++
	if a.prop.phase != phaseIdle {
		a.proposalWrote()
	}
}

func (a *Arbiter) read(now boottime.Instant, c *Completion) {
	if c.Err != nil {
		a.abort("read of the slot table: " + c.Err.Error())
		a.readFailures = min(repeatAtOnce, a.readFailures+1)
		return
	}
	a.readFailures = 0
	a.table.merge(a.cur.done, c.Started, c.Ended)
	a.lastGood, a.sinceRead = c.Ended, 0
	switch a.claim {
	case claimReading:
		a.chooseSlot(now)
	case claimRereading:
		a.reread(now)
	case claimWatching:
		a.watch(now)
	case claimWriting, claimActive:
		a.verifyOwn()
	}
	if a.prop.phase == phaseRead1 || a.prop.phase == phaseRead2 {
		a.proposalRead()
	}
	a.updateLease()
	a.followBallots()
}

func (a *Arbiter) abort(reason string) {
	if a.prop.phase != phaseIdle {
		a.endProposal(proposalEnd{reason: reason})
	}
}

// updateLease determines the latest decision from a completed read. A newer decision ends an older grant in any case. A
// decision is renewed, or relied on, only if no later value may be decided (B7) and the read followed a landed write of
// this node (L6).
func (a *Arbiter) updateLease() {
	l := a.table.log(&a.ballot)
	if l.differs >= 0 {
		// One instance has two values: a slot has lost its promise. Nodes may feed under each of the two values, so
		// this node must feed under neither.
		l.grant, a.anchor = nil, 0
		a.lease = l
		return
	}
	a.learn(l)
	newer := l.latest > a.lease.latest
	if newer {
		a.lease, a.anchor = l, 0
	}
	if l.unknown || l.pending {
		a.lease.pending, a.lease.unknown = l.pending, l.unknown
		return
	}
	a.lease = l
	if a.lastWriteOK && a.readBack && a.upToDate(a.cur.done) { // an agent that claims its slot also reads devices that went back (B11)
		a.anchor = a.writeStart
	}
}

// healthy reports whether this node's access to the LUN is good enough to arbitrate.
func (a *Arbiter) healthy(now boottime.Instant) bool {
	return a.claim == claimActive && a.trouble(now) == ""
}

// trouble returns what is wrong with the LUN, or "".
func (a *Arbiter) trouble(now boottime.Instant) string {
	limit := 3*a.timing.Heartbeat + a.timing.IOTimeout
	switch {
	case a.failure != nil:
		return a.failure.Error()
	case a.lost() != nil:
		return a.lost().Error()
	case a.stranded() && a.gone():
		return errBack.Error()
	case a.inFlight && now.Sub(a.submitted) > a.timing.IOTimeout:
		return fmt.Sprintf("an I/O has been under way for more than %v", a.timing.IOTimeout)
	case a.ioErr != nil:
		return a.ioErr.Error()
	case a.claim != claimActive:
		return "the slot is not claimed yet"
	case !a.lastGood.IsZero() && now.Sub(a.lastGood) > limit:
		return fmt.Sprintf("no I/O completed for %v", limit)
	case a.staleRead():
		return "reads do not show what was written: is there a cache between this node and the LUN?"
	case a.lease.differs >= 0:
		return fmt.Sprintf("slot %d shows another decision of instance %d than this node knows: nothing is decided by this LUN until it is formatted again; see \"two decisions\" in docs/troubleshooting.md",
			a.lease.differs, a.lease.latest)
	case a.table.unreadable() >= 0:
		return fmt.Sprintf("slot %d is damaged, and nothing can be decided while it is; see fencectl lun inspect, and \"a damaged slot\" in docs/troubleshooting.md", a.table.unreadable())
	}
	return ""
}

func (a *Arbiter) staleRead() bool {
	return a.lastWriteOK && !a.readBack && a.staleReads > 0 && a.sinceRead == 0
}

// Status is a snapshot of the arbiter for people. Creating it allocates.
type Status struct {
	Slot        int // -1: none yet
	Sequence    uint64
	Token       Token
	Claimed     bool
	Healthy     bool
	Trouble     string
	InFlight    time.Duration // age of the I/O under way; 0: none
	LastWrite   time.Duration // age of the last landed write; negative: none
	LastRead    time.Duration
	Instance    uint64 // of the latest decision
	Grant       *Grant
	HolderNames []string
	Held        bool
	HeldFor     time.Duration // how long this node's grant is still valid
	Pending     bool
	DoubleWrite bool
}

// Status returns a snapshot of the arbiter at now.
func (a *Arbiter) Status(now boottime.Instant) Status {
	s := Status{
		Slot: a.slot, Sequence: a.seq, Token: a.token, Claimed: a.claim == claimActive,
		Healthy: a.healthy(now), Trouble: a.trouble(now), LastWrite: -1, LastRead: -1,
		Instance: a.lease.latest, Grant: a.lease.grant, Pending: a.lease.pending, DoubleWrite: a.double,
	}
	if a.inFlight {
		s.InFlight = now.Sub(a.submitted)
	}
	if !a.writeStart.IsZero() {
		s.LastWrite = now.Sub(a.writeStart)
	}
	if a.table.reads > 0 {
		s.LastRead = now.Sub(a.table.end)
	}
	if a.granted && a.grantedTo > now {
		s.Held, s.HeldFor = true, a.grantedTo.Sub(now)
	}
	if a.lease.grant != nil {
		for _, h := range a.lease.grant.Holders {
			name := fmt.Sprintf("slot %d", h.Slot)
			if rec, _, ok := a.table.Slot(int(h.Slot), now); ok {
				name = rec.NodeName
			}
			s.HolderNames = append(s.HolderNames, name)
		}
	}
	return s
}

// Stopped reports whether the record that says stopped has landed.
func (a *Arbiter) Stopped() bool {
	return a.stop && (a.claim < claimWriting || a.claim == claimFailed || (!a.dirty && !a.inFlight && a.lastWriteOK))
}

// Decision returns the latest decision that this node knows: the instance and its value.
func (a *Arbiter) Decision() (uint64, *Grant) { return a.ballot.DecidedInstance, a.ballot.Decided }

// Failure returns why the arbiter has given up for good, or nil.
func (a *Arbiter) Failure() error { return a.failure }

// EverClaimed reports whether this node has held its slot at some time since the agent started.
func (a *Arbiter) EverClaimed() bool { return a.ever }
