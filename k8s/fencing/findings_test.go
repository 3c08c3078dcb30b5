package fencing

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// Guards: what agents themselves have found, what is of a boot that has ended since, and what no NodeFence of that node says is nothing to tell them.
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
	want := []Finding{{Node: "n4", Boot: dead, Kind: "power", Reference: NameOf("n4"), At: at}}
	for name, c := range map[string]struct {
		change func(*NodeFence)
		want   []Finding
	}{
		"power":         {nil, want},
		"a crash":       {func(f *NodeFence) { f.Status.Proof.Kind = nodefence.ByKdump }, []Finding{{Node: "n4", Boot: dead, Kind: "kdump", Reference: NameOf("n4"), At: at}}},
		"contradicted":  {func(f *NodeFence) { f.Status.Proof.Contradicted = true }, []Finding{{Node: "n4", Boot: dead, Kind: "power", Reference: NameOf("n4"), At: at, Contradicted: true}}},
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
	contradicted := fence(func(f *NodeFence) { f.Status.Proof.Contradicted = true })
	if got := findings([]NodeFence{contradicted}, nodes, lives); len(got) != 1 || !got[0].Contradicted {
		t.Errorf("it was heard: %+v", got)
	}
}

// Each round tells what all NodeFences say by then: a proof when the Lease of the node has run out, and nothing when it is back.
func TestFindingsOfARound(t *testing.T) {
	s := newStage(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n4"}}
	lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = ptr(int32(3600)), &metav1.MicroTime{Time: s.now}
	var last []Finding
	rounds := 0
	s.r.Found = func(f []Finding) { last, rounds = f, rounds+1 }
	s.rounds(4) // a Node without a Lease
	if f := s.fence(); f == nil || f.Status.Proof == nil || len(last) != 0 {
		t.Fatalf("%+v, %+v", f, last)
	}
	s.put(lease)
	s.rounds(2)
	if f := s.fence(); f == nil || f.Status.Proof == nil || len(last) != 0 || rounds != 6 {
		t.Fatalf("after %d rounds: %+v, %+v", rounds, f, last)
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: s.now.Add(-2 * time.Hour)}
	s.put(lease)
	s.rounds(3) // Leases are not looked at in each
	if len(last) != 1 || last[0].Node != "n4" || last[0].Boot != dead || last[0].Kind != nodefence.ByPower || last[0].Contradicted {
		t.Errorf("%+v", last)
	}
	s.node("n4", true, "1", s.now)
	s.round()
	if len(last) != 0 {
		t.Errorf("it is back: %+v", last)
	}
}
