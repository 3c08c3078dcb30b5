package storagewatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/storagefence"
)

// Cleanup is the way in which volumes are detached from a node.
type Cleanup string

// The ways to detach volumes.
const (
	// CleanupTaint waits until the Node has the taint out-of-service, set by k8s/recovery or by a person. Kubernetes
	// then releases the volumes.
	CleanupTaint Cleanup = "taint"
	// CleanupDelete deletes VolumeAttachments. It needs a storage that refuses the writes of a node that it calls
	// offline.
	CleanupDelete Cleanup = "delete"
)

const (
	// OfflineTaint keeps replacements away from a node whose storage is offline.
	OfflineTaint = "fencing-agent.io/storage-offline"

	requestTimeout = 5 * time.Second
	actionFence    = "StorageFence"
)

// Options is what a [Runner] needs.
type Options struct {
	Reader client.Reader // reads from the API server itself, not from a cache
	Writer client.Writer
	Events interface {
		Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
	}
	Logger   *slog.Logger
	Metrics  *Metrics
	Now      func() time.Time
	Provider Provider
	Rules    storagefence.Rules
	Settings storagefence.Settings
	Workers  int
	Cleanup  Cleanup
	DryRun   bool // write only Events and the log
}

// Runner removes opted-in pods from nodes that their storage reports as offline.
type Runner struct {
	o     Options
	cache *storagefence.Cache // used by the goroutine of Start

	mu sync.Mutex
	// owed lists volumes of deleted pods whose attachments could not be deleted yet, by node. Guarded by mu. A restart
	// loses the list: then kube-controller-manager detaches them, minutes later.
	owed map[string][]string
}

// New creates a runner without nodes.
func New(o Options) *Runner {
	return &Runner{o: o, cache: storagefence.NewCache(o.Settings), owed: map[string][]string{}}
}

// NeedLeaderElection is false: all writes have preconditions, so two replicas do no harm.
func (r *Runner) NeedLeaderElection() bool { return false }

type ended struct {
	work    storagefence.Work
	began   time.Time
	attempt storagefence.Attempt
}

// Start polls until the context ends, and then waits for the attempts that run.
func (r *Runner) Start(ctx context.Context) error {
	done := make(chan ended)
	busy := 0
	poll := r.o.Now()
	for {
		if now := r.o.Now(); !now.Before(poll) {
			r.poll(ctx)
			poll = now.Add(r.o.Settings.Poll)
		}
		now := r.o.Now()
		for _, w := range r.cache.Due(now, r.o.Workers-busy) {
			busy++
			go func() { done <- ended{w, now, r.attempt(ctx, w)} }()
		}
		wake := poll
		if at := r.cache.Wake(); busy < r.o.Workers && !at.IsZero() && at.Before(poll) {
			wake = at
		}
		timer := time.NewTimer(max(0, wake.Sub(r.o.Now())))
		select {
		case <-timer.C:
		case e := <-done:
			busy--
			r.end(e)
		case <-ctx.Done():
			timer.Stop()
			for ; busy > 0; busy-- {
				<-done
			}
			return nil
		}
		timer.Stop()
	}
}

// poll asks the storage. If it does not answer, nothing changes.
func (r *Runner) poll(ctx context.Context) {
	nodes, err := r.ask(ctx, "")
	if err != nil {
		if ctx.Err() == nil {
			r.o.Logger.Warn("the storage does not report the health of its nodes: nothing is concluded", "err", err)
		}
		return
	}
	before := map[string]storagefence.State{}
	for _, n := range nodes {
		before[n.Name] = r.cache.State(n.Name)
		if n.Unread != "" && ctx.Err() == nil {
			r.o.Logger.Warn("the health of a node is not known: nothing is concluded for it", "node", n.Name, "err", n.Unread)
		}
	}
	r.cache.Observe(r.o.Now(), nodes)
	for _, n := range nodes {
		if was, is := before[n.Name], r.cache.State(n.Name); was != is && is == storagefence.Offline {
			r.o.Logger.Info("the storage reports that a node is offline", "node", n.Name, "before", was)
		}
	}
	r.o.Metrics.show(r.cache)
}

// ask asks about this node, or about all nodes if the name is empty. A storage that can only report all nodes at once
// is asked for all.
func (r *Runner) ask(ctx context.Context, node string) (nodes []storagefence.Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if one, can := r.o.Provider.(OneNode); can && node != "" {
		nodes = make([]storagefence.Node, 1)
		nodes[0], err = one.Node(ctx, node)
	} else {
		nodes, err = r.o.Provider.Nodes(ctx)
	}
	if err != nil {
		r.o.Metrics.failures.WithLabelValues(apiStorage).Inc()
	}
	for _, n := range nodes {
		if n.Unread != "" {
			r.o.Metrics.failures.WithLabelValues(apiStorage).Inc()
		}
	}
	return nodes, err
}

