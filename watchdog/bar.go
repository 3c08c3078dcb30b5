package watchdog

// Bar says why this node would not condemn itself, whatever it lost: then the others know of its death by time alone. Its
// strings are the vocabulary of logs and metrics.
type Bar uint8

const (
	BarNone     Bar = iota
	BarOff          // the configuration has no sentences
	BarNoHold       // it would not hold by the LUN: no LUN, or none with echo blocks, or a policy without holds
	BarWatchdog     // its watchdog cannot count down a sentence: see briefly
	BarMember       // a member's agent does not know sentences
	BarSlot         // a slot of the LUN is of an agent that does not know sentences, or cannot be read
)

var barNames = [...]string{BarNone: "none", BarOff: "off", BarNoHold: "no_hold", BarWatchdog: "watchdog", BarMember: "member", BarSlot: "slot"}

// String is the bar's name in logs, metrics and the API.
func (b Bar) String() string {
	if int(b) >= len(barNames) {
		return "invalid"
	}
	return barNames[b]
}

// Barred is the first thing that keeps this node from condemning itself. All nodes of the group must be of a version whose next
// agent looks or waits, and the countdown must be one that a sentence can shorten.
func (c *Core) Barred() Bar {
	switch {
	case c.cfg.Sentence.After <= 0:
		return BarOff
	case !c.Holds():
		return BarNoHold
	case !c.briefly():
		return BarWatchdog
	case !c.rosters.heeding():
		return BarMember
	case !c.lun.arbiter.Heeding():
		return BarSlot
	}
	return BarNone
}
