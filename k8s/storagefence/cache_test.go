package storagefence

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	start    = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	settings = Settings{Poll: 5 * time.Second, Expiry: time.Hour, Timeout: 25 * time.Second, Retry: 5 * time.Second}
)

// world drives a cache as k8s/storagewatch does, for one node, a second at a time.
type world struct {
	t   *testing.T
	c   *Cache
	now time.Time
}

func newCacheWorld(t *testing.T) *world {
	w := &world{t, NewCache(settings), start}
	w.say(Healthy)
	w.run(Attempt{}) // what an earlier process has left
	if s := w.c.State("a"); s != Quiet {
		t.Fatalf("a healthy node is %s", s)
	}
	return w
}

func (w *world) say(h Health) { w.c.Observe(w.now, []Node{{Name: "a", Health: h}}) }

// run makes all attempts that are due now, with this result. It returns how many there were.
func (w *world) run(a Attempt) (n int, gaveUp bool) {
	for _, work := range w.c.Due(w.now, 5) {
		n++
		gaveUp = w.c.End(w.now, w.now, work, a) || gaveUp
	}
	return n, gaveUp
}

func (w *world) want(s State) {
	w.t.Helper()
	if got := w.c.State("a"); got != s {
		w.t.Fatalf("after %v: %s, want %s", w.now.Sub(start), got, s)
	}
}

// pass advances the time, a second at a time, and counts the attempts.
func (w *world) pass(d time.Duration, h Health, a Attempt) (n int, gaveUp bool) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(time.Second) {
		w.say(h)
		k, g := w.run(a)
		n, gaveUp = n+k, gaveUp || g
	}
	return n, gaveUp
}

func TestOnceUntilItWasHealthyOrExpired(t *testing.T) {
	w := newCacheWorld(t)
	if n, _ := w.pass(30*time.Minute, Unhealthy, Attempt{}); n != 1 {
		t.Errorf("handled %d times in half an hour, want once", n)
	}
	w.want(Fenced)
	if n, _ := w.pass(time.Hour, Unhealthy, Attempt{}); n != 1 {
		t.Errorf("handled %d times in the hour in which it expired, want once", n)
	}
	w.pass(10*time.Second, Healthy, Attempt{})
	w.want(Quiet)
	if n, _ := w.pass(time.Minute, Unhealthy, Attempt{}); n != 1 {
		t.Errorf("handled %d times after it was healthy, want once", n)
	}
}

func TestRetriesEndWithTheTimeout(t *testing.T) {
	w := newCacheWorld(t)
	n, gaveUp := w.pass(2*time.Minute, Unhealthy, Attempt{Failed: true})
	if !gaveUp || n != 5 { // at 0, 5, 10, 15 and 20 s
		t.Errorf("%d attempts, gave up: %v; want 5, true", n, gaveUp)
	}
	w.want(GivenUp)
	if n, _ = w.pass(time.Hour, Unhealthy, Attempt{}); n != 1 {
		t.Errorf("%d attempts in the hour in which it expired, want 1", n)
	}
}

// A retry has only the rest of the time.
func TestDeadlineOfARetry(t *testing.T) {
	w := newCacheWorld(t)
	w.say(Unhealthy)
	first := w.c.Due(w.now, 1)[0]
	w.c.End(w.now, w.now.Add(12*time.Second), first, Attempt{Failed: true})
	w.now = w.now.Add(17 * time.Second)
	second := w.c.Due(w.now, 1)
	if len(second) != 1 || !second[0].Deadline.Equal(first.Deadline) {
		t.Errorf("%+v, want the deadline of %+v", second, first)
	}
}

// The time spent waiting for a proof does not count as time of attempts.
func TestWaitsWithoutEnd(t *testing.T) {
	w := newCacheWorld(t)
	n, gaveUp := w.pass(5*time.Minute, Unhealthy, Attempt{Waits: true})
	if gaveUp || n != 60 {
		t.Errorf("%d looks, gave up: %v; want 60, false", n, gaveUp)
	}
	w.want(Waiting)
	w.pass(10*time.Second, Unhealthy, Attempt{})
	w.want(Fenced)
}

