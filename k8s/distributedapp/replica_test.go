package distributedapp

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	runs     = flag.Int("runs", 20, "random schedules")
	firstOne = flag.Uint64("seed", 1, "the first of them")
)

// Random schedules of whole replicas. Apps come, change and go; pods fail; replicas are killed and join. The gossip is
// split, the API server is unreachable, and answers and messages are lost. The configuration changes, also to invalid
// ones.
func TestRandomSchedules(t *testing.T) {
	if testing.Short() {
		*runs = min(*runs, 6)
	}
	writes, refused := 0, 0
	for seed := *firstOne; seed < *firstOne+uint64(*runs) && !t.Failed(); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed, 3+int(seed%5))
				w.schedule(rand.New(rand.NewPCG(seed, 53)))
				writes, refused = writes+w.api.writes, refused+w.api.refuse
				w.end()
			})
		})
	}
	t.Logf("seeds %d to %d: %d writes, %d refused by their preconditions", *firstOne, *firstOne+uint64(*runs)-1, writes, refused)
	if writes == 0 || refused == 0 {
		t.Error("nothing was tried")
	}
}

func (w *world) schedule(rng *rand.Rand) {
	for i := range 4 {
		w.api.make(appName(i), int32(rng.IntN(6)))
	}
	for end := time.Now().Add(8 * time.Minute); time.Now().Before(end); {
		w.pass(time.Duration(rng.IntN(12000)) * time.Millisecond)
		app, r := appName(rng.IntN(8)), w.replicas[rng.IntN(len(w.replicas))]
		switch rng.IntN(10) {
		case 0, 1:
			w.api.make(app, int32(rng.IntN(6)))
		case 2:
			w.api.scale(app, int32(rng.IntN(6)))
		case 3:
			w.api.erase(app)
		case 4:
			w.api.hurt(app, rng.IntN(6))
		case 5:
			w.kill(r, 15*time.Second)
		case 6:
			for range 1 + rng.IntN(3) {
				if len(w.replicas) < 12 {
					w.join()
				}
			}
		case 7:
			w.isolate(r, true)
			time.AfterFunc(30*time.Second, func() { w.isolate(r, false) })
		case 8:
			w.part(rng.IntN(2) == 0)
		case 9:
			w.configure(map[string]string{keyGrace: fmt.Sprint(rng.IntN(60))})
		}
	}
	w.part(false)
	for _, r := range w.replicas {
		w.isolate(r, false)
	}
	w.pass(patience + 5*time.Second)
	if !w.settled() {
		w.t.Errorf("not settled at the end: %v", w.api.unsettled())
	}
}

// The first replica dies while it removes an app, and stays listed.
func TestOwnerDiesDuringCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 3)
		w.api.make("app0", 5)
		w.until("it is as it should be", w.settled)
		first := w.first("app0")
		w.api.erase("app0")
		w.until("it has begun", func() bool { w.api.mu.Lock(); defer w.api.mu.Unlock(); return len(w.api.pods) < 5 })
		w.kill(first, time.Hour)
		took := w.until("it is gone", func() bool {
			w.api.mu.Lock()
			defer w.api.mu.Unlock()
			return len(w.api.apps) == 0 && len(w.api.pods) == 0
		})
		t.Logf("gone after %v", took)
		w.end()
	})
}

// Guard: no part of an unusable configuration is used; the previous one stays in use.
func TestBadConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 1)
		w.configure(map[string]string{keyGrace: "7"})
		w.pass(20 * time.Second)
		good := w.replicas[0].r.State().Version
		w.configure(map[string]string{keyGrace: "8", keyPullPolicy: "Sometimes"})
		w.pass(20 * time.Second)
		r := w.replicas[0].r
		if got := r.State().Version; got != good || good == 0 {
			t.Errorf("the configuration is %d after %d", got, good)
		}
		w.api.make("app0", 1)
		w.pass(5 * time.Second)
		w.api.mu.Lock()
		if p := w.api.pods["app0-0"]; p == nil || *p.Spec.TerminationGracePeriodSeconds != 7 {
			t.Errorf("the pod is %+v", p)
		}
		w.api.mu.Unlock()
		if testutil.ToFloat64(r.o.Metrics.refused) == 0 {
			t.Error("nobody is told")
		}
		w.end()
	})
}

// Guard: forged messages cost one read a second, and a bounded amount of memory.
func TestFloodOfMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 1)
		w.pass(20 * time.Second)
		r := w.replicas[0].r
		have := r.State().Version
		for i := range uint64(5 * mostMessages) {
			r.Receive(Message{Kind: Configure, Origin: "x", Version: have + 1 + i})
		}
		if got := testutil.ToFloat64(r.o.Metrics.dropped); got != 4*mostMessages {
			t.Errorf("%v messages were dropped", got)
		}
		reads := func() int { w.api.mu.Lock(); defer w.api.mu.Unlock(); return w.api.reads }
		before := reads()
		w.pass(20 * time.Second)
		if got := reads() - before; got > 21 {
			t.Errorf("the configuration was read %d times in 20 s", got)
		}
		if got := r.State().Version; got != have {
			t.Errorf("the configuration is %d by a message", got)
		}
		w.end()
	})
}

func TestReadConfig(t *testing.T) {
	at := func(version string, data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Data: data}
	}
	for name, m := range map[string]*corev1.ConfigMap{
		"another key": at("5", map[string]string{"replicas": "3"}),
		"a policy":    at("5", map[string]string{keyPullPolicy: "always"}),
		"a grace":     at("5", map[string]string{keyGrace: "-1"}),
		"a word":      at("5", map[string]string{keyGrace: "long"}),
		"no version":  at("", nil),
		"version 0":   at("0", nil),
	} {
		if _, err := readConfig(m); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	c, err := readConfig(at("5", map[string]string{keyPullPolicy: "Always", keyPriority: "high", keyGrace: "0"}))
	if err != nil || c.version != 5 || c.pull != corev1.PullAlways || c.priority != "high" || *c.grace != 0 {
		t.Errorf("%+v %v", c, err)
	}
}
