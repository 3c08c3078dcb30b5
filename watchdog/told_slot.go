package watchdog

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// slotVerdict is what the LUN says of a word.
type slotVerdict uint8

const (
	slotSilent  slotVerdict = iota // nothing yet: its word is awaited until the trial is over
	slotWatched                    // it stands still, and not for long enough yet
	slotAgrees                     // it has stood still for as long as a node that runs may leave it alone, or there is no LUN
	slotRefuses                    // the trial ends with a refusal
)

// slotLimit is for how long a slot is watched that may be left alone for longer than a trial takes.
const slotLimit = 2 * time.Minute

// askSlot is what the LUN says of a word at this moment.
//
// Invariant: no word is believed of a slot that cannot be read. It may be being written at that moment. Nor does a
// node believe without the slot what a member could look up there: then that one is to be told.
func (v *Prover) askSlot(now boottime.Instant, p int, t *trial) (slotVerdict, Refused) {
	why := Refused{Why: RefusedUnread, Node: v.roster.Name(p), Boot: t.Boot}
	if a := v.slots; a != nil {
		slot := a.PeerPause(now, why.Node, t.since)
		switch {
		case slot.Looked && slot.Still:
			return slotAgrees, why
		case slot.Looked && now.Sub(t.since) < slotLimit:
			return slotWatched, why
		case slot.Looked || slot.Reads && slot.Torn:
			return slotRefuses, why
		case slot.Reads:
			return slotSilent, why // it has none
		}
	}
	if m, reads := v.whoReads(); reads {
		why.Why, why.Other = RefusedBlind, v.roster.Name(m)
		return slotRefuses, why
	}
	if v.slots == nil && !v.cfg.LUN {
		return slotAgrees, why
	}
	return slotSilent, why
}

// whoReads is a counted member whose path to the LUN is in order, as it says.
func (v *Prover) whoReads() (member int, reads bool) {
	for m := range v.in.View.Counted.All() {
		if st, _ := v.merger.Statement(m); m != v.roster.Self && st != nil && st.LUNHealthy {
			return m, true
		}
	}
	return 0, false
}
