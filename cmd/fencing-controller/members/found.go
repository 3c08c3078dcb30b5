package members

import (
	"slices"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/fencing"
)

// mostFound are told to an agent at once. It takes no more.
const mostFound = 64

// foundLasts is for how long what was read counts: longer than a round of the Runner that reads it.
const foundLasts = 2 * time.Minute

// Found takes what this replica has read about nodes that are dead by their devices, all of it.
func (h *Hub) Found(all []fencing.Finding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	same := slices.Equal(h.found, all) && time.Since(h.foundAt) < foundLasts
	if h.foundAt = time.Now(); same {
		return
	}
	h.found = slices.Clone(all)
	h.wakeAll(func(*stream) bool { return true })
}

// foundFor is what the agent of a stream is told of it, what is taken back first.
//
// Invariant: it is told of the nodes of its group alone, by the label of their Nodes, and not of its own. What this replica has read
// counts for minutes: one that cannot read NodeFences any more does not know whether a node was heard.
func (h *Hub) foundFor(s *stream) (out []fencing.Finding) {
	if time.Since(h.foundAt) >= foundLasts {
		return nil
	}
	for _, contradicted := range []bool{true, false} {
		for _, f := range h.found {
			n, there := h.nodes[f.Node]
			if there && n.Group == s.group && f.Node != s.node && f.Contradicted == contradicted && len(out) < mostFound {
				out = append(out, f)
			}
		}
	}
	return out
}

func foundMessage(all []fencing.Finding) *fencingv1.FoundDeaths {
	m := &fencingv1.FoundDeaths{}
	for i := range all {
		f := &all[i]
		m.Deaths = append(m.Deaths, &fencingv1.FoundDeath{
			Node: f.Node, Boot: f.Boot, Proof: f.Kind, Reference: f.Reference, At: f.At.Unix(), Contradicted: f.Contradicted,
		})
	}
	return m
}
