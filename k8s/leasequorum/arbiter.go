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
	Boot     uint64 // the nonce of the kernel boot
	Process  uint64 // a random number for each start of the agent
	Log      uint64 // the name of the Lease in relays; not 0
	Timing   Timing
}

// Arbiter follows the Lease for one node. It is a [tie.Breaker]. The operation that it needs is in [Arbiter.Op].
type Arbiter struct {
	cfg Config
	out tie.Output // of the latest step; includes the member whose majority lets this node feed (K8)
	ask *Op        // the operation that this step needs

	started boottime.Instant
	token   netgossip.Token
	drawn   uint32 // the tick of the latest token, or of the start
	view    roster.Set
	quorum  int
	horizon time.Duration // of this node, as last stated

	known    bool
	absent   bool
	needRead bool
	record   Record
	digest   uint64 // of the grant in the record
	version  Version
	since    boottime.Instant // the END of the operation that first showed this version
	learnt   boottime.Instant // the END of the operation that first showed this grant
	done     []bool           // for each holder: its token has provably moved on

	landed     uint64           // the digest of this node's latest write that is known to have landed
	landedAt   boottime.Instant // the START of that write
	sent       Tag              // of this node's latest write, whether it landed or not
	sentAt     boottime.Instant // the START of that write
	sentDigest uint64

	held   Grant            // the grant by which this node fed last
	heldAt boottime.Instant // the START of the latest write of it that this node knows of

	op       *Op
	nextID   uint64
	sequence uint64
	readAt   boottime.Instant // the START of the latest operation that showed the Lease
	failures int              // the number of failures since the last success
	failedAt boottime.Instant // the END of the latest failure
	hadTie   bool
	err      error
}

// New returns an arbiter that has not read the Lease. The agent starts at now.
func New(cfg Config, now boottime.Instant) (*Arbiter, error) {
	t := cfg.Timing
	if t.Term <= 0 || t.Expire < t.Term+t.Term/8 {
		return nil, fmt.Errorf("lease tie-break: the expiry is %v and the term is %v: the expiry must be longer by at least an eighth", t.Expire, t.Term)
	}
	if t.Longest <= 0 {
		return nil, errors.New("lease tie-break: a horizon for nodes that state none is mandatory")
	}
	if cfg.Log == 0 || cfg.Boot == 0 || cfg.Roster.Self < 0 {
		return nil, errors.New("lease tie-break: name of the lease, boot nonce and a roster with this node are mandatory")
	}
	// An earlier process of this boot has drawn no token later than now's tick.
	return &Arbiter{cfg: cfg, started: now, drawn: tickOf(now), needRead: true}, nil
}

func tickOf(now boottime.Instant) uint32 {
	return uint32(min(int64(now)/int64(tick), math.MaxUint32))
}

// followToken draws a new token with each change of the view. A token is the tick in which it is drawn. No tick is used
// twice, so that no token returns after a restart of the agent, which remembers nothing. Until the next tick the node
// has no token.
//
// The token also moves on when this node's horizon grows (K7). The writer of a grant copies a member's horizon from the
// statement with the token, so that horizon has to stay true for that token's life.
func (a *Arbiter) followToken(now boottime.Instant, in *tie.Input) {
	grown := in.Horizon > a.horizon || in.Horizon == 0 && a.horizon > 0 // an unknown horizon counts as longer than any other
	// A node that is about to stop is fed until its guard is given up. The grant that names this token may be what
	// feeds it.
	if in.View != a.view || in.Released || grown {
		a.view, a.token = in.View, netgossip.Token{}
	}
	a.horizon = in.Horizon
	if t := tickOf(now); a.token.IsZero() && !in.Released && t > a.drawn && t < math.MaxUint32 {
		a.drawn, a.token = t, netgossip.Token{Nonce: a.cfg.Boot, Counter: t}
	}
}

