package storagewatch

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/recovery"
	"github.com/fencing-agent/fencing-agent/k8s/storagefence"
)

var yes = map[string]string{"storageos.com/fenced": "true"}

func outOfService(value string) corev1.Taint {
	return corev1.Taint{Key: recovery.TaintKey, Value: value, Effect: corev1.TaintEffectNoExecute}
}

// The pod goes first, then its attachments; replacements are kept off the node before, and may come back after.
func TestDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "data", "log")
		w.pod("other", nil, "elsewhere")
		w.during(func() {
			w.want()
			w.storage.set("n1", storagefence.Unhealthy)
			pass(6 * time.Second)
			w.want("node n1", "pod db-0", "attachment va-data", "attachment va-log")
			pass(30 * time.Minute)
			w.want()
			w.storage.set("n1", storagefence.Healthy)
			pass(6 * time.Second)
			w.want("node n1")
		})
		var n corev1.Node
		if err := w.api.Get(t.Context(), types.NamespacedName{Name: "n1"}, &n); err != nil || len(n.Spec.Taints) != 0 {
			t.Errorf("taints %v, %v", n.Spec.Taints, err)
		}
		if w.told("StorageFenced") != 1 || w.told("StorageFenceSkipped") != 0 {
			t.Errorf("events %v", w.events)
		}
	})
}

// If anything keeps a pod on the node, its attachments stay as well, and an Event tells people why.
func TestLeftAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(w *world)
		told int
		why  string
	}{
		{"no label", func(w *world) { w.pod("db-0", nil, "data") }, 0, ""},
		{"no volume", func(w *world) { w.pod("db-0", yes) }, 1, "no volume"},
		{"a volume is not healthy", func(w *world) {
			w.pod("db-0", yes, "data", "log")
			w.storage.volumes["ns/log"] = storagefence.Unhealthy
		}, 1, "log"},
		{"the health of a volume is not known", func(w *world) {
			w.pod("db-0", yes, "data")
			w.storage.volumes["ns/data"] = storagefence.Unknown
		}, 1, "data"},
		{"a volume of another driver", func(w *world) {
			w.volume("foreign", "nfs.example")
			w.pod("db-0", yes, "data", "foreign")
		}, 1, "foreign"},
		{"an iSCSI volume of the pod itself", func(w *world) {
			w.volume("data", driver)
			p := w.podOnly("db-0", "data")
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "raw", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}})
			w.create(p)
		}, 1, "raw"},
		{"a claim that is gone", func(w *world) {
			w.volume("data", driver)
			w.create(w.podOnly("db-0", "data", "missing"))
		}, 1, "missing"},
		{"a claim that is inaccessible", func(w *world) {
			w.pod("db-0", yes, "data")
			w.condition("data", corev1.VolumeHealthInaccessible)
		}, 1, "Inaccessible, with the reason SaidSo"},
		{"of a DaemonSet", func(w *world) {
			w.volume("data", driver)
			p, is := w.podOnly("db-0", "data"), true
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: &is}}
			w.create(p)
		}, 1, "DaemonSet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c.make(w)
				w.during(func() {
					w.storage.set("n1", storagefence.Unhealthy)
					pass(10 * time.Minute)
					w.want()
				})
				if w.told("StorageFenceSkipped") != c.told || !strings.Contains(strings.Join(w.events, "\n"), c.why) {
					t.Errorf("events %v, want %d with %q", w.events, c.told, c.why)
				}
			})
		})
	}
}

// podOnly is a pod that is not made yet, on claims that may not exist.
func (w *world) podOnly(name string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name, UID: types.UID("uid-" + name), Labels: yes}, Spec: corev1.PodSpec{NodeName: "n1"}}
	for _, c := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c}}})
	}
	return p
}

// A volume that became healthy is seen when the node is looked at again, an hour later.
func TestSkippedPodsAreJudgedAgainAfterTheExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "data")
		w.storage.volumes["ns/data"] = storagefence.Unhealthy
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(50 * time.Minute)
			w.storage.mu.Lock()
			w.storage.volumes["ns/data"] = storagefence.Healthy
			w.storage.mu.Unlock()
			w.want()
			pass(11 * time.Minute)
			w.want("node n1", "pod db-0", "attachment va-data")
		})
	})
}

