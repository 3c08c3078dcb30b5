package fencing

import (
	"context"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// Guards: three kinds of deaths are not sent to agents. These are the agents' own findings, deaths of boots that have
// ended since, and deaths that no NodeFence of that node records.
func TestFindings(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	fence := func(change func(*NodeFence)) NodeFence {
		f := NodeFence{}
		f.Name, f.Spec.NodeName = NameOf("n4"), "n4"
		f.Status.Boot, f.Status.Proof = dead, &nodefence.Proof{Kind: nodefence.ByPower, Boot: dead, At: at}
		if change != nil {
			change(&f)
		}
		return f
	}
	over := func(string) bool { return true }
	nodes := map[string]nodefence.Node{"n4": {Boot: dead}, "n5": {Boot: "124bc581b3a34be3"}}
	want := []deaths.Death{{Node: "n4", Boot: dead, Proof: "power", Reference: NameOf("n4"), At: at}}
	for name, c := range map[string]struct {
		change func(*NodeFence)
		want   []deaths.Death
	}{
		"power":         {nil, want},
		"a crash":       {func(f *NodeFence) { f.Status.Proof.Kind = nodefence.ByKdump }, []deaths.Death{{Node: "n4", Boot: dead, Proof: "kdump", Reference: NameOf("n4"), At: at}}},
		"contradicted":  {func(f *NodeFence) { f.Status.Proof.Contradicted = true }, []deaths.Death{{Node: "n4", Boot: dead, Proof: "power", Reference: NameOf("n4"), At: at, Contradicted: true}}},
		"by agents":     {func(f *NodeFence) { f.Status.Proof.Kind = nodefence.ByAgents }, nil},
		"no proof":      {func(f *NodeFence) { f.Status.Proof = nil }, nil},
		"no boot":       {func(f *NodeFence) { f.Status.Boot, f.Status.Proof.Boot = "", "" }, nil},
		"another boot":  {func(f *NodeFence) { f.Status.Boot = "124bc581b3a34be3" }, nil},
		"it is back":    {func(f *NodeFence) { f.Name, f.Spec.NodeName = NameOf("n5"), "n5" }, nil},
		"no such Node":  {func(f *NodeFence) { f.Name, f.Spec.NodeName = NameOf("n6"), "n6" }, nil},
		"another's":     {func(f *NodeFence) { f.Name = NameOf("n5") }, nil},
		"of any name":   {func(f *NodeFence) { f.Name = "n4" }, nil},
		"a lost status": {func(f *NodeFence) { f.Status = nodefence.Status{} }, nil},
	} {
		if got := findings([]NodeFence{fence(c.change)}, nodes, over); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	lives := func(string) bool { return false }
	if got := findings([]NodeFence{fence(nil)}, nodes, lives); len(got) != 0 {
		t.Errorf("its kubelet renews its Lease: %+v", got)
	}
	disputed := map[string]nodefence.Node{"n4": {Boot: dead, Disputed: dead}}
	if got := findings([]NodeFence{fence(nil)}, disputed, over); len(got) != 0 {
		t.Errorf("it is in dispute: %+v", got)
	}
	contradicted := fence(func(f *NodeFence) { f.Status.Proof.Contradicted = true })
	if got := findings([]NodeFence{contradicted}, nodes, lives); len(got) != 1 || !got[0].Contradicted {
		t.Errorf("it was heard: %+v", got)
	}
}

// Each round sends what all NodeFences record at that time: a proof when the Lease of the node has run out, and nothing
// when the node is back.
func TestFindingsOfARound(t *testing.T) {
	s := newStage(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n4"}}
	lease.Spec.LeaseDurationSeconds = ptr(int32(20))
	var last []deaths.Death
	rounds := 0
	s.r.Found = func(f []deaths.Death) { last, rounds = f, rounds+1 }
	s.rounds(4) // a Node without a Lease
	if f := s.fence(); f == nil || f.Status.Proof == nil || len(last) != 0 {
		t.Fatalf("%+v, %+v", f, last)
	}
	for i := range 20 { // its clock is two hours behind
		lease.Spec.RenewTime = &metav1.MicroTime{Time: s.now.Add(-2 * time.Hour)}
		s.put(lease)
		s.round()
		if f := s.fence(); f == nil || f.Status.Proof == nil || len(last) != 0 || rounds != 5+i {
			t.Fatalf("after %d rounds: %+v, %+v", rounds, f, last)
		}
	}
	for range 20 { // the API server is slow
		lease.Spec.RenewTime = &metav1.MicroTime{Time: s.now}
		s.put(lease)
		s.r.Reader = slowNodes{s.api, func() { s.now = s.now.Add(25 * time.Second) }}
		if s.round(); len(last) != 0 {
			t.Fatalf("it is found by an old look: %+v", last)
		}
	}
	s.r.Reader = s.api
	lease.Spec.RenewTime = &metav1.MicroTime{Time: s.now}
	s.put(lease)
	if s.rounds(5); len(last) != 0 {
		t.Errorf("found too soon: %+v", last)
	}
	s.rounds(10) // Leases are not read in each round
	if len(last) != 1 || last[0].Node != "n4" || last[0].Boot != dead || last[0].Proof != nodefence.ByPower || last[0].Contradicted {
		t.Errorf("%+v", last)
	}
	s.forbidden = "Lease"
	if s.rounds(3); len(last) != 0 {
		t.Errorf("Leases cannot be listed any more: %+v", last)
	}
	s.forbidden = ""
	if s.rounds(15); len(last) != 1 {
		t.Errorf("they can again: %+v", last)
	}
	s.node("n4", true, "1", s.now)
	s.round()
	if len(last) != 0 {
		t.Errorf("it is back: %+v", last)
	}
}

// slowNodes is an API server that takes its time for Nodes.
type slowNodes struct {
	*api
	pass func()
}

func (a slowNodes) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, is := list.(*corev1.NodeList); is {
		a.pass()
	}
	return a.api.List(ctx, list, opts...)
}
