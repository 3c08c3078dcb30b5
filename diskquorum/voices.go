package diskquorum

import (
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Voice is what the echo block of a member proves of it, as an answered probe would (lease.md N1 to N3). The zero value is
// that nothing is heard of it.
type Voice struct {
	Boot uint64
	// Until is when the voice is too old to count.
	Until boottime.Instant
	// Mutual says that its writer saw this node when it composed it, and uses the one list that this node uses.
	Mutual bool
}

// Listen writes into voices, by member, what was heard of each on the LUN and is not dated before now less dated.
//
// Why a voice is as good as an answer: it echoes a ping of this process, so it was composed after the instant of that
// ping (E3), and what it says was true then. A voice that does not see this node only proves that its writer was
// there: the writer may read this node's blocks slowly or not at all, and call it dead (N2).
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
