package swim

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

// peerClock dates the packets of a peer by this node's clock, without synchronised clocks.
//
// An attacker on the wire can replay a recorded packet at any time, to any node: it is a genuine packet of the peer,
// and decrypts. Two-way evidence is safe, since it needs the id of a recent probe. A packet from a peer that does not
// hear us cannot contain such an id, so the packet is dated instead: each packet carries its sender's clock, and the
// answer to a probe relates that clock to ours. The answer was created before it arrived. So a packet that its sender
// creates a second later, by the sender's clock, is created at most a second after that arrival. A replayed packet
// always has the same date, and proves the truth: the peer was alive then.
//
// Two errors remain. First, the date is too late by the time that the answer was on its way and by the drift of the
// clocks. The answer only counts if it was on its way for less than D_max. So a dead node is sighted for at most that
// much longer, and a proof of its death is not delayed for ever. Second, the date is too early if the sender's clock
// stopped, like that of a paused virtual machine, until the next answer. Then a sighting is missed. This is only safe
// because no proof of death relies on sightings: a claim means that no statement of the claimant had the victim among
// the *seen*, which need two-way evidence (watchdog/proof.go).
type peerClock struct {
	theirs uint64           // the peer's clock in the latest answer that had one; 0: none yet
	ours   boottime.Instant // when that answer came
}

// drift bounds the difference in speed of two clocks, as one part in drift: each may be slewed by 500 ppm.
const drift = 1000

// read records the peer's clock from an answer to a probe of ours, and when the answer came.
func (c *peerClock) read(theirs uint64, came boottime.Instant) {
	if theirs == 0 {
		return // the packet is from before its sender's first statement
	}
	if d, ok := wire.ClockBetween(c.theirs, theirs); ok && d < 0 && c.theirs != 0 {
		return // overtaken on its way by a later answer
	}
	c.theirs, c.ours = theirs, came
}

// dates returns the latest instant at which a packet that came at an instant can have been created; 0: unknown.
func (c *peerClock) dates(theirs uint64, came boottime.Instant) boottime.Instant {
	if c.theirs == 0 || theirs == 0 {
		return 0 // the packet may be older than this process, or is from before its sender's first statement
	}
	d, ok := wire.ClockBetween(c.theirs, theirs)
	if !ok {
		return 0 // the packet is from another boot than the latest answer
	}
	return max(0, min(came, c.ours.Add(d+max(0, d)/drift)))
}