// SetRoster makes r the roster by which views and evidence count. The token moves on: a grant by one list of members is
// not valid under another list.
func (a *Arbiter) SetRoster(r *roster.Roster, _ int) {
	a.cfg.Roster, a.view, a.token = r, roster.Set{}, netgossip.Token{}
}

// Op returns the operation that the latest step needs, or nil. It has to be performed once.
func (a *Arbiter) Op() *Op { return a.ask }

// Name returns the name of the Lease in settings and status.
func (a *Arbiter) Name() tie.Name {
	return tie.Name{Setting: "kubernetes", Status: "lease", Log: a.cfg.Log}
}

// Grant returns the grant by which this node feeds, or else the one that the Lease held when it was last read. A node
// that feeds by the writes of another holder may have last read the Lease when it still held the previous grant.
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
			out.Split, out.Until, out.Why = tie.Lost, 0, "" // the reason why this half cannot be granted does not apply
		case out.Why == "" && a.err != nil:
			out.Why = a.err.Error()
		}
	}
	a.ask = a.schedule(now, in, out, &want)
	a.hadTie = in.Tie
	return out
}

// half returns the grant to this node's present view, or the reason why there is none.
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

// feedUntil returns the instant until which the node may feed under the grant to its half, which names the present
// tokens of its view (K2); half has checked that.
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

// relay only reports this node's own writes: a report that is passed on could circulate for ever.
func (a *Arbiter) relay(want *Grant) netgossip.Relay {
	if digest := want.Digest(); a.landed == digest {
		return netgossip.Relay{Log: a.cfg.Log, Instance: digest, Anchor: a.landedAt}
	}
	return netgossip.Relay{Log: a.cfg.Log, Instance: noGrant, Anchor: a.started}
}

// followHolders notes which holders have provably stopped feeding (K3).
func (a *Arbiter) followHolders() {
	for i := range a.done {
		if !a.done[i] {
			a.done[i] = a.movedOn(a.record.Grant.Holders[i])
		}
	}
}

// movedOn reports whether a holder has provably given up its token. A greater counter of the same boot is proof,
// whenever it was stated. Another boot, or no token, is proof only if it was stated after the grant was known: an
// earlier statement may be from before the token.
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

// expired reports whether no node can feed any more under the known version, and each node that did has been reset
// (K3).
func (a *Arbiter) expired(now boottime.Instant) bool {
	return a.known && now.Sub(a.since) >= a.expiry()
}

// expiry returns the time for which the known version must have been seen. A holder feeds for at most Term after its
// last write, and then runs on for its horizon. That may be longer than this node's, as nodes are reconfigured one
// after the other.
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

// horizonOf returns the horizon of a holder, as the Lease states it. A writer that knew of no horizons has left it out;
// then it is the horizon that the holder itself states with exactly the token that is named.
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

// longestHeard returns the longest horizon that this node, or a node that it hears, states.
func (a *Arbiter) longestHeard() time.Duration {
	longest := a.horizon
	for i := range a.cfg.Roster.Members {
		if st, _ := a.cfg.Evidence.Statement(i); st != nil && i != a.cfg.Roster.Self {
			longest = max(longest, st.Guard.Horizon)
		}
	}
	return longest
}

// mayReplace returns the reason why the node may not replace the record by the grant, or "".
func (a *Arbiter) mayReplace(now boottime.Instant, want *Grant) string {
	old := &a.record.Grant
	switch {
	case a.expired(now):
		return ""
	case len(old.Holders) == 0:
		return "the Lease is new, and it is not known which nodes held one before" // K5
	}
	same := old.sameNodes(want)
	for i, h := range old.Holders {
		if !a.done[i] && !(same && want.Holders[i].Token == h.Token) { // K3, K4
			return h.Node + ": it may still feed under the previous grant"
		}
	}
	return ""
}

// excluded reports whether the Lease, as read in this tie, only names other nodes, which may still feed.
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
