package storagewatch

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencing-agent/fencing-agent/k8s/recovery"
	"github.com/fencing-agent/fencing-agent/k8s/storagefence"
)

// change changes the Node n1.
func (w *world) change(how func(n *corev1.Node)) {
	w.t.Helper()
	var n corev1.Node
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Name: "n1"}, &n); err != nil {
		w.t.Fatal(err)
	}
	how(&n)
	status := n.Status
	if err := w.api.Update(w.t.Context(), &n); err != nil {
		w.t.Fatal(err)
	}
	n.Status = status
	if err := w.api.Status().Update(w.t.Context(), &n); err != nil {
		w.t.Fatal(err)
	}
}

// Guard: a disputed death deletes no pod, from the first moment at which the Node shows the dispute; nor is a pod
// deleted on a node that is Ready. A person's taint always counts.
func TestADisputedDeathIsNoGround(t *testing.T) {
	note := func(n *corev1.Node) { n.Annotations = map[string]string{recovery.NoteKey: boot} }
	ready := func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	for _, c := range []struct {
		name, taint string
		change      func(n *corev1.Node)
		acts        bool
	}{
		{"nothing", recovery.Fenced(boot), func(*corev1.Node) {}, true},
		{"the annotation", recovery.Fenced(boot), note, false},
		{"the annotation of another boot", recovery.Fenced(boot), func(n *corev1.Node) { n.Annotations = map[string]string{recovery.NoteKey: "124bc581b3a34be3"} }, true},
		{"Ready", recovery.Fenced(boot), ready, false},
		{"a person's taint", "nodeshutdown", note, true},
	} {
		for _, inTheMiddle := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.o.Cleanup = CleanupTaint
					w.pod("db-0", yes, "a")
					w.pod("db-1", yes, "b")
					w.taints(outOfService(c.taint))
					if !inTheMiddle {
						w.change(c.change)
					}
					done := false
					w.fail = func(write string) error {
						if write == "pod db-0" && inTheMiddle && !done {
							done = true
							w.change(c.change)
						}
						return nil
					}
					w.during(func() {
						w.storage.set("n1", storagefence.Unhealthy)
						pass(10 * time.Minute)
						switch {
						case c.acts:
							w.want("pod db-0", "pod db-1")
						case inTheMiddle:
							w.want("pod db-0")
						default:
							w.want()
						}
					})
				})
			})
		}
	}
}
