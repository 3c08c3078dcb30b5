package netgossip

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// MaxDues is the number of different dues that a statement can have.
const MaxDues = 4

// Due is a node's dated claim about lost peers. The node has stated to see none of them since the instant Since, and the
// guards of all of them, as they were stated to the node, kill within Horizon.
//
// The two are separate because another member may know of a longer horizon, of a peer's next agent. A reader adds the
// longest horizon that any of the claims has to the instant of each.
type Due struct {
	Since   boottime.Instant // by the clock of the node that states it
	Horizon time.Duration    // 0: the entry is unused
	Who     roster.Set       // not empty
}

// at returns the instant at which the peers cannot run any more, as far as the node that states it knows.
func (d *Due) at() boottime.Instant { return d.Since.Add(d.Horizon) }

// Dues lists a node's dated claims, with unused entries last. No peer is in two of them.
type Dues [MaxDues]Due

// dueGrain is the unit of Since, so that peers that were lost together share an entry.
const dueGrain = 100 * time.Millisecond

// Add adds a peer that was lost at since, rounded up. If there are too many different entries, the two that are due
// first become one, with the later instant and the longer horizon of both: a later due only delays a proof.
func (d *Dues) Add(since boottime.Instant, horizon time.Duration, peer int) {
	since = (since + boottime.Instant(dueGrain) - 1) / boottime.Instant(dueGrain) * boottime.Instant(dueGrain)
	for i := range d {
		if d[i].Horizon == 0 {
			d[i].Since, d[i].Horizon = since, horizon
		}
		if d[i].Since == since && d[i].Horizon == horizon {
			d[i].Who.Add(peer)
			return
		}
	}
	more := Due{Since: since, Horizon: horizon}
	more.Who.Add(peer)
	one, other := d.first()
	if last := max(d[one].at(), d[other].at()); more.at() <= last { // it is one of the two that are due first
		d[one].join(&more)
		return
	}
	d[one].join(&d[other])
	d[other] = more
}

// join adds the peers of another entry.
func (d *Due) join(other *Due) {
	d.Since, d.Horizon, d.Who = max(d.Since, other.Since), max(d.Horizon, other.Horizon), d.Who.Union(other.Who)
}

// first returns the two used entries that are due first, the earlier one first. Two entries at least must be in use.
func (d *Dues) first() (one, other int) {
	one, other = 0, 1
	if d[1].at() < d[0].at() {
		one, other = 1, 0
	}
	for i := 2; i < MaxDues && d[i].Horizon != 0; i++ {
		switch {
		case d[i].at() < d[one].at():
			one, other = i, one
		case d[i].at() < d[other].at():
			other = i
		}
	}
	return one, other
}

// Shorten makes one entry of the two that are due first, or drops the only one. ok is false if there was none.
func (d *Dues) Shorten() (ok bool) {
	switch {
	case d[0].Horizon == 0:
		return false
	case d[1].Horizon == 0:
		d[0] = Due{}
		return true
	}
	one, other := d.first()
	d[one].join(&d[other])
	last := MaxDues - 1
	for d[last].Horizon == 0 {
		last--
	}
	d[other], d[last] = d[last], Due{}
	return true
}

// Of returns the claim about a peer; nil: there is none.
func (d *Dues) Of(peer int) *Due {
	for i := range d {
		if d[i].Horizon == 0 {
			break
		}
		if d[i].Who.Has(peer) {
			return &d[i]
		}
	}
	return nil
}

// Who returns all peers that have a due.
func (d *Dues) Who() (set roster.Set) {
	for i := range d {
		if d[i].Horizon == 0 {
			break
		}
		set = set.Union(d[i].Who)
	}
	return set
}
