package distributedapp

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var (
	runs     = flag.Int("runs", 60, "random schedules")
	firstOne = flag.Uint64("seed", 1, "the first of them")
)

// Random schedules: apps come, change and go, pods die, replicas are killed and join, the gossip parts, the API server
// is out of reach, messages are lost, late, repeated and forged, the configuration changes.
func TestRandomSchedules(t *testing.T) {
	if testing.Short() {
		*runs = min(*runs, 16)
	}
	writes, refused, moved := 0, 0, 0
	for seed := *firstOne; seed < *firstOne+uint64(*runs) && !t.Failed(); seed++ {
		w := newWorld(t, seed, 3+int(seed%5))
		for range 4 {
			w.create()
		}
		for w.now.Before(start.Add(10 * time.Minute)) {
			if w.chance(0.008) {
				w.happen()
			}
			w.tick()
		}
		w.peace()
		for end := w.now.Add(patience + 10*time.Second); w.now.Before(end); {
			w.tick()
		}
		writes, refused, moved = writes+w.writes, refused+w.refused, moved+w.moved
	}
	t.Logf("seeds %d to %d: %d writes, %d refused by their preconditions, apps changed hands %d times", *firstOne, *firstOne+uint64(*runs)-1, writes, refused, moved)
	if writes == 0 || refused == 0 || moved == 0 {
		t.Error("nothing was tried")
	}
}

func (w *world) create() {
	k := Key{"default", fmt.Sprintf("app%d", w.rng.IntN(8))}
	if w.apps[k] != nil {
		return
	}
	w.apps[k] = &App{Key: k, UID: "a" + w.bump(), Version: w.bump(), Generation: 1, Replicas: w.rng.IntN(6), Image: "i"}
	w.disturb(k)
	w.show(k)
}

// anApp is one of them by chance.
func (w *world) anApp() *App {
	for i := range 8 {
		if a := w.apps[Key{"default", fmt.Sprintf("app%d", (i+w.rng.IntN(8))%8)}]; a != nil {
			return a
		}
	}
	return nil
}

func (w *world) happen() {
	a := w.anApp()
	switch n := w.rng.IntN(14); {
	case n < 2 || a == nil:
		w.create()
	case n == 2 && a.DeletedAt.IsZero():
		a.Replicas, a.Generation, a.Version = w.rng.IntN(6), a.Generation+1, w.bump()
		w.disturb(a.Key)
		w.show(a.Key)
	case n == 3 && a.DeletedAt.IsZero():
		w.erase(a)
	case n < 6:
		w.breakPod(a)
	case n == 6:
		w.kill(w.rng.IntN(len(w.replicas)))
	case n == 7 && w.living() < 7:
		for range 1 + w.rng.IntN(7-w.living()) { // perhaps a storm
			w.enter()
		}
	case n == 8:
		w.split, w.calm = !w.split, w.now
	case n == 9:
		w.cut(w.replicas[w.rng.IntN(len(w.replicas))])
	case n == 10:
		w.configure()
	case n == 11:
		w.send(stranger(w), Message{Kind: Configure, Origin: "liar", Config: Config{w.config.Version + uint64(w.rng.IntN(100)), "forged"}})
		w.send(stranger(w), Message{Kind: Delete, Origin: "liar", Namespace: a.Namespace, Name: a.Name})
	default:
		if len(w.heard) > 0 {
			w.send(stranger(w), w.heard[w.rng.IntN(len(w.heard))])
		}
	}
}

// stranger is a sender that is no replica, in one of the parts.
func stranger(w *world) *replica { return &replica{part: w.rng.IntN(2)} }

func (w *world) living() (n int) {
	for _, r := range w.replicas {
		if !r.dead {
			n++
		}
	}
	return n
}

func (w *world) enter() {
	w.join()
	r := w.replicas[len(w.replicas)-1]
	w.later(2*time.Second, func() { w.relist(r) })
	for _, o := range w.replicas { // the exchange of states when one joins
		if o != r && !o.dead {
			r.core.Receive(o.core.State(w.now), w.now)
		}
	}
}

func (w *world) kill(i int) {
	r := w.replicas[i]
	if r.dead || w.living() == 1 {
		return
	}
	r.dead, w.calm = true, w.now
	w.later(15*time.Second, func() { r.part = -1 }) // until then it is listed
}

// cut takes the API server from a replica for a while.
func (w *world) cut(r *replica) {
	if r.dead || r.cut {
		return
	}
	r.cut = true
	w.later(40*time.Second, func() {
		r.cut, w.calm = false, w.now
		w.later(3*time.Second, func() {
			if !r.dead && !r.cut {
				w.relist(r)
			}
		})
	})
}

// configure changes the configuration; the watch of one replica is quicker than the others.
func (w *world) configure() {
	w.config = Config{w.config.Version + 1, fmt.Sprintf("digest-%d", w.config.Version+1)}
	for k := range w.apps {
		w.disturb(k)
	}
	for _, r := range w.replicas {
		w.later(20*time.Second, func() {
			if !r.dead && !r.cut {
				r.core.ConfigRead(w.config, w.now)
			}
		})
	}
}

func (w *world) erase(a *App) {
	a.DeletedAt, a.Generation, a.Version = w.now, a.Generation+1, w.bump()
	w.disturb(a.Key)
	if !a.Finalizer {
		delete(w.apps, a.Key)
	}
	w.show(a.Key)
}

// breakPod ends a pod, fails it, or puts somebody else's into its place.
func (w *world) breakPod(a *App) {
	name := fmt.Sprintf("%s-%d", a.Name, w.rng.IntN(6))
	switch p := w.pods[name]; {
	case p == nil && w.chance(0.3):
		w.pods[name] = &Pod{Name: name, UID: "p" + w.bump(), Version: w.bump()}
	case p == nil:
		return
	case w.chance(0.5):
		p.Failed, p.Version = true, w.bump()
	case !p.Terminating:
		p.Terminating, p.Version, w.ends[name] = true, w.bump(), w.now.Add(time.Second)
	}
	w.disturb(a.Key)
	w.show(a.Key)
}

// peace heals everything.
func (w *world) peace() {
	w.split, w.calm = false, w.now
	for _, r := range w.replicas {
		if r.cut {
			r.cut = false
			w.relist(r)
		}
	}
}
