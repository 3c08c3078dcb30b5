package agentsim

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

func fence(by, victim int) Event { return Event{Kind: Fence, Nodes: []int{by, victim}} }

// orderTimes returns the longest time until the victim of an order has condemned itself, and until the last of the
// others reports FENCED, when no packet is lost.
//
// All nodes learn of the order within a round, and later of the sentence within another. The victim asks all nodes for
// their consent when their answers count (watchdog.orderAsk), and they answer within a round. The death is proven when
// the time of the sentence has passed. steps is the time for what lies between: nodes that hear of news ask each other
// at most every 50 ms.
//
// When nodes do not announce news, it spreads only with samples. Each peer occurs once in each permutation of the
// samples, so a node asks it again after at most 2 (n - 1) - 1 samples, on one network (a pass). The order reaches the
// victim within a pass. The victim then lives for its timeout and the time by which its watchdog is late. A node that
// has not asked it by then misses the sentence, and hears of it from two others after another pass. FENCED may also
// wait for a member that saw the victim last and has made no other statement for MaxAge: it waits as long as the
// sentence takes, or MaxAge if that is longer, and another pass.
func orderTimes(s *Schedule) (condemned, fenced time.Duration) {
	const asks, steps, timeout, late = 550 * time.Millisecond, 200 * time.Millisecond, time.Second, 500 * time.Millisecond
	params, others := netgossip.Tune(s.Nodes), s.Nodes-1
	round := params.RoundTime(others)
	condemned = round + asks + round + steps
	if !s.Quiet {
		return condemned, condemned + round + netgossip.SentenceBound(timeout) + steps
	}
	gap := netgossip.Demand{Others: others, Margin: s.Nodes - s.Nodes/2 - 1, Share: float64(s.Networks)}.Pace(params, others, false).Gap
	pass := time.Duration(2*others-1) * gap * 17 / 16 // Schedule.jitter
	condemned += pass
	return condemned, condemned + timeout + late + pass + max(netgossip.SentenceBound(timeout), s.timing().maxAge) + steps
}

// A node that is ordered to end is reset, and all others report FENCED because of its sentence. This holds with and
// without a LUN, with one network, where all networks are needed, and in a group of twelve.
func TestOrderedNodeIsFenced(t *testing.T) {
	for name, s := range map[string]Schedule{
		"three, a LUN":            group(3, wide, fence(1, 0)),
		"four, a LUN":             group(4, wide, fence(0, 3)),
		"four, no tie-breaker":    group(4, func(s *Schedule) { wide(s); noLUN(s) }, fence(0, 3)),
		"five, all networks":      group(5, func(s *Schedule) { wide(s); s.AllNetworks = true }, fence(2, 4)),
		"five, another watchdog":  group(5, func(s *Schedule) { wide(s); s.Watchdog, s.Feed = 6*time.Second, time.Second }, fence(2, 4)),
		"five, the LUN is lost":   group(5, wide, Event{Kind: LUNHang, Nodes: []int{0, 1, 2, 3, 4}}, at(20*time.Second, fence(2, 4))),
		"twelve, no tie-breaker":  group(12, func(s *Schedule) { wide(s); noLUN(s) }, fence(4, 7)),
		"twelve, a LUN":           group(12, wide, fence(4, 7)),
		"twelve, samples, a LUN":  group(12, func(s *Schedule) { wide(s); s.Quiet = true }, fence(4, 7)),
		"four, two lists at once": group(4, func(s *Schedule) { wide(s); noLUN(s) }, newMembers([]int{0, 1, 2, 3}, 0, 1), at(time.Second, fence(0, 3))),
	} {
		t.Run(name, func(t *testing.T) { ordered(t, s) })
	}
}

// Guard: orders also come to their end when nodes do not announce news. Half of them do so in half of the time that
// they may take.
func TestOrdersWithoutNewsAreFast(t *testing.T) {
	s := group(12, func(s *Schedule) { wide(s); s.Quiet = true }, fence(4, 7))
	var took []time.Duration
	for range 5 {
		took = append(took, ordered(t, s))
	}
	slices.Sort(took)
	if _, most := orderTimes(&s); took[len(took)/2] > most/2 {
		t.Errorf("FENCED after %v in the median, and %v are allowed", took, most)
	}
}

// ordered runs a schedule whose last event is an order, and returns the time until the last node has reported FENCED.
func ordered(t *testing.T, s Schedule) time.Duration {
	t.Helper()
	e := s.Events[len(s.Events)-1]
	r := run(t, s)
	what := "FENCED " + nodeName(e.Nodes[1]) + " PROOF_SENTENCE"
	from := e.At - healthyFor
	condemned, fenced := said(t, r, "obeys a fence order")-from, saidLast(t, r, what)-from
	t.Logf("condemned after %v, FENCED after %v to %v, reported by %d", condemned, said(t, r, what)-from, fenced, sayers(r, what))
	mostCondemned, mostFenced := orderTimes(&s)
	if len(r.Violations) > 0 || r.Resets != 1 || r.Orders != 1 || sayers(r, what) != s.Nodes-1 || condemned > mostCondemned || fenced > mostFenced {
		t.Errorf("%d resets, %d orders obeyed; condemned within %v, FENCED within %v at most\n%s", r.Resets, r.Orders, mostCondemned, mostFenced, Explain(s, r))
	}
	// When news comes late, the operator's agent may already have given up waiting.
	if !s.Quiet && said(t, r, "the order that "+nodeName(e.Nodes[1])+" ends is obeyed") == 0 {
		t.Errorf("the operator is not told that the order is obeyed\n%s", Explain(s, r))
	}
	return fenced
}

// Guard: when two nodes are ordered to end at once, by each other or by two others, only one ends, and quorum is not
// lost.
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

// Guard: the reasons for which an order is refused, and which the operator is told.
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
		t.Errorf("400 schedules contain %d orders", orders)
	}
}
