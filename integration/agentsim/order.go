package agentsim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// giveOrders lets operators order nodes to end in a third of the groups, at any time and sometimes two at once. In half
// of these groups the first order comes while the group is healthy.
func (s *Schedule) giveOrders(rng *rand.Rand) {
	if s.Nodes < 2 || rng.IntN(3) > 0 {
		return
	}
	last := time.Duration(0)
	for i := range 2 + rng.IntN(5) {
		at := s.Events[rng.IntN(len(s.Events))].At + time.Duration(rng.Int64N(int64(15*time.Second)))
		if i == 0 && rng.IntN(2) == 0 {
			at = s.Events[0].At - time.Duration(rng.Int64N(int64(4*time.Second)))
		}
		for range 1 + rng.IntN(2) {
			s.Events = append(s.Events, Event{At: at, Kind: Fence, Nodes: rng.Perm(s.Nodes)[:2]})
			last, at = max(last, at), at+time.Duration(rng.Int64N(int64(time.Second)))
		}
	}
	s.inOrder(last + 20*time.Second)
}

// order lets an operator use the first node to order the second one to end its present boot.
func (w *world) order(by, victim *machine) {
	w.mu.Lock()
	p, boot := by.proc, victim.boot
	victim.ordered = victim.ordered || p != nil
	w.mu.Unlock()
	w.ask(p, func(ctx context.Context, control fencingv1.FencingControlClient) {
		_, err := control.Fence(ctx, &fencingv1.FenceRequest{Node: victim.name, BootNonce: fmt.Sprintf("%016x", boot), By: "operator"})
		if err != nil {
			w.note(by.name, "the order that "+victim.name+" ends comes to nothing: "+status.Convert(err).Message())
			return
		}
		w.note(by.name, "the order that "+victim.name+" ends is obeyed")
	})
}

// obeys judges a node that reports that it is ending because of an order. Three conditions must hold:
//
//   - a person has ordered the node's present boot to end;
//   - of two nodes that have long been in contact, only one ends in this way at a time;
//   - a majority of the others has been fed recently, and none of these obeys an order, so that no order costs quorum.
//
// From then on no node counts it, and its reset does not violate calm.
func (c *checker) obeys(p *process) {
	x, now, t := p.m.index, c.w.now(), c.w.times
	c.orders++
	if !p.m.ordered {
		c.failed("order: %s obeys, and nobody has ordered that this boot of it ends", p.m.name)
	}
	live := map[int]bool{}
	for y, m := range c.w.machines {
		if y == x || !m.powered {
			continue
		}
		live[y] = !m.obeyed && c.lastFeed[y] > 0 && now-c.lastFeed[y] <= t.maxAge+2*t.feed+c.slack()
		if m.obeyed && m.dog.Running() && c.together[x][y] && c.linked(x, y) && c.lossy <= now-settle && c.w.loss <= fewLosses {
			c.failed("order: %s and %s end by orders at once, and could hear each other", p.m.name, m.name)
		}
	}
	if !c.w.lists.anyHas(live, false) {
		c.failed("order: %s obeys, and of the others only %v have been fed lately", p.m.name, live)
	}
	for y := range c.w.machines { // records who could hear whom when the first of two obeyed
		long := c.conn[x][y] && c.conn[y][x] && c.since[x][y] <= now-settle && c.since[y][x] <= now-settle
		c.together[x][y], c.together[y][x] = long, long
	}
	c.before()
	p.m.obeyed = true
	c.after()
}