// Without a storage that refuses writes, nothing is deleted before the Node is known to be off in its present boot.
func TestTaintWaitsForTheProof(t *testing.T) {
	for _, c := range []struct {
		name  string
		taint corev1.Taint
		acts  bool
	}{
		{"of the recovery", outOfService(recovery.Fenced(boot)), true},
		{"of a person", outOfService("nodeshutdown"), true},
		{"disputed", outOfService(recovery.Disputed(boot)), false},
		{"of another boot", outOfService(recovery.Fenced("124bc581b3a34be3")), false},
		{"another taint", corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.o.Cleanup = CleanupTaint
				w.pod("db-0", yes, "data")
				w.during(func() {
					w.storage.set("n1", storagefence.Unhealthy)
					pass(10 * time.Minute)
					w.want()
					w.taints(c.taint)
					pass(6 * time.Second)
					if c.acts {
						w.want("pod db-0") // Kubernetes detaches
					} else {
						w.want()
					}
				})
			})
		})
	}
}

// Where the Node is known to be off, Kubernetes releases the volumes, and this program deletes no attachment beside it.
func TestKubernetesReleasesWhereTheNodeIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "data")
		w.taints(outOfService(recovery.Fenced(boot)))
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(time.Minute)
			w.want("pod db-0")
		})
	})
}

// A deletion is refused if the storage has become healthy meanwhile: the controller asks before each deletion.
func TestHealthyAgainInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "a")
		w.pod("db-1", yes, "b")
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			w.storage.mu.Lock()
			asked := w.storage.asked
			w.storage.onAsk = func(n int) {
				if n == asked+3 { // the poll, before db-0, before db-1
					w.storage.set("n1", storagefence.Healthy)
				}
			}
			w.storage.mu.Unlock()
			pass(6 * time.Second)
			w.want("node n1", "pod db-0")
			pass(10 * time.Second)
			w.want("node n1")
		})
	})
}

// A storage that calls the node healthy takes its writes again: its attachments stay, including those that were still
// to be deleted.
func TestHealthyAgainBeforeTheAttachments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "a")
		w.pod("db-1", yes, "b")
		failed := false
		w.fail = func(write string) error {
			switch {
			case write == "attachment va-a" && !failed:
				failed = true
				return errors.New("etcdserver: request timed out")
			case write == "attachment va-b":
				w.storage.set("n1", storagefence.Healthy)
				return errors.New("etcdserver: request timed out")
			}
			return nil
		}
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(20 * time.Second)
			w.want("node n1", "pod db-0", "pod db-1", "node n1")
			w.storage.set("n1", storagefence.Unhealthy)
			pass(20 * time.Second)
			w.want() // nothing of the first outage
		})
		w = newWorld(t)
		w.pod("db-0", yes, "a")
		w.fail = func(write string) error {
			if write == "pod db-0" {
				w.storage.set("n1", storagefence.Healthy)
			}
			return nil
		}
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(20 * time.Second)
			w.want("node n1", "pod db-0", "node n1")
		})
	})
}

// The taint that shows that a node is off may go between two pods.
func TestNoLongerOffInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Cleanup = CleanupTaint
		w.pod("db-0", yes, "a")
		w.pod("db-1", yes, "b")
		w.taints(outOfService(recovery.Fenced(boot)))
		w.fail = func(write string) error {
			if write == "pod db-0" {
				w.taints(outOfService(recovery.Disputed(boot)))
			}
			return nil
		}
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(10 * time.Minute)
			w.want("pod db-0")
		})
	})
}

// Silence of the storage's API is no reason for anything, and neither is a node that it does not list.
func TestSilentStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "data")
		w.during(func() {
			w.storage.mu.Lock()
			w.storage.nodes = map[string]storagefence.Health{"n2": storagefence.Healthy}
			w.storage.mu.Unlock()
			pass(time.Minute)
			w.storage.set("n1", storagefence.Unhealthy)
			w.storage.mu.Lock()
			w.storage.fail = errors.New("connection refused")
			w.storage.mu.Unlock()
			pass(2 * time.Hour)
			w.want()
		})
	})
}

