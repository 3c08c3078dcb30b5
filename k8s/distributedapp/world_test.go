package distributedapp

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/k8s/ownership"
)

// patience is T of k8s/distributedapp: while one replica works, each app is as it should be within this time after the
// last event that concerned the app or the replicas.
const patience = 75 * time.Second

// world is replicas with their goroutines on virtual time, an API server in memory and a gossip that can be split. A
// seed gives the same faults again. It does not determine the order of goroutines that wake at the same moment.
type world struct {
	t   *testing.T
	api *api

	mu       sync.Mutex
	replicas []*replica
	split    bool
	calm     time.Time // when the replicas were last disturbed
	rank     func(string, string, []string) int
}

type replica struct {
	w      *world
	name   string
	r      *Replica
	reg    *prometheus.Registry
	listed []string  // the replicas that the gossip listed last
	since  time.Time // when it began to list them
	part   int
	dead   bool
	gone   bool // dead, and no longer listed
	cut    bool // cut off from the API server
	cancel context.CancelFunc
	done   chan struct{}
}

func newWorld(t *testing.T, seed uint64, n int) *world {
	w := &world{t: t, api: newAPI(t, seed), calm: time.Now(), rank: ownership.Rank}
	if seed%4 == 0 {
		w.rank = ownership.RankModulo
	}
	w.api.changed = w.watches
	for range n {
		w.join()
	}
	return w
}

func (w *world) join() *replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	rep := &replica{w: w, name: fmt.Sprintf("operator-%d", len(w.replicas)), part: len(w.replicas) % 2, reg: prometheus.NewRegistry(), done: make(chan struct{})}
	c := caller{api: w.api, who: rep.name, cut: func() bool { w.mu.Lock(); defer w.mu.Unlock(); return rep.cut }}
	rep.r = New(Options{Self: rep.name, Rank: w.rank, Reader: c, Writer: c, Namespace: "ops", Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(rep.reg)})
	rep.r.gossip = rep
	w.replicas = append(w.replicas, rep)
	w.calm = time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	rep.cancel = cancel
	go func() { defer close(rep.done); _ = rep.r.Start(ctx) }()
	go rep.relist()
	return rep
}

// Members lists the replicas that the gossip of a replica knows.
func (r *replica) Members() (out []string, since time.Time) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for _, o := range r.w.replicas {
		if o == r || !o.gone && (o.dead || !r.w.split || o.part == r.part) {
			out = append(out, o.name)
		}
	}
	if !slices.Equal(out, r.listed) {
		r.listed, r.since = out, time.Now()
	}
	return out, r.since
}

// Tell carries messages: some are lost, some arrive twice, all arrive late.
func (r *replica) Tell(m Message) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for _, o := range r.w.replicas {
		if o == r || o.dead || r.w.split && o.part != r.part {
			continue
		}
		for range r.w.api.random(3) {
			time.AfterFunc(time.Duration(r.w.api.random(1000))*time.Millisecond, func() { o.r.Receive(m) })
		}
	}
}

// watches makes the watch of each replica show an app and its pods, sooner or later. The caller holds api.mu.
func (w *world) watches(app string) {
	delays := make([]time.Duration, 16)
	for i := range delays {
		delays[i] = time.Duration(w.api.rng.IntN(400)) * time.Millisecond
	}
	time.AfterFunc(0, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, r := range w.replicas {
			time.AfterFunc(delays[i%len(delays)], func() { r.see(app) })
		}
	})
}

func (r *replica) deaf() bool {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return r.dead || r.cut
}

func (r *replica) see(app string) {
	if r.deaf() {
		return
	}
	a := r.w.api
	a.mu.Lock()
	var is *DistributedApp
	if d := a.apps[app]; d != nil {
		is = deepCopy(d, &DistributedApp{})
	}
	var pods []*corev1.Pod
	for _, p := range a.pods {
		if o := metav1.GetControllerOf(p); o != nil && o.Name == app {
			pods = append(pods, p.DeepCopy())
		}
	}
	a.mu.Unlock()
	if is != nil {
		r.r.seeApp(is)
	} else {
		r.r.loseApp(&DistributedApp{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app}})
	}
	for _, p := range pods {
		r.r.seePod(p)
	}
}

// relist starts a watch: the replica sees all apps and the configuration.
func (r *replica) relist() {
	for i := range 8 {
		r.see(appName(i))
	}
	r.seeConf()
}

func (r *replica) seeConf() {
	if r.deaf() {
		return
	}
	r.w.api.mu.Lock()
	conf := r.w.api.conf.DeepCopy()
	r.w.api.mu.Unlock()
	r.r.seeConfig(conf)
}

func appName(i int) string { return fmt.Sprintf("app%d", i) }

// configure changes the configuration; watches show it within 20 s.
func (w *world) configure(data map[string]string) {
	w.api.configure(data)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.replicas {
		time.AfterFunc(time.Duration(w.api.random(20000))*time.Millisecond, r.seeConf)
	}
}

// kill ends a replica like a crash; it stays listed for a while.
func (w *world) kill(r *replica, listed time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.dead || w.working(r) == 0 {
		return
	}
	r.dead, w.calm = true, time.Now()
	r.cancel()
	time.AfterFunc(listed, func() { w.mu.Lock(); r.gone = true; w.mu.Unlock() })
}

// working counts the other replicas that can work. The caller holds mu.
func (w *world) working(but *replica) (n int) {
	for _, r := range w.replicas {
		if r != but && !r.dead && !r.cut {
			n++
		}
	}
	return n
}

func (w *world) part(split bool) {
	w.mu.Lock()
	w.split, w.calm = split, time.Now()
	w.mu.Unlock()
	if !split { // gossip's states are exchanged
		for _, r := range w.replicas {
			for _, o := range w.replicas {
				if o != r && !o.dead {
					r.r.Receive(o.r.State())
				}
			}
		}
	}
}

func (w *world) isolate(r *replica, cut bool) {
	w.mu.Lock()
	if r.cut == cut || cut && w.working(r) == 0 {
		w.mu.Unlock()
		return
	}
	r.cut, w.calm = cut, time.Now()
	w.mu.Unlock()
	if !cut {
		r.relist()
	}
}

// pass advances the time, and checks the rules.
func (w *world) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(250 * time.Millisecond) // of the bubble
		w.api.collect()
		for name, wrong := range w.api.unsettled() {
			w.api.mu.Lock()
			since := w.api.touched[name]
			w.api.mu.Unlock()
			w.mu.Lock()
			if w.calm.After(since) {
				since = w.calm
			}
			w.mu.Unlock()
			if time.Since(since) > patience {
				w.t.Errorf("%s was not put right within %v: %s", name, patience, wrong)
				w.api.mu.Lock()
				w.api.touched[name] = time.Now()
				w.api.mu.Unlock()
			}
		}
	}
}

// until advances the time until a condition is true, and returns how long that took.
func (w *world) until(what string, is func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > patience {
			w.t.Fatalf("not within %v: %s: %v", patience, what, w.api.unsettled())
		}
		w.pass(250 * time.Millisecond)
	}
	return time.Since(began)
}

func (w *world) settled() bool { return len(w.api.unsettled()) == 0 }

// end stops all.
func (w *world) end() {
	for _, r := range w.replicas {
		r.cancel()
		<-r.done
	}
}

// first returns the replica that is first for an app.
func (w *world) first(app string) *replica {
	names, _ := w.replicas[0].Members()
	for _, r := range w.replicas {
		if w.rank("default/"+app, r.name, names) == 0 {
			return r
		}
	}
	w.t.Fatal("nobody is first")
	return nil
}
