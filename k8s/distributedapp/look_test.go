package distributedapp

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// soon is well below the 30 s after which an app whose status lags is looked at in any case.
const soon = 10 * time.Second

// lone is a world of one replica whose API server loses no answer: only the rule under test makes it look again.
func lone(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 1)
		w.api.mu.Lock()
		w.api.reliable = true
		w.api.mu.Unlock()
		w.pass(25 * time.Second) // its own start, and the configuration, are behind it
		test(w)
		w.end()
	})
}

// afterList runs a function once, when a look has read the app and its pods and has not written yet.
func (a *api) afterList(do func()) {
	var once sync.Once
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listed = func() { once.Do(do) }
}

// Guard: if an app changes after a look has read it, the app is looked at again. The look itself finds nothing to do,
// and the status is up to date, so nothing else would look at the app for ten minutes.
func TestDueDuringALook(t *testing.T) {
	lone(t, func(w *world) {
		w.api.make("app0", 1)
		w.until("it is as it should be", w.settled)
		w.pass(5 * time.Second)
		var failed atomic.Bool
		w.api.afterList(func() {
			w.api.hurt("app0", 0) // the pod fails; the watch shows it within 400 ms
			failed.Store(true)
			time.Sleep(2 * time.Second) // of the bubble: the answer to the list is late
		})
		w.replicas[0].see("app0")
		took := w.until("the pod that failed is replaced", func() bool { return failed.Load() && w.settled() })
		if took > soon {
			t.Errorf("replaced after %v", took)
		}
	})
}

// Guard: an app may be created again under its name while the answer "not found" is on its way. It is not forgotten.
func TestMadeAgainDuringALook(t *testing.T) {
	lone(t, func(w *world) {
		w.api.make("app0", 1)
		w.until("it is as it should be", w.settled)
		var made atomic.Bool
		var once sync.Once
		w.api.mu.Lock()
		w.api.missed = func() {
			once.Do(func() {
				w.api.make("app0", 2) // the watch shows it within 400 ms
				made.Store(true)
				time.Sleep(2 * time.Second) // of the bubble: the answer is late
			})
		}
		w.api.mu.Unlock()
		w.api.erase("app0") // its last write is followed by a look, which finds nothing
		w.until("it is made again, and as it should be", func() bool { return made.Load() && w.settled() })
	})
}

// Guard: a refused write is tried again. The change that made it fail need not make the app due: here, it is a label.
func TestRefusedWrite(t *testing.T) {
	lone(t, func(w *world) {
		refused := func() int { w.api.mu.Lock(); defer w.api.mu.Unlock(); return w.api.refuse }
		before := refused()
		w.api.afterList(func() {
			w.api.mu.Lock()
			defer w.api.mu.Unlock()
			d := w.api.apps["app0"]
			d.Labels, d.ResourceVersion = map[string]string{"of": "a person"}, w.api.next()
			w.api.show("app0", false)
		})
		w.api.make("app0", 0) // without pods, whose events would have it looked at
		took := w.until("it is as it should be", w.settled)
		if refused() == before {
			t.Error("no write was refused")
		}
		if took > soon {
			t.Errorf("tried again after %v", took)
		}
	})
}

// Guard: a status with a newer configuration makes the replica read it, even without a watch event or a message.
func TestNewerConfigurationInAStatus(t *testing.T) {
	lone(t, func(w *world) {
		w.api.make("app0", 1)
		w.until("it is as it should be", w.settled)
		w.api.configure(map[string]string{keyGrace: "9"}) // the watch hangs
		w.api.mu.Lock()
		d := w.api.apps["app0"]
		d.Status.ConfigVersion, d.ResourceVersion = w.api.conf.ResourceVersion, w.api.next() // another replica has read it
		newest, err := strconv.ParseUint(w.api.conf.ResourceVersion, 10, 64)
		w.api.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		w.api.scale("app0", 2)
		took := w.until("the configuration is read", func() bool { return w.replicas[0].r.State().Version == newest })
		if took > soon {
			t.Errorf("read after %v", took)
		}
		w.until("it is as it should be", w.settled)
		w.api.mu.Lock()
		defer w.api.mu.Unlock()
		if p := w.api.pods["app0-1"]; p == nil || p.Spec.TerminationGracePeriodSeconds == nil || *p.Spec.TerminationGracePeriodSeconds != 9 {
			t.Errorf("the new pod is %+v", p)
		}
	})
}

// Guard: forged messages that keep coming, each with a newer version, cause only one read of the configuration a
// second.
func TestSteadyFloodOfVersions(t *testing.T) {
	lone(t, func(w *world) {
		r := w.replicas[0].r
		version := r.State().Version
		reads := func() int { w.api.mu.Lock(); defer w.api.mu.Unlock(); return w.api.reads }
		before := reads()
		for range 200 {
			version++
			r.Receive(Message{Kind: Configure, Origin: "x", Version: version})
			w.pass(250 * time.Millisecond)
		}
		if got := reads() - before; got < 25 || got > 51 {
			t.Errorf("the configuration was read %d times in 50 s", got)
		}
	})
}
