package agent

import (
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/api/trouble"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/history"
)

// lunCalm is how long a device of the LUN has to be in order, or have another trouble, before that is logged: a
// trouble that comes and goes is logged once, not each time.
const lunCalm = 10 * time.Second

// troubleLog logs when something begins and ceases to keep one device of the LUN from counting. It belongs to the
// loop. The zero value is for a device that was not in order yet.
type troubleLog struct {
	well   bool   // the device was in order once: before that, its trouble may be that of a start
	told   string // the trouble that was logged; empty: none
	last   string // the present trouble
	change boottime.Instant
}

// note records the present trouble, empty for none, and returns what to log: that it began, or that the device is in
// order again. patience is how long a start may take before its trouble is logged.
func (t *troubleLog) note(now boottime.Instant, trouble string, patience time.Duration) (began string, ended bool) {
	if trouble != t.last || t.change.IsZero() {
		t.last, t.change = trouble, now
	}
	lasted := now.Sub(t.change)
	switch {
	case trouble == "":
		t.well = true
		if t.told != "" && lasted >= lunCalm {
			t.told = ""
			return "", true
		}
	case trouble == t.told:
	case t.told == "" && t.well, t.told == "" && lasted >= patience, t.told != "" && lasted >= lunCalm:
		t.told = trouble
		return trouble, false
	}
	return "", false
}

// deviceTrouble describes what keeps one device of the LUN from counting, or returns "".
func (a *Agent) deviceTrouble(d int, arb *diskquorum.Arbiter, now boottime.Instant) string {
	if t := a.lun.keepers[d].Trouble(); t != "" {
		return t
	}
	if why := a.lun.leftOut[d]; why != nil {
		return why.Error()
	}
	if arb == nil {
		return "not opened yet"
	}
	return arb.DeviceTrouble(d, now)
}

// noteTroubles logs the troubles of all devices.
func (a *Agent) noteTroubles(now boottime.Instant) {
	arb := a.core.Arbiter()
	for d := range a.lun.keepers {
		a.noteTrouble(now, d, a.deviceTrouble(d, arb, now))
	}
}

// noteWorn logs that one copy of a device's superblock is damaged or blank: the agents use only the other one.
func (a *Agent) noteWorn() {
	arb := a.core.Arbiter()
	if arb == nil {
		return
	}
	for d, k := range a.lun.keepers {
		err := arb.Worn(d)
		if err != nil {
			err = fmt.Errorf("%w; the agents use the other copy: find out who wrote there, then restore it with: fencectl lun repair restore-superblock %s", err, k.Path)
		}
		a.published.parts.Note("second superblock of "+k.Path, err)
	}
}

// noteTrouble logs the troubles of a device of the LUN that was opened, such as a damaged slot or an I/O that hangs.
// If a device cannot be opened, its keeper logs that.
func (a *Agent) noteTrouble(now boottime.Instant, device int, what string) {
	k := a.lun.keepers[device]
	began, ended := a.lun.troubles[device].note(now, what, a.cfg.ArbitrationBudget())
	if began != "" {
		a.published.history.recorder.Note(history.Record{Kind: history.LUN, Action: history.ActionFailed, Text: k.Path + ": " + began})
	}
	switch {
	case ended:
		a.published.history.recorder.Note(history.Record{Kind: history.LUN, Text: k.Path})
		trouble.LUNUnhealthy.Ended(a.log, "device", k.Path)
	case began != "" && a.core.Arbiter() != nil && began == a.core.Arbiter().TooSlow():
		trouble.LUNTooSlow.Log(a.log, "device", k.Path, "error", began)
	case began != "" && began != k.Trouble():
		trouble.LUNUnhealthy.Log(a.log, "device", k.Path, "error", began)
	}
}
