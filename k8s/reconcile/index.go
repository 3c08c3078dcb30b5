package reconcile

import (
	"maps"
	"slices"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// index holds the watched metadata of Nodes and the reports of their agents: the group of each Node, and which Node
// calls which one dead. It shows where to look, and decides nothing. The Reconciler's mutex guards it.
type index struct {
	group    map[string]string          // by Node
	told     map[string][]deaths.Death  // by the Node whose annotation names them
	reported map[string][]deaths.Death  // by the Node whose agent has reported them
	about    map[string]map[string]bool // by the Node that is called dead: the Nodes that call it dead
}

func newIndex() *index {
	return &index{group: map[string]string{}, told: map[string][]deaths.Death{}, reported: map[string][]deaths.Death{}, about: map[string]map[string]bool{}}
}

// put records a Node's metadata. It returns the Nodes that its annotation names, now or before, or none if that has not
// changed: hundreds of Nodes name each death, and all have heartbeats.
func (x *index) put(node, group string, list []deaths.Death) (touched []string) {
	if g, there := x.group[node]; there && g == group && slices.Equal(x.told[node], list) {
		return nil
	}
	return x.change(node, func() { x.group[node], x.told[node] = group, list })
}

// drop removes a Node, and returns the Nodes that it named.
func (x *index) drop(node string) (touched []string) {
	return x.change(node, func() {
		delete(x.group, node)
		delete(x.told, node)
	})
}

// report records the report of a node's agent, or none if it is gone. It returns the same as put.
func (x *index) report(node string, list []deaths.Death) (touched []string) {
	if slices.Equal(x.reported[node], list) {
		return nil
	}
	return x.change(node, func() {
		if x.reported[node] = list; len(list) == 0 {
			delete(x.reported, node)
		}
	})
}

// change changes the deaths of one Node.
func (x *index) change(node string, how func()) (touched []string) {
	for _, d := range slices.Concat(x.told[node], x.reported[node]) {
		delete(x.about[d.Node], node)
		if len(x.about[d.Node]) == 0 {
			delete(x.about, d.Node)
		}
		touched = append(touched, d.Node)
	}
	how()
	for _, d := range slices.Concat(x.told[node], x.reported[node]) {
		if x.about[d.Node] == nil {
			x.about[d.Node] = map[string]bool{}
		}
		x.about[d.Node][node] = true
		touched = append(touched, d.Node)
	}
	slices.Sort(touched)
	return slices.Compact(touched)
}

// tellers returns the Nodes that call a Node dead, sorted.
func (x *index) tellers(node string) []string { return slices.Sorted(maps.Keys(x.about[node])) }

// has reports whether there is such a Node.
func (x *index) has(node string) bool {
	_, ok := x.group[node]
	return ok
}

// size returns the number of Nodes in a group.
func (x *index) size(group string) int {
	n := 0
	for _, g := range x.group {
		if g == group {
			n++
		}
	}
	return n
}
