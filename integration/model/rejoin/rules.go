package rejoin

// Rules are those of docs/lease.md that the model is about. Each can be left out.
type Rules struct {
	// Bridge is L14: a holder goes on beside a partner that counts a majority. Without it the rest are idle.
	Bridge bool
	Keep   bool // its token stands meanwhile; else it renounces, as L10 has it, and feeds on
	Mutual bool // the majority has this node in it
	Most   bool // it is a majority; else any view that has this node in it
	Exact  bool // this node's view is the granted set; else it may be smaller
	Fresh  bool // the partner's word is younger than G
	Boot   bool // the partner has not been reset since
	Writes bool // own writes land (L6); else what was read before is enough
}

// Safe are the rules as docs/lease.md has them.
var Safe = Rules{Bridge: true, Keep: true, Mutual: true, Most: true, Exact: true, Fresh: true, Boot: true, Writes: true}

// Without are the rules before L14.
var Without = Rules{Keep: true, Mutual: true, Most: true, Exact: true, Fresh: true, Boot: true, Writes: true}

// The times, in rounds. They keep the order that docs/lease.md asks for.
const (
	maxAge    = 2                               // D_max
	lifetime  = 2                               // G
	arbitrate = 2                               // A
	runsOn    = 2                               // F + W + R + margin: from the last permission to the reset
	undecided = max(maxAge+arbitrate, lifetime) // what everybody reckons with
	horizon   = undecided + runsOn              // until a lost node is dead
	claimed   = horizon + 1                     // the time of a claim
	expiry    = lifetime + runsOn + 1           // a slot that stands still so long is that of a holder that is done
	never     = 15                              // an age that counts for nothing
	overlap   = undecided + 1                   // two parts may feed for this long; a round is what a model of rounds cannot tell
)
