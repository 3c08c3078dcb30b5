package distributedapp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/ownership"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// patience is T: each app is as it should be so long after the last thing that happened to it, while one replica works. It
// covers the pauses of six replicas that are listed and gone, the wait for a calm list, and a write that was lost.
const patience = 75 * time.Second

// world is an API server, the replicas, and what carries their messages. It is the oracle as well: it counts writes, and
// knows when each app was last disturbed. It knows nothing of ranks, of what is due, or of plans.
type world struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	now  time.Time
	rank func(string, string, []string) int

	version int
	apps    map[Key]*App
	pods    map[string]*Pod // by name; one namespace
	ends    map[string]time.Time
	config  Config
	touched map[Key]time.Time // last disturbed
	calm    time.Time         // since when nothing happens to replicas

	replicas []*replica
	born     int
	air      []flight
	heard    []Message // for replays
	split    bool      // gossip is in two parts

	writes, blind, refused, moved int
	taken                         map[string]int // writes by replica
}

// flight is something on its way: a message, a write, what a watch shows.
type flight struct {
	at time.Time
	do func()
}

// replica is one process of the operator.
type replica struct {
	name string
	core *Core
	part int
	dead bool
	cut  bool // from the API server
	busy map[Key]bool
	seen map[Key]string // version that its watch has shown
}

func newWorld(t *testing.T, seed uint64, n int) *world {
	w := &world{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 8)), now: start, apps: map[Key]*App{}, pods: map[string]*Pod{}, ends: map[string]time.Time{},
		touched: map[Key]time.Time{}, config: Config{1, "digest-1"}, calm: start, taken: map[string]int{}}
	w.rank = ownership.Rank
	if seed%4 == 0 {
		w.rank = ownership.RankModulo
	}
	for range n {
		w.join()
	}
	return w
}

