package storagefence

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Health is the health of a node of the storage, or of a volume, as the storage reports it.
type Health uint8

// The healths. Only Unhealthy is a reason to act, and only the volumes that are Healthy let a pod go.
const (
	Unknown Health = iota
	Healthy
	Unhealthy
)

// String returns its name in metrics.
func (h Health) String() string {
	switch h {
	case Healthy:
		return "healthy"
	case Unhealthy:
		return "unhealthy"
	}
	return "unknown"
}

// Node is one node of the storage, by the name of its Kubernetes Node.
type Node struct {
	Name   string
	Health Health
	Unread string // why Health is Unknown, if something about this node could not be read
}

// State is the progress of handling a node.
type State string

const (
	Quiet     State = "quiet"     // healthy, or not known: there is nothing to do
	Offline   State = "offline"   // unhealthy, and not handled yet
	Waiting   State = "waiting"   // unhealthy, but there is no proof yet that it cannot write
	Fencing   State = "fencing"   // being handled
	Retrying  State = "retrying"  // an attempt failed, another follows
	Fenced    State = "fenced"    // handled: not handled again before it was healthy, or Expiry has passed
	GivenUp   State = "given_up"  // the timeout is over; otherwise like Fenced
	Returning State = "returning" // healthy again: the taint on its Node has to be removed
)

// Settings are intervals and limits.
type Settings struct {
	Poll    time.Duration // between two requests to the storage, and between two looks at a node that waits
	Expiry  time.Duration // after which a node that is still unhealthy is handled again
	Timeout time.Duration // of handling one node, all attempts together
	Retry   time.Duration // between a failed attempt and the next one
}

// Attempt is the result of one attempt.
type Attempt struct {
	Failed bool // something could not be read or written: another attempt follows
	Waits  bool // nothing was done, since nothing proves that the node cannot write
}

// Cache holds the nodes of a storage. It is not safe for concurrent use.
//
// Invariant: an attempt that began before a node was healthy again does not affect what follows. A run has a number,
// and only the end of the latest run counts.
type Cache struct {
	settings Settings
	nodes    map[string]*entry
}

type entry struct {
	health  Health
	state   State
	run     int       // the number of the attempt that runs, or ran last
	busy    bool      // an attempt runs
	next    time.Time // not to be handled before
	begun   time.Time // the start of the first attempt that did not wait; zero: there was none
	expires time.Time // the end of Fenced and GivenUp
	tainted bool      // its Node may have this program's taint
}

// NewCache creates a cache without nodes.
func NewCache(s Settings) *Cache { return &Cache{settings: s, nodes: map[string]*entry{}} }

// Observe records what the storage reports about all of its nodes. A node that is not listed is removed.
func (c *Cache) Observe(now time.Time, nodes []Node) {
	listed := map[string]bool{}
	for _, n := range nodes {
		listed[n.Name] = true
		e := c.nodes[n.Name]
		if e == nil {
			// The first look shows what an earlier process has written to a Node.
			e = &entry{state: Quiet, tainted: true}
			c.nodes[n.Name] = e
		}
		e.health = n.Health
		switch {
		case n.Health == Healthy && e.state != Returning && e.state != Quiet:
			c.settle(e, now)
		case n.Health == Healthy && e.state == Quiet && e.tainted:
			e.state, e.next = Returning, now
		case n.Health == Unhealthy && (e.state == Quiet || e.state == Returning):
			e.run++
			e.state, e.next, e.begun, e.busy = Offline, now, time.Time{}, false
		case n.Health == Unhealthy && (e.state == Fenced || e.state == GivenUp) && !now.Before(e.expires):
			e.state, e.next, e.begun = Offline, now, time.Time{}
		}
	}
	maps.DeleteFunc(c.nodes, func(name string, _ *entry) bool { return !listed[name] })
}

// settle ends everything that runs for a node that is healthy.
func (c *Cache) settle(e *entry, now time.Time) {
	e.run++
	e.busy, e.begun, e.expires = false, time.Time{}, time.Time{}
	e.state, e.next = Quiet, now
	if e.tainted {
		e.state = Returning
	}
}

// Work is one node that has to be handled now.
type Work struct {
	Node     string
	Run      int       // for [Cache.End]
	Return   bool      // the storage calls it healthy again: remove the taint
	Deadline time.Time // the attempt ends by then
}

// Due returns up to n nodes that have to be handled now, those first that have waited longest. An attempt for each of
// them runs from now on.
func (c *Cache) Due(now time.Time, n int) []Work {
	var names []string
	for name, e := range c.nodes {
		if e.acts() && !e.busy && !now.Before(e.next) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(c.nodes[a].next.Compare(c.nodes[b].next), cmp.Compare(a, b))
	})
	var out []Work
	for _, name := range names[:min(len(names), max(0, n))] {
		e := c.nodes[name]
		e.run++
		e.busy = true
		w := Work{Node: name, Run: e.run, Return: e.state == Returning, Deadline: now.Add(c.settings.Timeout)}
		if !w.Return {
			if !e.begun.IsZero() {
				w.Deadline = e.begun.Add(c.settings.Timeout)
			}
			e.state, e.tainted = Fencing, true
		}
		out = append(out, w)
	}
	return out
}

// acts reports whether there is something to do in this state. A node whose health is not known is left as it is.
func (e *entry) acts() bool {
	switch e.state {
	case Offline, Waiting, Fencing, Retrying:
		return e.health == Unhealthy
	case Returning:
		return e.health == Healthy
	}
	return false
}

// Unhealthy reports whether the storage called a node unhealthy when it was last asked.
func (c *Cache) Unhealthy(node string) bool {
	e := c.nodes[node]
	return e != nil && e.health == Unhealthy
}

// End records how the attempt ended that began at the given time. It reports whether it was the last one and has
// failed.
func (c *Cache) End(began, now time.Time, w Work, a Attempt) (gaveUp bool) {
	e := c.nodes[w.Node]
	if e == nil || e.run != w.Run {
		return false
	}
	e.busy = false
	if w.Return {
		if e.next = now.Add(c.settings.Retry); !a.Failed {
			e.state, e.tainted = Quiet, false
		}
		return false
	}
	switch {
	case a.Waits:
		// The time spent waiting for a proof does not count as time of the attempts.
		e.state, e.next, e.begun = Waiting, now.Add(c.settings.Poll), time.Time{}
	case !a.Failed:
		e.state, e.expires = Fenced, now.Add(c.settings.Expiry)
	default:
		if e.begun.IsZero() {
			e.begun = began
		}
		e.state, e.next = Retrying, now.Add(c.settings.Retry)
		if !e.next.Before(e.begun.Add(c.settings.Timeout)) {
			e.state, e.expires = GivenUp, now.Add(c.settings.Expiry)
			return true
		}
	}
	return false
}

// Wake returns when something may be due next, if the storage reports nothing new. Zero: nothing will be due.
func (c *Cache) Wake() (at time.Time) {
	for _, e := range c.nodes {
		if e.acts() && !e.busy && (at.IsZero() || e.next.Before(at)) {
			at = e.next
		}
	}
	return at
}

// State returns the state of a node; Quiet if the node is not known.
func (c *Cache) State(node string) State {
	if e := c.nodes[node]; e != nil {
		return e.state
	}
	return Quiet
}

// Healths counts the nodes by their reported health.
func (c *Cache) Healths() map[Health]int {
	out := map[Health]int{Unknown: 0, Healthy: 0, Unhealthy: 0}
	for _, e := range c.nodes {
		out[e.health]++
	}
	return out
}
