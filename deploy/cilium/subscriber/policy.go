package subscriber

import (
	"fmt"

	"github.com/fencing-agent/fencing-agent/api/client"
)

// mode states what decides which backends are used.
type mode string

const (
	modeAgent    mode = "agent"     // LEFT nodes are out
	modeNoAnswer mode = "no_answer" // the agent has not answered, or has been silent for too long
	modeNoQuorum mode = "no_quorum" // the agent does not count its own node as available
	modeTooMany  mode = "too_many"  // more nodes are LEFT than the limit allows
)

// ruling is the conclusion from the agent's state.
type ruling struct {
	mode   mode
	reason string // for people; empty for modeAgent
	out    nodeSet
}

type nodeSet map[string]struct{}

func (s nodeSet) has(name string) bool {
	_, ok := s[name]
	return ok
}

// judge decides which nodes are out. own is this node's name.
func judge(st client.State, own string, maxLeftPercent int) ruling {
	_, ownAvailable := st.Available[own]
	known := len(st.Available) + len(st.Left)
	switch {
	case !st.InForce:
		reason := "the fencing agent has not answered yet"
		if st.Err != nil {
			reason = st.Err.Error()
		}
		return ruling{mode: modeNoAnswer, reason: reason}
	case !ownAvailable:
		return ruling{mode: modeNoQuorum, reason: fmt.Sprintf("the fencing agent does not count its own node %s as available: it has no quorum, or another name for the node", own)}
	case len(st.Left)*100 > known*maxLeftPercent:
		return ruling{mode: modeTooMany, reason: fmt.Sprintf("%d of %d nodes are LEFT, more than %d %%", len(st.Left), known, maxLeftPercent)}
	}
	out := make(nodeSet, len(st.Left))
	for name := range st.Left {
		out[name] = struct{}{}
	}
	return ruling{mode: modeAgent, out: out}
}
