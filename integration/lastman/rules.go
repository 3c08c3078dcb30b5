package lastman

// Memory is how a node that starts knows whether it is bound.
type Memory uint8

const (
	Forgets    Memory = iota // it does not
	AnyRead                  // it claims no majority before it has read the log
	AfterClaim               // nor before its slot is its own, and it has read the log after that
	Stored                   // it has stored the bond on a disk of its own before its slot showed it
)

func (m Memory) String() string {
	return [...]string{"forgets", "any read", "after claim", "stored"}[m]
}

// Rules are the rules of docs/adr/0015, each of which can be left out.
type Rules struct {
	BondFirst        bool   // a group shrinks in two decisions; before the second one all its members show that they are bound
	Keep             bool   // a bond outlives the token by which it was taken on
	Memory           Memory // how it outlives a restart
	Uncounted        bool   // who does not know whether it is bound is counted by nobody
	OnlyGrants       bool   // a shrunk group is fed by grants alone
	ReturnByDecision bool   // N counts again for whoever has read so
}

// Safe are the rules as docs/adr/0015 has them: what binds a node is on its own disk. One whose disk is empty goes by the LUN.
var Safe = Rules{BondFirst: true, Keep: true, Memory: Stored, Uncounted: true, OnlyGrants: true, ReturnByDecision: true}

// Gated are the rules for nodes that have no such disk: after each start the LUN comes first.
var Gated = Rules{BondFirst: true, Keep: true, Memory: AfterClaim, Uncounted: true, OnlyGrants: true, ReturnByDecision: true}
