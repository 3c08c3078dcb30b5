package storagewatch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencing-agent/fencing-agent/k8s/fencing"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// fenced returns a world in which n1 is silent and cut off from the storage, and whose provider reads NodeFences.
func fenced(t *testing.T, storages ...nodefence.Severed) *world {
	w := newWorld(t)
	w.o.Provider = NewNodeFences(w.api, driver, time.Now)
	w.ready(corev1.ConditionUnknown)
	w.create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n1"},
		Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now().Add(-time.Minute)}, LeaseDurationSeconds: new(int32(10))}})
	w.create(&fencing.NodeFence{ObjectMeta: metav1.ObjectMeta{Name: fencing.NameOf("n1")}, Spec: nodefence.Spec{NodeName: "n1"},
		Status: nodefence.Status{Boot: boot, Storages: storages, Isolated: true}})
	return w
}

// ready changes what n1's Node shows about its kubelet.
func (w *world) ready(status corev1.ConditionStatus) {
	w.t.Helper()
	var n corev1.Node
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Name: "n1"}, &n); err != nil {
		w.t.Fatal(err)
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	if err := w.api.Status().Update(w.t.Context(), &n); err != nil {
		w.t.Fatal(err)
	}
}

// fence changes the NodeFence of n1.
func (w *world) fence(change func(*nodefence.Status)) {
	w.t.Helper()
	var f fencing.NodeFence
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Name: fencing.NameOf("n1")}, &f); err != nil {
		w.t.Fatal(err)
	}
	change(&f.Status)
	if err := w.api.Update(w.t.Context(), &f); err != nil {
		w.t.Fatal(err)
	}
}

func severed(from time.Time) nodefence.Severed {
	return nodefence.Severed{Driver: driver, From: from, Barrier: "lun-reset"}
}

// The pods of that storage are deleted, and no others: neither those of another storage, nor one with volumes of both.
func TestPodsOfOneStorageGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fenced(t, severed(time.Now().Add(20*time.Second)))
		w.pod("db-0", yes, "data")
		w.volume("nfs", "nfs.example")
		w.volume("shared", "nfs.example")
		w.pod("web-0", yes, "nfs")
		w.pod("both-0", yes, "log", "shared")
		w.pod("quiet-0", nil, "other")
		w.during(func() {
			pass(19 * time.Second)
			w.want() // the time that is vouched for is not over
			pass(10 * time.Second)
			w.want("node n1", "pod db-0", "attachment va-data")
			w.fence(func(s *nodefence.Status) { s.Storages[0].Returned = time.Now() })
			w.ready(corev1.ConditionTrue)
			pass(time.Minute)
			w.want() // its fencing is not over: the taint stays
			if err := w.api.Delete(t.Context(), &fencing.NodeFence{ObjectMeta: metav1.ObjectMeta{Name: fencing.NameOf("n1")}}); err != nil {
				t.Fatal(err)
			}
			pass(6 * time.Second)
			if log := w.log(); len(log) == 0 || log[len(log)-1] != "node n1" {
				t.Errorf("the taint stays: %v", log)
			}
		})
	})
}

// renew has the kubelet of n1 renew its Lease, by a clock that is that much ahead.
func (w *world) renew(ahead time.Duration) {
	w.t.Helper()
	lease := &coordinationv1.Lease{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: "n1"}, lease); err != nil {
		w.t.Fatal(err)
	}
	lease.Spec.RenewTime.Time = time.Now().Add(ahead)
	if err := w.api.Update(w.t.Context(), lease); err != nil {
		w.t.Fatal(err)
	}
}

// A kubelet that renews its Lease is heard, whatever its clock shows; one that stops is not heard any more.
func TestKubeletsAreHeardByOneClock(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, 0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := fenced(t, severed(time.Now()))
			w.pod("db-0", yes, "data")
			w.during(func() {
				for range 12 {
					w.renew(ahead)
					pass(5 * time.Second)
				}
				w.want()
				pass(20 * time.Second)
				w.want("node n1", "pod db-0", "attachment va-data")
			})
		})
	}
}

