package watchdog

import (
	"testing"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Guard: P1 (E3). Only a majority that lives with the LUN and without this node is evidence.
func TestOthersHaveTheLUN(t *testing.T) {
	all, others := roster.FullSet(5), roster.SetOf(1, 2, 3, 4)
	for name, c := range map[string]struct {
		change func(p int, st *netgossip.Statement)
		late   boottime.Instant
		want   boottime.Instant
	}{
		"they all do":                                 {func(int, *netgossip.Statement) {}, 0, 20 * sec},
		"one of them has lost it":                     {func(p int, st *netgossip.Statement) { st.LUNHealthy = p != 1 }, 0, 20 * sec},
		"two of them have lost it":                    {func(p int, st *netgossip.Statement) { st.LUNHealthy = p > 2 }, 0, 0},
		"they do not count this node, and each other": {func(_ int, st *netgossip.Statement) { st.View = others }, 0, 20 * sec},
		"a hub, and they count it alone":              {func(p int, st *netgossip.Statement) { st.View = roster.SetOf(0, p) }, 0, 0},
		"a chain":                                     {func(p int, st *netgossip.Statement) { st.View = roster.SetOf(0, p, max(1, p-1), min(4, p+1)) }, 0, 0},
		"one counts all, who count few": {func(p int, st *netgossip.Statement) {
			st.View = map[bool]roster.Set{true: all, false: roster.SetOf(0, 1, p)}[p == 1]
		}, 0, 0},
		"half of them are not fed":        {func(p int, st *netgossip.Statement) { st.Feeding = p > 2 }, 0, 0},
		"half of them are stopping":       {func(p int, st *netgossip.Statement) { st.Stopping = p > 2 }, 0, 0},
		"half of them go by another list": {func(p int, st *netgossip.Statement) { st.RosterEpoch += uint64(p / 3) }, 0, 0},
		"of one, the words are older":     {func(int, *netgossip.Statement) {}, sec, 19 * sec},
	} {
		t.Run(name, func(t *testing.T) {
			core := settled(t)
			for p := 1; p < 5; p++ {
				at := 20 * sec
				if p == 2 {
					at -= c.late
				}
				st := netgossip.Statement{Boot: 100 + uint64(p), Seen: all, View: all, Guard: killing, LUNHealthy: true, Feeding: true, RosterEpoch: core.cfg.Roster.Epoch, RosterDigest: core.cfg.Roster.Digest}
				c.change(p, &st)
				core.Merger().Answered(netgossip.Answer{Peer: p, SentAt: at, Statement: &st})
			}
			core.Step(20 * sec)
			if got := core.othersHaveLUN(20 * sec); got != c.want {
				t.Errorf("shown since %v, want %v", got, c.want)
			}
			if got := core.othersHaveLUN(20*sec + boottime.Instant(core.cfg.MaxAge) + sec); got != 0 {
				t.Errorf("old words are shown since %v", got)
			}
		})
	}
}
