package leasequorum

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Holder is one member of a granted half.
type Holder struct {
	Node  string
	Token netgossip.Token
	// Horizon is the horizon that the node states with this token (K7): it runs no longer than this after it stops
	// feeding. Zero: it has stated none.
	Horizon time.Duration
}

// Grant names a half; without holders it names nobody.
type Grant struct {
	Roster  roster.Ref
	Holders []Holder // in the order of the roster
}

// noGrant replaces the digest in a relay that only tells by which Lease a node breaks ties.
const noGrant = 1

// Digest identifies the grant in a relay: equal digests mean the same tokens of the same nodes, and so the same
// horizons, whichever node reports them.
func (g *Grant) Digest() uint64 {
	h := fnv.New64a()
	var b [8]byte
	number := func(n uint64) {
		binary.LittleEndian.PutUint64(b[:], n)
		_, _ = h.Write(b[:]) // a hash never fails
	}
	number(g.Roster.Epoch)
	number(g.Roster.Digest)
	for _, m := range g.Holders {
		number(uint64(len(m.Node)))
		_, _ = h.Write([]byte(m.Node))
		number(m.Token.Nonce)
		number(uint64(m.Token.Counter))
	}
	return max(noGrant+1, h.Sum64())
}

// sameNodes reports whether both name the same members of the same roster.
func (g *Grant) sameNodes(o *Grant) bool {
	if g.Roster != o.Roster || len(g.Holders) != len(o.Holders) {
		return false
	}
	for i := range g.Holders {
		if g.Holders[i].Node != o.Holders[i].Node {
			return false
		}
	}
	return true
}

// Tag identifies one write. It makes every write change the Lease, since the API server ignores a write that changes
// nothing. It also shows a writer without a reply that its write has landed.
type Tag struct{ Boot, Process, Sequence uint64 }

// Record is the content of the Lease.
type Record struct {
	Instance uint64 // the number of grants so far; for people
	Grant    Grant
	Tag      Tag
	// Horizon, in a record that names nobody, is the longest horizon that its writer knows of any node: of those that
	// may still feed by an earlier Lease. Zero: none is known.
	Horizon time.Duration
}

// Version identifies one content of one Lease: its UID and resourceVersion.
type Version struct{ UID, Resource string }

// Kind is what an operation does.
type Kind uint8

const (
	Read   Kind = iota + 1
	Create      // create a Lease that names nobody, unless there is one
	Write       // replace Base by Record
)

// Op is an operation to perform on the Lease.
type Op struct {
	ID     uint64
	Kind   Kind
	Base   Version // Write: the version to replace
	Record Record  // Create, Write
}

// Outcome is how an operation ended.
type Outcome uint8

const (
	Done     Outcome = iota + 1
	Conflict         // Create, Write: another writer was first; it has had no effect and never will
	Absent           // there is no such Lease; a Write has had no effect and never will
	Unknown          // no answer, or a useless one: it may have had its effect, or may have it later
)

// Completion reports the end of an operation.
type Completion struct {
	ID             uint64
	Started, Ended boottime.Instant
	Outcome        Outcome
	Record         Record  // Done: the content of the Lease now
	Version        Version // Done
	Err            error   // Unknown: why, for people
}

// Timing holds the time constants.
type Timing struct {
	MaxAge  time.Duration // D_max: older statements of members do not count
	Term    time.Duration // how long a grant is valid from the start of a landed write; the same on all nodes
	Expire  time.Duration // how long, at least, a version must have been seen before others replace it
	Longest time.Duration // the horizon of a holder that has stated none
	Stagger time.Duration // between the writers of one half
	Retry   time.Duration // between two operations after a failure; without a tie it doubles up to Refresh
	Poll    time.Duration // between two reads in a recent tie
	Refresh time.Duration // between two reads otherwise
}

// tick is the unit in which tokens are drawn from the boot clock.
const tick = 100 * time.Millisecond
