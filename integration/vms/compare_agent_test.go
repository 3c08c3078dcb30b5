package vms

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// The agent with nothing but a profile: active is a node that was not reset; the others have been told when they know that it is dead.
var (
	agentByDefault = agentContender("default")
	agentCareful   = agentContender("careful")
)

func agentContender(timing string) *contender {
	return &contender{
		name:   "fencing-agent, timing " + timing,
		faults: []fault{networksCut, halfCutOff},
		crew:   func(*contender) (crew, error) { return agents(map[string]any{"timing": timing}), nil },
		ready:  func(s *story) { s.allWell("all well") },
		end:    fenced,
	}
}

// fenced waits until one half was reset and the other knows that it is dead.
func fenced(s *story, at time.Time) []outcome {
	s.eventually(at.Add(endLimit), "somebody is reset", func() string {
		for _, node := range nodes {
			if _, ok := s.resetAt(node, at); ok {
				return ""
			}
		}
		return "nobody was"
	})
	lost, won := first, second
	for _, node := range second {
		if _, ok := s.resetAt(node, at); ok {
			lost, won = second, first
		}
	}
	reset := s.all(lost, at, "one half is reset", s.resetAt)
	s.await(endLimit, fmt.Sprintf("%v know that %v are dead", won, lost), won, calledDead(won, lost, at))
	told := time.Since(at)
	s.spared(won, at)
	return []outcome{{reset: reset, idle: reset, active: max(reset, told)}}
}

// calledDead holds when all observers know that the nodes died in a fault: by time, which makes them FENCED, or by
// their next boot, after which they are merely unreachable.
func calledDead(observers, of []string, fault time.Time) observe.Condition {
	return func(v *observe.View) string {
		for _, o := range observers {
			if v.Status[o] == nil {
				return o + " does not answer"
			}
			for _, n := range v.Status[o].GetNodes() {
				died := n.GetDeath().GetTime().AsTime()
				if slices.Contains(of, n.GetName()) && (n.GetDeath() == nil || died.Before(fault.Add(-clockError))) {
					return fmt.Sprintf("%s knows of no death of %s", o, n.GetName())
				}
			}
		}
		return ""
	}
}

// clockError is how far the clock of a machine may be behind this one's; two faults are much further apart.
const clockError = 5 * time.Second
