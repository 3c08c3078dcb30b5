package leasequorum

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// Config is what an [Arbiter] needs for its whole life.
type Config struct {
	Roster   *roster.Roster
	Evidence tie.Evidence
	Boot     uint64 // nonce of the kernel boot
	Process  uint64 // random per agent start
	Log      uint64 // names the Lease in relays; not 0
	Timing   Timing
}

// Arbiter follows the Lease for one node. It is a [tie.Breaker]; what it wants done is in [Arbiter.Op].
type Arbiter struct {
	cfg Config
	out tie.Output // of the latest step. By whose majority it is still won: K8.
	ask *Op        // what that step wants done

	started boottime.Instant
	token   netgossip.Token
	drawn   uint32 // tick of the latest token drawn, or of the start
	view    roster.Set
	quorum  int
	horizon time.Duration // this node's, as last stated

	known    bool
	absent   bool
	needRead bool
	record   Record
	digest   uint64 // of the record's grant
	version  Version
	since    boottime.Instant // END of the operation that first showed this version
	learnt   boottime.Instant // END of the operation that first showed this grant
	done     []bool           // by holder: its token is proven to have moved on

	landed     uint64           // digest of the latest own write known to have landed
	landedAt   boottime.Instant // and its start
	sent       Tag              // of the latest own write, landed or not,
	sentAt     boottime.Instant // its start
	sentDigest uint64

	held   Grant            // by which this node fed last,
	heldAt boottime.Instant // and the start of the latest write of it that it knew of

	op       *Op
	nextID   uint64
	sequence uint64
	readAt   boottime.Instant // START of the latest operation that showed the Lease
	failures int              // in a row,
	failedAt boottime.Instant // END of the latest
	hadTie   bool
	err      error
}

// New returns an arbiter that has not read the Lease. The agent starts at now.
func New(cfg Config, now boottime.Instant) (*Arbiter, error) {
	t := cfg.Timing
	if t.Term <= 0 || t.Expire < t.Term+t.Term/8 {
		return nil, fmt.Errorf("lease tie-break: expiry %v with a term of %v: the expiry must be longer by at least an eighth", t.Expire, t.Term)
	}
	if t.Longest <= 0 {
		return nil, errors.New("lease tie-break: a horizon for nodes that state none is mandatory")
	}
	if cfg.Log == 0 || cfg.Boot == 0 || cfg.Roster.Self < 0 {
		return nil, errors.New("lease tie-break: name of the lease, boot nonce and a roster with this node are mandatory")
	}
	// A predecessor in this boot drew no token later than now's tick.
	return &Arbiter{cfg: cfg, started: now, drawn: tickOf(now), needRead: true}, nil
}

func tickOf(now boottime.Instant) uint32 {
	return uint32(min(int64(now)/int64(tick), math.MaxUint32))
}

// followToken moves the token on with each change of the view. A token is the tick in which
// it is drawn, and no tick is used twice, so that none returns after a restart of the agent,
// which remembers nothing. Until the next tick the node has none.
//
// It moves on when this node's horizon grows, too (K7): the writer of a grant takes a member's horizon
// from the statement that has the token, and what it has written then holds for that token's life.
func (a *Arbiter) followToken(now boottime.Instant, in *tie.Input) {
	grown := in.Horizon > a.horizon || in.Horizon == 0 && a.horizon > 0 // unknown is longer than any
	// A node that is about to stop is fed until its guard is given up, and it may be by the grant that names this token.
	if in.View != a.view || in.Released || grown {
		a.view, a.token = in.View, netgossip.Token{}
	}
	a.horizon = in.Horizon
	if t := tickOf(now); a.token.IsZero() && !in.Released && t > a.drawn && t < math.MaxUint32 {
		a.drawn, a.token = t, netgossip.Token{Nonce: a.cfg.Boot, Counter: t}
	}
}

// SetRoster makes r the roster by which views and evidence count. The token moves on: what
// was granted by one list of members is worth nothing by another one.
func (a *Arbiter) SetRoster(r *roster.Roster, _ int) {
	a.cfg.Roster, a.view, a.token = r, roster.Set{}, netgossip.Token{}
}

// Op is what the latest step wants done, or nil. It is to be performed once.
func (a *Arbiter) Op() *Op { return a.ask }

// Name calls the Lease what settings and status call it.
func (a *Arbiter) Name() tie.Name {
	return tie.Name{Setting: "kubernetes", Status: "lease", Log: a.cfg.Log}
}

