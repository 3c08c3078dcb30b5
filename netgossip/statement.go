package netgossip

import (
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Token is a node's claim to be the same undisturbed participant: the kernel's boot
// and a counter that moves on, at once and for ever, when the counted view changes,
// the agent restarts or a grant runs out. Grants name tokens, so a node renounces
// one by a write of its own and without anybody's consent (lease.md L1).
type Token struct {
	Nonce   uint64 // of the kernel boot (boot_id), never of the process
	Counter uint32
}

// IsZero reports whether the token is unset: its owner has not read its slot yet.
func (t Token) IsZero() bool { return t == Token{} }

// String prints the token as logs and fencectl show it.
func (t Token) String() string { return fmt.Sprintf("%016x/%d", t.Nonce, t.Counter) }

// Guard says what a watchdog will do to its node. Peers may conclude death by time
// only from a guarded node (lease.md L9).
type Guard struct {
	Armed   bool          // the device is open and will fire; false from the moment a disarm is announced
	Fences  bool          // loss of quorum stops the feeding (onQuorumLoss: fence)
	Leases  bool          // in an equal split only a grant of the LUN keeps it feeding
	Timeout time.Duration // as read back from the driver
	// Horizon bounds the node's life: so long after it last answered any member of a
	// majority that counted it, it cannot run any more. Zero: unknown or unbounded.
	Horizon time.Duration
}

// Kills reports whether a node that lost its peers is dead after the guard's horizon.
func (g *Guard) Kills() bool { return g.Armed && g.Fences && g.Horizon > 0 }

// Statement is what a node says about itself, by gossip and in its slot. It is a
// value: once handed over it is never changed.
type Statement struct {
	Boot         uint64 // nonce of the kernel boot; Token.Nonce may still be unset
	RosterEpoch  uint64
	RosterDigest uint64
	Token        Token
	Seen         Set // members that answered it within its D_max, without itself
	View         Set // members it counts, itself included
	// Guarded are the peers that last said of themselves that their guard kills. A peer
	// that is about to disarm reads here who would still take it for guarded.
	Guarded Set
	// Lost are guarded peers that this node has not seen for longer than their horizon: its
	// voice in the proof of their death. It vouches for that whole time, not for a moment.
	Lost         Set
	Guard        Guard
	Feeding      bool // it has permission to feed right now
	Stopping     bool // planned stop: its absence is no failure
	LUNHealthy   bool
	APIReachable bool
	Version      string
}

// Restarting reports whether the node stopped its agent in a planned way while it had
// permission to feed: the agent is expected back, and the node itself goes on running.
func (s *Statement) Restarting() bool { return s.Stopping && s.Feeding }

// Leaving reports whether the node stopped its agent in a planned way while nothing fed
// its watchdog: under maintenance or removal, which are announced by disarming it first,
// or as one that had lost its permission. Nobody should wait for it.
func (s *Statement) Leaving() bool { return s.Stopping && !s.Feeding }

// Answer is one completed two-way exchange with a peer on one network: a probe sent
// at SentAt was answered with Statement. The statement was made at SentAt or later.
type Answer struct {
	Network   int
	Peer      int
	SentAt    boottime.Instant
	Statement *Statement
}
