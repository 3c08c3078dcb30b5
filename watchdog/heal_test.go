package watchdog

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Guard: L14. The quorum is configured, and it also applies to the majority of a partner.
func TestArbitersAreToldTheQuorum(t *testing.T) {
	c := testCore(t, 4, func(c *Config) { c.LUN, c.Quorum = true, 4 })
	c.LUNOpened(diskquorum.NewArbiter(diskquorum.ArbiterConfig{
		Devices: []*diskquorum.Superblock{{Version: diskquorum.FormatVersion, Slots: 4}}, Roster: c.cfg.Roster, Evidence: c.Merger(), Boot: 1, Process: 1,
	}))
	c.Step(sec)
	if c.lun.input.Quorum != 4 {
		t.Errorf("the LUN's arbiter is told %d", c.lun.input.Quorum)
	}

	for quorum, want := range map[int]Reason{3: ReasonSplitWon, 4: ReasonSplitPending} {
		r := newLeaseRig(t)
		r.won()
		r.rosters.quorum = quorum
		r.say(roster.SetOf(0, 1, 2), 1)
		r.step()
		if d := r.fx.Decision; d.Reason != want {
			t.Errorf("the partner counts three, %d are needed: %+v, %s", quorum, d, r.Split().Why)
		}
	}
}
