package swim

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

// peerClock dates the packets of a peer, as seen on this node's clock, without comparing the two clocks.
//
// An attacker on the wire can replay a recorded packet at any time, to any node: it is a genuine packet of the peer,
// and decrypts. Two-way evidence is not fooled, since it takes the id of a young probe. A packet from a peer that does
// not hear us can carry nothing of ours, so what it proves is dated instead: each packet carries its sender's clock,
// and the answer to a probe relates that clock to ours. The answer was made before it came, so what its sender makes a
// second later, by the sender's clock, is made a second after that arrival at the latest. A packet that is sent again
// has the same date, however often, and says what is true: the peer was alive then.
//
// Two errors remain. The date is too late by the time that the answer was on its way, which is less than D_max, or the
// answer would not count, and by what drift allows for. So a dead node is sighted for at most that much longer: a proof
// of its death is not held up for ever. And the date is too early where the sender's clock stopped, as that of a
// virtual machine that was paused, until the next answer. Then a sighting is missed. That is only safe because no proof
// of death relies on sightings: a claim means that no statement of the claimant had the victim among the *seen*, which
// are two-way (watchdog/proof.go).
type peerClock struct {
	theirs uint64           // from the latest answer that had one; 0: none yet
	ours   boottime.Instant // when that answer came
}

// drift is one part in this many by which two clocks may run apart: both may be slewed by 500 ppm.
const drift = 1000

// read takes the clock from an answer to a probe of ours, and when the answer came.
func (c *peerClock) read(theirs uint64, came boottime.Instant) {
	if theirs == 0 {
		return // from before its sender has made a statement
	}
	if d, ok := wire.ClockBetween(c.theirs, theirs); ok && d < 0 && c.theirs != 0 {
		return // overtaken on its way by a later one
	}
	c.theirs, c.ours = theirs, came
}

// dates returns the latest instant at which a packet that came at an instant can have been made; 0: unknown.
func (c *peerClock) dates(theirs uint64, came boottime.Instant) boottime.Instant {
	if c.theirs == 0 || theirs == 0 {
		return 0 // it may be older than this process, or is from before its sender has made a statement
	}
	d, ok := wire.ClockBetween(c.theirs, theirs)
	if !ok {
		return 0 // of another boot than the one that answered
	}
	return max(0, min(came, c.ours.Add(d+max(0, d)/drift)))
}
