package ownnode

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/k8stest"
)

const disable = "node-manager.deckhouse.io/fencing-disable"

// rig is a watcher of the Node n1 in a bubble, and the server on which it follows that Node.
type rig struct {
	*k8stest.Server
	states []State
	rules  Rules
}

func start(t *testing.T, s *k8stest.Server, remembered State) *rig {
	t.Helper()
	r := &rig{Server: s, rules: Rules{Disable: []string{disable}}}
	core, err := s.Client(t, nil).For(client.Core)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{
		Client: core, Node: "n1", Rand: rand.New(rand.NewPCG(1, 2)), Remembered: remembered,
		OnState: func(s State) { r.states = append(r.states, s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// signals waits until nothing moves and returns what is known then.
func (r *rig) signals() Signals {
	synctest.Wait()
	if len(r.states) == 0 {
		return r.rules.Judge(State{})
	}
	return r.rules.Judge(r.states[len(r.states)-1])
}

func (r *rig) expect(t *testing.T, when string, want Signals) {
	t.Helper()
	if got := r.signals(); got != want {
		t.Errorf("%s: %+v, want %+v", when, got, want)
	}
}

func (r *rig) requests(t *testing.T, when string, want map[string]int) {
	t.Helper()
	synctest.Wait()
	got := r.Counts()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: requests %v, want %v", when, got, want)
	}
}

func serverWith(t *testing.T, nodes ...*corev1.Node) *k8stest.Server {
	s := k8stest.New(t)
	for _, n := range nodes {
		s.Put(n)
	}
	return s
}

func TestSignalsFollowTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, serverWith(t, k8stest.Node("n1", nil), k8stest.Node("n2", nil)), State{})
		r.expect(t, "at the start", Signals{})
		r.Update("n1", func(n *corev1.Node) { n.Annotations[disable] = "" })
		r.expect(t, "annotated", Signals{Maintenance: disable})
		r.Update("n2", func(n *corev1.Node) { n.Annotations["x"] = "" })
		r.Update("n1", func(n *corev1.Node) { delete(n.Annotations, disable) })
		r.expect(t, "annotation gone", Signals{})
		r.Update("n1", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: RemovalTaint, Effect: corev1.TaintEffectNoSchedule}}
		})
		r.expect(t, "tainted", Signals{Removal: "taint " + RemovalTaint})
		r.Update("n1", func(n *corev1.Node) { n.Spec.Taints = nil })
		r.expect(t, "taint gone", Signals{})
		now := metav1.Now()
		r.Update("n1", func(n *corev1.Node) { n.DeletionTimestamp = &now })
		r.expect(t, "being deleted", Signals{Removal: "the Node is being deleted"})
		r.Delete("n1")
		r.expect(t, "deleted", Signals{Removal: "the Node was deleted"})
		r.Put(k8stest.Node("n1", nil))
		r.expect(t, "registered again", Signals{})
		r.requests(t, "all that", map[string]int{"list nodes": 1, "watch nodes": 1})
	})
}

// An hour in which the Node's status is written every five minutes, as the kubelet does.
func TestAnHourCostsOneRequestAndOneWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, serverWith(t, k8stest.Node("n1", nil)), State{})
		for range 12 {
			time.Sleep(5 * time.Minute)
			r.Update("n1", func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning })
		}
		r.expect(t, "after an hour", Signals{})
		if len(r.states) != 1 {
			t.Errorf("told of %d states, want 1: the status is not new", len(r.states))
		}
		r.requests(t, "an hour", map[string]int{"list nodes": 1, "watch nodes": 1})
	})
}

// Guard: the resource version is kept when a watch ends. Without it each end costs a list.
func TestEndedWatchResumesWithoutAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, serverWith(t, k8stest.Node("n1", nil)), State{})
		for range 10 {
			time.Sleep(2 * time.Minute)
			r.EndWatches()
			// This happens while there is no watch; the resumed watch must show it.
			r.Update("n1", func(n *corev1.Node) { n.Annotations[disable] = "" })
			time.Sleep(3 * time.Second)
			r.expect(t, "annotated between two watches", Signals{Maintenance: disable})
			r.Update("n1", func(n *corev1.Node) { delete(n.Annotations, disable) })
			r.expect(t, "annotation gone", Signals{})
		}
		r.requests(t, "ten ended watches", map[string]int{"list nodes": 1, "watch nodes": 11})
	})
}

// Guard: an answer of 410 makes the watcher forget the version. Otherwise it would try the same version for ever.
func TestForgottenVersionCostsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, serverWith(t, k8stest.Node("n1", nil)), State{})
		synctest.Wait()
		time.Sleep(time.Minute)
		r.Update("n1", func(n *corev1.Node) { n.Annotations["x"] = "y" })
		synctest.Wait()
		r.Refuse(true)
		time.Sleep(10 * time.Minute)
		r.Update("n1", func(n *corev1.Node) { n.Annotations[disable] = "" })
		r.Compact()
		r.Refuse(false)
		time.Sleep(2 * longestPause)
		r.expect(t, "after the outage", Signals{Maintenance: disable})
		r.requests(t, "a compaction", map[string]int{"list nodes": 2, "watch nodes": 3})
	})
}

