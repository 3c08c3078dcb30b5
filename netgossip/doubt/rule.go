package doubt

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// silence reports whether the peer is silent on so many networks that it is unreachable by the policy, and since when.
// A network on which no peer answers does not count: it is down for all, or for this node. late is how long a probe may
// take, and probes is how many took longer.
func (c *Core) silence(d *peer, now boottime.Instant, late time.Duration) (silent bool, since boottime.Instant, probes int) {
	live := 0
	var starts []boottime.Instant
	for k := range c.nets {
		if !c.live(k, now) {
			continue
		}
		live++
		if n, from := d.nets[k].missedBy(now, late); n > 0 {
			starts = append(starts, from)
			probes += n
		}
	}
	wanted := live - c.needed + 1
	if live == 0 || wanted < 1 || len(starts) < wanted {
		return false, 0, probes
	}
	slices.Sort(starts)
	return true, starts[wanted-1], probes
}

// lasts returns how long a word about a peer counts.
func (c *Core) lasts(p int, now boottime.Instant) time.Duration {
	return c.window(p, now) + c.times(5)
}

// well reports whether this node is well: a peer has answered it a moment ago.
func (c *Core) well(now boottime.Instant) bool {
	at := c.heard()
	return at != 0 && now.Sub(at) < c.times(wellTimeouts)
}

// mass reports whether this node misses so many peers that the cause is not a failure of single nodes.
func (c *Core) mass() bool {
	return c.missed > max(findings, c.size/massShare)
}

// many reports whether this node itself has found so many silent peers, by samples or as a watcher, that about a fifth
// of the group must be gone. A node probes some eight members a second and watches five, no matter how large the group
// is. So in a large group this shows a second after the first look, before the first call, and long before a sixth is
// missed. The node then sends no words by itself, but still looks when others call: with a tenth of the group gone, one
// node in a hundred has found this many.
func (c *Core) many() bool { return c.own > findings }

// Tick does everything that is due at now.
func (c *Core) Tick(now boottime.Instant) {
	c.beat(now)
	c.deaf(now)
	for _, d := range c.due(now) {
		if now.Sub(d.began) > c.lifetime() {
			if _, left := c.left[d.index]; left {
				c.rest(d) // it has been gone for so long that it does not belong to the present event
			} else {
				c.forget(d) // its evidence has run out, or is still renewed
			}
			continue
		}
		c.settle(d, now)
	}
}

// lifetime returns the time after which a doubt without a result is forgotten.
func (c *Core) lifetime() time.Duration { return c.cfg.Params.EvidenceMaxAge + c.times(5) }

// due returns the peers in doubt for which an action is due, ordered by number: a Core's actions must not depend on the
// order of a map.
func (c *Core) due(now boottime.Instant) []*peer {
	var all []*peer
	for _, d := range c.peers {
		if d.wake <= now {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b *peer) int { return a.index - b.index })
	return all
}

// Next returns when Tick has to be called; Never: not before another event.
func (c *Core) Next() boottime.Instant {
	next := boottime.Never
	for _, d := range c.peers {
		next = min(next, d.wake)
	}
	return next
}

// wakes returns when the next action for a doubt may be due: a probe becomes late, a window ends, a look is due.
func (c *Core) wakes(d *peer, now boottime.Instant) boottime.Instant {
	at := d.began.Add(c.lifetime() + 1)
	if _, left := c.left[d.index]; left {
		if !d.missed && d.looks == 0 {
			return boottime.Never // nothing is due until the peer answers
		}
		return at
	}
	if c.idle(d) {
		return at
	}
	after := func(t boottime.Instant) {
		if t > now {
			at = min(at, t)
		}
	}
	after(now.Add(c.gap()))
	if d.next != 0 {
		after(d.next)
	}
	for _, s := range d.nets {
		if n := len(s.probes); n > 0 {
			after(s.probes[0].Add(c.quick()))
			after(s.probes[n-1].Add(c.quick()))
			after(s.probes[n-1].Add(c.times(lateTimeouts)))
			after(s.probes[0].Add(c.times(lookTimeouts)))
		}
	}
	if silent, since, _ := c.silence(d, now, c.quick()); silent {
		w := c.window(d.index, now)
		after(since.Add(w - c.times(callTimeouts)))
		after(since.Add(w - c.times(callTimeouts-yieldTimeouts)))
		after(since.Add(w))
		after(since.Add(c.times(lookTimeouts)))
	}
	return at
}

// gap returns the time between two looks: it is shorter if packets are lost, so that the window has enough looks.
func (c *Core) gap() time.Duration {
	switch {
	case c.loss.share > veryLossy:
		return c.times(0.5)
	case c.loss.share > lossy:
		return c.times(0.75)
	default:
		return c.times(1.25)
	}
}

// idle reports whether a doubt is left to the sweep: its peer is one of many silent ones, no other member has spoken of
// it or asked this node to look, and this node has asked no watchers.
func (c *Core) idle(d *peer) bool { return d.missed && d.put == 0 && !d.watches && len(d.voices) == 0 }

func (c *Core) settle(d *peer, now boottime.Instant) {
	c.decide(d, now)
	d.wake = c.wakes(d, now)
}

func (c *Core) decide(d *peer, now boottime.Instant) {
	if _, left := c.left[d.index]; left {
		return
	}
	c.look(d, now)
	if silent, _, n := c.silence(d, now, c.quick()); silent && c.well(now) && c.loss.chance(n) <= askChance {
		c.miss(d, now)
	}
	silent, since, n := c.silence(d, now, c.times(lateTimeouts))
	if !silent || !c.well(now) || !d.missed {
		return
	}
	c.speak(d, since, n, now)
	c.publish(d, since, n, now)
}

