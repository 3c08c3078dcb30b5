package tietest

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

const (
	term    = 4 * time.Second
	horizon = 10 * time.Second
)

// ledger holds the grants of a group, in one place that all nodes reach at once.
type ledger struct {
	holders map[int]holder
	count   uint64
}

type holder struct {
	token   netgossip.Token
	until   boottime.Instant
	horizon time.Duration
}

// flaws lists the promises that a faulty tie-breaker breaks, one at a time.
type flaws struct {
	twice, hasty, mean, forgetful, chatty, shy, renamed, boastful, mute bool
}

// honest is a tie-breaker that keeps all promises, except for its flaws.
type honest struct {
	flaws
	l     *ledger
	r     *roster.Roster
	e     tie.Evidence
	boot  uint64
	view  roster.Set
	token netgossip.Token
	out   tie.Output
	steps int
}

func (b *honest) Name() tie.Name {
	n := tie.Name{Setting: "ledger", Status: "ledger", Log: 1}
	if b.renamed && b.steps > 100 {
		n.Setting = "book"
	}
	return n
}

func (b *honest) SetRoster(r *roster.Roster, _ int) {
	b.r = r
	if !b.forgetful {
		b.view = roster.Set{}
	}
}

func (b *honest) Grant(now boottime.Instant) (g tie.Grant, ok bool) {
	g = tie.Grant{Held: b.out.Split == tie.Won && b.out.Until > now, Instance: b.l.count}
	if g.Held {
		g.Holders = slices.Sorted(slices.Values(b.r.Names(b.view)))
	}
	if b.boastful {
		g.Held = true
	}
	return g, true
}

func (b *honest) Step(now boottime.Instant, in *tie.Input) *tie.Output {
	b.steps++
	if in.View != b.view {
		b.view, b.token = in.View, netgossip.Token{Nonce: b.boot, Counter: b.token.Counter + 1}
	}
	b.out = tie.Output{Token: b.token, Wake: now.Add(time.Second)}
	if b.chatty {
		b.out.Split = tie.Lost
	}
	if !in.Tie {
		return &b.out
	}
	b.out.Split = tie.Pending
	if tokens, ok := b.tokens(now, in); ok && !b.mute && b.free(now, in.View, tokens) {
		if !b.named(tokens) {
			b.l.count++
			b.l.holders = map[int]holder{}
		}
		for i, t := range tokens {
			b.l.holders[i] = holder{t.token, now.Add(term), t.horizon}
		}
		b.out.Split, b.out.Until = tie.Won, now.Add(term)
		if b.shy {
			b.out.Until = now
		}
	}
	return &b.out
}

// tokens returns the tokens of the view, if all its members state the same view.
func (b *honest) tokens(now boottime.Instant, in *tie.Input) (map[int]holder, bool) {
	tokens := map[int]holder{b.r.Self: {token: b.token, horizon: in.Horizon}}
	for i := range in.View.All() {
		if i == b.r.Self {
			continue
		}
		st, at := b.e.Statement(i)
		if st == nil || now.Sub(at) > time.Second || st.View != in.View || st.RosterEpoch != b.r.Epoch && !b.forgetful {
			return nil, false
		}
		tokens[i] = holder{token: st.Token, horizon: st.Guard.Horizon}
	}
	return tokens, true
}

func (b *honest) named(tokens map[int]holder) bool {
	for i, t := range tokens {
		if b.l.holders[i].token != t.token {
			return false
		}
	}
	return true
}

// free reports whether no node outside of the view is fed by the present grant, or still runs.
func (b *honest) free(now boottime.Instant, view roster.Set, tokens map[int]holder) bool {
	if b.twice || b.named(tokens) {
		return true
	}
	for i, h := range b.l.holders {
		end := h.until.Add(h.horizon)
		if b.hasty {
			end = h.until
		}
		if b.mean {
			end = h.until.Add(min(h.horizon, horizon))
		}
		if !view.Has(i) && now < end {
			return false
		}
	}
	return true
}

func rig(f flaws) Rig {
	l := &ledger{}
	return Rig{
		MaxAge: time.Second, Decides: 5 * time.Second, Horizon: horizon,
		New: func(r *roster.Roster, e tie.Evidence, boot uint64, _ boottime.Instant) tie.Breaker {
			return &honest{flaws: f, l: l, r: r, e: e, boot: boot}
		},
	}
}

func TestHonest(t *testing.T) { Conform(t, func(*testing.T) Rig { return rig(flaws{}) }) }

// For each promise, the scenario about it must detect a tie-breaker that breaks it.
func TestFlawsAreCaught(t *testing.T) {
	for name, c := range map[string]struct {
		f  flaws
		by string
	}{
		"both halves are granted":                   {flaws{twice: true}, "a split is decided, once"},
		"nobody is granted":                         {flaws{mute: true}, "a split is decided, once"},
		"a grant that has ended":                    {flaws{shy: true}, "a split is decided, once"},
		"the dead are not waited for":               {flaws{hasty: true}, "the other half follows the dead when they have been reset"},
		"a long horizon is cut short":               {flaws{mean: true}, "and waits for the longest horizon"},
		"an answer without a tie":                   {flaws{chatty: true}, "a heal ends it"},
		"another list goes by the grant of the old": {flaws{forgetful: true}, "another list ends it"},
		"another name later":                        {flaws{renamed: true}, "other halves"},
		"shown as held, and it is not":              {flaws{boastful: true}, "a heal ends it"},
	} {
		for _, scenario := range Cases() {
			if got := scenario.Run(rig(c.f)); scenario.Name == c.by && len(got) == 0 {
				t.Errorf("%s: not caught by %q", name, c.by)
			}
		}
	}
}
