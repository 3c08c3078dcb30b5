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
	// Horizon is the one that the node states with this token (K7): it runs no longer than
	// this once it feeds no more. Zero: nobody has said.
	Horizon time.Duration
}

// Grant names a half; without holders it names nobody.
type Grant struct {
	Roster  roster.Ref
	Holders []Holder // in the order of the roster
}

// noGrant stands for the digest in a relay that only says by which Lease a node goes.
const noGrant = 1

// Digest names the grant in a relay: equal digests mean the same tokens of the same nodes, hence
// the same horizons, no matter which node has said them.
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

// Tag names one write. It makes every write change the Lease, since the API server ignores
// one that does not, and tells a writer without a reply that its write has landed.
type Tag struct{ Boot, Process, Sequence uint64 }

// Record is the content of the Lease.
type Record struct {
	Instance uint64 // counts the grants; for people
	Grant    Grant
	Tag      Tag
	// Horizon is the longest that its writer knows of any node, in a record that names nobody:
	// of those who may hold what stood there before. Zero: nobody has said.
	Horizon time.Duration
}

// Version names one content of one Lease: its UID and resourceVersion.
type Version struct{ UID, Resource string }

// Kind is what an operation does.
type Kind uint8

// The operations.
const (
	Read   Kind = iota + 1
	Create      // a Lease that names nobody, unless there is one
	Write       // replace Base by Record
)

// Op is an operation to be performed on the Lease.
type Op struct {
	ID     uint64
	Kind   Kind
	Base   Version // Write: the version to replace
	Record Record  // Create, Write
}

// Outcome is how an operation ended.
type Outcome uint8

// The outcomes.
const (
	Done     Outcome = iota + 1
	Conflict         // Create, Write: somebody else was first; it has had no effect and never will
	Absent           // there is no such Lease; a Write has had no effect and never will
	Unknown          // no answer, or one that tells nothing: it may have had its effect or have it yet
)

// Completion reports the end of an operation.
type Completion struct {
	ID             uint64
	Started, Ended boottime.Instant
	Outcome        Outcome
	Record         Record  // Done: what the Lease holds now
	Version        Version // Done
	Err            error   // Unknown: why, for people
}

// Timing holds the time constants.
type Timing struct {
	MaxAge  time.Duration // D_max: older statements of members count for nothing
	Term    time.Duration // a grant is worth this from the start of a landed write; the same on all nodes
	Expire  time.Duration // this long, at least, a version must have been seen before others replace it
	Longest time.Duration // the horizon of a holder of whom none is known
	Stagger time.Duration // between the writers of one half
	Retry   time.Duration // between two operations after a failure; without a tie it doubles up to Refresh
	Poll    time.Duration // between two reads in a tie, as long as that is young
	Refresh time.Duration // between two reads otherwise
}

// tick is the unit in which tokens are drawn from the boot clock.
const tick = 100 * time.Millisecond
