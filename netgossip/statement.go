package netgossip

import (
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
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
	Leases  bool          // in an equal split only a grant, of the LUN or of the Lease, keeps it feeding
	Timeout time.Duration // as read back from the driver
	// Horizon bounds the node's life: this long after it last answered any member of a
	// majority that counted it, it cannot run any more. Zero: unknown or unbounded.
	Horizon time.Duration
}

// Kills reports whether a node that lost its peers is dead after the guard's horizon.
func (g *Guard) Kills() bool { return g.Armed && g.Fences && g.Horizon > 0 }

// Statement is what a node says about itself, by gossip and in its slot. It is a
// value: once handed over it is never changed.
type Statement struct {
	Boot uint64 // nonce of the kernel boot; Token.Nonce may still be unset
	// Machine is the identity of the machine, which another one with the same name does not
	// have; 0: not known.
	Machine uint64
	// RosterEpoch and RosterDigest name the roster whose members the sets index: while the list of members changes,
	// it has all members of the old and the new list.
	RosterEpoch  uint64
	RosterDigest uint64
	// Standing is what the node uses; zero: the one roster above, which is in force.
	Standing roster.Standing
	Token    Token
	Seen     roster.Set // members that answered it within its D_max, without itself
	View     roster.Set // members it counts, itself included
	// Guarded are the peers that last said of themselves that their guard kills. A peer that is about to disarm reads
	// here which nodes still take it for guarded.
	Guarded roster.Set
	// Lost are guarded peers that this node has not seen for longer than their horizon: its voice in the proof of their
	// death. This node vouches for that whole time, not for a moment.
	Lost  roster.Set
	Guard Guard
	// Terms are how it breaks ties; Agreed says that a majority of the roster has stated the same to it since it
	// adopted them (lease.md T1).
	Terms    Terms
	Agreed   bool
	Feeding  bool // it has permission to feed right now
	Stopping bool // planned stop: its absence is not a failure
	// Sentence says that Boot is condemned: nothing feeds its watchdog any more, and this is the watchdog's timeout;
	// 0: not condemned, or not announced.
	Sentence time.Duration
	// Facts are what it hands on about other nodes, those of kind 0 last. They name nodes, and are valid under any
	// roster.
	Facts        [MaxFacts]Fact
	LUNHealthy   bool
	APIReachable bool
	// Unheard says that the node's agent follows its Node, and that the source of the Node no longer answers:
	// Kubernetes may not hear the node either. Unheard decides nothing here.
	Unheard bool
	Version string
	// Stated is when the statement was made, as time since the boot of its node, by that node's clock. It orders the
	// statements of one boot, which overtake each other on two networks, and says how old the boot is; zero: unknown.
	Stated boottime.Instant
}

// Stands returns what the node uses.
func (s *Statement) Stands() roster.Standing {
	if !s.Standing.Chain[0].IsZero() {
		return s.Standing
	}
	return roster.Standing{Chain: [roster.MaxChain]roster.Ref{{Epoch: s.RosterEpoch, Digest: s.RosterDigest}}}
}

// outdated reports whether a node made other, which is known already, after this one.
func (s *Statement) outdated(other *Statement) bool {
	return s != nil && other != nil && s.Boot == other.Boot && s.Stated != 0 && s.Stated < other.Stated
}

// foreign is the statement of a node that uses another roster, as far as it can be understood. Bits for unknown
// members must prove nothing, neither that a node is unseen nor that a node has noticed anything.
func (s *Statement) foreign() *Statement {
	f := *s
	f.Seen, f.Guarded = roster.FullSet(roster.MaxNodes), roster.FullSet(roster.MaxNodes)
	f.View, f.Lost = roster.Set{}, roster.Set{}
	return &f
}

// Restarting reports whether the node stopped its agent in a planned way while it had
// permission to feed: the agent is expected back, and the node itself goes on running.
func (s *Statement) Restarting() bool { return s.Stopping && s.Feeding }

// Leaving reports whether the node stopped its agent in a planned way while nothing fed
// its watchdog: under maintenance or removal, which are announced by disarming it first,
// or as one that had lost its permission. Nobody should wait for it.
func (s *Statement) Leaving() bool { return s.Stopping && !s.Feeding }

// Sight is what a peer says of us when it says nothing else.
type Sight uint8

const (
	SightSeen   Sight = iota + 1 // it sees us and has our roster
	SightUnseen                  // it does not
)

// Relay tells peers what they may not be able to see on the LUN themselves: that Instance is the latest decision in its
// log, as found by a read that followed a write of the sender. Anchor is the start of that write, on the clock of the
// node that holds the value, and never later than the real start (lease.md L6, L7). No node passes on a relay.
type Relay struct {
	Log      uint64 // which LUN's log; 0: there is no relay
	Instance uint64
	Anchor   boottime.Instant
}

// Answer is one completed two-way exchange with a peer on one network: a probe sent
// at SentAt was answered with Statement, or briefly with Sight. The statement was true at SentAt or later: a reply
// that names an earlier statement names the one that was still valid when the peer replied.
type Answer struct {
	Network   int
	Peer      int
	SentAt    boottime.Instant
	Statement *Statement // nil: a brief answer
	Sight     Sight      // of a brief answer
	// Sees says that the peer sees this node. It is what counts if the statement's sets are for another roster than
	// the receiver's, and so cannot say it.
	Sees bool
	// Relay is what the peer said of the LUN when it replied; its Anchor is on this node's clock.
	Relay Relay
}

// Silence is a peer that this node and several others miss, each by its own probes, and since when this node does
// (package doubt). It concerns publication alone.
type Silence struct {
	Peer  int
	Since boottime.Instant
}
