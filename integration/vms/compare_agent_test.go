package vms

import (
	"fmt"
	"slices"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// The agent with nothing but a profile: active is the half that was told that the nodes of the other are FENCED.
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
	s.await(endLimit, fmt.Sprintf("%v know that %v are dead", won, lost), won, calledFenced(won, lost))
	told := time.Since(at)
	s.spared(won, at)
	return []outcome{{reset: reset, idle: reset, active: max(reset, told)}}
}

// calledFenced holds when all observers call the nodes FENCED.
func calledFenced(observers, of []string) observe.Condition {
	return func(v *observe.View) string {
		for _, o := range observers {
			if v.Status[o] == nil {
				return o + " does not answer"
			}
			for _, n := range v.Status[o].GetNodes() {
				if slices.Contains(of, n.GetName()) && n.GetState() != fencingv1.NodeState_NODE_STATE_FENCED {
					return fmt.Sprintf("%s calls %s %s", o, n.GetName(), n.GetState())
				}
			}
		}
		return ""
	}
}
