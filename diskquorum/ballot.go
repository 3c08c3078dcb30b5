package diskquorum

import (
	"fmt"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// phase is the present step of a ballot.
//
//	idle -> write1 -> read1 -> write2 -> read2 -> decided (published by the next write)
//
// Any failed check or I/O leads back to idle; the ballot state stays in this node's slot.
type phase uint8

const (
	phaseIdle phase = iota
	phaseWrite1
	phaseRead1
	phaseWrite2
	phaseRead2
)

// proposal is one attempt to finish an instance of the log.
type proposal struct {
	phase    phase
	instance uint64
	number   uint64
	view     half
	writes   int // copies still to be written in this phase (B3)
	copies   int // all copies of this phase
	ios      int
	begun    boottime.Instant
	again    boottime.Instant // when the read of phase 1 is repeated
}

// proposalEnd is the outcome of the last attempt, for people and metrics.
type proposalEnd struct {
	decided bool
	adopted bool
	reason  string
	ios     int
}

// secondCopy reports whether the next write of the phase is the second copy of two.
func (p *proposal) secondCopy() bool {
	return (p.phase == phaseWrite1 || p.phase == phaseWrite2) && p.writes < p.copies
}

// beginProposal enters the instance after the latest decision. The decision itself is
// already in this node's ballot, so the first write of the new instance carries it (B1).
func (a *Arbiter) beginProposal(now boottime.Instant, l logState, h half) {
	a.learn(l)
	inst := l.latest + 1
	if a.ballot.Instance != inst {
		a.ballot.Instance, a.ballot.MBal, a.ballot.Bal, a.ballot.Value = inst, 0, 0, nil
	}
	number := a.nextNumber(inst)
	a.ballot.MBal = number // phase 1 keeps bal and val (B5)
	a.prop = proposal{phase: phaseWrite1, instance: inst, number: number, view: h, writes: a.copiesPerPhase(), copies: a.copiesPerPhase(), begun: now}
}

// nextNumber returns a ballot number that no other slot can use, greater than every number read in this instance and
// than this node's (B4).
func (a *Arbiter) nextNumber(inst uint64) uint64 {
	slots := uint64(a.table.Slots())
	greatest := a.ballot.MBal
	for i := range a.table.entries {
		if e := &a.table.entries[i]; e.status == slotKnown && e.record().Ballot.Instance == inst {
			greatest = max(greatest, e.record().Ballot.MBal)
		}
	}
	return (greatest/slots+1)*slots + uint64(a.slot)
}

// copiesPerPhase returns 2 if a write of an earlier agent, or a failed write of this agent, may still overwrite the
// copy that is written now (B3): nothing ever proves that it cannot.
func (a *Arbiter) copiesPerPhase() int {
	if a.double {
		return copiesPerSlot
	}
	return 1
}

// learn copies a decision into this node's ballot, so that every later write carries it.
func (a *Arbiter) learn(l logState) {
	if l.latest > a.ballot.DecidedInstance {
		a.ballot.DecidedInstance, a.ballot.Decided = l.latest, l.grant
		a.dirty = true
	}
}

// proposalWrote is called when a write of the current phase has landed.
func (a *Arbiter) proposalWrote() {
	if a.prop.writes--; a.prop.writes > 0 {
		return
	}
	switch a.prop.phase {
	case phaseWrite1:
		a.prop.phase = phaseRead1
	case phaseWrite2:
		a.prop.phase = phaseRead2
	}
}

// proposalRead is called when the read of the current phase has completed and is in the
// table. It began after the phase's own write had completed (B2).
func (a *Arbiter) proposalRead() {
	if err := a.overtaken(); err != nil {
		a.endProposal(proposalEnd{reason: err.Error()})
		return
	}
	if a.prop.phase == phaseRead2 {
		a.ballot.DecidedInstance, a.ballot.Decided = a.prop.instance, a.ballot.Value
		a.dirty = true // only to publish: the value is already decided (B6)
		a.endProposal(proposalEnd{decided: true})
		return
	}
	value, adopted := a.valueFor()
	if value == nil && a.waits() {
		a.prop.again = a.table.end.Add(a.timing.Heartbeat / 10)
		return
	}
	if value == nil {
		a.endProposal(proposalEnd{reason: "nothing to adopt and the half is not settled: " + a.prop.view.why})
		return
	}
	a.prop.phase, a.prop.writes, a.prop.copies = phaseWrite2, a.copiesPerPhase(), a.copiesPerPhase()
	a.ballot.Bal, a.ballot.Value = a.prop.number, value
	a.adopted = adopted
}

// waits reports whether the read of phase 1 is repeated: only the second heartbeat of some member is missing, and this
// node began early (see early). Each such read begins after the write of phase 1 has completed, like the first one (B2,
// B5).
func (a *Arbiter) waits() bool {
	h := a.assess(a.prop.view.view)
	return a.view == h.view && h.near && !h.settled && a.mayPropose() && a.table.end < a.prop.begun.Add(a.ballotTime())
}

// overtaken makes the checks of B5, which both reads of a ballot must pass.
func (a *Arbiter) overtaken() error {
	if l := a.table.log(&a.ballot); l.differs >= 0 {
		return fmt.Errorf("slot %d shows another decision of instance %d", l.differs, l.latest)
	}
	for i := range a.table.entries {
		e := &a.table.entries[i]
		if i == a.slot {
			if e.status != slotKnown || e.record().Process != a.process || e.record().Sequence != a.seq {
				return fmt.Errorf("own slot does not read back as written")
			}
			continue
		}
		switch b := &e.record().Ballot; {
		case e.status == slotBlank:
		case e.status == slotUnknown:
			return fmt.Errorf("slot %d cannot be read", i) // B9
		case b.DecidedInstance >= a.prop.instance:
			return fmt.Errorf("slot %d knows the decision of instance %d", i, b.DecidedInstance)
		case b.Instance > a.prop.instance:
			return fmt.Errorf("slot %d is in instance %d", i, b.Instance)
		case b.Instance == a.prop.instance && b.MBal > a.prop.number:
			return fmt.Errorf("slot %d entered ballot %d", i, b.MBal)
		}
	}
	return nil
}

// valueFor picks the value of phase 2 (B6): the accepted value of the greatest ballot in this instance, including this
// node's slot. It picks a value of its own only if there is no accepted one, the half is settled, and every holder of
// the latest grant is done, all in this very read (L5).
func (a *Arbiter) valueFor() (value *Grant, adopted bool) {
	bal, val := uint64(0), (*Grant)(nil)
	if a.ballot.Bal > bal {
		bal, val = a.ballot.Bal, a.ballot.Value
	}
	for i := range a.table.entries {
		if e := &a.table.entries[i]; i != a.slot && e.status == slotKnown {
			if b := &e.record().Ballot; b.Instance == a.prop.instance && b.Bal > bal {
				bal, val = b.Bal, b.Value
			}
		}
	}
	if bal > 0 {
		return val, true
	}
	h := a.assess(a.prop.view.view)
	a.prop.view.why = h.why
	if a.view != h.view || !h.settled || !a.mayPropose() {
		return nil, false
	}
	if !a.table.holdersDone(a.ballot.Decided, &a.timing, a.ownWatchdog()) {
		a.prop.view.why = "a holder of the latest grant may still feed"
		return nil, false
	}
	return h.grant(), false
}

func (a *Arbiter) endProposal(end proposalEnd) {
	end.ios, end.adopted = a.prop.ios, end.decided && a.adopted
	a.prop = proposal{}
	a.adopted = false
	a.lastEnd = end
	a.ended = true
}