// A volume about which the storage says nothing keeps its own pod, and is asked about again; the others go.
func TestVolumeWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "a")
		w.pod("db-1", yes, "b")
		w.storage.deaf = "ns/a"
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(15 * time.Second)
			w.want("node n1", "pod db-1", "attachment va-b")
			pass(30 * time.Minute)
			w.want()
			if n := w.told("StorageFenceSkipped"); n < 2 {
				t.Errorf("it was asked for %d times", n)
			}
		})
	})
}

func TestNodeThatKubernetesDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.during(func() {
			w.storage.set("storage-only", storagefence.Unhealthy)
			pass(time.Minute)
			w.want()
		})
	})
}

// After an error the work is tried again every 5 s, for 25 s; completed steps are not repeated.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "a")
		w.pod("db-1", yes, "b")
		fails := 2
		tries := 0
		w.fail = func(write string) error {
			if write != "pod db-1" {
				return nil
			}
			if tries++; tries <= fails {
				return errors.New("etcdserver: request timed out")
			}
			return nil
		}
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(9 * time.Second)
			w.want("node n1", "pod db-0", "attachment va-a")
			pass(9 * time.Second)
			w.want("pod db-1", "attachment va-b")

			tries, fails = 0, 1000
			w.storage.set("n1", storagefence.Healthy)
			pass(10 * time.Second)
			w.want("node n1")
			w.pod("db-1", yes, "b")
			w.storage.set("n1", storagefence.Unhealthy)
			pass(5 * time.Minute)
			w.want("node n1")
			if tries != 5 {
				t.Errorf("%d tries in 25 s, want 5", tries)
			}
		})
	})
}

// A retry releases the volumes of a pod that the first attempt has deleted.
func TestAttachmentIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "data")
		failed := false
		w.fail = func(write string) error {
			if strings.HasPrefix(write, "attachment") && !failed {
				failed = true
				return errors.New("etcdserver: request timed out")
			}
			return nil
		}
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(12 * time.Second)
			w.want("node n1", "pod db-0", "attachment va-data")
		})
	})
}

// Attachments of another driver, of another node, and of a volume used by a pod that stays, are left alone.
func TestForeignAttachments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "data", "shared")
		w.pod("reader", nil, "shared")
		w.volume("foreign", "nfs.example")
		data := "data"
		w.create(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va-of-another", UID: "u"},
			Spec: storagev1.VolumeAttachmentSpec{Attacher: "nfs.example", NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &data}}})
		w.create(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va-elsewhere", UID: "v"},
			Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "n2", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &data}}})
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(time.Minute)
			w.want("node n1", "pod db-0", "attachment va-data")
		})
	})
}

// A pod that was changed since it was judged is judged again.
func TestChangedPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "data")
		w.fail = func(write string) error {
			if write != "node n1" {
				return nil
			}
			var p corev1.Pod
			if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: "db", Name: "db-0"}, &p); err != nil {
				return client.IgnoreNotFound(err)
			}
			p.Labels = map[string]string{"storageos.com/fenced": "false"}
			return w.api.Update(t.Context(), &p)
		}
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(time.Minute)
			w.want("node n1")
		})
	})
}

func TestDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.DryRun = true
		w.pod("db-0", yes, "data")
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(time.Minute)
			w.storage.set("n1", storagefence.Healthy)
			pass(time.Minute)
			w.want()
		})
		if w.told("StorageFenceDryRun") != 1 {
			t.Errorf("events %v", w.events)
		}
	})
}

// A taint that an earlier process has left comes off.
func TestTaintOfAnEarlierProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.taints(corev1.Taint{Key: OfflineTaint, Effect: corev1.TaintEffectNoSchedule})
		w.during(func() {
			pass(6 * time.Second)
			w.want("node n1")
		})
	})
}
