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
	// mostRequests is the number of requests of one machine that are carried out before other machines have their turn.
	mostRequests = 100
	// forgetAfter is the time for which a machine without work is kept, for people who look at it.
	forgetAfter = 10 * time.Minute
)

// Options is what a [Reconciler] needs.
type Options struct {
	Reader client.Reader // reads from the API server itself, not from a cache
	Writer client.Writer
	Events interface {
		Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
	}
	Logger   *slog.Logger
	Metrics  *Metrics
	Now      func() time.Time // the time of day, which Leases are compared with
	Self     string           // the name of this replica
	Replicas func() []Replica // the replicas that a cache shows
	// Power reports whether the devices of a node have proven the end of this boot; nil if no node is fenced by
	// devices.
	Power func(ctx context.Context, node, boot string) (bool, error)
	// Seen lists the nodes whose agents see this boot run, if there are enough of them; nil if their reports are not
	// read.
	Seen func(node, boot string) []string
	// Reported returns the report of a node's agent about dead nodes, from the API server and not from a cache; nil if
	// there is none. The function is nil if agents only name deaths in their Nodes' annotations.
	Reported func(ctx context.Context, node string) (*deaths.Report, error)

	Recovery          recovery.Settings
	Belief            belief.Settings
	Storm             storm.Settings
	Pause             time.Duration // how long a Node is left to each replica that comes before this one
	GroupLabel        string
	ExcludeNamespaces []string
	StatefulSetsOnly  bool
}

// Replica is a pod of the controller, and its Node; the Node is "" if it is not known.
type Replica struct{ Name, Node string }

// Reconciler has a machine for each Node that is called dead, or that has the taint of this program.
type Reconciler struct {
	options Options

	mu       sync.Mutex
	index    *index
	pace     *storm.Pace
	machines map[string]*work
	proven   chan event.GenericEvent // Nodes whose devices have proven the end of a boot
}

// work is the work on one Node.
type work struct {
	machine *recovery.Machine
	calls   *calls
	group   string
	begins  time.Time // not before that: other replicas come first
	told    recovery.State
	since   time.Time // when its phase last changed
	idle    time.Time // when it last ran out of work; zero: it has something to do
}

// New makes a reconciler that has seen nothing yet.
func New(o Options) *Reconciler {
	return &Reconciler{options: o, index: newIndex(), pace: storm.New(o.Storm), machines: map[string]*work{}, proven: make(chan event.GenericEvent, mostProven)}
}

// Proven makes the machine of a Node look at it: its devices have proven the end of a boot. It does not block. Its
// caller repeats the call as long as the proof is there.
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
	default: // the next call repeats it
	}
}

// Reconcile lets the machine of one Node work until it waits.
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

// take returns the work on a Node. It returns nil if there is none, and a time to wait if other replicas come first.
func (r *Reconciler) take(name string) (*work, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Now()
	w := r.machines[name]
	if w == nil {
		// A Node that is called dead need not exist: it may still be created.
		if len(r.index.about[name]) == 0 || !r.index.has(name) {
			return nil, 0
		}
		w = r.add(name, now)
	}
	if now.Before(w.begins) { // the replica that comes first may be called dead since then
		w.begins = earlier(w.begins, w.since.Add(r.delay(name)))
	}
	w.machine.Poke()
	return w, max(0, w.begins.Sub(now))
}

// add creates the machine of a Node. The caller holds the mutex.
func (r *Reconciler) add(name string, now time.Time) *work {
	w := &work{
		machine: recovery.New(r.options.Recovery, name, r.pace), calls: &calls{options: &r.options, name: name},
		begins: now.Add(r.delay(name)), since: now, told: recovery.State{Phase: recovery.Watching}, group: r.index.group[name],
	}
	r.machines[name] = w
	return w
}

// delay returns how long a Node is left to other replicas. The caller holds the mutex.
func (r *Reconciler) delay(name string) time.Duration {
	return ownership.Delay(name, r.options.Self, r.alive(), r.options.Pause)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// alive returns the replicas that may come before this one. A replica on a Node that is called dead stays listed until
// its pod is evicted. If the replicas run on two nodes, it would be first in the order for every second death, so it is
// left out. If that replica still runs, two replicas begin at once, which is harmless. The caller holds the mutex.
func (r *Reconciler) alive() []string {
	var names []string
	for _, o := range r.options.Replicas() {
		if o.Name == r.options.Self || len(r.index.about[o.Node]) == 0 {
			names = append(names, o.Name)
		}
	}
	return names
}

// next asks the machine for its next request, and adds what the index knows.
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

// deadBeside counts the other Nodes of a group that this replica works on. A Node that is called dead and was not
// looked at yet counts as well: a replica that starts in a storm knows no taint yet, and each of its workers would
// begin with one Node too many. The caller holds the mutex.
func (r *Reconciler) deadBeside(name, group string) (dead int) {
	for other, o := range r.machines { // the machine's own record of the group may be from before the Nodes were known
		if other != name && r.index.group[other] == group && (o.machine.State().Tainted || !o.machine.Seen()) {
			dead++
		}
	}
	for other := range r.index.about {
		if other != name && r.machines[other] == nil && r.index.group[other] == group { // "" is not a group
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

// rest returns how long there is nothing to do. A machine that is no longer needed is dropped after a while.
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

// Found makes the machine of a Node look at it, because it has the taint of this program, or its annotation of a
// dispute.
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