func (r *Runner) end(e ended) {
	now := r.o.Now()
	if !e.work.Return && !e.attempt.Waits {
		r.o.Metrics.seconds.Observe(now.Sub(e.began).Seconds())
	}
	if r.cache.End(e.began, now, e.work, e.attempt) {
		r.o.Metrics.givenUp.Inc()
		r.o.Logger.Error("cannot handle a node within the timeout: its pods are left alone until its storage is healthy and then unhealthy again, or until the node is looked at again",
			"node", e.work.Node, "timeout", r.o.Settings.Timeout, "again", r.o.Settings.Expiry)
	}
}

// attempt handles one node once.
func (r *Runner) attempt(ctx context.Context, w storagefence.Work) storagefence.Attempt {
	ctx, cancel := context.WithDeadline(ctx, w.Deadline)
	defer cancel()
	node, err := r.node(ctx, w.Node)
	if err != nil {
		return r.failed(w.Node, err)
	}
	switch {
	case node == nil:
		r.o.Logger.Info("a node of the storage is not a Node of Kubernetes: nothing is done", "node", w.Node)
		return storagefence.Attempt{}
	case w.Return:
		return r.returns(ctx, node)
	}
	f := &fence{Runner: r, node: w.Node, off: off(node)}
	if !f.off && r.o.Cleanup != CleanupDelete {
		r.o.Logger.Debug("the storage calls a node offline, but nothing shows that the node is off: waiting", "node", w.Node)
		return storagefence.Attempt{Waits: true}
	}
	if err := f.run(ctx, node); err != nil {
		return r.failed(w.Node, err)
	}
	return storagefence.Attempt{}
}

func (r *Runner) failed(node string, err error) storagefence.Attempt {
	if !errors.Is(err, errHealthy) && !errors.Is(err, context.Canceled) {
		r.o.Logger.Warn("cannot complete an attempt of storage fencing for a node", "node", node, "err", err)
	}
	return storagefence.Attempt{Failed: true}
}

// returns removes the taint from a node whose storage is healthy again.
func (r *Runner) returns(ctx context.Context, node *corev1.Node) storagefence.Attempt {
	r.owe(node.Name, nil)
	if !tainted(node) || r.o.DryRun {
		return storagefence.Attempt{}
	}
	if err := r.setTaint(ctx, node, false); err != nil {
		return r.failed(node.Name, err)
	}
	r.o.Logger.Info("the storage of a node is healthy again: pods may come back to it", "node", node.Name)
	return storagefence.Attempt{}
}

var errHealthy = errors.New("the storage calls the node healthy again")

// fence is one attempt.
type fence struct {
	*Runner
	node string
	off  bool // pods are deleted because the node is off

	pods        []corev1.Pod
	judged      []storagefence.Pod // the pods as judged, in the same order
	attachments []storagev1.VolumeAttachment
	unread      []error // why the health of some volumes is not known
}

// run judges each pod of the node, and deletes those that may be deleted.
func (f *fence) run(ctx context.Context, node *corev1.Node) error {
	if err := f.read(ctx); err != nil {
		return err
	}
	var errs []error
	var unsure []string // volumes of pods that may or may not have been deleted
	gone, kept := map[int]storagefence.Verdict{}, tainted(node) || f.off || f.o.DryRun
	for i := range f.pods {
		v := storagefence.Judge(f.o.Rules, f.judged[i], f.off)
		if v.Outcome != storagefence.Deleted {
			f.skip(i, v)
			continue
		}
		if !kept {
			if err := f.setTaint(ctx, node, true); err != nil {
				return fmt.Errorf("keep replacements off the node: %w", err)
			}
			kept = true
		}
		switch err := f.remove(ctx, i); {
		case errors.Is(err, errHealthy):
			return err
		case err != nil:
			f.o.Metrics.pods.WithLabelValues(string(storagefence.Failed)).Inc()
			unsure = append(unsure, v.PVs...)
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", f.pods[i].Namespace, f.pods[i].Name, err))
		default:
			gone[i] = v
		}
	}
	errs = append(errs, f.release(ctx, gone, unsure))
	return errors.Join(append(errs, f.unread...)...)
}

