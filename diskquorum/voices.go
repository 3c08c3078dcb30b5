package diskquorum

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Voice is the evidence in a member's echo block, which counts like an answered probe (lease.md N1 to N3). The zero
// value: there is no evidence.
type Voice struct {
	Boot uint64
	// Until is the instant from which the voice is too old to count.
	Until boottime.Instant
	// Mutual is true if the member saw this node when it composed the block, and uses the same single list as this
	// node.
	Mutual bool
}

// Listen writes into voices, by member, the evidence from the LUN that is no older than dated.
//
// Why a voice is as good as an answer: the block echoes a ping of this process, so it was composed after the instant of
// that ping (E3), and its contents were true then. If the block does not have this node among the seen, it only proves
// that its writer was alive: the writer may read this node's blocks slowly or not at all, and call this node dead (N2).
func (a *Arbiter) Listen(now boottime.Instant, dated time.Duration, voices []Voice) {
	clear(voices)
	for slot := range a.echo.peers {
		p := &a.echo.peers[slot]
		i, until := p.RosterIndex, p.date.Add(dated)
		if p.date == 0 || now >= until || !a.sameList(&p.Echo) || i == a.roster.Self || i >= len(voices) || until <= voices[i].Until {
			continue
		}
		voices[i] = Voice{Boot: p.Boot, Until: until, Mutual: p.Settled && p.Seen.Has(a.roster.Self)}
	}
}