// Grant is what this node lives by, else what the Lease was last seen to hold: a node that lives by the writes of another holder may
// have seen the grant before it.
func (a *Arbiter) Grant(now boottime.Instant) (g tie.Grant, ok bool) {
	g = tie.Grant{Instance: a.record.Instance, Held: a.out.Split == tie.Won, Pending: a.out.Split == tie.Pending}
	holders := a.record.Grant.Holders
	if g.Held {
		holders = a.held.Holders
	}
	for _, h := range holders {
		g.Holders = append(g.Holders, h.Node)
	}
	slices.Sort(g.Holders)
	if g.Held {
		g.For = max(0, a.out.Until.Sub(now))
	}
	return g, true
}

// Step evaluates everything at now.
func (a *Arbiter) Step(now boottime.Instant, in *tie.Input) *tie.Output {
	a.quorum = max(in.Quorum, a.cfg.Roster.Size()/2+1)
	a.followToken(now, in)
	a.followHolders()
	a.out = tie.Output{
		Token: a.token, Wake: now.Add(a.cfg.Timing.Refresh), Relay: netgossip.Relay{Log: a.cfg.Log, Instance: noGrant, Anchor: a.started},
	}
	out := &a.out
	if a.token.IsZero() && !in.Released {
		out.Wake = now.Add(tick)
	}
	var want Grant
	if in.Tie {
		out.Wake = min(out.Wake, now.Add(min(a.cfg.Timing.Stagger, a.cfg.Timing.Poll)))
		want, out.Why = a.half(now)
		out.Split = tie.Pending
		if out.Why == "" {
			out.Until = a.feedUntil(&want)
		}
		switch {
		case out.Until > now:
			out.Split = tie.Won
			out.Relay = a.relay(&want)
			a.held, a.heldAt = want, a.anchor(&want)
		case out.Why != "" && a.bridge(now, out, &want): // K8
		case a.excluded(now, in):
			out.Split, out.Until, out.Why = tie.Lost, 0, "" // what keeps this half from a grant is no reason
		case out.Why == "" && a.err != nil:
			out.Why = a.err.Error()
		}
	}
	a.ask = a.schedule(now, in, out, &want)
	a.hadTie = in.Tie
	return out
}

// half is the grant to this node's view as it stands, or what keeps it from being one.
func (a *Arbiter) half(now boottime.Instant) (Grant, string) {
	r := a.cfg.Roster
	g := Grant{Roster: r.Ref(), Holders: make([]Holder, 0, a.view.Len())}
	for i := range a.view.All() {
		token, horizon := a.token, a.horizon
		if i != r.Self {
			st, at := a.cfg.Evidence.Statement(i)
			switch {
			case st == nil || now.Sub(at) >= a.cfg.Timing.MaxAge:
				return g, r.Name(i) + ": nothing heard of it"
			case st.RosterEpoch != r.Epoch || st.RosterDigest != r.Digest:
				return g, r.Name(i) + ": its roster differs"
			case st.View != a.view:
				return g, r.Name(i) + ": it has another view"
			}
			token, horizon = st.Token, st.Guard.Horizon
		}
		if token.IsZero() {
			return g, r.Name(i) + ": it has no token yet"
		}
		g.Holders = append(g.Holders, Holder{r.Name(i), token, horizon})
	}
	return g, ""
}

// feedUntil is until when the node may feed under the grant to its half, which half has
// found to name the present tokens of its view (K2).
func (a *Arbiter) feedUntil(want *Grant) boottime.Instant {
	anchor, evidence := a.anchor(want), boottime.Never
	for i := range a.view.All() {
		if i != a.cfg.Roster.Self {
			_, at := a.cfg.Evidence.Statement(i)
			evidence = min(evidence, at.Add(a.cfg.Timing.MaxAge))
		}
	}
	if anchor.IsZero() {
		return 0
	}
	return min(anchor.Add(a.cfg.Timing.Term), evidence)
}

// relay tells of this node's writes only: a word that comes back to who said it would never end.
func (a *Arbiter) relay(want *Grant) netgossip.Relay {
	if digest := want.Digest(); a.landed == digest {
		return netgossip.Relay{Log: a.cfg.Log, Instance: digest, Anchor: a.landedAt}
	}
	return netgossip.Relay{Log: a.cfg.Log, Instance: noGrant, Anchor: a.started}
}

