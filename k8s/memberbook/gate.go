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

// Stride is by how many a number may be above that of the list that the agent goes by, whatever the clocks say: a group whose nodes have
// numbered lists themselves is ahead of all clocks.
const Stride = 1 << 10

// Ahead is by how much an epoch, which is made of the controller's clock, may be ahead of the agent's.
const Ahead = time.Hour

// Offer is a list as a controller sends it.
type Offer struct {
	Group   string
	Epoch   uint64
	Digest  uint64
	Members []roster.Member
}

// Here is what the agent knows itself when it looks at an offer.
type Here struct {
	Own     Addresses      // of this node, as its interfaces have them
	Present *roster.Roster // the newest list that the agent uses; nil: none yet
	// Founding says that no list is known to be in force, and that the one that is waited for has no number: those of offers say nothing,
	// and are not remembered.
	Founding bool
	Now      boottime.Instant
	Wall     int64 // seconds since 1970
}

// Refusal says why an offer is not taken. Its values are the values of a metric's label.
type Refusal string

// The refusals.
const (
	Taken      Refusal = ""
	OtherGroup Refusal = "group"    // it is of another group
	Invalid    Refusal = "invalid"  // it is no list, or not the one that it says
	NotHere    Refusal = "address"  // it gives this node an address that it does not have
	Stale      Refusal = "stale"    // it is older than what was taken
	Differs    Refusal = "differs"  // another list was taken under the same epoch
	Future     Refusal = "future"   // its epoch is ahead of this node's clock
	Shrunken   Refusal = "shrunken" // it lacks more than half of the members
	NotYet     Refusal = "wait"     // it lacks some, and has to be shown for a while
	NotListed  Refusal = "unlisted" // a node without a list waits for one with itself
)

// Gate refuses lists. A list that it lets through is only a proposal, which comes into force under joint majorities.
type Gate struct {
	Group string
	Self  string

	last    roster.Ref // that was let through
	doubted roster.Ref
	since   boottime.Instant
}

// Last is the newest list that was let through.
func (g *Gate) Last() roster.Ref { return g.last }

// Look judges an offer. again is when to look at the same offer again, with NotYet.
//
// Invariant: anyone who lies to this node alone, or is behind, changes nothing here; anyone who lies to all cannot remove more than half of a
// group at once, nor give a node an address of its choice, nor number lists so high that no later one counts.
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
		return OtherGroup, fmt.Sprintf("it is of group %q", o.Group), 0
	case err != nil:
		return Invalid, err.Error(), 0
	case r.Digest != o.Digest || o.Epoch == 0:
		return Invalid, "it is not the list that it says", 0
	case int64(o.Epoch) < 0 || int64(o.Epoch) > most:
		return Future, fmt.Sprintf("its epoch %d is ahead of this node's clock: compare the clocks of this node and of the controller's", o.Epoch), 0
	case r.Ref() == g.last && !h.Founding:
		return Taken, "", 0
	case o.Epoch < held.Epoch:
		return Stale, fmt.Sprintf("its epoch %d is older than %d", o.Epoch, held.Epoch), 0
	case o.Epoch == held.Epoch && r.Digest != held.Digest:
		return Differs, fmt.Sprintf("epoch %d is that of another list", o.Epoch), 0
	}
	if err := fits(r, h.Own); err != nil {
		return Invalid, err.Error(), 0
	}
	if r.Self >= 0 && !maps.Equal(r.Members[r.Self].Addresses, h.Own) {
		return NotHere, fmt.Sprintf("it has this node at %v, and it is at %v", r.Members[r.Self].Addresses, h.Own), 0
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

// doubt has lists that remove members wait, and refuses those that remove too many. No confirmation of the controller's helps.
func (g *Gate) doubt(r *roster.Roster, h Here) (Refusal, string, time.Duration) {
	s := nodelist.Judge(h.Present.Members, r.Members, nil)
	switch {
	case s == nil:
		return Taken, "", 0
	case !s.Again:
		return Shrunken, s.Text + ": take out half of the members at most", 0
	case g.doubted != r.Ref():
		g.doubted, g.since = r.Ref(), h.Now
	}
	if left := Patience - h.Now.Sub(g.since); left > 0 {
		return NotYet, s.Text + ": it has to be shown for a while", left
	}
	return Taken, "", 0
}

// fits reports why a list cannot be used on the networks of this node.
func fits(r *roster.Roster, own Addresses) error {
	if err := consistent(r.Members); err != nil {
		return err
	}
	m := r.Members[0] // all are on the same networks
	if !slices.Equal(slices.Sorted(maps.Keys(m.Addresses)), slices.Sorted(maps.Keys(own))) {
		return fmt.Errorf("its members are on the networks %s, and this node on %s", names(m.Addresses), names(own))
	}
	for _, m := range r.Members {
		for network, a := range m.Addresses {
			if !Address(a) {
				return fmt.Errorf("%s has %.60q on network %s, which is no address", m.Name, a, network)
			}
		}
	}
	return nil
}
