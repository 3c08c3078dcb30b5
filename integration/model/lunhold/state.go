package lunhold

import (
	"fmt"
	"strings"

	"github.com/fencing-agent/fencing-agent/integration/model/search"
)

const (
	maxSize    = search.MaxNodes
	maxDevices = 3
)

// Set is a set of nodes.
type Set = search.Set

// mark is a ping or an echo of one, dated as its writer would date it: 0 if there is none, otherwise its age plus 1.
type mark uint8

const (
	foreign mark = 1 << 6 // made by another process of the node
	unended mark = 1 << 7 // its write is not acknowledged, and AckTime will change its date
	ageOf        = foreign - 1
)

// Word is a node's report about itself, in an answer or on the LUN.
type Word struct {
	lists  lists
	seen   Set // nodes seen within D_max, which decides whether they are counted
	lately Set // nodes seen within 2 D_max, which H2 uses
	lives  bool
	armed  bool
	gave   bool // its token has moved on since the grant
	knows  bool // it knows of the grant
}

// heard is the latest answer of a peer.
type heard struct {
	Word
	age uint8
}

// look is what the latest read returned of a slot.
type look struct {
	Word
	date mark
}

// record is the content of a slot. It is composed in one step.
type record struct {
	Word
	there  bool // false if it is torn or was never written
	ping   mark
	echo   [maxSize]mark
	landed mark // for NoEcho
}

// why is the reason for which a node feeds.
type why uint8

const (
	starves why = iota
	majority
	granted
	holds // by H1
	asks  // by H4
	ties  // while an equal split is undecided (L8)
)

func (w why) String() string {
	return [...]string{"starves", "majority", "granted", "holds", "asks", "ties"}[w]
}

func (w why) lives() bool { return w == majority || w == granted }

// Node is one node. Its memory is lost at a reset.
type Node struct {
	up, armed, stopped bool
	had                bool // it has had quorum since its agent started
	why                why
	perm               uint8 // ticks for which it may feed
	budget             uint8 // the rest of D_max + A since the last majority
	hold               uint8 // the rest of the last deadline by H1
	unfed              uint8 // ticks without a feed
	against            uint8 // ticks for which what it reads has been a reason to strike

	ears   [maxSize]heard
	unseen [maxSize]uint8 // by peer: ticks that a claim could cover
	told   [maxSize]uint8 // the rest of D_lun since it reported that it sees them; for holds beside N
	met    Set            // peers that it has met armed, in their present boots
	lived  uint8          // ticks for which it really lived without a gap; no rule reads it

	path   Set   // devices of the LUN that it reaches
	slow   bool  // its reads end after the I/O timeout, with an old copy of the log
	stuck  Set   // the devices on which its I/O has not ended
	next   fate  // the fate of its next write
	at     uint8 // the device to which next and late refer
	hung   uint8 // ticks for which its I/O has hung, up to the I/O timeout
	beat   uint8 // ticks since it wrote
	said   bool  // its last write said that it lives
	anchor uint8 // age of the last write that landed
	table  [maxSize]look
	echo   [maxSize]mark
	slots  [maxDevices]record // one copy on each device
	late   record             // it may land at any later time, even after its owner was reset

	knows, gave bool
	lists       lists // they survive a reset
}

// usable returns the devices that the node can read and write.
func (n *Node) usable() Set { return n.path &^ n.stuck }

// fate is the result of a write.
type fate uint8

const (
	lands fate = iota
	hangs
	lingers // it lands and is not acknowledged
)

// State is one state of the group. It is copied by assignment.
type State struct {
	nodes   [maxSize]Node
	answers [maxSize]Set // the peers that answer each node
	lasted  uint8        // ticks for which the network has lasted, up to Dwell
	partial uint8        // ticks for which the network has been neither whole nor gone
	alive   uint8        // ticks since any node lived
	grant   Set
	shown   bool // the grant is visible on the LUN
	apart   [maxSize][maxSize]uint8
	claimed [maxSize][maxSize]claim // claims of one node about another that still count
	reset   Set                     // nodes that their watchdogs have reset; for P3
	struck  Set                     // nodes that have just struck themselves; for P6
	left    Budget
}

// claim is a claim that was made and is under way.
type claim struct {
	left uint8 // ticks for which it still counts
	list lists // the lists with which it was made
}

// Budget contains how often each action may still happen; always means without end.
type Budget struct{ Cuts, Paths, Hangs, Acks, Stops, Crashes, Boots, Restarts, Slow, Grants, Offers uint8 }

const always = 255

func (m *Model) String(s *State) string {
	var b strings.Builder
	for x := range m.Size {
		n := &s.nodes[x]
		if !n.up {
			fmt.Fprintf(&b, "  %d: down\n", x+1)
			continue
		}
		fmt.Fprintf(&b, "  %d: %v for %d, counts %v, budget %d, hold %d, unfed %d, %v, path %v, stuck %v, stopped %t, unseen %v, dates",
			x+1, n.why, n.perm, m.counts(s, x), n.budget, n.hold, n.unfed, n.lists, n.path, n.stuck, n.stopped, n.unseen[:m.Size])
		for y := range m.Size {
			fmt.Fprintf(&b, " %d", int(n.table[y].date&ageOf)-1)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "  answers %v, grant %v\n", s.answers[:m.Size], s.grant)
	return b.String()
}
