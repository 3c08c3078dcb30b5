package sim

import "github.com/fencing-agent/fencing-agent/boottime"

// event is an action at an instant: either do, or due, which is created once and receives the instant for which it was
// pushed.
type event struct {
	node *Node  // the node in whose life it happens; nil: it always happens
	life uint64 // the life of node in which it happens
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

// eventQueue is a heap of events with the earliest on top. Of two events at the same instant, the one that was pushed
// first comes first. The entries of the heap have no pointers, so the garbage collector ignores them.
type eventQueue struct {
	heap   []turn
	events []event
	free   []int32 // free indices of events
}

// turn is the time of an event, and the event's order at that time.
type turn struct {
	at    boottime.Instant
	seq   uint64
	event int32 // the index in events
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

// pop returns the next event that is due by end, if there is one.
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

// next performs the next event that is due by end, and then checks. It returns false if there is none.
func (c *Cluster) next(end boottime.Instant) bool {
	at, e, ok := c.queue.pop(end)
	if ok {
		c.now = max(c.now, at)
		c.perform(&e, at)
		c.checkStep()
	}
	return ok
}
