package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/ownership"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

const (
	workers    = 4
	mostProven = 64 // Nodes that wait to be looked at
	// mostRequests of one machine are done before others get their turn.
	mostRequests = 100
	// forgetAfter is how long a machine without work is kept, for those who look at it.
	forgetAfter = 10 * time.Minute
)

// Options is what a [Reconciler] needs.
type Options struct {
	Reader client.Reader // of the API server itself, not of a cache
	Writer client.Writer
	Events interface {
		Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
	}
	Logger   *slog.Logger
	Metrics  *Metrics
	Now      func() time.Time // the time of day, which Leases are compared with
	Self     string           // this replica's name
	Replicas func() []Replica // that are there, as a cache shows them
	// Power reports whether the devices of a node have proven the end of this boot; nil if nothing is fenced by devices.
	Power func(ctx context.Context, node, boot string) (bool, error)
	// Seen are the nodes whose agents see this boot run, if they are enough; nil if nobody listens to them.
	Seen func(node, boot string) []string
	// Reported is what the agent of a node has told of dead nodes, as the API server has it and not a cache; nil if nothing.
	// It is nil itself if agents tell deaths in their Nodes' annotations alone.
	Reported func(ctx context.Context, node string) (*deaths.Report, error)

	Recovery          recovery.Settings
	Belief            belief.Settings
	Storm             storm.Settings
	Pause             time.Duration // for which a Node is left to each replica that comes before
	GroupLabel        string
	ExcludeNamespaces []string
	StatefulSetsOnly  bool
}

// Replica is a pod of the controller, and the Node that it is on; "" if that is not known.
type Replica struct{ Name, Node string }

// Reconciler has a machine for each Node that somebody calls dead, or that carries the taint of this program.
type Reconciler struct {
	options Options

	mu       sync.Mutex
	index    *index
	pace     *storm.Pace
	machines map[string]*work
	proven   chan event.GenericEvent // Nodes whose devices have proven something
}

// work is one Node.
type work struct {
	machine *recovery.Machine
	calls   *calls
	group   string
	begins  time.Time // not before that: others come first
	told    recovery.State
	since   time.Time // when its phase changed
	idle    time.Time // when it had nothing to do last; zero: it has
}

// New makes a reconciler that has seen nothing yet.
func New(o Options) *Reconciler {
	return &Reconciler{options: o, index: newIndex(), pace: storm.New(o.Storm), machines: map[string]*work{}, proven: make(chan event.GenericEvent, mostProven)}
}

// Proven has the machine of a Node look at it: its devices have proven the end of a boot. It does not block, and is
// called again and again as long as the proof is there.
func (r *Reconciler) Proven(node string) {
	r.mu.Lock()
	there := r.index.has(node)
	if there && r.machines[node] == nil {
		r.add(node, r.options.Now())
	}
	r.mu.Unlock()
	if !there {
		return
	}
	select {
	case r.proven <- event.GenericEvent{Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}}:
	default: // the next call says it
	}
}

// Reconcile lets the machine of one Node go on until it waits.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w, wait := r.take(req.Name)
	if w == nil || wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	for range mostRequests {
		request, q := r.next(req.Name, w)
		if request.Kind == recovery.Wait {
			return reconcile.Result{RequeueAfter: r.rest(req.Name, w, request.Until)}, nil
		}
		asked := r.options.Now()
		answer := w.calls.do(ctx, request, q)
		r.done(w, asked, answer)
		r.report(req.Name, w, request, answer)
	}
	return reconcile.Result{RequeueAfter: time.Millisecond}, nil
}

// take finds the work of a Node. The work is nil if there is none, and to be waited for if other replicas come first.
func (r *Reconciler) take(name string) (*work, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Now()
	w := r.machines[name]
	if w == nil {
		// Who is named need not be there: it comes with the Node.
		if len(r.index.about[name]) == 0 || !r.index.has(name) {
			return nil, 0
		}
		w = r.add(name, now)
	}
	if now.Before(w.begins) { // who comes first may be called dead since
		w.begins = earlier(w.begins, w.since.Add(r.delay(name)))
	}
	w.machine.Poke()
	return w, max(0, w.begins.Sub(now))
}

// add makes the machine of a Node. The caller holds the mutex.
func (r *Reconciler) add(name string, now time.Time) *work {
	w := &work{
		machine: recovery.New(r.options.Recovery, name, r.pace), calls: &calls{options: &r.options, name: name},
		begins: now.Add(r.delay(name)), since: now, told: recovery.State{Phase: recovery.Watching}, group: r.index.group[name],
	}
	r.machines[name] = w
	return w
}

// delay is how long a Node is left to others. The caller holds the mutex.
func (r *Reconciler) delay(name string) time.Duration {
	return ownership.Delay(name, r.options.Self, r.alive(), r.options.Pause)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// alive are the replicas to which this one leaves a Node. A replica on a Node that somebody calls dead is listed until its
// pod is evicted; if two nodes have the replicas, it would be the first in the order in every second death. If that
// replica runs all the same, two replicas begin at once, which is harmless. The caller holds the mutex.
func (r *Reconciler) alive() []string {
	var names []string
	for _, o := range r.options.Replicas() {
		if o.Name == r.options.Self || len(r.index.about[o.Node]) == 0 {
			names = append(names, o.Name)
		}
	}
	return names
}

// next asks the machine, and adds what the index knows.
func (r *Reconciler) next(name string, w *work) (recovery.Request, question) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request := w.machine.Next(r.options.Now())
	var q question
	if request.Kind == recovery.ReadReporters {
		w.group = r.index.group[name]
		q = question{tellers: r.index.tellers(name), size: r.index.size(w.group), dead: 1 + r.deadBeside(name, w.group)}
		for _, t := range q.tellers {
			q.accusers = append(q.accusers, r.index.tellers(t)...)
		}
	}
	return request, q
}

// deadBeside counts the other Nodes of a group that this replica works at. One that somebody calls dead and that was not
// looked at yet counts, too: a replica that starts in a storm knows of no taint, and would begin with one Node more for each
// of its workers. The caller holds the mutex.
func (r *Reconciler) deadBeside(name, group string) (dead int) {
	for other, o := range r.machines { // whose own note of the group may be from before the Nodes were known
		if other != name && r.index.group[other] == group && (o.machine.State().Tainted || !o.machine.Seen()) {
			dead++
		}
	}
	for other := range r.index.about {
		if other != name && r.machines[other] == nil && r.index.group[other] == group { // "" is no group
			dead++
		}
	}
	return dead
}

func (r *Reconciler) done(w *work, asked time.Time, a recovery.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.machine.Done(asked, r.options.Now(), a)
}

// rest is how long there is nothing to do. A machine that nobody needs any more is dropped after a while.
func (r *Reconciler) rest(name string, w *work, until time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Now()
	if !until.IsZero() {
		w.idle = time.Time{}
		return max(time.Millisecond, until.Sub(now))
	}
	if w.idle.IsZero() {
		w.idle = now
	}
	if now.Sub(w.idle) >= forgetAfter && len(r.index.about[name]) == 0 {
		delete(r.machines, name)
		r.options.Metrics.forget(name, w.told.Phase)
		return 0
	}
	return forgetAfter
}

// Found has the machine of a Node look at it: it carries the taint of this program, or its note of a dispute.
func (r *Reconciler) Found(n *corev1.Node) bool {
	s := nodeOf(n)
	if (!s.Tainted || !recovery.Ours(s.Taint)) && s.Note == "" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.machines[n.Name] == nil {
		r.add(n.Name, r.options.Now())
	}
	return true
}
