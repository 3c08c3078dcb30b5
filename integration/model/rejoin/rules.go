package rejoin

// Rules names the rules of docs/lease.md that the model examines. Each can be left out.
type Rules struct {
	// Bridge is L14: a holder continues beside a partner that counts a majority. Without it the other fields have no
	// effect.
	Bridge bool
	Keep   bool // it keeps its token meanwhile; without: it renounces (L10), and still feeds
	Mutual bool // the majority contains this node
	Most   bool // the view is a majority; without: any view with this node
	Exact  bool // this node's view is the granted set; without: it may be smaller
	Fresh  bool // the partner's statement is younger than G
	Boot   bool // the partner has not been reset since then
	Writes bool // own writes land (L6); without: what was read before is enough
}

// Safe contains the rules of docs/lease.md.
var Safe = Rules{Bridge: true, Keep: true, Mutual: true, Most: true, Exact: true, Fresh: true, Boot: true, Writes: true}

// Without contains the rules from before L14.
var Without = Rules{Keep: true, Mutual: true, Most: true, Exact: true, Fresh: true, Boot: true, Writes: true}

// These are times in rounds. They keep the order that docs/lease.md requires.
const (
	maxAge    = 2                               // D_max
	lifetime  = 2                               // G
	arbitrate = 2                               // A
	runsOn    = 2                               // F + W + R + margin: from the last permission to the reset
	undecided = max(maxAge+arbitrate, lifetime) // the time that all nodes allow for
	horizon   = undecided + runsOn              // until a lost node is dead
	claimed   = horizon + 1                     // the time of a claim
	expiry    = lifetime + runsOn + 1           // if a slot has not changed for this long, its holder is done
	never     = 15                              // an age that counts for nothing
	overlap   = undecided + 1                   // two parts may both feed for this long; one round is the resolution of the model
)
