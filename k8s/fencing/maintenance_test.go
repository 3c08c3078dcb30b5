package fencing

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// maintenance lists every sign that a node is to be left alone.
func maintenance() map[string]func(n *corev1.Node) {
	out := map[string]func(n *corev1.Node){
		"it is being deleted": func(n *corev1.Node) { now := metav1.NewTime(begin); n.DeletionTimestamp = &now },
		"the autoscaler":      func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: autoscalerRemoval}) },
	}
	for _, key := range []string{ // not the list of facts.go: a key that is removed there has to fail this test
		"fencing-agent.io/disable", "node-manager.deckhouse.io/fencing-disable", "update.node.deckhouse.io/approved", "update.node.deckhouse.io/disruption-approved",
	} {
		out[key] = func(n *corev1.Node) { n.Annotations = map[string]string{key: "false"} } // its presence counts, not its value
	}
	return out
}

// keep sets a sign on the Node, or removes all.
func (s *stage) keep(signal func(n *corev1.Node)) {
	n := &corev1.Node{}
	if err := s.Get(context.Background(), clientKey("n4"), n); err != nil {
		s.t.Fatal(err)
	}
	if n.Annotations, n.Spec.Taints = nil, nil; signal != nil {
		signal(n)
	}
	s.put(n)
}

// Guard: a node in maintenance is never switched off, or cut off from its storage. This holds for every sign of
// maintenance, for every reason of the NodeFence, and after any of its writes. No Job is created for it either.
func TestNoNodeInMaintenanceIsSwitchedOff(t *testing.T) {
	for name, signal := range maintenance() {
		for i, begun := range []string{"by itself", "by a remediation", "by a person", "by a person, power first"} {
			for _, rounds := range []int{0, 1, 2, 3, 5, 8, 12} {
				if i > 0 && name != "fencing-agent.io/disable" { // from here on, one signal stands for all
					continue
				}
				s := sanStage(t)
				s.configure("trigger_after=0", "grace_timeout=4", "cooldown=0")
				switch begun {
				case "by a remediation":
					s.configure("begin_by=remediation", "grace_timeout=4", "cooldown=0")
					s.ask("n4", nil)
				case "by a person", "by a person, power first":
					f := &NodeFence{ObjectMeta: metav1.ObjectMeta{Name: NameOf("n4")}, Spec: nodefence.Spec{NodeName: "n4"}}
					if strings.HasSuffix(begun, "first") {
						f.Spec.Step = nodefence.Power
					}
					if err := s.Create(t.Context(), f); err != nil {
						t.Fatal(err)
					}
				}
				s.rounds(rounds)
				before := len(s.ran)
				s.keep(signal)
				s.rounds(12)
				s.now = s.now.Add(10 * time.Minute)
				s.rounds(12)
				for _, m := range s.ran[before:] {
					if strings.HasSuffix(m, "-off") {
						t.Fatalf("%s, %s, after %d rounds: %v", name, begun, rounds, s.ran)
					}
				}
			}
		}
	}
}

// Guard: a Job that was recorded, and not started yet, is not started, not even between two writes of one round.
func TestMaintenanceBetweenTwoWrites(t *testing.T) {
	for name, signal := range maintenance() {
		for after := 1; after < 10; after += 2 {
			s := sanStage(t)
			s.configure("trigger_after=0", "grace_timeout=4", "cooldown=0")
			writes := 0
			s.r.Writer = &spy{s.api, func() {
				if writes++; writes == after {
					s.keep(signal)
				}
			}}
			before := -1
			for range 25 {
				kept := writes >= after
				if kept && before < 0 {
					before = len(s.ran)
				}
				n := len(s.ran)
				s.round()
				if !kept && writes >= after { // in this round
					before = n
				}
			}
			if before < 0 {
				t.Fatalf("%s: %d writes were not made", name, after)
			}
			for _, m := range s.ran[before:] {
				if strings.HasSuffix(m, "-off") {
					t.Fatalf("%s, after %d writes: %v", name, after, s.ran[before:])
				}
			}
		}
	}
}

// The signs above are the only reason: without them the same node is switched off and on.
func TestWithoutMaintenanceItIsSwitched(t *testing.T) {
	s := sanStage(t)
	s.configure("trigger_after=0", "grace_timeout=4", "cooldown=0")
	for name := range maintenance() {
		s.keep(func(n *corev1.Node) { n.Annotations = map[string]string{"x." + strings.ReplaceAll(name, " ", "-"): ""} })
	}
	s.rounds(60)
	if !slices.Contains(s.ran, "san-off") || !slices.Contains(s.ran, "bmc-off") {
		t.Errorf("%v", s.ran)
	}
}
