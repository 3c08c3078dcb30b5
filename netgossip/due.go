package netgossip

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// MaxDues is how many different dues a statement has.
const MaxDues = 4

// Due is a node's dated claim about lost peers: none of them, as their guards were stated to the node, runs at the
// instant At or later, unless the node has stated to see it again before that.
type Due struct {
	At  boottime.Instant // by the clock of the node that states it; 0: unused
	Who roster.Set       // not empty
}

// Dues lists a node's dated claims, the earliest first and unused entries last. No peer is in two of them.
type Dues [MaxDues]Due

// dueGrain is the unit of a due, so that peers that were lost together are in one entry.
const dueGrain = 100 * time.Millisecond

// Add adds a peer with its due, rounded up. If there are too many different dues, those of the earliest two become the
// later one of them: a later due only delays a proof.
func (d *Dues) Add(at boottime.Instant, peer int) {
	at = (at + boottime.Instant(dueGrain) - 1) / boottime.Instant(dueGrain) * boottime.Instant(dueGrain)
	i := 0
	for i < MaxDues && d[i].At != 0 && d[i].At < at {
		i++
	}
	switch full := d[MaxDues-1].At != 0; {
	case i < MaxDues && d[i].At == at:
	case full && i == 0: // it is the earliest
	case full && i == 1:
		d[0].At = at
		i = 0
	case full:
		d.merge(0)
		i--
		copy(d[i+1:], d[i:MaxDues-1])
		d[i] = Due{At: at}
	default:
		copy(d[i+1:], d[i:MaxDues-1])
		d[i] = Due{At: at}
	}
	d[i].Who.Add(peer)
}

// merge makes one entry of the entry i and the next one.
func (d *Dues) merge(i int) {
	d[i+1].Who = d[i+1].Who.Union(d[i].Who)
	copy(d[i:], d[i+1:])
	d[MaxDues-1] = Due{}
}

// Shorten makes one entry of the earliest two, or drops the only one. ok is false if there was none.
func (d *Dues) Shorten() (ok bool) {
	switch {
	case d[0].At == 0:
		return false
	case d[1].At == 0:
		d[0] = Due{}
	default:
		d.merge(0)
	}
	return true
}

// Of returns the due of a peer, by the clock of the node that states it.
func (d *Dues) Of(peer int) (at boottime.Instant, ok bool) {
	for i := range d {
		if d[i].At == 0 {
			break
		}
		if d[i].Who.Has(peer) {
			return d[i].At, true
		}
	}
	return 0, false
}

// Who returns all peers that have a due.
func (d *Dues) Who() (set roster.Set) {
	for i := range d {
		if d[i].At == 0 {
			break
		}
		set = set.Union(d[i].Who)
	}
	return set
}
