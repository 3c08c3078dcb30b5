package netgossip

import "fmt"

// Policy defines on how many SystemNetworks a peer must answer to be reachable: on one (any, OR), on every one (all,
// AND), or on at least K.
type Policy struct{ atLeast int }

// Any requires one network, All requires every network, and AtLeast requires k.
func Any() Policy          { return Policy{1} }
func All() Policy          { return Policy{-1} }
func AtLeast(k int) Policy { return Policy{k} }

// Needed returns on how many of n configured networks a peer must answer.
func (p Policy) Needed(n int) int {
	if p.atLeast < 0 {
		return n
	}
	return max(1, p.atLeast)
}

// String returns the policy as the configuration spells it.
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
