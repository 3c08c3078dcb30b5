package agentsim

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func confirm(teller, victim int) Event { return Event{Kind: Confirm, Nodes: []int{teller, victim}} }

func powerOff(nodes ...int) Event { return Event{Kind: PowerOff, Nodes: nodes} }

// sayers counts the nodes that report a thing.
func sayers(r *Result, what string) int {
	who := map[string]bool{}
	for _, l := range r.Timeline {
		if _, rest, ok := strings.Cut(strings.TrimSpace(l), "s "); ok && strings.Contains(l, what) {
			who[strings.Fields(rest)[0]] = true
		}
	}
	return len(who)
}

// A node loses its power, and an operator reports that on one node. All others report FENCED within seconds: with and
// without a LUN, guarded or not, and also if they count over a LUN that they have lost.
func TestConfirmedDeathIsKnownToAll(t *testing.T) {
	for name, s := range map[string]Schedule{
		"without a LUN": group(4, func(s *Schedule) { wide(s); noLUN(s) }, powerOff(3), at(10*time.Second, confirm(0, 3))),
		"with a LUN":    group(4, wide, powerOff(3), at(10*time.Second, confirm(0, 3))),
		"unguarded":     group(4, func(s *Schedule) { wide(s); s.OnLoss = "wait" }, powerOff(3), at(10*time.Second, confirm(0, 3))),
		"twelve nodes":  group(12, func(s *Schedule) { wide(s); noLUN(s) }, powerOff(7), at(10*time.Second, confirm(0, 7))),
	} {
		r := run(t, s)
		victim := s.Events[0].Nodes[0]
		what := "FENCED " + nodeName(victim) + " PROOF_OPERATOR"
		believed, first := said(t, r, "believes that"), said(t, r, what)
		all := sayers(r, what)
		t.Logf("%s: believed %v after the report, FENCED reported by %d", name, believed-10*time.Second, all)
		if len(r.Violations) > 0 || first == 0 || all != s.Nodes-1 || believed > 22*time.Second {
			t.Errorf("%s: reported by %d, first after %v\n%s", name, all, first, Explain(s, r))
		}
	}
}

// Guard: a node that runs and is seen by any other node, or writes to the LUN, is not called dead, whatever an operator
// reports.
func TestRunningNodeIsNotConfirmedDead(t *testing.T) {
	oneWay := func(from, to int) Event { return Event{Kind: OneWay, Nodes: []int{from, to}, Networks: both} }
	for name, tc := range map[string]struct {
		s    Schedule
		says string
	}{
		"it is seen":           {group(4, wide, at(10*time.Second, confirm(0, 3))), "this node sees n4: it runs"},
		"another node sees it": {group(5, func(s *Schedule) { wide(s); noLUN(s) }, oneWay(0, 3), oneWay(3, 0), at(10*time.Second, confirm(0, 3))), "sees n4: it runs"},
		"it is heard":          {group(4, func(s *Schedule) { wide(s); noLUN(s) }, oneWay(0, 3), oneWay(1, 3), oneWay(2, 3), at(10*time.Second, confirm(0, 3))), "was heard a moment ago"},
		"it writes":            {group(4, wide, split([]int{0, 1, 2}, []int{3}), at(6*time.Second, confirm(0, 3))), "n4 writes to the LUN"},
		"no quorum":            {group(5, func(s *Schedule) { wide(s); noLUN(s) }, split([]int{0}, []int{1, 2, 3, 4}), at(10*time.Second, confirm(0, 3))), "has no quorum"},
	} {
		r := run(t, tc.s)
		if len(r.Violations) > 0 || said(t, r, tc.says) == 0 || said(t, r, "FENCED n4 PROOF_OPERATOR") != 0 {
			t.Errorf("%s\n%s", name, Explain(tc.s, r))
		}
	}
}

// An agent that is restarted has forgotten the confirmations that it received, and hears of them again from the others.
// With a LUN, so does an agent that has never met the node.
func TestConfirmedDeathOutlivesItsTeller(t *testing.T) {
	s := group(4, wide, powerOff(3), at(10*time.Second, confirm(0, 3)), at(25*time.Second, Event{Kind: Restart, Nodes: []int{0}}))
	s.End += 30 * time.Second
	r := run(t, s)
	times := 0
	for _, l := range r.Timeline {
		if strings.Contains(l, "n1 ") && strings.Contains(l, "FENCED n4 PROOF_OPERATOR") {
			times++
		}
	}
	if len(r.Violations) > 0 || times != 2 {
		t.Errorf("n1 reports it %d times\n%s", times, Explain(s, r))
	}
}

// Guard: P9. An operator reports the death of a node that is cut off and runs. When the node is back, the death is
// withdrawn, and no other confirmation about that boot is believed.
func TestConfirmedDeathThatIsContradicted(t *testing.T) {
	s := group(5, func(s *Schedule) { wide(s); noLUN(s); s.Unjudged = true }, split([]int{0, 1, 2, 3}, []int{4}), at(10*time.Second, confirm(0, 4)),
		at(14*time.Second, Event{Kind: Heal}), at(24*time.Second, split([]int{0, 1, 2, 3}, []int{4})), at(34*time.Second, confirm(1, 4)))
	r := run(t, s)
	if said(t, r, "FENCED n5 PROOF_OPERATOR") == 0 || said(t, r, "proof of death is withdrawn") == 0 || said(t, r, "has answered after it was called dead") == 0 {
		t.Errorf("%s", Explain(s, r))
	}
	again := false
	for _, l := range r.Timeline {
		var at float64
		if n, _ := fmt.Sscanf(strings.TrimSpace(l), "%fs", &at); n == 1 && at > healthyFor.Seconds()+20 && strings.Contains(l, "PROOF_OPERATOR") {
			again = true
		}
	}
	if again {
		t.Errorf("believed again\n%s", Explain(s, r))
	}
}

// Guard: P4. A node that has lost the LUN cannot read the sentence of a node that is cut off. The others pass it on.
func TestSentenceIsHandedOn(t *testing.T) {
	s := group(5, wide, Event{Kind: LUNHang, Nodes: []int{4}}, at(5*time.Second, split([]int{0}, []int{1, 2, 3, 4})))
	r := run(t, s)
	what := "FENCED n1 PROOF_SENTENCE"
	t.Logf("condemned after %v, FENCED after %v, reported by %d", said(t, r, "announces its self-fence"), said(t, r, what), sayers(r, what))
	if len(r.Violations) > 0 || sayers(r, what) != 4 {
		t.Errorf("%s", Explain(s, r))
	}
}

// Guard: random schedules contain confirmations, and only of nodes that have lost their power.
func TestRandomSchedulesTellDeaths(t *testing.T) {
	told := 0
	for seed := range uint64(400) {
		s := Random(seed)
		off := -1
		for i := range s.Events {
			switch e := &s.Events[i]; e.Kind {
			case PowerOff:
				off = e.Nodes[0]
			case Confirm:
				if told++; e.Nodes[1] != off || e.Nodes[0] == off {
					t.Errorf("seed %d: %v, the node without power is %d", seed, e, off)
				}
			}
		}
	}
	if told < 50 {
		t.Errorf("400 schedules report %d deaths", told)
	}
}
