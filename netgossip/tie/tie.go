package tie

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Input holds what every tie-breaker needs to know in one step.
type Input struct {
	View     roster.Set       // counted members, this node included
	Tie      bool             // the counted members are exactly half of an even roster
	TieSince boottime.Instant // when a majority was counted last
	Quorum   int              // number of members that make a majority; 0: more than half
	Stop     bool             // planned stop: the node's record has to state it from now on
	// Released is set in a planned stop when the guard has also been given up. Until then the node is fed, maybe by the
	// grant that names its token.
	Released bool
	// Horizon is the horizon of the guard in the node's statements after this step.
	Horizon time.Duration
}

// State is the state of an equal split.
type State uint8

// The states.
const (
	None        State = iota // there is no tie
	Pending                  // not yet decided
	Won                      // granted to this node's half
	Lost                     // granted to other nodes, of which not all are done with it
	Unavailable              // this node cannot use the tie-breaker now
)

// String returns the state's name in logs.
func (s State) String() string {
	return [...]string{"none", "pending", "won", "lost", "unavailable"}[s]
}

// Output is the result of every tie-breaker's step.
type Output struct {
	Split State
	Until boottime.Instant // Won: feed no longer than this
	// Why is a text for people. It explains what Pending waits for, why the tie-breaker is Unavailable, why a node that
	// the grant names has Lost, or whose majority keeps the tie Won while the network heals.
	Why     string
	Token   netgossip.Token  // of this node; zero: none yet
	Relay   netgossip.Relay  // for the other members; zero: none
	Relayed bool             // Won by another holder's writes: this node's own reads may be old
	Wake    boottime.Instant // the next step must come by then
}

// Breaker decides equal splits for one node. The goroutine that steps the core owns it; no method blocks. Work outside
// of it, such as I/O, goes to the code that created the Breaker, not to the core.
//
// Proofs of death rely on two promises of Won. From the first Won on, no node outside of the view is fed by another
// grant of this tie-breaker. And nodes that were fed by an earlier grant have had the time to be reset, however long
// the horizon that each stated with its token.
type Breaker interface {
	// Name returns the same name at each call, except that Log may be unknown at first.
	Name() Name
	// SetRoster sets directory as the list whose indices views and evidence use; expected is the number of members of
	// the list in force. A grant under one list is not valid under another.
	SetRoster(directory *roster.Roster, expected int)
	// Step evaluates everything at now. The result is valid until the next step.
	Step(now boottime.Instant, in *Input) *Output
	// Grant returns the latest decision, for display; ok is false while there is none to show.
	Grant(now boottime.Instant) (g Grant, ok bool)
}

// Name holds the names of a tie-breaker.
type Name struct {
	Setting string // in the configuration (config.Breakers), and in metrics
	Status  string // in the API: "lun" is TIE_BREAKER_LUN
	Log     uint64 // in terms and relays: identifies where the grants are stored; 0: nowhere, or not known yet
}

// Grant is a decision as people see it.
type Grant struct {
	Instance uint64   // the number of the decision
	Holders  []string // the nodes that it names, sorted
	Held     bool     // this node lives by it
	For      time.Duration
	Pending  bool // a decision is under way
}

// Evidence gives a tie-breaker the peers' statements from the network. The goroutine that steps owns it.
type Evidence interface {
	// Statement returns the latest statement of a member, and an instant on this node's clock at or after which the
	// statement was valid; nil: none.
	Statement(peer int) (*netgossip.Statement, boottime.Instant)
	// Relay returns the member's own latest report of its writes. Its Anchor is not later than their start.
	Relay(peer int) netgossip.Relay
}
