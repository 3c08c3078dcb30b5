package history

import (
	"time"
)

// Kind is the kind of a record.
type Kind uint8

// The kinds are on disk: never renumber them.
const (
	Started   Kind = 1 // the agent has started; Text is its version
	Decision  Kind = 2 // the decision has changed
	Sample    Kind = 3 // the worst values of some seconds: Slack, Write, Read
	Gone      Kind = 4 // Nodes are LEFT
	Back      Kind = 5 // Nodes have JOINed
	Fenced    Kind = 6 // Nodes are proven dead
	Watchdog  Kind = 7 // the watchdog's state has changed; Text names the new one
	LastWords Kind = 8 // the watchdog is not fed any more
	Condemned Kind = 9 // this boot has condemned itself
	Struck    Kind = 10
	Stopped   Kind = 11 // planned stop of the agent
	Tested    Kind = 12 // a person tests whether a watchdog resets the node; Action ActionFailed: it did not, or the test was cancelled
	Ordered   Kind = 13 // a fence of Nodes was ordered on this node; Text: which boot, who and why; ActionFailed: the fence did not happen
	LUN       Kind = 14 // a device of the LUN works again; Action ActionFailed: the device does not count, Text has the reason
)

// ActionFailed withdraws a record of the kind Tested. With the kind Ordered it means that the order was not obeyed,
// with the kind LUN that the device is lost.
const ActionFailed = "failed"

var kindNames = map[Kind]string{
	Started: "started", Decision: "decision", Sample: "sample", Gone: "left", Back: "join", Fenced: "fenced", Watchdog: "watchdog",
	LastWords: "last-words", Condemned: "condemned", Struck: "taken-down", Stopped: "stopped", Tested: "tested",
	Ordered: "ordered", LUN: "lun",
}

// String returns the name that programs read. A kind of a later version has none.
func (k Kind) String() string {
	if s := kindNames[k]; s != "" {
		return s
	}
	return "unknown"
}

// Record is one entry.
type Record struct {
	Seq  uint64        // number, from 1 on
	Boot uint64        // nonce of the kernel's boot
	Up   time.Duration // CLOCK_BOOTTIME: orders records even if the wall clock jumps
	Wall time.Time     // for people
	Kind Kind

	Action string // Decision: what the agent does
	Reason string // Decision: the reason
	Quorum bool
	Armed  bool   // the watchdog counted down
	Text   string // one sentence
	Nodes  []string

	Slack       time.Duration // least time that was left when the watchdog was fed
	Write, Read time.Duration // longest I/O of the LUN; 0: none
}
