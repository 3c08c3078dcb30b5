package netgossip

import "fmt"

// Policy says on how many SystemNetworks a peer must answer to be reachable:
// on one (any, OR), on every one (all, AND), or on at least K.
type Policy struct{ atLeast int }

// Any asks for one network, All for each of them, AtLeast for k.
func Any() Policy          { return Policy{1} }
func All() Policy          { return Policy{-1} }
func AtLeast(k int) Policy { return Policy{k} }

// Needed is the number of networks a peer must answer on, of n configured ones.
func (p Policy) Needed(n int) int {
	if p.atLeast < 0 {
		return n
	}
	return max(1, p.atLeast)
}

// String prints the policy as the configuration spells it.
func (p Policy) String() string {
	switch {
	case p.atLeast < 0:
		return "all"
	case p.atLeast <= 1:
		return "any"
	default:
		return fmt.Sprintf("{atLeast: %d}", p.atLeast)
	}
}
