package netgossip

import (
	"hash/fnv"
	"time"
)

// FactKind is what a node hands on about another one. The numbers are those of the wire.
type FactKind uint8

const (
	FactSentence     FactKind = iota + 1 // that boot has condemned itself, and told the timeout of its watchdog
	FactContradicted                     // that boot was called dead and has answered since: nothing said of it by others counts any more
	FactPower                            // a power switch or a management board has answered that it is off
	FactKdump                            // its crash kernel has answered
	FactOperator                         // an operator vouches that it is off
	FactOrder                            // the teller orders that boot to condemn itself; a node that says it of its own boot is about to
	FactUnfired                          // the watchdog of that boot was seen not to fire: time and sentences prove nothing about it
)

// Known reports whether this version knows the kind. It does not judge kinds that later versions add.
func (k FactKind) Known() bool { return k >= FactSentence && k <= FactUnfired }

// MaxFacts is how many facts one statement has room for: nearly the largest statement still fits its packet, see wire.Append.
const MaxFacts = 4

// Fact is what a node hands on about one boot of another. It is what was told, and no conclusion: each receiver judges it
// by what it knows itself, and counts times by its own clock. A fact of an earlier boot is of no use to anybody.
type Fact struct {
	Kind    FactKind
	Name    uint64        // [NameDigest] of the node it is about
	Boot    uint64        // of that node
	Timeout time.Duration // of a sentence
	Teller  uint32        // of a reported death: [TellerDigest] of the node whose agent was told, for people; of an order: of the node that gives it
}

// NameDigest stands for a node's name where there is no room for the name.
func NameDigest(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// TellerDigest is a shorter digest.
func TellerDigest(name string) uint32 { return max(1, uint32(NameDigest(name))) } //nolint:gosec // the lower half is meant
