package diskquorum

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// PeerSlot returns the latest readable record of a node's slot; ok is false while the node
// has none or its slot cannot be read. The record is valid until the next call of Complete.
func (a *Arbiter) PeerSlot(name string) (rec *Slot, ok bool) {
	i, ok := a.table.find(name)
	if !ok {
		return nil, false
	}
	return a.table.entries[i].record(), true
}

// Pause holds what the reads since an instant show about a peer's slot.
type Pause struct {
	Record *Slot // the latest readable one; nil: none. Valid until the next call of Complete
	Looked bool  // a read that began after the instant was completed, and reads go on
	Still  bool  // Record has not changed since, for as long as a running node may leave its slot unchanged
	Moved  bool  // Record was written, or landed, after the instant
	Reads  bool  // as Looked, even if there is no Record
	Torn   bool  // in the latest read, a slot that may be the peer's was unknown: it may have been written at that moment
}

// PeerPause returns whether a peer's slot has been written since an instant, and what the reads show.
func (a *Arbiter) PeerPause(now boottime.Instant, name string, since boottime.Instant) Pause {
	start := a.table.start
	reads := start > since && now.Sub(start) <= 3*a.timing.Heartbeat+a.timing.IOTimeout
	i, ok := a.table.find(name)
	if !ok {
		return Pause{Reads: reads, Torn: a.table.torn(name)}
	}
	e := &a.table.entries[i]
	return Pause{
		Record: e.record(),
		Looked: reads,
		Reads:  reads,
		Still:  start.Sub(max(since, e.since)) >= a.watchTime(e.record()),
		Moved:  e.after > since,
	}
}

// Shows reports whether the slot of a node was seen to change to an active record with that token.
func (a *Arbiter) Shows(name string, token Token) bool {
	i, ok := a.table.find(name)
	if !ok {
		return false
	}
	e := &a.table.entries[i]
	_, moved := e.arrived()
	rec := e.record()
	return moved && e.status == slotKnown && rec.State == SlotActive && rec.Statement.Token == token
}

// PeerWrites returns what this node now knows about a peer's writes: whether its slot goes on changing, or has not
// changed for as long as a running node may leave it unchanged. Both are false if there are no recent reads, or if the
// slot is not active. While all members are in view, reads are rare.
func (a *Arbiter) PeerWrites(now boottime.Instant, name string) (moves, still bool) {
	i, ok := a.table.find(name)
	e := &entry{}
	if ok {
		e = &a.table.entries[i]
	}
	if !ok || e.status != slotKnown || e.record().State != SlotActive || now.Sub(a.table.start) > a.readsGoOn() {
		return false, false
	}
	return a.moves(e), a.table.start.Sub(e.since) >= a.watchTime(e.record())
}

// readsGoOn returns the greatest age of the latest read at which reads still go on.
func (a *Arbiter) readsGoOn() time.Duration {
	return (fullViewReadEvery+2)*a.timing.Heartbeat + a.timing.IOTimeout
}
