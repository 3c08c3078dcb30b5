package doubt

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Kind is the kind of a word about a peer. Each kind implies the kinds before it; all imply that the sender misses the
// peer.
type Kind uint8

// The kinds.
const (
	Ask   Kind = iota + 1 // I miss the peer: look, you are one of its watchers, or were chosen instead of one
	Miss                  // I was asked, and miss the peer, too
	Call                  // several members miss the peer: all members look
	Firm                  // the peer has been silent to me for the whole window
	kinds = Firm
)

// Valid reports whether a kind exists.
func (k Kind) Valid() bool { return k >= Ask && k <= kinds }

// Word is a message of one member about another.
type Word struct {
	Kind Kind
	Peer int
}

// voice holds one member's words: the latest instant of each kind, because a word does not renew one of a higher kind.
type voice struct {
	from int
	made [kinds + 1]boottime.Instant
}

// Said handles a word that a member created at the instant made, by this node's clock, or earlier. The owner has
// verified that the word is from this member.
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
		return // an answer came after it, or it is a repetition
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

// copies returns how often a word is sent on each network; 1: once, on one of them.
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

// circle returns the receivers of this node's own doubt: the members that asked, and the watchers.
func (c *Core) circle(d *peer) roster.Set {
	to := c.watchersOf(d.index)
	to = to.Union(d.asked)
	to.Remove(c.self)
	return to
}

// watchersOf returns the members that look at a peer when a member misses it. All members compute the same watchers.
// They are spread over the list, so that they are not all in one rack with the peer. Members that this node itself
// misses are skipped.
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
