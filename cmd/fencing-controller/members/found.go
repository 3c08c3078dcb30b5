package members

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// foundLasts is how long findings are valid after they were read: longer than a round of the Runner that reads them.
const foundLasts = 2 * time.Minute

// Found records all findings that this replica has read about nodes that are dead by their devices.
func (h *Hub) Found(all []deaths.Death) {
	h.mu.Lock()
	defer h.mu.Unlock()
	same := slices.Equal(h.found, all) && time.Since(h.foundAt) < foundLasts
	if h.foundAt = time.Now(); same {
		return
	}
	h.found = slices.Clone(all)
	h.wakeAll(func(*stream) bool { return true })
}

// foundFor is the part of the findings that is sent to the agent of a stream, withdrawals first.
//
// Invariant: an agent only gets findings about the nodes of its group, by the label of their Nodes, and not about its
// own node. What this replica has read is valid only for minutes: a replica that can no longer read NodeFences does
// not know whether a node was heard later.
func (h *Hub) foundFor(s *stream) (out []deaths.Death) {
	if time.Since(h.foundAt) >= foundLasts {
		return nil
	}
	for _, contradicted := range []bool{true, false} {
		for _, f := range h.found {
			n, there := h.nodes[f.Node]
			if there && n.Group == s.group && f.Node != s.node && f.Contradicted == contradicted && len(out) < deaths.Most {
				out = append(out, f)
			}
		}
	}
	return out
}
