package members

import (
	"slices"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/fencing"
)

// mostFound are told to an agent at once. It takes no more.
const mostFound = 64

// Found takes what this replica has read about nodes that are dead by their devices, all of it.
func (h *Hub) Found(all []fencing.Finding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.finds && slices.Equal(h.found, all) {
		return
	}
	h.found, h.finds = slices.Clone(all), true
	h.wakeAll(func(*stream) bool { return true })
}

// foundFor is what the agent of a stream is told of it.
//
// Invariant: it is told of the nodes of its group alone, by the label of their Nodes, and not of its own.
func (h *Hub) foundFor(s *stream) (out []fencing.Finding) {
	for _, f := range h.found {
		if n, there := h.nodes[f.Node]; there && n.Group == s.group && f.Node != s.node && len(out) < mostFound {
			out = append(out, f)
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
