package subscriber

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/statedb"

	"github.com/cilium/cilium/pkg/loadbalancer"
	"github.com/cilium/cilium/pkg/source"
)

func seq(bes ...backend) backends {
	return func(yield func(backend, statedb.Revision) bool) {
		for i, be := range bes {
			if !yield(be, statedb.Revision(i)) {
				return
			}
		}
	}
}

func whole(_ statedb.ReadTxn, bes backends, _ *loadbalancer.Service, _ *loadbalancer.Frontend) backends {
	return bes
}

func on(node string, state loadbalancer.BackendState) backend {
	return newBackend(node, state, source.Kubernetes)
}

func nodesOf(bes backends) string {
	var names []string
	for be := range bes {
		names = append(names, be.NodeName)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

const active, maintenance, terminating = loadbalancer.BackendStateActive, loadbalancer.BackendStateMaintenance, loadbalancer.BackendStateTerminating

func TestChoose(t *testing.T) {
	far := on("b", active)
	far.ClusterID = 7
	mesh := on("b", active)
	mesh.Source = source.ClusterMesh
	sick := on("c", active)
	sick.Unhealthy = true
	for _, tt := range []struct {
		name       string
		all        backends
		out        string
		keep, drop string
	}{
		{"nobody is out", seq(on("a", active), on("b", active)), "", "a b", "a b"},
		{"one is out", seq(on("a", active), on("b", active)), "b", "a", "a"},
		{"a node without backends", seq(on("a", active)), "z", "a", "a"},
		{"all are out", seq(on("a", active), on("b", active)), "a b", "a b", ""},
		{"what is left is not usable", seq(on("a", active), on("c", maintenance), sick), "a", "a c c", "c c"},
		{"what is left is terminating", seq(on("a", active), on("c", terminating)), "a", "c", "c"},
		{"nothing was usable anyway", seq(on("a", maintenance), on("c", maintenance)), "a", "c", "c"},
		{"another cluster's node of that name", seq(on("a", active), far, mesh), "b", "a b b", "a b b"},
		{"no node is known", seq(on("", active), on("b", active)), "b", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, keep := range []bool{true, false} {
				s := newSelection(whole, keep)
				out := nodeSet{}
				for _, n := range strings.Fields(tt.out) {
					out[n] = struct{}{}
				}
				s.out.Store(&out)
				want := tt.drop
				if keep {
					want = tt.keep
				}
				if got := nodesOf(s.choose(nil, tt.all, nil, nil)); got != want {
					t.Errorf("keep %v: chosen are [%s], want [%s]", keep, got, want)
				}
			}
		})
	}
}

// TestChoiceIsThatOfTheMoment: the reconciler walks the sequence after the transaction.
func TestChoiceIsThatOfTheMoment(t *testing.T) {
	s := newSelection(whole, true)
	out := nodeSet{"b": {}}
	s.out.Store(&out)
	chosen := s.choose(nil, seq(on("a", active), on("b", active)), nil, nil)
	s.out.Store(&nodeSet{})
	if got := nodesOf(chosen); got != "a" {
		t.Errorf("chosen were [a], walked are [%s]", got)
	}
}

// TestBaseSeesTheRest: the selection on which the cell builds falls back as if Kubernetes had removed the backends, for
// instance from its own zone to another.
func TestBaseSeesTheRest(t *testing.T) {
	preferA := func(_ statedb.ReadTxn, bes backends, _ *loadbalancer.Service, _ *loadbalancer.Frontend) backends {
		for be := range bes {
			if be.NodeName == "a" {
				return seq(be)
			}
		}
		return bes
	}
	s := newSelection(preferA, true)
	all := seq(on("a", active), on("b", active))
	if got := nodesOf(s.choose(nil, all, nil, nil)); got != "a" {
		t.Fatalf("the base chose [%s]", got)
	}
	out := nodeSet{"a": {}}
	s.out.Store(&out)
	if got := nodesOf(s.choose(nil, all, nil, nil)); got != "b" {
		t.Errorf("chosen are [%s], want the fallback", got)
	}
}
