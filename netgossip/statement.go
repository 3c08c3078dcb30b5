package netgossip

import (
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Token is a node's claim to be the same undisturbed participant: the kernel's boot and a counter. The counter
// increases, at once and for good, when the counted view changes, the agent restarts or a grant runs out. Grants name
// tokens, so a node renounces a grant by a write to its own slot, without the consent of other nodes (lease.md L1).
type Token struct {
	Nonce   uint64 // of the kernel boot (boot_id), never of the process
	Counter uint32
}

// IsZero reports whether the token is unset: its owner has not read its slot yet.
func (t Token) IsZero() bool { return t == Token{} }

// String returns the token as logs and fencectl show it.
func (t Token) String() string { return fmt.Sprintf("%016x/%d", t.Nonce, t.Counter) }

// Guard describes what a watchdog will do to its node. Peers may conclude death by time only for a guarded node
// (lease.md L9).
type Guard struct {
	Armed   bool          // the device is open and will fire; false from the moment a disarm is announced
	Fences  bool          // loss of quorum stops the feeding (onQuorumLoss: fence)
	Leases  bool          // in an equal split the node feeds only under a grant, of the LUN or of the Lease
	Timeout time.Duration // as read back from the driver
	// Horizon is the longest that the node can run after its last answer to any member of a majority that counted it.
	// Zero: unknown or unbounded.
	Horizon time.Duration
}

// Kills reports whether a node that has lost its peers is dead after the guard's horizon.
func (g *Guard) Kills() bool { return g.Armed && g.Fences && g.Horizon > 0 }

// Statement is a node's statement about itself, sent by gossip and written to its slot. It is a value: once handed
// over, it is never changed.
type Statement struct {
	Boot uint64 // nonce of the kernel boot; Token.Nonce may still be unset
	// Machine is the identity of the machine, which differs between two machines with the same name; 0: not known.
	Machine uint64
	// RosterEpoch and RosterDigest name the roster whose members the sets index: while the list of members changes,
	// it has all members of the old and the new list.
	RosterEpoch  uint64
	RosterDigest uint64
	// Standing lists the rosters that the node uses; zero: only the roster above, which is in force.
	Standing roster.Standing
	Token    Token
	Seen     roster.Set // members that answered the node within its D_max, without itself
	View     roster.Set // members that the node counts, including itself
	// Guarded holds the peers whose latest statement says that their guard kills. A peer that is about to disarm reads
	// here which nodes still take it for guarded.
	Guarded roster.Set
	// Dues holds the node's dated claims about guarded peers that it has lost. The node has stated to see none of them
	// since a horizon before the due.
	Dues Dues
	// Lost holds the guarded peers that this node has not seen for 7 s longer than their horizon, for agents that do not
	// read dues. A claim covers that whole time, not only one moment.
	Lost  roster.Set
	Guard Guard
	// Terms defines how the node breaks ties. Agreed says that a majority of the roster has stated the same terms to
	// the node since it adopted them (lease.md T1).
	Terms    Terms
	Agreed   bool
	Feeding  bool // the node has permission to feed at present
	Stopping bool // planned stop: its absence is not a failure
	// Sentence says that Boot is condemned: nothing feeds its watchdog any more, and this is the watchdog's timeout;
	// 0: not condemned, or not announced.
	Sentence time.Duration
	// Facts lists what the node passes on about other nodes; unused entries of kind 0 come last. Facts use names, so
	// they are valid under any roster.
	Facts        [MaxFacts]Fact
	LUNHealthy   bool
	APIReachable bool
	// Unheard says that the node's agent follows its Node, and that the source of the Node no longer answers:
	// Kubernetes may not hear the node either. Unheard decides nothing here.
	Unheard bool
	Version string
	// Stated is when the statement was made, as time since the boot of its node, by that node's clock. It orders the
	// statements of one boot, which may overtake each other on two networks, and shows the age of the boot; zero:
	// unknown.
	Stated boottime.Instant
}

// Stands returns the rosters that the node uses.
func (s *Statement) Stands() roster.Standing {
	if !s.Standing.Chain[0].IsZero() {
		return s.Standing
	}
	return roster.Standing{Chain: [roster.MaxChain]roster.Ref{{Epoch: s.RosterEpoch, Digest: s.RosterDigest}}}
}

// outdated reports whether the node made other, which is already known, after this statement.
func (s *Statement) outdated(other *Statement) bool {
	return s != nil && other != nil && s.Boot == other.Boot && s.Stated != 0 && s.Stated < other.Stated
}

// foreign returns the usable part of the statement of a node that uses another roster. Bits for unknown members must
// prove nothing, neither that a node is unseen nor that a node has noticed an announcement.
func (s *Statement) foreign() *Statement {
	f := *s
	f.Seen, f.Guarded = roster.FullSet(roster.MaxNodes), roster.FullSet(roster.MaxNodes)
	f.View, f.Lost, f.Dues = roster.Set{}, roster.Set{}, Dues{}
	return &f
}

// Restarting reports whether the node stopped its agent in a planned way while it had
// permission to feed: the agent is expected back, and the node itself goes on running.
func (s *Statement) Restarting() bool { return s.Stopping && s.Feeding }

// Leaving reports whether the node stopped its agent in a planned way while nothing fed its watchdog. It was under
// maintenance or being removed, in which case the watchdog was disarmed first, or it had lost its permission. Peers
// should not wait for it.
func (s *Statement) Leaving() bool { return s.Stopping && !s.Feeding }

// Sight is the contents of a brief answer: whether the peer sees us.
type Sight uint8

const (
	SightSeen   Sight = iota + 1 // the peer sees us and has our roster
	SightUnseen                  // the peer does not see us, or has another roster
)

// Relay tells peers the state of the LUN's log, which they may not be able to read themselves: Instance is the latest
// decision in the log, found by a read that followed a write of the sender. Anchor is the start of that write, on the
// clock of the node that holds the value, and never later than the real start (lease.md L6, L7). No node passes on a
// relay.
type Relay struct {
	Log      uint64 // which LUN's log; 0: there is no relay
	Instance uint64
	Anchor   boottime.Instant
}

// Answer is one completed two-way exchange with a peer on one network: a probe sent at SentAt was answered with
// Statement, or briefly with Sight. The statement was true at SentAt or later: a reply may refer to an earlier
// statement only if it was still valid when the peer replied.
type Answer struct {
	Network   int
	Peer      int
	SentAt    boottime.Instant
	Statement *Statement // nil: a brief answer
	Sight     Sight      // of a brief answer
	// Sees says that the peer sees this node. It is needed if the statement's sets use another roster than the
	// receiver's, and so cannot show it.
	Sees bool
	// Relay is the peer's relay in this reply; its Anchor is on this node's clock.
	Relay Relay
	// Clock is what the peer's clock showed when it replied with the statement, or a little less; 0: unknown.
	Clock boottime.Instant
}

// Silence is a peer that this node and several others miss, each by its own probes, with the time since when this node
// has missed it (package doubt). It only affects publication.
type Silence struct {
	Peer  int
	Since boottime.Instant
}
