package storm

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// patience is the time for which a node whose evictions make no progress holds up the others.
const patience = 3 * time.Minute

// Settings are set by the operator.
type Settings struct {
	Evicting         int // nodes at a time that have pods without a deletionTimestamp
	DeletesPerSecond int // force-deletes
	MaxDeadPercent   int // of a group; 100: no limit
}

// Group is the group of a node whose recovery may begin.
type Group struct {
	Name string
	Size int // number of Nodes
	Dead int // how many are believed dead, including the node in question
}

// Reasons of a refusal.
const (
	TooManyDead = "TooManyDead"
	Evictions   = "EvictionsGoOn"
)

// Verdict tells whether to continue, and if not, why.
type Verdict struct {
	Allowed bool
	Reason  string // one word, for metrics and Events
	Text    string // for people
	Anyway  string // the digest by which a person can overrule a [Survey]; empty: that is not possible
}

// Pace limits evictions and deletions of all nodes together. [New] creates it.
type Pace struct {
	settings Settings
	evicting map[string]time.Time // by node: the start of its evictions
	tokens   float64
	filled   time.Time
}

// New creates a pace.
func New(s Settings) *Pace { return &Pace{settings: s, evicting: map[string]time.Time{}, tokens: 1} }

// Begin asks whether recovery of this node may begin. If so, the node counts as evicting until [Pace.End].
func (p *Pace) Begin(node string, g Group, now time.Time) Verdict {
	if v := tooManyDead(g, p.settings.MaxDeadPercent); !v.Allowed {
		return v
	}
	if first, busy := p.Busy(node, now); busy {
		return Verdict{Reason: Evictions, Text: fmt.Sprintf("evictions from %s have to end first", first)}
	}
	if _, ok := p.evicting[node]; !ok {
		p.evicting[node] = now
	}
	return Verdict{Allowed: true}
}

// tooManyDead is the only limit on the dead of a group; the node in question counts as dead.
func tooManyDead(g Group, percent int) Verdict {
	if g.Dead*100 <= g.Size*percent {
		return Verdict{Allowed: true}
	}
	return Verdict{Reason: TooManyDead, Text: fmt.Sprintf(
		"%d of %d nodes of group %s are dead, more than storm.maxDeadPercent (%d) allows: look at the cause, then raise it",
		g.Dead, g.Size, g.Name, percent)}
}

// Busy reports whether evictions from other nodes have to end before recovery of this node may begin, and from which
// node. It changes nothing: a caller that waits asks Busy instead of the API server.
func (p *Pace) Busy(node string, now time.Time) (first string, busy bool) {
	others := slices.Sorted(maps.Keys(p.evicting))
	others = slices.DeleteFunc(others, func(n string) bool { return n == node || now.Sub(p.evicting[n]) > patience })
	if len(others) == 0 || len(others) < p.settings.Evicting {
		return "", false
	}
	return others[0], true
}

// Evicting returns the nodes whose evictions are awaited, and since when, for people.
func (p *Pace) Evicting() map[string]time.Time { return maps.Clone(p.evicting) }

// End records that no eviction from this node is awaited any more.
func (p *Pace) End(node string) { delete(p.evicting, node) }

// Delete takes one force-delete, or returns how long to wait for it.
func (p *Pace) Delete(now time.Time) (wait time.Duration) {
	rate := float64(p.settings.DeletesPerSecond)
	if p.filled.IsZero() {
		p.tokens = rate
	} else if passed := now.Sub(p.filled); passed > 0 {
		p.tokens = min(rate, p.tokens+passed.Seconds()*rate)
	}
	p.filled = now
	if p.tokens >= 1 {
		p.tokens--
		return 0
	}
	return max(time.Millisecond, time.Duration((1-p.tokens)/rate*float64(time.Second)))
}
