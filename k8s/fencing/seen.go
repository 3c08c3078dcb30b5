package fencing

import (
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// seen is a boot that agents see running, and the nodes of these agents.
type seen struct {
	boot string
	by   []string
}

// see records which boots agents see, by a survey of all Nodes.
func (r *Runner) see(nodes map[string]nodefence.Node, s *storm.Survey) {
	now := map[string]seen{}
	for name, n := range nodes {
		if by := s.Sees(name); len(by) > 0 {
			now[name] = seen{n.Boot, by}
		}
	}
	r.seenLock.Lock()
	defer r.seenLock.Unlock()
	r.seen = now
}

// Seen lists the nodes whose agents report now that they see this boot, if there are enough of them (docs/adr/0073).
// The answer is as old as the last survey: two seconds while there is a NodeFence. Any goroutine may call it.
func (r *Runner) Seen(node, boot string) []string {
	r.seenLock.Lock()
	defer r.seenLock.Unlock()
	if s := r.seen[node]; boot != "" && s.boot == boot {
		return s.by
	}
	return nil
}
