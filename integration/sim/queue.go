package sim

import "github.com/fencing-agent/fencing-agent/boottime"

// event is what happens at an instant: do, or due, which is made once and told for which instant it was pushed.
type event struct {
	node *Node  // in whose life it happens; nil: in any case
	life uint64 // of node
	do   func()
	due  func(at boottime.Instant)
}

func (e *event) happen(at boottime.Instant) {
	if e.due != nil {
		e.due(at)
	} else {
		e.do()
	}
}

// eventQueue is a heap of events: the earliest is on top, and of one instant the one that was pushed first.
// What moves about in the heap has no pointers, so that the garbage collector has no part in it.
type eventQueue struct {
	heap   []turn
	events []event
	free   []int32 // places in events
}

// turn is when it is an event's turn.
type turn struct {
	at    boottime.Instant
	seq   uint64
	event int32 // its place in events
}

func (t *turn) before(u *turn) bool { return t.at < u.at || t.at == u.at && t.seq < u.seq }

func (q *eventQueue) push(at boottime.Instant, seq uint64, e event) {
	t := turn{at: at, seq: seq}
	if last := len(q.free) - 1; last >= 0 {
		t.event, q.free = q.free[last], q.free[:last]
		q.events[t.event] = e
	} else {
		t.event = int32(len(q.events))
		q.events = append(q.events, e)
	}
	i := len(q.heap)
	q.heap = append(q.heap, t)
	for i > 0 {
		above := (i - 1) / 2
		if !t.before(&q.heap[above]) {
			break
		}
		q.heap[i] = q.heap[above]
		i = above
	}
	q.heap[i] = t
}

// pop takes the next event that is due at end, if there is one.
func (q *eventQueue) pop(end boottime.Instant) (at boottime.Instant, e event, ok bool) {
	if len(q.heap) == 0 || q.heap[0].at > end {
		return 0, event{}, false
	}
	top := q.heap[0]
	last := len(q.heap) - 1
	t := q.heap[last]
	q.heap = q.heap[:last]
	i := 0
	for {
		below := 2*i + 1
		if below >= last {
			break
		}
		if below+1 < last && q.heap[below+1].before(&q.heap[below]) {
			below++
		}
		if !q.heap[below].before(&t) {
			break
		}
		q.heap[i] = q.heap[below]
		i = below
	}
	if last > 0 {
		q.heap[i] = t
	}
	e = q.events[top.event]
	q.events[top.event] = event{}
	q.free = append(q.free, top.event)
	return top.at, e, true
}

// next performs the next event until end, and checks; false if there is none.
func (c *Cluster) next(end boottime.Instant) bool {
	at, e, ok := c.queue.pop(end)
	if ok {
		c.now = max(c.now, at)
		c.perform(&e, at)
		c.checkStep()
	}
	return ok
}
