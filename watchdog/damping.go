package watchdog

import (
	"math"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Flap damping, as routers do it with routes that come and go (RFC 2439): each return of a peer that was not announced adds one to its
// penalty, which halves in flapHalfLife. A return that makes it flapSuppress is not published, and from then on none is before the
// penalty has sunk to flapReuse. The third return within a minute is the first that can be held, and two never are.
//
// It concerns JOIN for subscribers alone, as the grace and doubts do (adr/0072):
//
//   - LEFT is never late, and never made: who is published stays so until it is missing.
//   - A JOIN is held for flapLongest after the latest return at most.
//   - Only a minority is held. Who sees half of the group flap has the fault itself, or the network between has: then nobody is, and those
//     that were are published at once.
const (
	flapHalfLife = 2 * time.Minute
	flapSuppress = 2.5
	flapReuse    = 1.0
	flapLongest  = 5 * time.Minute
)

// flapMost is the penalty that takes flapLongest to sink to flapReuse.
var flapMost = flapReuse * math.Exp2(float64(flapLongest)/float64(flapHalfLife))

// flaps is the penalty of one peer.
type flaps struct {
	penalty float64
	at      boottime.Instant // when it was that
	until   boottime.Instant // JOIN is held until then
}

func (f *flaps) level(now boottime.Instant) float64 {
	if f.penalty == 0 {
		return 0
	}
	return f.penalty * math.Exp2(-float64(now.Sub(f.at))/float64(flapHalfLife))
}

// charge adds a return.
func (f *flaps) charge(now boottime.Instant) {
	f.penalty = min(f.level(now)+1, flapMost)
	f.at = now
	f.until = now.Add(time.Duration(float64(flapHalfLife) * math.Log2(max(1, f.penalty/flapReuse))))
}

// damp takes the returns of this step, and tells when the first JOIN that is held is due.
func (p *publication) damp(back roster.Set, members int, now boottime.Instant) boottime.Instant {
	for i := range p.flapping.All() {
		if now >= p.peers[i].flaps.until {
			p.flapping.Remove(i)
		}
	}
	if p.charge(back, now) {
		p.suppress(members, now)
	}
	next := boottime.Never
	for i := range p.flapping.All() {
		next = min(next, p.peers[i].flaps.until)
	}
	return next
}

// charge counts the returns that nobody had announced: a node that said that it goes away may come back as often as it likes.
func (p *publication) charge(back roster.Set, now boottime.Instant) (any bool) {
	for i := range back.All() {
		switch l := &p.peers[i]; l.why {
		case LeftUnreachable, LeftDoubted, LeftRestartOverdue, LeftRebooted:
			l.flaps.charge(now)
			any = true
		}
	}
	return any
}

// suppress picks those who are held from now on.
func (p *publication) suppress(members int, now boottime.Instant) {
	restless := 0
	for i := range p.peers {
		if p.peers[i].flaps.level(now) > flapReuse {
			restless++
		}
	}
	if 2*restless >= members {
		p.flapping = roster.Set{}
		return
	}
	for i := range p.peers {
		if f := &p.peers[i].flaps; f.at == now && f.penalty >= flapSuppress {
			p.flapping.Add(i)
		}
	}
}

// Flapping lists the peers that are back, and whose JOIN is held because they come and go.
func (p *publication) Flapping() roster.Set { return p.flapping.And(p.present) }

// FlappingFor is for how long at most the JOIN of a peer is held, if it does not go again.
func (p *publication) FlappingFor(i int) time.Duration {
	if !p.Flapping().Has(i) {
		return 0
	}
	return p.peers[i].flaps.until.Sub(p.stepped)
}
