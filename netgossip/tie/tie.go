package tie

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Input is what every tie-breaker has to know at one step.
type Input struct {
	View     roster.Set       // counted members, this node included
	Tie      bool             // they are exactly half of an even roster
	TieSince boottime.Instant // when a majority was counted last
	Quorum   int              // so many make a majority; 0: more than half
	Stop     bool             // planned stop: what this node has put down says so
}

// State is how an equal split stands.
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
	// Why is for people: what Pending waits for, why it is Unavailable, why it is Lost by a node that the
	// grant names, by whose majority it is still Won while the network heals.
	Why     string
	Token   netgossip.Token  // of this node; zero: none yet
	Relay   netgossip.Relay  // what to tell the other members; zero: nothing
	Relayed bool             // Won by another holder's writes: this node's picture may be old
	Wake    boottime.Instant // step again by then at the latest
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
