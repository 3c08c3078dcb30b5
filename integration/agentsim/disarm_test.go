package agentsim

import (
	"testing"
	"time"
)

// Guard: an armed node whose disable file was set and removed reports again that it is armed, whether or not its driver
// could be disarmed. Otherwise its peers would never prove its death.
func TestGuardIsSaidAgainAfterMaintenance(t *testing.T) {
	for _, noWayOut := range []bool{false, true} {
		s := group(4, func(s *Schedule) { s.LUN, s.NoWayOut, s.Unjudged = false, noWayOut, true },
			Event{Kind: Disable, Nodes: []int{3}}, at(10*time.Second, Event{Kind: Enable, Nodes: []int{3}}),
			at(20*time.Second, split([]int{0, 1, 2}, []int{3})))
		s.Reboot = 2 * time.Minute // so that no later boot proves the death
		s.End += 30 * time.Second
		if r := run(t, s); len(r.Violations) > 0 || r.Resets != 1 || r.Deaths != 3 {
			t.Errorf("nowayout %v: %d resets, %d of three agents say FENCED\n%s", noWayOut, r.Resets, r.Deaths, Explain(s, r))
		}
	}
}

// Guard: the magic close of a planned stop does not wait for sockets. The permission to feed would end in the meantime,
// and a starved watchdog must not be disarmed.
func TestPlannedStopWithSocketsThatHang(t *testing.T) {
	s := group(3, func(s *Schedule) { s.LUN, s.SlowClose = false, 20*time.Second },
		Event{Kind: Upgrade, Nodes: []int{1}, Span: 30 * time.Second})
	s.End += 30 * time.Second
	if r := run(t, s); len(r.Violations) > 0 || r.Resets != 0 {
		t.Errorf("%d resets\n%s", r.Resets, Explain(s, r))
	}
}