// skip reports why a pod that has opted in is left alone.
func (f *fence) skip(i int, v storagefence.Verdict) {
	f.o.Metrics.pods.WithLabelValues(string(v.Outcome)).Inc()
	if v.Text == "" {
		return
	}
	f.o.Logger.Info("a pod is left on a node that the storage reports as offline", "node", f.node, "pod", f.pods[i].Namespace+"/"+f.pods[i].Name, "outcome", v.Outcome, "why", v.Text)
	f.o.Events.Eventf(&f.pods[i], nil, corev1.EventTypeWarning, "StorageFenceSkipped", actionFence, "The storage has given up node %s; this pod is left alone: %s", f.node, v.Text)
}

// remove deletes one pod in the version that was judged, if the reasons still hold.
func (f *fence) remove(ctx context.Context, i int) error {
	p := &f.pods[i]
	if err := f.stillOffline(ctx); err != nil {
		return err
	}
	log := f.o.Logger.With("node", f.node, "pod", p.Namespace+"/"+p.Name)
	if f.o.DryRun {
		log.Info("would delete a pod, because the storage reports its node as offline; this is a dry run")
		f.o.Events.Eventf(p, nil, corev1.EventTypeNormal, "StorageFenceDryRun", actionFence, "The storage has given up node %s; this pod would be deleted without grace", f.node)
		return nil
	}
	if err := f.deletePod(ctx, p); err != nil {
		return err
	}
	f.o.Metrics.pods.WithLabelValues(string(storagefence.Deleted)).Inc()
	log.Info("a pod was deleted without grace: the storage reports its node as offline, and the volumes of the pod are healthy")
	f.o.Events.Eventf(p, nil, corev1.EventTypeNormal, "StorageFenced", actionFence, "The storage has given up node %s and this pod's volumes are healthy: deleted without grace, so that it starts elsewhere", f.node)
	return nil
}

// stillOffline checks again whether the reasons for a deletion hold.
//
// Invariant: between this check and the deletion there is no other request and no wait.
func (f *fence) stillOffline(ctx context.Context) error {
	if f.off {
		n, err := f.Runner.node(ctx, f.node)
		if err != nil {
			return err
		}
		if n == nil || !off(n) {
			return errors.New("the Node no longer has the taint out-of-service of this boot")
		}
	}
	nodes, err := f.ask(ctx, f.node)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		switch {
		case n.Name != f.node:
		case n.Unread != "": // it may still be offline: the list of owed attachments stays
			return fmt.Errorf("it is not known whether the node is still offline: %s", n.Unread)
		case n.Health == storagefence.Unhealthy:
			return nil
		}
	}
	return errHealthy
}

// release deletes the attachments of volumes whose pods are gone. If the Node is off, Kubernetes does that.
//
// Invariant: none is deleted while the storage calls the node healthy: the storage then accepts that node's writes, and
// the pod may still run there. Its kubelet ends the pod, and kube-controller-manager detaches the volume.
//
// The attachments of a pod whose deletion failed are left to the next attempt: the API server may have deleted the pod
// without an answer. If the pod is still there, its volumes stay.
func (f *fence) release(ctx context.Context, gone map[int]storagefence.Verdict, unsure []string) error {
	if f.off || f.o.DryRun {
		return nil
	}
	var staying []storagefence.Pod
	f.mu.Lock()
	pvs := slices.Clone(f.owed[f.node])
	f.mu.Unlock()
	for i := range f.judged {
		if v, ok := gone[i]; ok {
			pvs = append(pvs, v.PVs...)
		} else {
			staying = append(staying, f.judged[i])
		}
	}
	free := storagefence.Releasable(pvs, staying)
	owed := unsure
	var errs []error
	for i := range f.attachments {
		a := &f.attachments[i]
		pv := a.Spec.Source.PersistentVolumeName
		if a.Spec.NodeName != f.node || a.Spec.Attacher != f.o.Rules.Driver || pv == nil || !slices.Contains(free, *pv) || a.DeletionTimestamp != nil {
			continue
		}
		err := f.stillOffline(ctx)
		if errors.Is(err, errHealthy) {
			f.owe(f.node, nil)
			return errors.Join(append(errs, err)...)
		}
		if err == nil {
			err = f.deleteAttachment(ctx, a)
		}
		if err != nil {
			errs, owed = append(errs, fmt.Errorf("VolumeAttachment %s: %w", a.Name, err)), append(owed, *pv)
			continue
		}
		f.o.Logger.Info("a VolumeAttachment was deleted", "node", f.node, "volume", *pv, "attachment", a.Name)
	}
	f.owe(f.node, owed)
	return errors.Join(errs...)
}

func (r *Runner) owe(node string, pvs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owed[node] = pvs; len(pvs) == 0 {
		delete(r.owed, node)
	}
}