// Guard: bookmarks update the version. Without them an unchanged Node would be listed again after each compaction.
func TestBookmarksKeepTheVersionRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, serverWith(t, k8stest.Node("n1", nil), k8stest.Node("n2", nil)), State{})
		synctest.Wait()
		r.Update("n2", func(n *corev1.Node) { n.Annotations["x"] = "y" })
		r.Compact()
		time.Sleep(2 * time.Minute)
		r.EndWatches()
		time.Sleep(2 * time.Minute)
		r.requests(t, "after a compaction", map[string]int{"list nodes": 1, "watch nodes": 2})
	})
}

func TestLastKnownStateStandsWhileTheServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := k8stest.Node("n1", nil)
		n.Annotations[disable] = ""
		r := start(t, serverWith(t, n), State{})
		r.expect(t, "at the start", Signals{Maintenance: disable})
		r.Refuse(true)
		before := len(r.Requests())
		time.Sleep(24 * time.Hour)
		r.expect(t, "after a day without the server", Signals{Maintenance: disable})
		if asked := len(r.Requests()) - before; asked != 0 || len(r.states) != 1 {
			t.Errorf("%d requests arrived, told of %d states", asked, len(r.states))
		}
		r.Update("n1", func(n *corev1.Node) { delete(n.Annotations, disable) })
		r.Refuse(false)
		time.Sleep(2 * longestPause)
		r.expect(t, "when it is back", Signals{})
	})
}

// Guard: a name that no Node ever had is not a removal; a remembered one is.
func TestOnlyWhatWasThereIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serverWith(t)
		r, again := start(t, s, State{}), start(t, s, State{Known: true, Exists: true, UID: "u"})
		time.Sleep(10 * time.Minute)
		r.expect(t, "never seen", Signals{Unknown: true})
		again.expect(t, "seen before the restart", Signals{Removal: "the Node was deleted"})
		s.Put(k8stest.Node("n1", nil))
		time.Sleep(2 * longestPause)
		r.expect(t, "registered", Signals{})
		again.expect(t, "registered again", Signals{})
	})
}

// Guard: Retry-After, and the longest pause. An answer of 429 must not cause a storm of requests.
func TestThrottledAndFailingServersAreLeftAlone(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(http.ResponseWriter)
		most   int // requests in an hour
	}{
		{"throttled", func(w http.ResponseWriter) { k8stest.Throttle(w, 300, false) }, 13},
		{"throttled in plain text", func(w http.ResponseWriter) { k8stest.Throttle(w, 300, true) }, 13},
		{"etcd lost", func(w http.ResponseWriter) {
			k8stest.Fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: no leader")
		}, 130},
		{"forbidden", func(w http.ResponseWriter) {
			k8stest.Fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "nodes is forbidden")
		}, 130},
		{"nonsense", func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK); _, _ = w.Write([]byte("<html>")) }, 130},
		{"watch that ends", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
		}, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serverWith(t, k8stest.Node("n1", nil))
				r := start(t, s, State{})
				r.expect(t, "at the start", Signals{})
				s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
					c.answer(w)
					return true
				})
				s.EndWatches()
				before := len(s.Requests())
				time.Sleep(time.Hour)
				if n := len(s.Requests()) - before; n > c.most || n == 0 {
					t.Errorf("%d requests in an hour, want 1..%d", n, c.most)
				}
				r.expect(t, "meanwhile", Signals{})
				s.Intercept(nil)
				time.Sleep(10 * time.Minute)
				s.Update("n1", func(n *corev1.Node) { n.Annotations[disable] = "" })
				r.expect(t, "when it works again", Signals{Maintenance: disable})
			})
		})
	}
}

// Guard: the limit of silence. A connection that died silently must not hide the Node.
func TestSilentWatchIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serverWith(t, k8stest.Node("n1", nil))
		hang := true
		s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if verb, _ := client.Describe(r); verb != "watch" || !hang {
				return false
			}
			hang = false
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		})
		r := start(t, s, State{})
		synctest.Wait()
		s.Update("n1", func(n *corev1.Node) { n.Annotations[disable] = "" })
		time.Sleep(quiet + longestPause)
		r.expect(t, "after the silence", Signals{Maintenance: disable})
	})
}

func TestMemoryHoldsWhatSignalsNeed(t *testing.T) {
	off := Rules{Disable: []string{"a", "b", "c"}, Off: true}
	if g := off.Judge(State{Known: true, Exists: true, Annotations: map[string]string{"a": "off", "b": "", "c": "off"}}); g.Maintenance != "b" || g.None != "a,c" {
		t.Errorf("%+v", g)
	}
	rules := Rules{Disable: []string{"a", "b"}}
	if g := rules.Judge(State{Known: true, Exists: true, Annotations: map[string]string{"a": "off"}}); g.Maintenance != "a" || g.None != "" {
		t.Errorf("without an order of sources: %+v", g)
	}
	for _, s := range []State{
		{}, {Known: true}, {Known: true, Exists: true, UID: "u"},
		{Known: true, Exists: true, Deleting: true},
		{Known: true, Exists: true, Taints: []string{"x", RemovalTaint}},
		{Known: true, Exists: true, Annotations: map[string]string{"b": "1", "c": "2", "a": ""}},
	} {
		m := rules.Memory(s)
		if rules.Judge(m) != rules.Judge(s) {
			t.Errorf("%+v is remembered as %+v", s, m)
		}
		if _, kept := m.Annotations["c"]; kept || slices.Contains(m.Taints, "x") {
			t.Errorf("%+v remembers what is of no use", m)
		}
	}
	if g := rules.Judge(State{Known: true, Exists: true, Annotations: map[string]string{"b": "", "a": ""}}); g.Maintenance != "a,b" {
		t.Errorf("%+v", g)
	}
}