func TestUnknownIsNoReason(t *testing.T) {
	w := newCacheWorld(t)
	if n, _ := w.pass(time.Minute, Unknown, Attempt{}); n != 0 {
		t.Errorf("%d attempts", n)
	}
	w.say(Unhealthy)
	w.say(Unknown)
	if due := w.c.Due(w.now, 5); len(due) != 0 {
		t.Errorf("%+v", due)
	}
	if w.c.Unhealthy("a") || !w.c.Wake().IsZero() {
		t.Error("it is unhealthy, or wakes somebody")
	}
	w.c.Observe(w.now, nil)
	if w.c.State("a") != Quiet || w.c.Unhealthy("a") {
		t.Error("a node that is not listed is remembered")
	}
}

// An attempt that began before the node was healthy again changes nothing.
func TestLateEnd(t *testing.T) {
	w := newCacheWorld(t)
	w.say(Unhealthy)
	work := w.c.Due(w.now, 1)[0]
	w.say(Healthy)
	w.want(Returning)
	w.c.End(w.now, w.now, work, Attempt{})
	w.want(Returning)
	w.run(Attempt{Failed: true})
	w.want(Returning)
	w.pass(10*time.Second, Healthy, Attempt{})
	w.want(Quiet)
	w.say(Unhealthy)
	w.c.End(w.now, w.now, work, Attempt{})
	w.want(Offline)
}

func TestThoseThatWaitLongestGoFirst(t *testing.T) {
	c := NewCache(settings)
	var nodes []Node
	for i := range 9 {
		nodes = append(nodes, Node{Name: fmt.Sprint("n", i), Health: Unhealthy})
	}
	c.Observe(start, nodes[:4])
	c.Observe(start.Add(time.Second), nodes)
	var order []string
	for _, w := range c.Due(start.Add(2*time.Second), 5) {
		order = append(order, w.Node)
	}
	if fmt.Sprint(order) != "[n0 n1 n2 n3 n4]" || len(c.Due(start.Add(2*time.Second), 0)) != 0 {
		t.Errorf("%v", order)
	}
}

// In any order of healths, results and times: a node is never handled while it is not unhealthy, never twice at once,
// and at most once while it stays unhealthy, within the timeout. Its taint is looked at after each recovery.
func TestRandomCache(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for run := range uint64(2000) {
		randomCache(t, seed+run)
	}
}

func randomCache(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	c, now := NewCache(settings), start
	health := Unknown
	var running []Work
	finished, dirty := time.Time{}, true
	for range 60 {
		now = now.Add(time.Duration(r.IntN(20000)) * time.Millisecond)
		if r.IntN(20) == 0 {
			now = now.Add(settings.Expiry)
		}
		if r.IntN(3) == 0 {
			was := health
			health = Health(r.IntN(3))
			if health == Healthy && was != Healthy {
				finished = time.Time{}
			}
		}
		c.Observe(now, []Node{{Name: "a", Health: health}})
		for _, w := range c.Due(now, 2) {
			switch {
			case w.Return && health != Healthy, !w.Return && health != Unhealthy:
				t.Fatalf("seed %d: %+v while it is %v", seed, w, health)
			case !w.Return && !finished.IsZero() && now.Sub(finished) < settings.Expiry:
				t.Fatalf("seed %d: handled again after %v", seed, now.Sub(finished))
			case !w.Return && w.Deadline.Sub(now) > settings.Timeout:
				t.Fatalf("seed %d: %v for one attempt", seed, w.Deadline.Sub(now))
			}
			dirty = dirty || !w.Return
			running = append(running, w)
		}
		for len(running) > 0 && r.IntN(2) == 0 {
			w := running[0]
			running = running[1:]
			a := Attempt{Failed: r.IntN(2) == 0}
			a.Waits = !a.Failed && r.IntN(3) == 0
			current := c.nodes["a"].run == w.Run
			gaveUp := c.End(now, now, w, a)
			if current && !w.Return && !a.Waits && (!a.Failed || gaveUp) {
				finished = now
			}
			if current && w.Return && !a.Failed {
				dirty = false
			}
		}
		if s := c.State("a"); health == Healthy && s != Returning && dirty && s == Quiet {
			t.Fatalf("seed %d: its taint was not looked at", seed)
		}
	}
}
