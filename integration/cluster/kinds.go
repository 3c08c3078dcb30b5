package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
	"github.com/fencing-agent/fencing-agent/integration/cluster/room"
)

// KindEnv is the environment variable that names the kind of nodes.
const KindEnv = "FENCING_CLUSTER_KIND"

// DefaultKind is the kind of node if none is given.
const DefaultKind = "namespaces"

var kinds = map[string]func(*room.Room, Programs) machine.Kind{
	DefaultKind: func(r *room.Room, _ Programs) machine.Kind { return &machine.Namespaces{Groups: r.Groups} },
	"uml":       func(_ *room.Room, p Programs) machine.Kind { return machine.UML{Preload: p.Preload} },
}

// KindOf returns the kind of nodes with this name; "" is [DefaultKind].
func KindOf(name string, r *room.Room, p Programs) (machine.Kind, error) {
	if name == "" {
		name = DefaultKind
	}
	kind, ok := kinds[name]
	if !ok {
		return nil, fmt.Errorf("%s: there is no kind of nodes %q: choose one of %s", KindEnv, name, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	return kind(r, p), nil
}
