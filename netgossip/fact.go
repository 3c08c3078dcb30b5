package netgossip

import (
	"hash/fnv"
	"time"
)

// FactKind is the kind of a fact that a node passes on about another node. The numbers are used on the wire.
type FactKind uint8

const (
	FactSentence     FactKind = iota + 1 // the boot has condemned itself, and has announced the timeout of its watchdog
	FactContradicted                     // the boot was called dead and has answered since: reports about it no longer count
	FactPower                            // a power switch or a management board has reported the node as off
	FactKdump                            // the node's crash kernel runs
	FactOperator                         // an operator vouches that the node is off
	FactOrder                            // the teller orders the boot to condemn itself; a node that states it about its own boot is about to do so
	FactUnfired                          // the watchdog of the boot was observed not to fire: time and sentences prove nothing about the boot
)

// Known reports whether this version knows the kind. Later versions may add kinds, which this version ignores.
func (k FactKind) Known() bool { return k >= FactSentence && k <= FactUnfired }

// MaxFacts is the number of facts for which one statement has room. It is limited by the size of a packet, see
// wire.Append.
const MaxFacts = 4

// Fact is a report that a node passes on about one boot of another node. It is passed on as received, and is not a
// conclusion of the sender: each receiver checks it against its own knowledge, and measures times by its own clock. A
// fact about an earlier boot is ignored.
type Fact struct {
	Kind    FactKind
	Name    uint64        // [NameDigest] of the node that the fact is about
	Boot    uint64        // of that node
	Timeout time.Duration // of a sentence
	Teller  uint32        // [TellerDigest] of a node. For a reported death: the node whose agent got the report, for people. For an order: the node that gives it
}

// NameDigest returns a digest that stands for a node's name where there is no room for the name.
func NameDigest(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// TellerDigest returns a shorter digest of a node's name.
func TellerDigest(name string) uint32 { return max(1, uint32(NameDigest(name))) } //nolint:gosec // the lower half is meant