func (w *world) bad(format string, args ...any) {
	w.t.Errorf("seed %d, %v: %s", w.seed, w.now.Sub(start), fmt.Sprintf(format, args...))
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

func (w *world) later(most time.Duration, do func()) {
	w.air = append(w.air, flight{w.now.Add(time.Duration(w.rng.Int64N(int64(most)))), do})
}

// join starts one more replica.
func (w *world) join() {
	w.born++
	s := Defaults(fmt.Sprintf("operator-%d", w.born))
	s.Rank = w.rank
	r := &replica{name: s.Self, core: New(s), busy: map[Key]bool{}, seen: map[Key]string{}, part: w.born % 2}
	w.replicas = append(w.replicas, r)
	w.calm = w.now
}

// bump gives an object its next version.
func (w *world) bump() string {
	w.version++
	return fmt.Sprint(w.version)
}

// disturb notes that something has happened to an app that is to be put right.
func (w *world) disturb(k Key) { w.touched[k] = w.now }

// apply carries out a write as an API server does, and says whether it was taken. A write without a precondition is what
// the package promises never to send.
func (w *world) apply(r *replica, wr Write) (taken bool) {
	w.writes++
	if wr.Kind != CreatePod && (wr.UID == "" || wr.Version == "") {
		w.blind++
		w.bad("%s writes without a precondition: %+v", r.name, wr)
	}
	a, p := w.apps[wr.App], w.pods[wr.Pod]
	defer func() {
		if taken {
			w.taken[r.name]++
		} else {
			w.refused++
		}
	}()
	switch wr.Kind {
	case CreatePod:
		if p != nil {
			return false
		}
		if a != nil && a.UID == wr.Owner && !a.Finalizer {
			w.bad("%s makes a pod of %v before the finalizer is there", r.name, wr.App)
		}
		w.pods[wr.Pod] = &Pod{Name: wr.Pod, UID: "p" + w.bump(), Version: w.bump(), Owner: wr.Owner}
	case DeletePod:
		if p == nil || p.UID != wr.UID || p.Version != wr.Version {
			return false
		}
		if a == nil || p.Owner != a.UID {
			w.bad("%s deletes %s, which is not of %v", r.name, p.Name, wr.App)
		}
		p.Terminating, p.Version = true, w.bump()
		w.ends[p.Name] = w.now.Add(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
	default:
		if a == nil || a.UID != wr.UID || a.Version != wr.Version {
			return false
		}
		w.object(r, a, wr)
	}
	w.show(wr.App)
	return true
}

// object changes the app itself.
func (w *world) object(r *replica, a *App, wr Write) {
	a.Version = w.bump()
	switch wr.Kind {
	case AddFinalizer:
		a.Finalizer = true
	case RemoveFinalizer:
		for _, p := range w.pods {
			if p.Owner == a.UID {
				w.bad("%s lets %v go, and %s is there", r.name, a.Key, p.Name)
			}
		}
		delete(w.apps, a.Key)
	case WriteStatus:
		if wr.Status.Config.Version < a.Status.Config.Version {
			w.bad("%s reconciles %v by configuration %d after %d", r.name, a.Key, wr.Status.Config.Version, a.Status.Config.Version)
		}
		if wr.Status.Config.Digest != fmt.Sprintf("digest-%d", wr.Status.Config.Version) {
			w.bad("%s reconciles %v by %+v, which nobody has configured", r.name, a.Key, wr.Status.Config)
		}
		if wr.Status.ReconciledByPod != a.Status.ReconciledByPod {
			w.moved++
		}
		a.Status = wr.Status
	}
}

// show has the watches of all replicas show an app and its pods, sooner or later. What a replica was shown last is not
// followed by something older.
func (w *world) show(k Key) {
	for _, r := range w.replicas {
		if !r.dead {
			w.later(400*time.Millisecond, func() { w.watch(r, k) })
		}
	}
}

func (w *world) watch(r *replica, k Key) {
	if r.dead || r.cut {
		return
	}
	a := w.apps[k]
	if a == nil {
		r.core.Gone(k)
		return
	}
	if r.seen[k] != a.Version {
		r.seen[k] = a.Version
		r.core.Observe(*a, w.now)
	}
	r.core.Touch(k, w.now)
}

// relist is what a watch does that begins, or begins again.
func (w *world) relist(r *replica) {
	for k := range r.core.apps {
		if w.apps[k] == nil {
			r.core.Gone(k)
		}
	}
	for k := range w.apps {
		w.watch(r, k)
	}
	r.core.ConfigRead(w.config, w.now)
}

// members is whom a replica sees: its part of the gossip, and for some seconds those that are gone.
func (w *world) members(r *replica) (out []string) {
	for _, o := range w.replicas {
		if o == r || !o.dead && (!w.split || o.part == r.part) || o.dead && o.part != -1 {
			out = append(out, o.name)
		}
	}
	return out
}

// look has a replica look at an app: it reads, and writes a little later.
func (w *world) look(r *replica, k Key) {
	if r.busy[k] {
		r.core.Touch(k, w.now)
		return
	}
	r.busy[k] = true
	end := func(o Outcome, until time.Time) {
		r.busy[k] = false
		r.core.Finished(k, o, until, w.now)
	}
	w.later(50*time.Millisecond, func() {
		switch a := w.apps[k]; {
		case r.dead:
		case r.cut:
			end(Failed, time.Time{})
		case a == nil:
			r.busy[k] = false
			r.core.Gone(k)
		default:
			w.step(r, *a, end)
		}
	})
}

func (w *world) step(r *replica, a App, end func(Outcome, time.Time)) {
	var pods []Pod
	for _, p := range w.pods {
		pods = append(pods, *p)
	}
	members, changed := r.core.Membership()
	s := Plan(Facts{Now: w.now, Self: r.name, App: a, Pods: pods, Config: r.core.Config(), Members: members, Changed: changed, Stable: 20 * time.Second})
	if s.ReadConfig {
		r.core.ConfigRead(w.config, w.now)
	}
	if s.Write == nil {
		end(Settled, s.Until)
		return
	}
	wr, lost := *s.Write, w.chance(0.02)
	w.later(time.Duration(20+w.rng.IntN(300))*time.Millisecond, func() { // it lands though its sender be dead by then
		taken := false
		if !r.cut {
			taken = w.apply(r, wr)
		}
		switch {
		case r.dead:
		case r.cut || lost:
			end(Failed, time.Time{})
		case taken:
			end(Wrote, time.Time{})
		default:
			end(Conflict, time.Time{})
		}
	})
}

// send carries a message to all that the sender reaches; some are lost, some come twice.
func (w *world) send(from *replica, m Message) {
	w.heard = append(w.heard, m)
	for _, r := range w.replicas {
		if r == from || r.dead || w.split && r.part != from.part || w.chance(0.1) {
			continue
		}
		for range 1 + w.rng.IntN(2) {
			w.later(time.Second, func() {
				if !r.dead {
					r.core.Receive(m, w.now)
				}
			})
		}
	}
}

// tick lets 50 ms pass.
func (w *world) tick() {
	w.now = w.now.Add(50 * time.Millisecond)
	landed := w.air
	w.air = nil
	for _, f := range landed {
		if f.at.After(w.now) {
			w.air = append(w.air, f)
		} else {
			f.do()
		}
	}
	w.kubernetes()
	for _, r := range w.replicas {
		if r.dead {
			continue
		}
		r.core.Members(w.members(r), w.now)
		work := r.core.Due(w.now)
		for _, m := range work.Tell {
			w.send(r, m)
		}
		if work.Config && !r.cut {
			r.core.ConfigRead(w.config, w.now)
		}
		for _, k := range work.Reads {
			if !r.cut {
				w.watch(r, k)
			}
		}
		for _, k := range work.Due {
			w.look(r, k)
		}
	}
	w.judge()
}

// kubernetes ends pods, and removes those whose owner is gone, as the garbage collector of Kubernetes does.
func (w *world) kubernetes() {
	for name, p := range w.pods {
		if end, ok := w.ends[name]; ok && !w.now.Before(end) {
			delete(w.ends, name)
			delete(w.pods, name)
			w.showOwner(p.Owner)
			continue
		}
		if p.Owner != "" && !p.Terminating && !slices.ContainsFunc(w.list(), func(a *App) bool { return a.UID == p.Owner }) && w.chance(0.05) {
			p.Terminating, w.ends[name] = true, w.now.Add(time.Second)
		}
	}
}

func (w *world) list() (out []*App) {
	for _, a := range w.apps {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *App) int { return len(a.UID) - len(b.UID) })
	return out
}

func (w *world) showOwner(uid string) {
	for _, a := range w.apps {
		if a.UID == uid {
			w.show(a.Key)
		}
	}
}

// judge looks whether each app is as it should be, or was disturbed lately, or nobody can work.
func (w *world) judge() {
	works := slices.ContainsFunc(w.replicas, func(r *replica) bool { return !r.dead && !r.cut })
	if !works {
		w.calm = w.now
	}
	for k, a := range w.apps {
		live := 0
		for _, p := range w.pods {
			if p.Owner == a.UID && !p.Terminating && !p.Failed {
				live++
			}
		}
		done := a.DeletedAt.IsZero() && live == a.Replicas && a.Status.Observed == a.Generation && a.Status.Config == w.config
		since := w.touched[k]
		if w.calm.After(since) {
			since = w.calm
		}
		if !done && w.now.Sub(since) > patience {
			w.bad("%v was not put right within %v: %d of %d pods, %+v, configuration %d", k, patience, live, a.Replicas, *a, w.config.Version)
			w.disturb(k)
		}
	}
}
