package agentsim

import (
	"testing"
	"time"
)

func fence(by, victim int) Event { return Event{Kind: Fence, Nodes: []int{by, victim}} }

// A node that is ordered to end is reset, and all others say FENCED by its sentence: with a LUN and without, on one network and
// where all are needed, and in a group of twelve.
func TestOrderedNodeIsFenced(t *testing.T) {
	for name, s := range map[string]Schedule{
		"three, a LUN":            group(3, wide, fence(1, 0)),
		"four, a LUN":             group(4, wide, fence(0, 3)),
		"four, no tie-breaker":    group(4, func(s *Schedule) { wide(s); noLUN(s) }, fence(0, 3)),
		"five, all networks":      group(5, func(s *Schedule) { wide(s); s.AllNetworks = true }, fence(2, 4)),
		"five, another watchdog":  group(5, func(s *Schedule) { wide(s); s.Watchdog, s.Feed = 6*time.Second, time.Second }, fence(2, 4)),
		"five, the LUN is lost":   group(5, wide, Event{Kind: LUNHang, Nodes: []int{0, 1, 2, 3, 4}}, at(20*time.Second, fence(2, 4))),
		"twelve, no tie-breaker":  group(12, func(s *Schedule) { wide(s); noLUN(s) }, fence(4, 7)),
		"twelve, samples, a LUN":  group(12, func(s *Schedule) { wide(s); s.Quiet = true }, fence(4, 7)),
		"four, two lists at once": group(4, func(s *Schedule) { wide(s); noLUN(s) }, newMembers([]int{0, 1, 2, 3}, 0, 1), at(time.Second, fence(0, 3))),
	} {
		t.Run(name, func(t *testing.T) {
			e := s.Events[len(s.Events)-1]
			r := run(t, s)
			what := "FENCED " + nodeName(e.Nodes[1]) + " PROOF_SENTENCE"
			ordered := e.At - healthyFor
			t.Logf("condemned after %v, FENCED after %v, said by %d", said(t, r, "was ordered to end")-ordered, said(t, r, what)-ordered, sayers(r, what))
			if took := said(t, r, what) - ordered; len(r.Violations) > 0 || r.Resets != 1 || r.Orders != 1 || sayers(r, what) != s.Nodes-1 || took > 10*time.Second ||
				said(t, r, "the order that "+nodeName(e.Nodes[1])+" ends is obeyed") == 0 {
				t.Errorf("%d resets, %d orders obeyed\n%s", r.Resets, r.Orders, Explain(s, r))
			}
		})
	}
}

// Guard: of two that are ordered at once, of each other or of two others, one ends, and none costs quorum.
func TestOrdersAtOnceOfWholeAgents(t *testing.T) {
	for name, s := range map[string]Schedule{
		"each other":            group(5, wide, fence(0, 1), fence(1, 0)),
		"two others":            group(5, wide, fence(0, 3), fence(1, 4)),
		"two others, no LUN":    group(5, func(s *Schedule) { wide(s); noLUN(s) }, fence(0, 3), fence(1, 4)),
		"three of seven":        group(7, func(s *Schedule) { wide(s); noLUN(s) }, fence(0, 3), fence(1, 4), fence(2, 5)),
		"again, after it ended": group(3, wide, fence(0, 1), at(20*time.Second, fence(0, 2))),
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, s)
			if len(r.Violations) > 0 || r.Resets != 1 || r.Orders != 1 || r.Living != s.Nodes-1 {
				t.Errorf("%d resets, %d orders obeyed, %d live\n%s", r.Resets, r.Orders, r.Living, Explain(s, r))
			}
		})
	}
}

// Guard: what keeps a node from being ended; an operator is told why.
func TestOrdersOfWholeAgentsComeToNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		s      Schedule
		resets int
		says   string
	}{
		"maintenance":     {group(5, func(s *Schedule) { wide(s); s.Unjudged = true }, Event{Kind: Disable, Nodes: []int{4}}, at(5*time.Second, fence(0, 4))), 0, "n5 has no armed watchdog"},
		"wait":            {group(4, func(s *Schedule) { wide(s); s.OnLoss = "wait" }, at(time.Second, fence(0, 3))), 0, "n4 has no armed watchdog"},
		"costs quorum":    {group(3, wide, powerOff(2), at(60*time.Second, fence(0, 1))), 0, "without n2 the others would have no majority"},
		"out of reach":    {group(5, wide, powerOff(4), at(10*time.Second, fence(0, 4))), 0, "n5 cannot be reached"},
		"a smaller part":  {group(5, wide, split([]int{0, 1}, []int{2, 3, 4}), at(5*time.Second, fence(0, 1))), -1, "this node does not count a majority"},
		"the loop hangs":  {group(4, wide, Event{Kind: HangLoop, Nodes: []int{3}, Span: 4 * time.Second}, at(time.Second, fence(0, 3))), -1, ""},
		"an agent starts": {group(4, wide, Event{Kind: Kill, Nodes: []int{3}}, at(time.Second, fence(0, 3)), at(2*time.Second, Event{Kind: Start})), -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, tc.s)
			if len(r.Violations) > 0 || tc.resets >= 0 && r.Resets != tc.resets || tc.says != "" && (r.Orders > 0 || said(t, r, tc.says) == 0) {
				t.Errorf("%d resets, %d orders obeyed\n%s", r.Resets, r.Orders, Explain(tc.s, r))
			}
		})
	}
}

// Guard: random schedules give orders.
func TestRandomSchedulesGiveOrders(t *testing.T) {
	orders := 0
	for seed := range uint64(400) {
		for _, e := range Random(seed).Events {
			if e.Kind == Fence {
				if orders++; e.Nodes[0] == e.Nodes[1] || len(e.Nodes) != 2 {
					t.Errorf("seed %d: %v", seed, e)
				}
			}
		}
	}
	if orders < 200 {
		t.Errorf("400 schedules give %d orders", orders)
	}
}
