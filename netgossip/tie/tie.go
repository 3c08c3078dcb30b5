package tie

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Input is what every tie-breaker has to know at one step.
type Input struct {
	View     roster.Set       // counted members, this node included
	Tie      bool             // they are exactly half of an even roster
	TieSince boottime.Instant // when a majority was counted last
	Quorum   int              // how many make a majority; 0: more than half
	Stop     bool             // planned stop: what this node has written says so
	// Released is set in a planned stop when the guard is given up as well. Until then the node is fed, maybe by
	// the grant that names its token.
	Released bool
	// Horizon is what the node's statements, made after this step, say of its guard.
	Horizon time.Duration
}

// State is the state of an equal split.
type State uint8

// The states.
const (
	None        State = iota // there is no tie
	Pending                  // not decided yet
	Won                      // granted to this node's half
	Lost                     // granted to nodes that are not done with it
	Unavailable              // this node cannot use the tie-breaker now
)

// String returns the state as logs have it.
func (s State) String() string {
	return [...]string{"none", "pending", "won", "lost", "unavailable"}[s]
}

// Output is what every tie-breaker answers after a step.
type Output struct {
	Split State
	Until boottime.Instant // Won: feed no longer than this
	// Why is for people: what Pending waits for, why the tie-breaker is Unavailable, why a tie is Lost by a node that
	// the grant names, or by whose majority it is still Won while the network heals.
	Why     string
	Token   netgossip.Token  // of this node; zero: none yet
	Relay   netgossip.Relay  // what to tell the other members; zero: nothing
	Relayed bool             // Won by another holder's writes: this node's picture may be old
	Wake    boottime.Instant // step again by then at the latest
}

// Breaker decides equal splits for one node. The goroutine that steps the core of the decision owns it; no method
// blocks. Work for other places goes to its maker, not to the core.
//
// Won promises two things, by which deaths are proven: from when it is first answered, no node outside of the view is
// fed by another grant of this tie-breaker; and those that were fed by one before have had the time to be reset,
// however long the horizon that each stated with its token.
type Breaker interface {
	// Name is the same at each call, except that Log may be unknown at first.
	Name() Name
	// SetRoster makes directory the list whose indices views and evidence use; expected of its members are those of the
	// list in force. A grant under one list is worth nothing under another.
	SetRoster(directory *roster.Roster, expected int)
	// Step evaluates everything at now. The answer is valid until the next step.
	Step(now boottime.Instant, in *Input) *Output
	// Grant is the latest decision, to be shown; ok is false while the tie-breaker has none to show.
	Grant(now boottime.Instant) (g Grant, ok bool)
}

// Name is what a tie-breaker is called wherever one has to be named.
type Name struct {
	Setting string // its name in the configuration (config.Breakers), by which metrics label it, too
	Status  string // in the API: "lun" is TIE_BREAKER_LUN
	Log     uint64 // names where the grants are stored, in terms and relays; 0: nowhere, or not known yet
}

// Grant is a decision as people see it.
type Grant struct {
	Instance uint64   // which decision it is: they are counted
	Holders  []string // the nodes that it names, sorted
	Held     bool     // this node lives by it,
	For      time.Duration
	Pending  bool // a decision is under way
}

// Evidence is what a tie-breaker learns from the network. The goroutine that steps owns it.
type Evidence interface {
	// Statement is the latest statement of a member and an instant on this node's clock at or after which
	// the member stood by it; nil: none.
	Statement(peer int) (*netgossip.Statement, boottime.Instant)
	// Relay is what the member said last, first hand, of its own writes. Its Anchor is not later than their
	// start.
	Relay(peer int) netgossip.Relay
}
