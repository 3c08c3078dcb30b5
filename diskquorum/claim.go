package diskquorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// claimState is the state of this node's claim to its slot.
//
//	reading -> locking -> rereading --own record, other boot--> watching -> writing -> active
//	                                --own record, or none-----------------> writing -> active
//	any --rival or foreign writer--> failed
type claimState uint8

const (
	claimReading   claimState = iota // the table has not been read yet
	claimLocking                     // the host-wide lock of the slot has been requested
	claimRereading                   // the lock is held: no earlier agent of this host writes the slot any more
	claimWatching                    // a record with this node's name exists: watch whether another agent still writes it
	claimWriting                     // the slot is written as claiming; watch for a rival
	claimActive
	claimFailed
)

// claimRounds is the number of reads that must find a fresh claim unchanged before this node relies on it.
const claimRounds = 3

// claimedDistance is added to the sequence once the slot is active. An earlier agent may have died before its first
// writes landed on a majority. One of these writes may land late, or be on one device only, unseen by this agent. Its
// sequence was random and may be greater than this agent's first sequences: it is at most maxFirstDistance greater than
// the sequence from which that agent began. There may have been several such agents, each starting from the record that
// the one before left on one device. With claimedDistance, everything that this agent writes from now on is newer for
// every reader, unless more than thirty agents in a row died so early. It is even, so that the copies alternate; a slot
// has room for sixty million agents that become active.
const (
	claimedDistance  = 32 * maxFirstDistance
	maxFirstDistance = 1 << 32 * copiesPerSlot
)

// unseenTokens is more than the number of token changes of a node while only a minority of its devices accepts its
// writes, or while a failed write may still land.
const unseenTokens = 1 << 16

// strayTokens is the range of an additional random distance; otherwise two agents that skip tokens from the same old
// record would arrive at the same token. It leaves room for some 7000 such skips in one boot.
const strayTokens = 1 << 20

var (
	// ErrRival means that another live agent uses this node's name or slot.
	ErrRival = errors.New("another agent writes this node's slot")
	// ErrTableFull means that no slot is free.
	ErrTableFull = errors.New("no free slot on the LUN: format it with more --slots, or release the slot of a removed node")
)

// chooseSlot picks this node's slot after the first read: the slot that has this node's name, otherwise a blank one.
// The search begins at this node's position in the roster, so nodes with the same roster never choose the same slot.
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

// Locked records the outcome, for one device, of the lock that Output.Lock asked for. Holding the lock proves that
// every write to that device by an earlier agent on this host has completed. Of two agents, only one gets the lock on a
// majority of the devices. A device whose lock was refused must refuse writes until this agent has the lock.
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
		a.claim = claimReading // start again, at the pace of the heartbeat
		return
	case e.status == slotBlank:
		a.startClaim(now, nil)
		return
	case e.record().State != SlotFree && e.record().NodeName != a.roster.Name(a.roster.Self):
		a.chooseSlot(now) // another node took the slot in the meantime
		return
	}
	rec := e.record()
	if rec.Statement.Boot == a.boot {
		a.startClaim(now, rec) // same host, same boot: the lock proves that its writer is gone
		return
	}
	// Written by another boot: if a second node uses our name, the slot goes on changing.
	a.claim, a.claimSince, a.watched = claimWatching, now, e.last
}

// watch ends when the slot has not changed for longer than a running writer may pause.
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

// startClaim begins to write this node's slot, and continues from its contents (B1, B3): ballot, decision, sequence and
// tie counter survive restart, reboot and re-assignment.
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
		known := a.ballot // the ballot as learnt from reads so far
		a.ballot = rec.Ballot
		a.learn(logState{latest: known.DecidedInstance, grant: known.Decided})
		a.seq = a.firstSequence(rec.Sequence) - 1
		if last := rec.Statement.Token; last.Nonce == a.boot {
			a.token = last
			if a.table.from.len() < len(a.lanes) || rec.Late != 0 || a.gone() {
				// A later token, which a grant may name, may be on a device that was not read. Or it was in a record
				// that was lost because late writes overwrote both copies, or because a device went back.
				a.token.Counter += min(unseenTokens+a.rng.Uint32N(strayTokens), ^a.token.Counter-1)
			}
			a.moveToken() // L1: the agent has restarted
		}
	}
	a.dirty = true
}

// firstSequence returns the first sequence after the newest record. It selects the other copy: a power failure during
// the write must not destroy the newest record. It is greater than the sequence of every visible write of an earlier
// agent. A random distance avoids the sequences of writes that are not visible: sectors of two writes with the same
// sequence would be taken for one record. The first writes of a slot have no such distance: a torn write among them
// must remain recognizable (maxTornFirst).
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

// verifyOwn checks after a read that this node's slot holds the last written record.
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
		// A cache before the LUN, a lost write, or a late write of an earlier agent: no conclusion is possible.
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

// foreignWriter returns a record in this node's slot that another agent wrote after this agent.
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

// misread reports whether a device that has accepted the latest record does not show it.
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