// look asks for probes of the peer on all networks.
func (c *Core) look(d *peer, now boottime.Instant) {
	told := d.count(Call, now.Add(-c.lasts(d.index, now))) >= callers || d.count(Firm, now.Add(-c.lasts(d.index, now))) >= voices
	if now < d.next || !d.finds && !d.watches && !told {
		return
	}
	if c.idle(d) || c.mass() || c.many() && !told {
		return // the sweep handles the peer
	}
	if d.looks > 0 && !c.well(now) {
		c.check(now) // this node itself may be the cause: its probes would all be sent in one burst when it goes on
		return
	}
	if d.looks == 0 {
		if c.looked >= max(looksAtOnce, c.size/looksShare) {
			return
		}
		c.looked++
	}
	gap := c.gap()
	if !d.watches && d.put == 0 && d.looks >= 2 && told && d.count(Firm, now.Add(-c.lasts(d.index, now))) == 0 {
		gap = c.cfg.Params.EvidenceInterval // all members look, so each looks less often
	}
	d.looks++
	d.next = now.Add(gap)
	for k := range c.nets {
		c.fx.Looks = append(c.fx.Looks, Look{k, d.index})
	}
	c.check(now)
}

// check looks at another peer on the networks where no peer has answered a moment ago, because this node, or the
// network, may be the cause: if each peer is probed, the probes of all peers may be due at the same time.
func (c *Core) check(now boottime.Instant) {
	if now < c.checked {
		return
	}
	c.checked = now.Add(c.times(1))
	for k := range c.nets {
		if now.Sub(c.nets[k].heard) < c.times(1) {
			continue
		}
		for range 8 {
			if p := c.rand.IntN(c.size); p != c.self && c.peers[p] == nil {
				c.fx.Looks = append(c.fx.Looks, Look{k, p})
				break
			}
		}
	}
}

// miss records that this node misses the peer, and tells others: the watchers if it found the silence by itself, or the
// members that asked it to look.
func (c *Core) miss(d *peer, now boottime.Instant) {
	if !d.missed {
		c.set(d, true)
		if (d.watches || d.sampled) && d.count(Call, d.began) == 0 { // after a call all members miss the peer, and a sweep finds all silent peers
			d.own = true
			c.own++
		}
		if c.mass() || c.many() {
			return
		}
		switch {
		case d.watches:
			c.tell(Miss, d, c.circle(d))
		case d.finds && c.mayFind(now):
			d.put = now
			c.tell(Ask, d, c.circle(d))
		}
	}
	if d.put != 0 && !d.more && now.Sub(d.put) >= c.times(moreTimeouts) && 1+d.count(Ask, d.began) < voices {
		d.more = true
		c.tell(Ask, d, c.others(d))
	}
}

// mayFind reports whether this node may ask watchers about one more peer, and counts it.
func (c *Core) mayFind(now boottime.Instant) bool {
	keep := c.found[:0]
	for _, at := range c.found {
		if now.Sub(at) < c.times(findTimeouts) {
			keep = append(keep, at)
		}
	}
	if c.found = keep; len(keep) >= findings {
		return false
	}
	c.found = append(c.found, now)
	return true
}

// others picks members to look instead of watchers that do not reply.
func (c *Core) others(d *peer) roster.Set {
	var s roster.Set
	circle := c.circle(d)
	for try := 0; try < 4*watchers && s.Len() < watchers; try++ {
		if p := c.rand.IntN(c.size); p != c.self && p != d.index && !circle.Has(p) && !c.misses(p) {
			s.Add(p)
		}
	}
	return s
}

// speak calls on all members to look, and gives this node's firm word.
func (c *Core) speak(d *peer, since boottime.Instant, probes int, now boottime.Instant) {
	from, w := now.Add(-c.lasts(d.index, now)), c.window(d.index, now)
	if 1+d.count(Ask, from) < voices || c.mass() || c.many() {
		return
	}
	everyone := func(k Kind) bool {
		if !c.words.take(float64(c.size), now) {
			return false
		}
		c.fx.Words = append(c.fx.Words, Outgoing{Word: Word{k, d.index}, Everyone: true, To: c.circle(d), Copies: c.copies()})
		return true
	}
	if !d.called && now.Sub(since) >= w-c.callsBefore(d) && d.count(Call, from) < callers {
		d.called = everyone(Call)
	}
	if d.firm == 0 && now.Sub(since) >= w && c.loss.chance(probes) <= firmChance {
		d.firm = now
		if d.count(Firm, from) <= voices {
			everyone(Firm)
		}
	}
}

// callsBefore returns how long before the end of its window this node calls. All watchers reach that moment at the same
// time, and two calls are enough: so the first two watchers call first.
func (c *Core) callsBefore(d *peer) time.Duration {
	rank := 0
	for p := range c.watchersOf(d.index).All() {
		if p == c.self {
			break
		}
		rank++
	}
	if rank < callers {
		return c.times(callTimeouts)
	}
	return c.times(callTimeouts - yieldTimeouts)
}

// publish makes the peer LEFT if enough members gave their firm word, and this node's own look was not answered.
func (c *Core) publish(d *peer, since boottime.Instant, probes int, now boottime.Instant) {
	firm := d.count(Firm, now.Add(-c.lasts(d.index, now)))
	if d.firm != 0 {
		firm++
	}
	if firm < min(voices, c.size-1) || now.Sub(since) < c.times(lookTimeouts) || probes < 2 {
		return
	}
	c.left[d.index] = since
	c.changed = true
}
