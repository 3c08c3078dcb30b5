package picture

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/gossip"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/parts"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// Facts is everything that is shown about an agent, as its loop saw it at one moment. Sets and slices of peers use the
// indices of Roster.
type Facts struct {
	Now  boottime.Instant
	Wall time.Time // the same, for people

	Config *config.Config
	Self   Self

	Verdict Verdict
	Won     bool       // this node feeds under a grant
	Grant   *tie.Grant // the tie-breaker's latest decision; nil: there is none to show
	Terms   Terms

	Roster     *roster.Roster
	Lists      Lists
	View       netgossip.View
	Expected   roster.Set // members of the list in force
	Available  roster.Set
	Restarting roster.Set
	Fenced     roster.Set
	ByLUN      roster.Set // counted by the LUN, whatever the networks say
	Nodes      []Node
	Networks   []Network

	Devices   []Device // of the LUN
	Slot      *Slot    // of this node, on all devices; nil: the LUN was not opened yet
	Strangers []string // nodes that write to the LUN and are not members
	Lease     bool     // the Lease that breaks ties gave a usable answer
	API       API
	Watchdog  wdt.State
	Device    string // path of the real watchdog
	Barred    watchdog.Bar
	Missing   []parts.Missing
	Budget    watchdog.Budget
}

// Ready reports whether the node is part of a side that may live.
func (f *Facts) Ready() bool { return f.Verdict.Decision.Quorum }

// Suspect reports whether a member is reachable only on networks on which it has an unanswered probe. No rule of the
// decision uses this: a suspect is counted and available until the evidence of it has expired.
func (f *Facts) Suspect(p int) bool {
	suspect := false
	for i := range f.Networks {
		switch l := &f.Networks[i].Links[p]; {
		case l.Suspect:
			suspect = true
		case l.Reachable:
			return false
		}
	}
	return suspect && f.View.Seen.Has(p)
}

// Self identifies the agent.
type Self struct {
	Version string
	Boot    uint64 // nonce of the kernel's boot
	Started boottime.Instant
}

// Verdict is a decision and its inputs.
type Verdict struct {
	Decision     watchdog.Decision
	Since        boottime.Instant
	Tally        Tally
	OnQuorumLoss config.OnQuorumLoss
	TieBreaker   tie.Name // of the tie that the decision is about, or of the next tie
	Why          string   // the tie-breaker's explanation
	Relayed      bool     // another holder vouches for this node's writes
	WaitsForAPI  bool     // the decision waits for the API, not for the tie-breaker
	DisarmedBy   []string
	OrderedBy    string // the member whose order has condemned this boot; "": none
}

// Tally is the result of counting the members, this node included.
type Tally struct{ Reachable, Counted, ByLUN, Expected, Quorum int }

// Terms is how this node breaks ties, and which nodes do it in another way.
type Terms struct {
	Own     string
	Agreed  bool
	Missing roster.Set // members that have not stated theirs
	Others  roster.Set // members that break ties in another way
}

// Lists is the state of the list of members.
type Lists struct {
	Base     roster.Ref // in force
	Newest   uint64     // epoch of the newest that is known
	Changing bool
	Standing string     // in words
	Waiting  roster.Set // members for which a change waits
}

// Node is what is known of one member.
type Node struct {
	Said       *netgossip.Statement // its latest statement; nil: none
	Anchor     boottime.Instant     // the node confirmed Said then or later
	Sighted    boottime.Instant     // when the last sign of life arrived
	Since      boottime.Instant     // since when it has been reachable, or not
	Left       time.Time            // when it was last published as gone
	LeftReason watchdog.LeftReason
	Death      watchdog.Death
	Boot       uint64         // the latest known one
	Note       Note           // the reporter, if somebody reported it to this agent
	ProvenIn   *time.Duration // time until its death is proven; nil: not known
	Sentence   *watchdog.SentenceState
}

// Network is the gossip on one SystemNetwork.
type Network struct {
	gossip.State
	Up    bool
	Links []Link // by roster index
}

// Link is a peer on a network.
type Link struct {
	Alive     bool // by the gossip
	Reachable bool
	Suspect   bool             // reachable, but it has an unanswered probe
	Proven    boottime.Instant // latest evidence
	Since     boottime.Instant // since when it has been reachable, or not
}

// Device is one device of the LUN.
type Device struct {
	Path        string
	Trouble     string        // what keeps it from counting; empty: nothing
	InFlight    time.Duration // age of the I/O under way; 0: none
	Write, Read time.Duration // latest latencies
}

// Slot is this node's place on the LUN.
type Slot struct {
	Number              int // negative: none yet
	Claimed             bool
	Sequence            uint64
	LastWrite, LastRead time.Duration // ago; negative: none
	Rival               bool          // another node writes to it
}

// API is the Kubernetes API as a tie-breaker.
type API struct {
	Configured, Reachable bool
	At                    boottime.Instant // of the latest answer
}

// longestHorizon is the longest horizon that any member states for itself, including this node.
func (f *Facts) longestHorizon() time.Duration {
	d := f.Budget.Horizon()
	for i := range f.Nodes {
		if st := f.Nodes[i].Said; st != nil && i != f.Roster.Self && st.Guard.Fences {
			d = max(d, st.Guard.Horizon)
		}
	}
	return d
}

// Note names the reporter of a death from outside, where to read more about it, and the reporter's reason.
type Note struct{ By, Reference, Reason string }
