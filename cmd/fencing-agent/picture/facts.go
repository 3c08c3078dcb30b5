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

// Facts is all that is shown of an agent, as its loop saw it at one moment. Sets and slices of peers are by the
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
	Slot      *Slot    // of this node, on all of them; nil: the LUN was not opened yet
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

// Suspect reports whether a member is reachable only on networks on which it owes an answer. No rule of the decision
// looks at it: a suspect is counted and available until evidence of it has run out.
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

// Self is who the agent is.
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
	TieBreaker   tie.Name // of the tie that the decision speaks of, or of the next one
	Why          string   // the tie-breaker's word
	Relayed      bool     // another holder vouches for this node's writes
	WaitsForAPI  bool     // and not for the tie-breaker
	DisarmedBy   []string
	OrderedBy    string // the member by whose order this boot is condemned; "": by none
}

// Tally is what the members were counted to, this node included.
type Tally struct{ Reachable, Counted, ByLUN, Expected, Quorum int }

// Terms is how this node breaks ties, and who else does.
type Terms struct {
	Own     string
	Agreed  bool
	Missing roster.Set // members that have not said
	Others  roster.Set // members that break ties in another way
}

// Lists is the state of the list of members.
type Lists struct {
	Base     roster.Ref // in force
	Newest   uint64     // epoch of the newest that is known
	Changing bool
	Standing string     // in words
	Waiting  roster.Set // for whom a change waits
}

// Node is what is known of one member.
type Node struct {
	Said       *netgossip.Statement // last; nil: nothing
	Anchor     boottime.Instant     // it stood by that then or later
	Sighted    boottime.Instant     // a sign of life came last
	Since      boottime.Instant     // of its being reachable, or not
	Left       time.Time            // it was published as gone last
	LeftReason watchdog.LeftReason
	Death      watchdog.Death
	Boot       uint64         // the latest known one
	Note       Note           // who has reported it, if somebody reported it to this agent
	ProvenIn   *time.Duration // its death will be proven by then; nil: nobody can say
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
	Alive     bool // as the gossip says
	Reachable bool
	Suspect   bool             // reachable, and it owes an answer
	Proven    boottime.Instant // latest evidence
	Since     boottime.Instant // of being reachable, or not
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
	Rival               bool          // another node writes into it
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

// Note is who has reported a death from outside, where to read more about it, and why it is believed.
type Note struct{ By, Reference, Reason string }
