package history

import (
	"time"
)

// Kind is what a record is about.
type Kind uint8

// The kinds are on disk: never renumber them.
const (
	Started   Kind = 1 // the agent has started; Text is its version
	Decision  Kind = 2 // the decision has changed
	Sample    Kind = 3 // the worst of some seconds: Slack, Write, Read
	Gone      Kind = 4 // Nodes are LEFT
	Back      Kind = 5 // Nodes have JOINed
	Fenced    Kind = 6 // Nodes are proven dead
	Watchdog  Kind = 7 // the watchdog's state has changed; Text names the new one
	LastWords Kind = 8 // the watchdog is not fed any more
	Condemned Kind = 9 // this boot has condemned itself
	Struck    Kind = 10
	Stopped   Kind = 11 // planned stop of the agent
	Tested    Kind = 12 // a person tests whether a watchdog resets the node; Action ActionFailed: it did not, or the test was called off
	Ordered   Kind = 13 // somebody on this node has ordered a fence of Nodes; Text: which boot, who and why; ActionFailed: it did not happen
	LUN       Kind = 14 // a device of the LUN is in order again; Action ActionFailed: the device does not count, Text says why
)

// ActionFailed withdraws a record of the kind Tested. For the kind Ordered it says that the order was not obeyed, and
// for the kind LUN that the device is lost.
const ActionFailed = "failed"

var kindNames = map[Kind]string{
	Started: "started", Decision: "decision", Sample: "sample", Gone: "left", Back: "join", Fenced: "fenced", Watchdog: "watchdog",
	LastWords: "last-words", Condemned: "condemned", Struck: "taken-down", Stopped: "stopped", Tested: "tested",
	Ordered: "ordered", LUN: "lun",
}

// String is the name that programs read. A kind of a later version has none.
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
	Up   time.Duration // CLOCK_BOOTTIME: orders records whatever the wall clock does
	Wall time.Time     // for people
	Kind Kind

	Action string // Decision: what the agent does
	Reason string // and why
	Quorum bool
	Armed  bool   // the watchdog counted down
	Text   string // one sentence
	Nodes  []string

	Slack       time.Duration // least that was left when the watchdog was fed
	Write, Read time.Duration // longest of the LUN; 0: none
}