// Every doubt that the storage is severed keeps all pods where they are.
func TestNotSevered(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"another storage": func(w *world) { w.fence(func(s *nodefence.Status) { s.Storages[0].Driver = "nfs.example" }) },
		"none":            func(w *world) { w.fence(func(s *nodefence.Status) { s.Storages = nil }) },
		"given back":      func(w *world) { w.fence(func(s *nodefence.Status) { s.Storages[0].Returned = time.Now() }) },
		"another boot":    func(w *world) { w.fence(func(s *nodefence.Status) { s.Boot = "124bc581b3a34be3" }) },
		"Ready":           func(w *world) { w.ready(corev1.ConditionTrue) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := fenced(t, severed(time.Now()))
				w.pod("db-0", yes, "data")
				change(w)
				w.during(func() { pass(time.Minute) })
				w.want()
			})
		})
	}
}

// If something about a node cannot be read, or is never answered, only that node waits.
func TestOneNodeThatCannotBeRead(t *testing.T) {
	for _, unread := range []string{"*v1.Lease n2", "*v1.Node n2"} {
		synctest.Test(t, func(t *testing.T) {
			w := fenced(t, severed(time.Now()))
			w.pod("db-0", yes, "data")
			for _, n := range []string{"n2", "n3", "n4"} {
				w.create(&fencing.NodeFence{ObjectMeta: metav1.ObjectMeta{Name: fencing.NameOf(n)}, Spec: nodefence.Spec{NodeName: n}})
			}
			w.setDeaf(func(read string) bool { return read == unread })
			w.during(func() {
				pass(20 * time.Second)
				w.want("node n1", "pod db-0", "attachment va-data")
			})
		})
	}
}

// Guard: one node whose reads hang does not delay the others.
func TestOneReadThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fenced(t, severed(time.Now()))
		for i := range 8 {
			n := fmt.Sprintf("m%d", i)
			w.create(&fencing.NodeFence{ObjectMeta: metav1.ObjectMeta{Name: fencing.NameOf(n)}, Spec: nodefence.Spec{NodeName: n}})
		}
		w.setDeaf(func(read string) bool { return read == "*v1.Node m3" })
		for range 5 { // they are asked about in any order
			ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
			nodes, err := w.o.Provider.Nodes(ctx)
			cancel()
			for _, n := range nodes {
				if (n.Unread != "") != (n.Name == "m3") {
					t.Errorf("%+v", n)
				}
			}
			if err != nil || len(nodes) != 9 {
				t.Errorf("%d nodes, %v", len(nodes), err)
			}
		}
	})
}

// Guard: between the last look at a node and a deletion there is no wait, whatever reads about other nodes hang: its
// next boot may begin meanwhile.
func TestOtherNodesAreNotAwaitedBeforeADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fenced(t, severed(time.Now()))
		w.pod("db-0", yes, "data")
		w.pod("db-1", yes, "log")
		for i := range 8 {
			n := fmt.Sprintf("m%d", i)
			w.create(&fencing.NodeFence{ObjectMeta: metav1.ObjectMeta{Name: fencing.NameOf(n)}, Spec: nodefence.Spec{NodeName: n}})
		}
		var mu sync.Mutex
		var looked time.Time
		w.setDeaf(func(read string) bool {
			if read == "*v1.Lease n1" {
				mu.Lock()
				looked = time.Now()
				mu.Unlock()
			}
			return strings.HasPrefix(read, "*v1.Node m")
		})
		deleted := 0
		w.fail = func(write string) error {
			mu.Lock()
			defer mu.Unlock()
			if deleted++; strings.HasPrefix(write, "pod ") || strings.HasPrefix(write, "attachment ") {
				if d := time.Since(looked); d > 0 {
					t.Errorf("%s is deleted %v after the last look", write, d)
				}
			}
			return nil
		}
		w.during(func() { pass(2 * time.Minute) })
		if deleted != 5 {
			t.Errorf("%d writes: %v", deleted, w.log())
		}
	})
}

// Volumes of a deleted pod that are still attached are detached when its node can be read again: an unknown health is
// not healthy.
func TestWhatIsOwedOutlivesANodeThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fenced(t, severed(time.Now()))
		w.pod("db-0", yes, "data")
		w.fail = func(write string) error {
			if write == "pod db-0" { // it is deleted, and then nothing is known of the node
				w.setDeaf(func(read string) bool { return read == "*v1.Lease n1" })
			}
			return nil
		}
		w.during(func() {
			pass(16 * time.Second)
			w.want("node n1", "pod db-0")
			w.setDeaf(nil)
			pass(10 * time.Second)
			w.want("attachment va-data")
		})
	})
}
