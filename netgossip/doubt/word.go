package doubt

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Kind is what a word says of a peer. Each kind says of its sender at least what the kinds before it say: it misses the
// peer.
type Kind uint8

// The kinds.
const (
	Ask   Kind = iota + 1 // I miss it: look, you are one of its watchers, or were chosen in place of one
	Miss                  // I was asked, and miss it, too
	Call                  // several do: everybody look
	Firm                  // my own silence has lasted for the window
	kinds = Firm
)

// Valid reports whether a kind exists.
func (k Kind) Valid() bool { return k >= Ask && k <= kinds }

// Word is what one member says of another.
type Word struct {
	Kind Kind
	Peer int
}

// voice is what one member said: the latest instant of each kind, because a word does not renew one that said more.
type voice struct {
	from int
	made [kinds + 1]boottime.Instant
}

// Said takes a word that a member made at the instant made of this node's clock, or earlier. The owner has made sure
// that the word is this member's.
func (c *Core) Said(w Word, from int, made, now boottime.Instant) {
	c.beat(now)
	if !w.Kind.Valid() || w.Peer < 0 || w.Peer >= c.size || w.Peer == c.self || w.Peer == from ||
		from < 0 || from >= c.size || from == c.self || !c.awake() {
		return
	}
	if w.Kind == Ask {
		b := c.asks[from]
		if b == nil {
			fresh := newBucket(asksBurst, asksPerSecond, now)
			b = &fresh
			c.asks[from] = b
		}
		if !b.take(1, now) {
			return
		}
	}
	if made <= c.reached(w.Peer) || now.Sub(made) > c.lasts(w.Peer, now) {
		return // overtaken by an answer, or sent again
	}
	d := c.peer(w.Peer, now)
	d.hear(from, w.Kind, made)
	if w.Kind == Ask {
		d.watches = true
		if !d.asked.Has(from) && d.asked.Len() < answered {
			d.asked.Add(from)
		}
		if d.asked.Has(from) && d.missed && !c.mass() && !c.many() {
			c.tell(Miss, d, roster.SetOf(from))
		}
	}
	c.settle(d, now)
}

func (c *Core) tell(k Kind, d *peer, to roster.Set) {
	c.fx.Words = append(c.fx.Words, Outgoing{Word: Word{k, d.index}, To: to, Copies: c.copies()})
}

// copies is how often a word is sent on each network; 1: once on one of them.
func (c *Core) copies() int {
	switch {
	case c.loss.share > veryLossy:
		return 3
	case c.loss.share > lossy:
		return 2
	default:
		return 1
	}
}

// circle is who is told of this node's own doubt: who asked, and the watchers.
func (c *Core) circle(d *peer) roster.Set {
	to := c.watchersOf(d.index)
	to = to.Union(d.asked)
	to.Remove(c.self)
	return to
}

// watchersOf returns the members that look at a peer when somebody misses it. They are the same for everybody, and
// spread over the list, so that they are not all in one rack with the peer. Members that this node misses itself are
// passed over.
func (c *Core) watchersOf(p int) roster.Set {
	var s roster.Set
	stride := max(1, c.size/(watchers+1))
	for i, at, found := 0, p+1, 0; i < 2*c.size && found < watchers; i++ {
		at = at % c.size
		if at != p && !s.Has(at) && !c.misses(at) {
			s.Add(at)
			found++
		}
		if at += stride; (i+1)%(watchers+1) == 0 {
			at++
		}
	}
	return s
}

func (c *Core) misses(p int) bool {
	d := c.peers[p]
	_, left := c.left[p]
	return left || d != nil && d.missed
}
