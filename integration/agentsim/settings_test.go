package agentsim

import (
	"testing"
	"time"
)

func reconfigured(how breaking, nodes ...int) Event {
	return Event{Kind: Reconfigure, Nodes: nodes, Pick: int(how)}
}

// Halves that break ties in two different ways must not both live, neither at once nor after all nodes were reset and
// have booted into the split. The checker looks for both. survivors is the number of nodes that must remain; -1 allows
// any number.
func TestHalvesThatBreakTiesInTwoWays(t *testing.T) {
	ours, theirs := []int{0, 1}, []int{2, 3}
	halves := at(30*time.Second, split(ours, theirs))
	long := func(s Schedule) Schedule { s.End += 60 * time.Second; return s }
	mixed := func(how breaking) func(*Schedule) {
		return func(s *Schedule) { s.Mixed = how }
	}
	for i, c := range []struct {
		name   string
		s      Schedule
		living int // nodes that were never reset
	}{
		{"half of the group moves to a new LUN", group(4, nil, reconfigured(otherLUN, ours...), halves), 2},
		{"one of four moves to a new LUN", group(4, nil, reconfigured(otherLUN, 0), halves), 2},
		{"half of the group is on a clone", group(4, nil, reconfigured(clonedLUN, ours...), halves), 2},
		{"two LUNs from the beginning", group(4, mixed(otherLUN), halves), 0},
		{"a clone from the beginning", group(4, mixed(clonedLUN), halves), 0},
		{"all move, and one half moves back", group(4, nil, reconfigured(otherLUN, 0, 1, 2, 3), at(30*time.Second, reconfigured(asAll, theirs...)), at(60*time.Second, split(ours, theirs))), 2},
		// It is random whether the nodes that move have won or lost before.
		{"moved while cut off", group(4, nil, split(ours, theirs), at(20*time.Second, reconfigured(otherLUN, theirs...))), -1},
		{"half of the group moves to the API server", group(4, nil, reconfigured(apiAlone, ours...), halves), 2},
		{"two Leases from the beginning", seasoned(group(4, func(s *Schedule) { lease(s); s.Mixed = otherLease }, halves)), 0},
		{"half of the group uses another Lease", seasoned(group(4, lease, reconfigured(otherLease, ours...), halves)), 2},
	} {
		if testing.Short() && i%4 != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := long(c.s)
			r := run(t, s)
			if len(r.Violations) > 0 || c.living >= 0 && r.Living != c.living {
				t.Errorf("%d nodes live, %d resets, want %d\n%s", r.Living, r.Resets, c.living, Explain(s, r))
			}
		})
	}
}

// A group that has moved as a whole splits like before.
func TestTieAfterAWholeGroupHasMoved(t *testing.T) {
	s := group(4, nil, Event{Kind: Reconfigure, Nodes: []int{0, 1, 2, 3}, Pick: int(otherLUN), Span: 2 * time.Second}, at(60*time.Second, split([]int{0, 1}, []int{2, 3})))
	if r := run(t, s); len(r.Violations) > 0 || r.Resets != 2 || r.Ties != 1 {
		t.Errorf("%d resets, %d equal splits judged\n%s", r.Resets, r.Ties, Explain(s, r))
	}
}

// An agent keeps the configuration with which it began. The outcome of an equal split is known only if all agents began
// with the same one.
func TestWhatIsConfiguredIsNotYetInUse(t *testing.T) {
	w := &world{machines: []*machine{{breaks: asAll}, {breaks: asAll}}}
	w.machines[1].proc = &process{breaks: otherLUN}
	if w.allAlike() {
		t.Error("the files are alike, and one agent uses its previous file: allAlike reports true")
	}
	w.machines[1].proc.breaks, w.machines[1].breaks = asAll, otherLUN
	if !w.allAlike() {
		t.Error("all agents use the same settings, and one file has changed since: allAlike reports false")
	}
}
