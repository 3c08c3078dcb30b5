package diskquorum

import (
	"fmt"
	"strconv"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Token is the netgossip.Token that grants name.
type Token = netgossip.Token

// Superblock describes a formatted LUN. `fencectl lun init` is its only writer.
type Superblock struct {
	Version   uint16
	ID        [16]byte // random, different for each init and each device: distinguishes a re-formatted LUN from the old one
	Cluster   string   // at most 64 bytes
	NodeGroup string   // at most 64 bytes
	Slots     int      // 2..MaxSlots
	Created   int64    // Unix seconds, for people only

	// A LUN of three devices is a set: the devices share SetID, and each has its place in it. All three fields are zero
	// for a LUN of one device.
	SetID   [16]byte // random, different for each init of the set
	Devices int      // 3
	Device  int      // 0..2
}

// SetSize returns the number of devices of the LUN to which the superblock belongs.
func (sb *Superblock) SetSize() int { return max(1, sb.Devices) }

// SlotState is the state of a slot in its life cycle.
type SlotState uint8

const (
	SlotFree     SlotState = iota // never written (all zero) or given back
	SlotClaiming                  // its owner watches for a rival before it relies on the slot
	SlotActive
	SlotStopped // planned stop: the owner disarmed its watchdog and is away on purpose
)

// Slot is the record of one node: identity, liveness, its statement and its part of the
// tie-break lease. Every write of a slot carries all of it (lease.md B1).
type Slot struct {
	Index    int
	State    SlotState
	Sequence uint64 // greater with each write; Sequence%2 selects the copy
	NodeName string // at most 253 bytes
	NodeUID  string // at most 64 bytes
	Process  uint64 // random per agent start: distinguishes two agents with the same name and boot

	RosterIndex int // position of the owner in its roster, which the statement's sets refer to
	RosterSize  int
	Statement   netgossip.Statement

	HeartbeatInterval time.Duration // the owner's, milliseconds on disk
	GrantLifetime     time.Duration // the owner's G, milliseconds on disk; 0: not stated
	WallTime          int64         // Unix milliseconds, for people only; never compared

	// Late has a bit for each device, by its place in the set, on which a failed write of
	// this slot may still land (B3): the next agent must allow for it.
	Late uint8

	Ballot Ballot
}

// MachineUID returns the form in which the identity of a machine is written in a slot.
func MachineUID(machine uint64) string {
	if machine == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", machine)
}

// Machine returns the identity of the machine that wrote the slot, or 0.
func (s *Slot) Machine() uint64 {
	if len(s.NodeUID) != 16 {
		return 0
	}
	machine, err := strconv.ParseUint(s.NodeUID, 16, 64)
	if err != nil {
		return 0 // another kind of identity, which cannot be compared
	}
	return machine
}

// Ballot is a node's part of the numbered log of decisions (Gafni & Lamport, Disk Paxos, 2002): the dblock {mbal, bal,
// inp} of its present instance, and the latest decision that it knows.
type Ballot struct {
	Instance        uint64 // the instance to which MBal, Bal and Value belong; 0: none entered yet
	MBal            uint64
	Bal             uint64 // 0: no value accepted in this instance
	Value           *Grant
	DecidedInstance uint64 // 0: no decision known
	Decided         *Grant
}

// Grant is the only kind of value that the log decides: in an equal split, only the nodes with these tokens may feed.
// It is immutable.
type Grant struct {
	RosterEpoch  uint64
	RosterDigest uint64
	Holders      []Holder // ascending by slot
}

// Holder is one granted token.
type Holder struct {
	Slot  uint8
	Token Token
}
