package diskquorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// claimState is how far this node's slot is secured.
//
//	reading -> locking -> rereading --own record, other boot--> watching -> writing -> active
//	                                --own record, or none-----------------> writing -> active
//	any --rival or foreign writer--> failed
type claimState uint8

const (
	claimReading   claimState = iota // the table has not been read yet
	claimLocking                     // the host-wide lock of the slot is asked for
	claimRereading                   // it is held: what the slot holds now is all there is
	claimWatching                    // a record of this name exists: does somebody still write it?
	claimWriting                     // written as claiming; watched for a rival
	claimActive
	claimFailed
)

// claimRounds is how often a fresh claim must be found undisturbed before it is relied on.
const claimRounds = 3

// claimedDistance is added to the sequence once the slot is active. An agent that died before
// its first writes landed (on a majority) may have left one of them behind, unseen, to land
// late or on one device; its sequence was random and may be greater than the first ones of
// this agent. It is at most maxFirstDistance beyond what that agent began from, and of such
// agents there may have been several, each beginning from what the one before it left on one
// device. So what this agent writes from now on, ballots and all, is newer for every reader
// unless more than thirty in a row came no further. Even, for the copies to alternate; a slot
// has room for sixty million agents that become active.
const (
	claimedDistance  = 32 * maxFirstDistance
	maxFirstDistance = 1 << 32 * copiesPerSlot
)

// unseenTokens is more than a node moves its token on while only a minority of its devices
// takes its writes, or while a failed write may land.
const unseenTokens = 1 << 16

// strayTokens is the range of a random distance on top; otherwise two agents that leap from the same old record would
// arrive at the same token. It leaves room for some 7000 leaps in one boot.
const strayTokens = 1 << 20

var (
	// ErrRival says that another live agent uses this node's name or slot.
	ErrRival = errors.New("another agent writes this node's slot")
	// ErrTableFull says that no slot is free.
	ErrTableFull = errors.New("no free slot on the LUN: format it with more --slots, or release the slot of a removed node")
)

// chooseSlot picks this node's slot after the first read: the one that carries this node's name,
// else a blank one. The search begins at this node's position in the roster, so nodes with
// the same roster never want the same slot.
func (a *Arbiter) chooseSlot(now boottime.Instant) {
	if a.table.anyUnknown() {
		return // an unreadable slot may be this node's; read again
	}
	if i, ok := a.table.find(a.roster.Name(a.roster.Self)); ok {
		a.askLock(i, now)
		return
	}
	n := a.table.Slots()
	for k := range n {
		i := (a.roster.Self + k) % n
		if e := &a.table.entries[i]; e.status == slotBlank || (e.status == slotKnown && e.record().State == SlotFree) {
			a.askLock(i, now)
			return
		}
	}
	a.fail(ErrTableFull)
}

func (a *Arbiter) askLock(slot int, now boottime.Instant) {
	a.slot, a.claim, a.claimSince, a.wantLock = slot, claimLocking, now, true
	a.locks, a.refused = 0, 0
}

// Locked tells the arbiter the outcome of the lock it asked for in Output.Lock, for one
// device. Holding the lock proves that every write to that device by an agent that ran on this
// host before has completed. Of two agents only one gets a majority. A device whose lock
// was refused must refuse writes until this agent has the lock.
func (a *Arbiter) Locked(_ boottime.Instant, device int, err error) {
	if a.claim != claimLocking || device < 0 || device >= len(a.lanes) {
		return
	}
	if err != nil {
		a.refused.add(device)
	} else {
		a.locks.add(device)
	}
	switch {
	case a.locks.len() >= a.majority():
		a.claim = claimRereading
	case err != nil && len(a.lanes)-a.refused.len() < a.majority():
		a.fail(fmt.Errorf("%w: slot %d is locked on this host: %w", ErrRival, a.slot, err))
	}
}

// reread continues this node's slot from a read that began when the lock was held. An earlier agent of this host may
// have written, and even decided, after the read that chose the slot and before it died (B3).
func (a *Arbiter) reread(now boottime.Instant) {
	e := &a.table.entries[a.slot]
	switch {
	case e.status == slotUnknown:
		a.claim = claimReading // from the beginning, at the pace of the heartbeat
		return
	case e.status == slotBlank:
		a.startClaim(now, nil)
		return
	case e.record().State != SlotFree && e.record().NodeName != a.roster.Name(a.roster.Self):
		a.chooseSlot(now) // somebody else took it meanwhile
		return
	}
	rec := e.record()
	if rec.Statement.Boot == a.boot {
		a.startClaim(now, rec) // same host, same boot: the lock says its writer is gone
		return
	}
	// Written by another boot: if it is a second node with our name, its slot goes on changing.
	a.claim, a.claimSince, a.watched = claimWatching, now, e.last
}

