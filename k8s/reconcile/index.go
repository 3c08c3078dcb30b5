package reconcile

import (
	"maps"
	"slices"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// index is what the watched metadata of Nodes says: who is in which group, and who calls whom dead. It says where to
// look, and decides nothing. The Reconciler's mutex guards it.
type index struct {
	group map[string]string          // by Node
	told  map[string][]deaths.Death  // by the Node that tells
	about map[string]map[string]bool // by the Node that is told of: who tells
}

func newIndex() *index {
	return &index{group: map[string]string{}, told: map[string][]deaths.Death{}, about: map[string]map[string]bool{}}
}

// put takes a Node's metadata, and returns the Nodes that are told of by it, now or before; none if that has not
// changed: hundreds of Nodes tell of each death, and have heartbeats.
func (x *index) put(node, group string, list []deaths.Death) (touched []string) {
	if g, there := x.group[node]; there && g == group && slices.Equal(x.told[node], list) {
		return nil
	}
	touched = x.drop(node)
	x.group[node], x.told[node] = group, list
	for _, d := range list {
		if x.about[d.Node] == nil {
			x.about[d.Node] = map[string]bool{}
		}
		x.about[d.Node][node] = true
		touched = append(touched, d.Node)
	}
	slices.Sort(touched)
	return slices.Compact(touched)
}

// drop forgets a Node, and returns those that it told of.
func (x *index) drop(node string) (touched []string) {
	for _, d := range x.told[node] {
		delete(x.about[d.Node], node)
		if len(x.about[d.Node]) == 0 {
			delete(x.about, d.Node)
		}
		touched = append(touched, d.Node)
	}
	delete(x.group, node)
	delete(x.told, node)
	return touched
}

// tellers are those that call a Node dead, sorted.
func (x *index) tellers(node string) []string { return slices.Sorted(maps.Keys(x.about[node])) }

// has reports whether there is such a Node.
func (x *index) has(node string) bool {
	_, ok := x.group[node]
	return ok
}

// size is how many Nodes a group has.
func (x *index) size(group string) int {
	n := 0
	for _, g := range x.group {
		if g == group {
			n++
		}
	}
	return n
}
