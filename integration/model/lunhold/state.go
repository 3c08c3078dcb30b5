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

// mark is a ping, or an echo of one, as its writer would date it: 0 if there is none, else its age and 1.
type mark uint8

const (
	foreign mark = 1 << 6 // by another process of the node
	unended mark = 1 << 7 // its write is not acknowledged, and AckTime will give it another date
	ageOf        = foreign - 1
)

// Word is what a node says of itself, in an answer or on the LUN.
type Word struct {
	lists  lists
	seen   Set // within D_max: by this it is counted
	lately Set // within 2 D_max: by this H2 goes
	lives  bool
	armed  bool
	gave   bool // its token has moved on since the grant
	knows  bool // of the grant
}

// heard is the latest answer of a peer.
type heard struct {
	Word
	age uint8
}

// look is what the latest read has shown of a slot.
type look struct {
	Word
	date mark
}

// record is a slot. It is composed in one step.
type record struct {
	Word
	there  bool // else it is torn, or was never written
	ping   mark
	echo   [maxSize]mark
	landed mark // for NoEcho
}

// why says by what a node feeds.
type why uint8

const (
	starves why = iota
	majority
	granted
	holds // H1
	asks  // H4
	ties  // an equal split is undecided (L8)
)

func (w why) String() string {
	return [...]string{"starves", "majority", "granted", "holds", "asks", "ties"}[w]
}

func (w why) lives() bool { return w == majority || w == granted }

// Node is one node. What is in memory ends with a reset.
type Node struct {
	up, armed, stopped bool
	had                bool // quorum since its agent started
	why                why
	perm               uint8 // ticks for which it may feed
	budget             uint8 // what is left of D_max + A since the last majority
	hold               uint8 // what is left of the last deadline by H1
	unfed              uint8 // ticks without a feed
	against            uint8 // ticks for which what it reads has been a ground to strike

	ears   [maxSize]heard
	unseen [maxSize]uint8 // ticks for which a claim could speak
	told   [maxSize]uint8 // what is left of D_lun since it said that it sees them; where nodes hold beside N
	met    Set            // peers that it met armed, in the boot that they have now
	lived  uint8          // ticks that it really lived without a gap; no rule reads it

	path   Set   // to the devices of the LUN
	slow   bool  // reads end after the I/O timeout, with an old look at the log
	stuck  Set   // the devices on which its I/O has not ended
	next   fate  // of its next write
	at     uint8 // the device of next and late
	hung   uint8 // for this many ticks, up to the I/O timeout
	beat   uint8 // ticks since it wrote
	said   bool  // that it lives, in the last write
	anchor uint8 // age of the last write that landed
	table  [maxSize]look
	echo   [maxSize]mark
	slots  [maxDevices]record // one copy on each device
	late   record             // may land at any later time, also when its owner was reset since

	knows, gave bool
	lists       lists // outlives a reset
}

// usable are the devices that the node can read and write.
func (n *Node) usable() Set { return n.path &^ n.stuck }

// fate is what becomes of a write.
type fate uint8

const (
	lands fate = iota
	hangs
	lingers // it lands, and is not acknowledged
)

// State is one state of the group. It is copied by assignment.
type State struct {
	nodes   [maxSize]Node
	answers [maxSize]Set // the peers that answer each node
	lasted  uint8        // for this many ticks, up to Dwell
	partial uint8        // for this many ticks it has been neither whole nor gone
	alive   uint8        // ticks since anybody lived
	grant   Set
	shown   bool // on the LUN
	apart   [maxSize][maxSize]uint8
	claimed [maxSize][maxSize]claim // that of one about another still counts
	reset   Set                     // were reset by their watchdog; for P3
	struck  Set                     // have just struck themselves; for P6
	left    Budget
}

// claim is one that was made, and is on its way.
type claim struct {
	left uint8 // for how long it counts
	list lists // by which it was made
}

// Budget says how often something may still happen; always is without end.
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
