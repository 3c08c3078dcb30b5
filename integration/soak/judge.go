package soak

import (
	"fmt"
	"slices"
	"time"
)

// mayLeave reports whether a fault is a reason for the observer to report the node as LEFT.
func (f Fault) mayLeave(observer, node int) bool {
	switch f.Kind {
	case Partition:
		return slices.Contains(f.Nodes, observer) != slices.Contains(f.Nodes, node)
	case OneWay:
		return slices.Contains(f.Nodes, observer) && slices.Contains(f.Nodes, node)
	case Crash, Reboot, Freeze:
		return observer == f.Nodes[0] || node == f.Nodes[0]
	default:
		return false
	}
}

// harmful reports whether a fault can cost nodes their quorum.
func (f Fault) harmful() bool {
	return f.Kind == Partition || f.Kind == OneWay || f.Kind == Crash || f.Kind == Reboot || f.Kind == Freeze
}

// MayLeave reports whether the observer may report the node as LEFT in the round. A node that may have lost its quorum
// may report itself as LEFT, and is LEFT if it is stopped without quorum.
func (r Round) MayLeave(observer, node int) bool {
	harmful := slices.ContainsFunc(r.Faults, Fault.harmful)
	return slices.ContainsFunc(r.Faults, func(f Fault) bool {
		return f.mayLeave(observer, node) || harmful && (observer == node || f.Kind == Restart && f.Nodes[0] == node)
	})
}

// MustLeave reports whether the observer has to report the node as LEFT: a fault that lasts for at least this long is
// between them, and both agents run all the time.
func (r Round) MustLeave(observer, node int, noticed time.Duration) bool {
	if observer == node {
		return false
	}
	must := false
	for _, f := range r.Faults {
		switch {
		case f.Kind.process() && f.Kind != Freeze && f.Nodes[0] == observer:
			return false // a restarted agent knows no node that could be LEFT
		case f.Kind == Restart && f.Nodes[0] == node:
			return false // its grace may delay LEFT
		case f.Kind == Freeze && f.Nodes[0] == observer:
			return false
		case f.Kind == Reboot && f.Nodes[0] == node, (f.Kind == Partition || f.Kind == Crash || f.Kind == Freeze) && f.mayLeave(observer, node) && f.For >= noticed:
			must = true
		}
	}
	return must
}

// Feeder is a node at one moment, in its last known state.
type Feeder struct {
	Feeding bool
	Counted []string
}

// Disjoint measures for how long two nodes whose views have no common member have both been permitted to feed.
type Disjoint struct {
	// Bound is the limit for this: the loser of a tie may hold on for this long.
	Bound time.Duration
	// Longest is the longest time seen.
	Longest time.Duration

	since map[[2]string]time.Time
}

// Observe takes the states of all nodes at one moment and returns the violations.
func (d *Disjoint) Observe(now time.Time, nodes map[string]Feeder) (violations []string) {
	if d.since == nil {
		d.since = map[[2]string]time.Time{}
	}
	for a, x := range nodes {
		for b, y := range nodes {
			if a >= b {
				continue
			}
			pair := [2]string{a, b}
			if !x.Feeding || !y.Feeding || intersect(x.Counted, y.Counted) {
				delete(d.since, pair)
				continue
			}
			since, known := d.since[pair]
			if !known {
				d.since[pair] = now
				continue
			}
			d.Longest = max(d.Longest, now.Sub(since))
			if now.Sub(since) > d.Bound {
				violations = append(violations, fmt.Sprintf("%s %v and %s %v have both been permitted to feed for %v", a, x.Counted, b, y.Counted, now.Sub(since)))
				d.since[pair] = now // reported once per this duration
			}
		}
	}
	return violations
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}

// Usage is what an agent's process uses.
type Usage struct {
	Memory, Goroutines, Descriptors float64 // memory in bytes
}

// grown returns which parts of the usage have grown as only a leak grows.
func (u Usage) grown(from Usage) (leaks []string) {
	for _, x := range []struct {
		what       string
		from, to   float64
		grace, mul float64
	}{
		{"resident memory", from.Memory, u.Memory, 16 << 20, 1.5},
		{"goroutines", from.Goroutines, u.Goroutines, 20, 1.2},
		{"descriptors", from.Descriptors, u.Descriptors, 15, 1.2},
	} {
		if x.to > x.from*x.mul+x.grace {
			leaks = append(leaks, fmt.Sprintf("%s grew from %.0f to %.0f", x.what, x.from, x.to))
		}
	}
	return leaks
}
