package netgossip

import (
	"fmt"
	"strings"
)

// Breakers is the set of a node's tie-breakers, one bit for each. It is part of the protocol and of the disk format.
type Breakers uint8

// The bits.
const (
	BreaksByNothing Breakers = 1 << iota // equal splits are lost
	BreaksByLUN
	BreaksByAPI   // by reachability of the API server
	BreaksByLease // by a Lease of the API server
	AsksAPI       // with BreaksByLUN: by reachability of the API server while the LUN cannot be used
	Unsettled     // the other bits and Log may still change: the terms are not known, or not in the file yet
)

// Terms holds the settings by which a node breaks ties. They must be the same on all nodes of the group: two halves
// that use different terms can both win. It is a value.
type Terms struct {
	By  Breakers
	Log uint64 // which LUN's log, or which Lease; 0: neither, or not known
}

// Stated reports whether the terms are set at all.
func (t Terms) Stated() bool { return t.By != 0 }

// Settled reports whether a node uses these terms, and will use them after a restart.
func (t Terms) Settled() bool { return t.By != 0 && t.By&Unsettled == 0 }

// Fit reports whether nodes with these two terms may be members of one half.
func (t Terms) Fit(o Terms) bool { return t.Settled() && t == o }

// String returns the terms as logs, errors and status show them.
func (t Terms) String() string {
	var by []string
	for _, b := range [...]struct {
		bit  Breakers
		name string
	}{
		{BreaksByNothing, "no tie-breaker"}, {BreaksByLUN, "the LUN"}, {BreaksByLease, "the Lease"},
		{BreaksByAPI, "reaching the API server"}, {AsksAPI, "reaching the API server when the LUN is away"},
	} {
		if t.By&b.bit != 0 {
			by = append(by, b.name)
		}
	}
	if !t.Stated() {
		return "not stated"
	}
	if len(by) == 0 && t != (Terms{By: Unsettled}) {
		by = append(by, "a way that this version does not know") // a later version may state this
	}
	if t.Log != 0 {
		by[0] += fmt.Sprintf(" %016x", t.Log)
	}
	text := strings.Join(by, ", ")
	if t.By&Unsettled != 0 {
		text += " (not settled yet)"
	}
	return text
}
