package fencing

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// labelled returns a council whose control plane has the present label, and no visible member of etcd.
func labelled(t *testing.T) *council {
	c := newCouncil(t, 11)
	for _, m := range c.machines {
		delete(c.objects, "Pod/etcd-"+m.name)
		if m.labels = map[string]string{}; m.rules {
			m.labels[partLabels[0]] = ""
		}
		c.show(m)
	}
	return c
}

// A person orders two nodes that are Ready: the second order waits for the first, and its NodeFence shows that.
func TestTwoOrdersForTheControlPlane(t *testing.T) {
	c := labelled(t)
	for _, name := range []string{"m0", "m1"} {
		f := &NodeFence{ObjectMeta: metav1.ObjectMeta{Name: NameOf(name)}, Spec: nodefence.Spec{NodeName: name, Step: nodefence.Power}}
		if err := c.stage.Create(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	begun, held := 0, 0
	for range 4 {
		_, _ = c.r.round(t.Context())
		c.now = c.now.Add(time.Second)
	}
	var list NodeFenceList
	_ = c.stage.List(t.Context(), &list)
	for i := range list.Items {
		switch s := &list.Items[i].Status; {
		case s.Phase == nodefence.Running:
			begun++
		case s.Held() == storm.ControlPlane:
			held++
		}
	}
	if begun != 1 || held != 1 {
		t.Errorf("%d have begun, %d are held up", begun, held)
	}
	// Even with a person's permission it does not begin beside the first.
	for i := range list.Items {
		if f := &list.Items[i]; f.Status.Held() != "" {
			if strings.Contains(f.Status.Conditions[0].Message, nodefence.AnywayAnnotation) {
				t.Errorf("a word is offered: %s", f.Status.Conditions[0].Message)
			}
			f.Annotations = map[string]string{nodefence.AnywayAnnotation: "cbf29ce484222325"} // the digest of an empty set
			c.put(f)
		}
	}
	for range 4 {
		_, _ = c.r.round(t.Context())
		c.now = c.now.Add(time.Second)
	}
	_ = c.stage.List(t.Context(), &list)
	for i := range list.Items {
		if f := &list.Items[i]; f.Annotations != nil && f.Status.Phase == nodefence.Running {
			t.Error("it begins by a word")
		}
	}
}

// Another one has just come back: its member of etcd may still be behind.
func TestSettleOfTheControlPlane(t *testing.T) {
	c := labelled(t)
	c.configure("trigger_after=0", "settle=60", "monitor_interval=0")
	c.machines[1].since, c.machines[0].ready = c.now.Add(-5*time.Second), false
	c.show(c.machines[0])
	c.show(c.machines[1])
	for range 10 {
		if _, _ = c.r.round(t.Context()); c.fence0() != nil {
			t.Fatalf("it begins after %v", c.now.Sub(begin))
		}
		c.now = c.now.Add(5 * time.Second)
	}
	c.now = c.now.Add(6 * time.Second)
	if _, _ = c.r.round(t.Context()); c.fence0() == nil {
		t.Error("it never begins")
	}
}

// With visible members of etcd, a fencing that leaves fewer members than a quorum is refused, on nodes with and without
// labels. So is the fencing of a control plane's only node.
func TestMembersOfEtcd(t *testing.T) {
	for name, c := range map[string]struct {
		ready []bool // members on m0, m1, m2 and so on; m0 has failed
		label string
		held  bool
	}{
		"three, all others Ready":      {[]bool{false, true, true}, "", false},
		"three, one of them not Ready": {[]bool{false, true, false}, "", true},
		"five, one more not Ready":     {[]bool{false, true, true, true, false}, "", false},
		"two":                          {[]bool{false, true}, "", true},
		"one":                          {[]bool{false}, "", true},
		"none seen, the only one":      {nil, "node-role.kubernetes.io/master", true},
		"none seen, no control plane":  {nil, "node-role.kubernetes.io/worker", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCouncil(t, 9)
			maps.DeleteFunc(s.objects, func(key string, _ []byte) bool { return strings.HasPrefix(key, "Pod/") })
			for i, m := range s.machines {
				m.labels, m.ready = map[string]string{}, i > 0
				if i == 0 && c.label != "" {
					m.labels[c.label] = ""
				}
				s.show(m)
				if i < len(c.ready) {
					s.etcd(m.name, c.ready[i])
				}
			}
			s.configure("trigger_after=0", "monitor_interval=0")
			_, _ = s.r.round(t.Context())
			if held := s.fence0() == nil; held != c.held || held && !slices.Contains(s.events.reasons, skippedReason) {
				t.Errorf("held up: %v, want %v; Events %v %v", held, c.held, s.events.reasons, s.events.notes)
			}
		})
	}
}

func (s *stage) fence0() *NodeFence {
	f := &NodeFence{}
	if s.Get(context.Background(), types.NamespacedName{Name: "node-fence-m0"}, f) != nil {
		return nil
	}
	return f
}

// An older role does not allow listing the pods of etcd: only the labels are used, and that is logged once.
func TestMembersThatCannotBeListed(t *testing.T) {
	s := newStage(t)
	s.forbidden = "Pod"
	if m, err := s.r.etcdMembers(t.Context()); m != nil || err != nil || s.r.noEtcd == "" {
		t.Errorf("%v %v %q", m, err, s.r.noEtcd)
	}
}

// A node without a Node object that may be cut off may have been one of the control plane.
func TestANodeThatIsGoneHoldsTheControlPlaneUp(t *testing.T) {
	c := newCouncil(t, 3)
	c.machines[0].labels = map[string]string{partLabels[3]: "true"}
	c.machines[1].labels = map[string]string{partLabels[3]: "true"}
	c.machines[0].ready = false
	c.show(c.machines[0])
	c.show(c.machines[1])
	c.put(&NodeFence{ObjectMeta: metav1.ObjectMeta{Name: NameOf("m9")}, Spec: nodefence.Spec{NodeName: "m9"}, Status: nodefence.Status{Step: nodefence.Power, Switched: true}})
	delete(c.objects, "Node/m9")
	if _, _ = c.r.round(t.Context()); c.fence0() != nil {
		t.Error("it begins")
	}
	delete(c.objects, "NodeFence/node-fence-m9")
	if _, _ = c.r.round(t.Context()); c.fence0() == nil {
		t.Error("it never begins")
	}
}
