package lowestname

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// Setting is what quorum.tieBreak would call it.
const Setting = "lowest-name"

// Terms is what a node would state that breaks ties so: a bit that no tie-breaker has.
const Terms netgossip.Breakers = 1 << 7

// Breaker is the tie-breaker of one node.
type Breaker struct {
	roster   *roster.Roster
	evidence tie.Evidence
	maxAge   time.Duration
	boot     uint64

	view  roster.Set
	token netgossip.Token
	out   tie.Output
}

// New returns the tie-breaker of a node: of this list, in this boot. What a member has said counts for maxAge.
func New(r *roster.Roster, evidence tie.Evidence, maxAge time.Duration, boot uint64) *Breaker {
	return &Breaker{roster: r, evidence: evidence, maxAge: maxAge, boot: boot}
}

// Name implements tie.Breaker.
func (*Breaker) Name() tie.Name { return tie.Name{Setting: Setting, Status: "lowest_name", Log: 1} }

// SetRoster implements tie.Breaker.
func (b *Breaker) SetRoster(directory *roster.Roster, _ int) {
	b.roster, b.view = directory, roster.Set{} // the token moves on, and never back
}

// Grant implements tie.Breaker.
func (b *Breaker) Grant(now boottime.Instant) (g tie.Grant, ok bool) {
	g = tie.Grant{Held: b.out.Split == tie.Won, Pending: b.out.Split == tie.Pending}
	if g.Held {
		g.Instance, g.Holders, g.For = uint64(b.token.Counter), b.roster.Names(b.view), max(0, b.out.Until.Sub(now))
		slices.Sort(g.Holders)
	}
	return g, true
}

// Step implements tie.Breaker.
func (b *Breaker) Step(now boottime.Instant, in *tie.Input) *tie.Output {
	if in.View != b.view || b.token.IsZero() {
		b.view, b.token = in.View, netgossip.Token{Nonce: b.boot, Counter: b.token.Counter + 1}
	}
	b.out = tie.Output{Token: b.token, Wake: boottime.Never}
	if !in.Tie {
		return &b.out
	}
	if !in.View.Has(0) { // lists are sorted by name
		b.out.Split = tie.Lost
		return &b.out
	}
	b.out.Split, b.out.Until = tie.Won, now.Add(b.maxAge)
	for p := range in.View.All() {
		if p == b.roster.Self {
			continue
		}
		st, at := b.evidence.Statement(p)
		if st == nil || st.RosterEpoch != b.roster.Epoch || st.RosterDigest != b.roster.Digest || st.View != in.View || now.Sub(at) >= b.maxAge {
			b.out.Split, b.out.Until, b.out.Why = tie.Pending, 0, b.roster.Name(p)+": it has another view"
			break
		}
		b.out.Until = min(b.out.Until, at.Add(b.maxAge))
	}
	b.out.Wake = b.out.Until
	if b.out.Split == tie.Pending {
		b.out.Wake = now.Add(b.maxAge / 4)
	}
	return &b.out
}