// watch ends when the slot has not changed for longer than its writer could pause.
func (a *Arbiter) watch(now boottime.Instant) {
	e := &a.table.entries[a.slot]
	if e.status != slotKnown {
		return
	}
	rec := e.record()
	if e.last != a.watched {
		a.fail(fmt.Errorf("%w: slot %d of %q is being written by boot %016x; two nodes use one name, change nodeName on one of them",
			ErrRival, a.slot, rec.NodeName, rec.Statement.Boot))
		return
	}
	if a.table.start.Sub(a.claimSince) >= a.watchTime(rec) {
		a.startClaim(now, rec)
	}
}

func (a *Arbiter) watchTime(rec *Slot) time.Duration {
	return 2*max(a.timing.Heartbeat, rec.HeartbeatInterval) + a.timing.IOTimeout
}

// startClaim begins to write this node's slot, continuing what it held (B1, B3): ballot,
// decision, sequence and tie counter survive restart, reboot and re-assignment.
func (a *Arbiter) startClaim(now boottime.Instant, rec *Slot) {
	a.claim, a.rounds = claimWriting, 0
	a.token = Token{Nonce: a.boot, Counter: 1}
	a.seq = a.table.entries[a.slot].tearing
	// A write of an earlier boot, or one that failed, may still land late. The lock proves
	// only that every write of this boot has returned. So ballots go to both copies (B3).
	a.double = rec != nil || a.seq != 0
	if a.double {
		a.legacy = legacy{since: now}
	}
	if rec != nil {
		a.legacy.late = rec.Late
		known := a.ballot // what reads have taught so far
		a.ballot = rec.Ballot
		a.learn(logState{latest: known.DecidedInstance, grant: known.Decided})
		a.seq = a.firstSequence(rec.Sequence) - 1
		if last := rec.Statement.Token; last.Nonce == a.boot {
			a.token = last
			if a.table.from.len() < len(a.lanes) || rec.Late != 0 || a.gone() {
				// A later token may be on a device that was not read. Or it was in a record that late writes of both
				// copies, or a device that went back, have taken back. A grant may name it.
				a.token.Counter += min(unseenTokens+a.rng.Uint32N(strayTokens), ^a.token.Counter-1)
			}
			a.moveToken() // L1: the agent has restarted
		}
	}
	a.dirty = true
}

// firstSequence is the sequence to go on with after the newest record. It goes to the
// other copy: a power failure in it must not cost the newest record. It is past every
// write of an earlier agent that can be seen. A random distance leaves behind those that
// cannot: sectors of two writes with one sequence would pass for one record. Only a slot's first writes do without: a torn one among them must
// remain recognizable (maxTornFirst).
func (a *Arbiter) firstSequence(newest uint64) uint64 {
	first := newest + 3
	if torn := a.table.entries[a.slot].tearing; torn >= first {
		first += ((torn-first)/copiesPerSlot + 1) * copiesPerSlot
	}
	if newest > maxTornFirst {
		first += retries + copiesPerSlot*(1+a.rng.Uint64N(maxFirstDistance/copiesPerSlot))
	}
	return first
}

// verifyOwn checks after a read that this node's slot holds what was last written.
func (a *Arbiter) verifyOwn() {
	e := &a.table.entries[a.slot]
	a.readBack = false
	if e.status != slotKnown || !a.lastWriteOK {
		return
	}
	rec := e.record()
	if foreign := a.foreignWriter(); foreign != nil {
		rec = foreign
		a.fail(fmt.Errorf("%w: slot %d now holds a record of %q, process %016x", ErrRival, a.slot, rec.NodeName, rec.Process))
		return
	}
	if rec.Process != a.process || rec.Sequence != a.seq || a.misread() {
		// A cache between us and the LUN, a lost write, or one of an earlier agent that
		// landed late: nothing may be concluded.
		a.staleReads++
		return
	}
	a.readBack = true
	if a.claim == claimWriting {
		if a.rounds++; a.rounds >= claimRounds {
			a.claim, a.dirty, a.ever = claimActive, true, true
			a.seq += claimedDistance
		}
	}
}

// foreignWriter returns a record in this node's slot that another agent wrote after this one.
func (a *Arbiter) foreignWriter() *Slot {
	for d := range a.lanes {
		s := &a.table.devices[d].slots[a.slot]
		if !a.table.from.has(d) || s.status != slotKnown {
			continue
		}
		if rec := s.record(); rec.Process != a.process && rec.Sequence >= a.seq {
			return rec
		}
	}
	return nil
}

// misread reports whether a device that took the latest record does not show it.
func (a *Arbiter) misread() bool {
	for d := range a.lanes {
		s := &a.table.devices[d].slots[a.slot]
		if !a.table.from.has(d) || a.lanes[d].newest() != a.seq {
			continue
		}
		if s.status == slotKnown && (s.record().Process != a.process || s.record().Sequence != a.seq) || s.status == slotBlank {
			return true
		}
	}
	return false
}

// fail takes the node out of arbitration for good; the network quorum goes on without it.
func (a *Arbiter) fail(err error) {
	a.claim, a.failure = claimFailed, err
	a.prop = proposal{}
}
