package memberbook

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/nodelist"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Stride is the most by which a number may exceed that of the list that the agent uses, whatever the clocks show: a
// group whose nodes have numbered lists themselves may be ahead of all clocks.
const Stride = 1 << 10

// Ahead is the most by which an epoch, which comes from the controller's clock, may be ahead of the agent's clock.
const Ahead = time.Hour

// Offer is a list as a controller sends it.
type Offer struct {
	Group   string
	Epoch   uint64
	Digest  uint64
	Members []roster.Member
}

// Here is what the agent itself knows when it looks at an offer.
type Here struct {
	Own     Addresses      // of this node, by its interfaces
	Present *roster.Roster // the newest list that the agent uses; nil: none yet
	// Founding means that no list is known to be in force, and that the list which is waited for has no number. The
	// epochs of offers then mean nothing, and are not remembered.
	Founding bool
	Now      boottime.Instant
	Wall     int64 // seconds since 1970
}

// Refusal is the reason why an offer is refused. Its values are the values of a metric's label.
type Refusal string

const (
	Taken      Refusal = ""
	OtherGroup Refusal = "group"    // it is for another group
	Invalid    Refusal = "invalid"  // it is not a valid list, or does not match its digest
	NotHere    Refusal = "address"  // it gives this node an address that it does not have
	Stale      Refusal = "stale"    // it is older than the last accepted list
	Differs    Refusal = "differs"  // another list with the same epoch was accepted or is in use
	Future     Refusal = "future"   // its epoch is ahead of this node's clock
	Shrunken   Refusal = "shrunken" // it lacks more than half of the members
	NotYet     Refusal = "wait"     // it lacks some members, and has to be shown for a while
	NotListed  Refusal = "unlisted" // a node without a list waits for one that includes it
)

// Gate refuses lists. A list that passes is only a proposal, which comes into force under joint majorities.
type Gate struct {
	Group string
	Self  string

	last    roster.Ref // the newest list that passed
	doubted roster.Ref
	since   boottime.Instant
}

// Last returns the newest list that passed.
func (g *Gate) Last() roster.Ref { return g.last }

// Look judges an offer. With NotYet, again is when to look at the same offer again.
//
// Invariant: a controller that lies to this node alone, or that is behind, changes nothing here. One that lies to all
// nodes cannot remove more than half of a group at once, nor give a node an address of its choice. Nor can it number
// lists so high that no later list counts.
func (g *Gate) Look(o *Offer, h Here) (why Refusal, text string, again time.Duration) {
	r, err := roster.Of(o.Epoch, o.Members, g.Self)
	held, most := g.last, h.Wall+int64(Ahead/time.Second)
	if h.Present != nil {
		most = max(most, int64(h.Present.Epoch)+Stride)
	}
	if h.Founding {
		held, most = roster.Ref{}, math.MaxInt64
	}
	if h.Present != nil && h.Present.Epoch >= held.Epoch {
		held = h.Present.Ref()
	}
	switch {
	case o.Group != g.Group:
		return OtherGroup, fmt.Sprintf("the list is for group %q", o.Group), 0
	case err != nil:
		return Invalid, err.Error(), 0
	case r.Digest != o.Digest || o.Epoch == 0:
		return Invalid, "its content does not match its digest, or it has no epoch", 0
	case int64(o.Epoch) < 0 || int64(o.Epoch) > most:
		return Future, fmt.Sprintf("its epoch %d is ahead of this node's clock: compare the clocks of this node and of the controller's node", o.Epoch), 0
	case r.Ref() == g.last && !h.Founding:
		return Taken, "", 0
	case o.Epoch < held.Epoch:
		return Stale, fmt.Sprintf("its epoch %d is older than %d", o.Epoch, held.Epoch), 0
	case o.Epoch == held.Epoch && r.Digest != held.Digest:
		return Differs, fmt.Sprintf("another list has epoch %d already", o.Epoch), 0
	}
	if err := fits(r, h.Own); err != nil {
		return Invalid, err.Error(), 0
	}
	if r.Self >= 0 && !maps.Equal(r.Members[r.Self].Addresses, h.Own) {
		return NotHere, fmt.Sprintf("it lists this node with the addresses %v, but the node has %v", r.Members[r.Self].Addresses, h.Own), 0
	}
	if h.Present == nil && r.Self < 0 {
		return NotListed, "it does not list this node", 0
	}
	if h.Present != nil {
		if why, text, again := g.doubt(r, h); why != Taken {
			return why, text, again
		}
	}
	if g.doubted = (roster.Ref{}); !h.Founding {
		g.last = r.Ref()
	}
	return Taken, "", 0
}

// doubt makes lists that remove members wait, and refuses those that remove too many. The controller cannot confirm
// such a list.
func (g *Gate) doubt(r *roster.Roster, h Here) (Refusal, string, time.Duration) {
	s := nodelist.Judge(h.Present.Members, r.Members, nil)
	switch {
	case s == nil:
		return Taken, "", 0
	case !s.Again:
		return Shrunken, s.Text + ": remove at most half of the members", 0
	case g.doubted != r.Ref():
		g.doubted, g.since = r.Ref(), h.Now
	}
	if left := Patience - h.Now.Sub(g.since); left > 0 {
		return NotYet, s.Text + ": the list has to be shown for a while", left
	}
	return Taken, "", 0
}

// fits returns why a list cannot be used on the networks of this node.
func fits(r *roster.Roster, own Addresses) error {
	if err := consistent(r.Members); err != nil {
		return err
	}
	m := r.Members[0] // all are on the same networks
	if !slices.Equal(slices.Sorted(maps.Keys(m.Addresses)), slices.Sorted(maps.Keys(own))) {
		return fmt.Errorf("its members are on the networks %s, but this node is on %s", names(m.Addresses), names(own))
	}
	for _, m := range r.Members {
		for network, a := range m.Addresses {
			if !Address(a) {
				return fmt.Errorf("the address of %s is %.60q on network %s, which is not an IP address", m.Name, a, network)
			}
		}
	}
	return nil
}