// followHolders notes which holders are proven to feed no more (K3).
func (a *Arbiter) followHolders() {
	for i := range a.done {
		if !a.done[i] {
			a.done[i] = a.movedOn(a.record.Grant.Holders[i])
		}
	}
}

// movedOn reports whether a holder's token is proven to be over. A greater counter of the
// same boot is proof whenever it was said. Another boot, or no token, is one only if it was
// said after the grant was known: else it may be from before the token.
func (a *Arbiter) movedOn(h Holder) bool {
	i, ok := a.cfg.Roster.Index(h.Node)
	if !ok {
		return false
	}
	if i == a.cfg.Roster.Self {
		return h.Token.Nonce != a.cfg.Boot || h.Token != a.token && h.Token.Counter <= a.drawn
	}
	st, at := a.cfg.Evidence.Statement(i)
	switch {
	case st == nil:
		return false
	case st.Boot == h.Token.Nonce && st.Token.Counter > h.Token.Counter:
		return true
	case st.Boot != h.Token.Nonce || st.Token.IsZero():
		return at >= a.learnt
	}
	return false
}

// expired reports whether nobody can feed any more under the version known, and a node that did has
// been reset (K3).
func (a *Arbiter) expired(now boottime.Instant) bool {
	return a.known && now.Sub(a.since) >= a.expiry()
}

// expiry is how long the version known must have been seen. A holder feeds for Term after
// its last write at most, and runs on for a horizon that may be longer than this node's: nodes are
// configured one after the other.
func (a *Arbiter) expiry() time.Duration {
	horizon := a.horizon
	for i := range a.record.Grant.Holders {
		if !a.done[i] {
			horizon = max(horizon, a.horizonOf(&a.record.Grant.Holders[i]))
		}
	}
	if len(a.record.Grant.Holders) == 0 { // K5
		horizon = max(a.record.Horizon, a.longestHeard())
	}
	return max(a.cfg.Timing.Expire, a.cfg.Timing.Term+horizon)
}

// horizonOf is the horizon of a holder: as the Lease states it or, where a writer that knew of no
// horizons left it out, as the holder itself states it with the very token that is named.
func (a *Arbiter) horizonOf(h *Holder) time.Duration {
	if h.Horizon > 0 {
		return h.Horizon
	}
	token, horizon := a.token, a.horizon
	if i, ok := a.cfg.Roster.Index(h.Node); !ok {
		token = netgossip.Token{}
	} else if i != a.cfg.Roster.Self {
		token = netgossip.Token{}
		if st, _ := a.cfg.Evidence.Statement(i); st != nil {
			token, horizon = st.Token, st.Guard.Horizon
		}
	}
	if token != h.Token || horizon == 0 {
		return a.cfg.Timing.Longest
	}
	return horizon
}

// longestHeard is the longest horizon that anybody has stated to this node, or it states itself.
func (a *Arbiter) longestHeard() time.Duration {
	longest := a.horizon
	for i := range a.cfg.Roster.Members {
		if st, _ := a.cfg.Evidence.Statement(i); st != nil && i != a.cfg.Roster.Self {
			longest = max(longest, st.Guard.Horizon)
		}
	}
	return longest
}

// mayReplace says what keeps the node from replacing the record by the grant, or "".
func (a *Arbiter) mayReplace(now boottime.Instant, want *Grant) string {
	old := &a.record.Grant
	switch {
	case a.expired(now):
		return ""
	case len(old.Holders) == 0:
		return "the Lease is new, and who held one before is not known" // K5
	}
	same := old.sameNodes(want)
	for i, h := range old.Holders {
		if !a.done[i] && !(same && want.Holders[i].Token == h.Token) { // K3, K4
			return h.Node + ": it may still feed under the former grant"
		}
	}
	return ""
}

// excluded reports whether the Lease, as read in this tie, names others who may feed.
func (a *Arbiter) excluded(now boottime.Instant, in *tie.Input) bool {
	if !a.known || a.readAt < in.TieSince || a.expired(now) || len(a.record.Grant.Holders) == 0 {
		return false
	}
	may := false
	for i, h := range a.record.Grant.Holders {
		if n, ok := a.cfg.Roster.Index(h.Node); ok && a.view.Has(n) {
			return false
		}
		may = may || !a.done[i]
	}
	return may
}
