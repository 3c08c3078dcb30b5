package storagewatch

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencing-agent/fencing-agent/k8s/storagefence"
)

// condition writes a condition on a claim, as a controller plugin does.
func (w *world) condition(claim string, status corev1.VolumeHealthStatusType) {
	w.t.Helper()
	var c corev1.PersistentVolumeClaim
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: "db", Name: claim}, &c); err != nil {
		w.t.Fatal(err)
	}
	c.Status.HealthStatus = &corev1.VolumeHealthStatus{HealthConditions: []corev1.VolumeHealthCondition{{Status: status, Reason: "SaidSo"}}}
	if err := w.api.Status().Update(w.t.Context(), &c); err != nil {
		w.t.Fatal(err)
	}
}

// These are the cases of the controller that this one replaces, in the words of its storage's API: those of its tests,
// those of its description, and those that it left open.
func TestCasesOfTheOlderController(t *testing.T) {
	acts := []string{"node n1", "pod db-0", "attachment va-data"}
	for _, c := range []struct {
		name  string
		node  string // name of the storage's node; empty: n1
		word  string // its health
		label string // of the pod; empty: none
		claim string // annotation of the provisioner; "": none, pre-provisioned
		copy  string // health of the volume's first copy
		want  []string
	}{
		{name: "the node is healthy", word: "online", label: "true", copy: "online"},
		{name: "the node is offline", word: "offline", label: "true", copy: "online", want: acts},
		{name: "the health of the node is not known", word: "unknown", label: "true", copy: "online"},
		{name: "the health of the node is a word of a later version", word: "draining", label: "true", copy: "online"},
		{name: "Kubernetes has no such node", node: "rand-node", word: "offline", label: "true", copy: "online"},
		{name: "no label", word: "offline", copy: "online"},
		{name: "the label is false", word: "offline", label: "false", copy: "online"},
		{name: "the label is true in other letters", word: "offline", label: "True", copy: "online", want: acts},
		{name: "the volume is not healthy", word: "offline", label: "true", copy: "offline"},
		{name: "the health of the volume is not known", word: "offline", label: "true", copy: "unknown"},
		{name: "provisioned for the claim", word: "offline", label: "true", claim: driver, copy: "online", want: acts},
		{name: "a volume that was there before its claim", word: "offline", label: "true", copy: "online", want: acts},
		{name: "the annotation names another driver, the volume ours", word: "offline", label: "true", claim: "nfs.example", copy: "online", want: acts},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var labels map[string]string
				if c.label != "" {
					labels = map[string]string{"storageos.com/fenced": c.label}
				}
				w.pod("db-0", labels, "data")
				w.storage.volumes["ns/data"] = healthOf(c.copy)
				if c.claim != "" {
					var claim corev1.PersistentVolumeClaim
					if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: "db", Name: "data"}, &claim); err != nil {
						t.Fatal(err)
					}
					claim.Annotations = map[string]string{provisioner: c.claim}
					if err := w.api.Update(t.Context(), &claim); err != nil {
						t.Fatal(err)
					}
				}
				w.during(func() {
					name := c.node
					if name == "" {
						name = "n1"
					}
					w.storage.set(name, healthOf(c.word))
					pass(time.Minute)
					w.want(c.want...)
				})
			})
		})
	}
}

// A volume that has lost the copy on the node is degraded, and its pod goes.
func TestDegraded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "data")
		w.condition("data", corev1.VolumeHealthDegraded)
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(6 * time.Second)
			w.want("node n1", "pod db-0", "attachment va-data")
		})
	})
}

// A request that hangs takes 5 s, and leaves time for another attempt.
func TestHangingRequests(t *testing.T) {
	for _, what := range []string{"*v1.Node n1", "*v1.PodList", "*v1.VolumeAttachmentList", "*v1.PersistentVolumeClaim data", "*v1.PersistentVolume data"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.pod("db-0", yes, "data")
				w.during(func() {
					pass(6 * time.Second)
					var hung atomic.Int64
					w.setDeaf(func(read string) bool {
						return read == what && hung.Add(1) == 1
					})
					w.storage.set("n1", storagefence.Unhealthy)
					pass(13 * time.Second) // 4 s to the next look, 5 s of hanging, 5 s to the next attempt
					w.want()
					pass(2 * time.Second)
					w.want("node n1", "pod db-0", "attachment va-data")
				})
			})
		})
	}
}

// An API server that never answers is asked for 25 s, and then left alone for an hour. This is reported once.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "data")
		w.during(func() {
			pass(6 * time.Second)
			var mu sync.Mutex // guards asked
			asked := []time.Time{}
			w.setDeaf(func(read string) bool {
				mu.Lock()
				defer mu.Unlock()
				if read == "*v1.PodList" {
					asked = append(asked, time.Now())
				}
				return read == "*v1.PodList"
			})
			w.storage.set("n1", storagefence.Unhealthy)
			pass(50 * time.Minute)
			mu.Lock()
			if n := len(asked); n != 3 || asked[n-1].Sub(asked[0]) != 20*time.Second {
				t.Errorf("asked at %v, want three times within 25 s", asked)
			}
			mu.Unlock()
			w.want()
			if n := w.count(t, "fencing_storage_given_up_total"); n != 1 {
				t.Errorf("given up %v times", n)
			}
			w.setDeaf(nil)
			pass(11 * time.Minute)
			w.want("node n1", "pod db-0", "attachment va-data")
		})
	})
}

// The API server has deleted the pod, and its answer was lost: the next attempt releases the volumes.
func TestAnswerOfADeletionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "data")
		w.lost = "pod db-0"
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(20 * time.Second)
			w.want("node n1", "pod db-0", "attachment va-data")
		})
	})
}

// A pod that could not be deleted keeps its volumes.
func TestVolumesOfAPodThatIsStillThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("db-0", yes, "data")
		w.fail = func(write string) error {
			if strings.HasPrefix(write, "pod ") {
				return errors.New("etcdserver: request timed out")
			}
			return nil
		}
		w.during(func() {
			w.storage.set("n1", storagefence.Unhealthy)
			pass(time.Hour + 2*time.Minute)
			w.want("node n1")
		})
	})
}

// count returns the value of a metric without labels.
func (w *world) count(t *testing.T, name string) float64 {
	t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
