package fencing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/ownership"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

const (
	requestTimeout = 5 * time.Second
	roundTimeout   = time.Minute
	busyRound      = 2 * time.Second
	// mostWrites is the greatest number of writes that a round makes for one node.
	mostWrites = 40
	pageSize   = 200
	// oldSurvey is the greatest age of the read of all Nodes at which a step may begin.
	oldSurvey = 5 * time.Second
)

// Runner fences nodes by their devices.
type Runner struct {
	Reader client.Reader // reads from the API server itself, not from a cache
	Writer client.Writer
	Events interface {
		Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
	}
	Logger    *slog.Logger
	Metrics   *Metrics
	Now       func() time.Time
	Namespace string            // of the ConfigMaps, Secrets and Jobs
	Image     string            // of the executor
	Selector  map[string]string // labels of the nodes on which executors may run; empty: all except the node that is fenced
	// GroupLabel defines the groups of Nodes. The limits apply to each group; MaxDeadPercent of a group may be dead.
	GroupLabel     string
	MaxDeadPercent int
	Self           string
	Replicas       func() []string
	Pause          time.Duration
	Proven         func(node string)    // called when there is a proof by power, or by a crash kernel
	Found          func([]deaths.Death) // gets all findings in each round; may be nil
	Crashes        *Crashes             // what crash kernels report; nil: nothing listens to them
	ToldIn         string               // the namespace with the agents' reports; empty: agents do not report

	wanted   map[string]time.Time           // by node: the time from which this replica has wanted to write
	wished   map[string]*FencingRemediation // by node, in this round
	leases   Held                           // by node: its Lease as this replica has seen it
	held     map[string]string              // by node: the limit that holds it up, as last logged
	problems string                         // as logged last
	unread   string                         // why remediations are not read, as logged last
	noLease  string                         // why a Lease is not read, as logged last
	noLeases string                         // why Leases are not listed, as logged last
	noEtcd   string                         // why members of etcd are not seen, as logged last
	listed   map[string]time.Time           // by node: when its Lease ends
	listedAt time.Time                      // when that read began
	renewals map[string]renewal             // by node: the latest renewal of its Lease
	seenLock sync.Mutex
	seen     map[string]seen // by node: the boot that agents see; guarded by seenLock
	returns  Held            // by node: how long its storages have been about to be given back
	storms   storm.History
	told     map[string]*sightings.Sighting // the agents' reports, by the ConfigMap's name

	places places // where executors may run, by the last read of all Nodes

	schemaNext time.Time       // when to ask about the schema next
	unstored   string          // what the schema of NodeFences lacks, by the API server's last answer
	waiting    map[string]bool // nodes that cannot be fenced because of that, as reported

	monitorFrom, monitorNext time.Time
	monitored                map[string]types.UID // by device: the Job whose end was last reported
	cleared                  bool                 // true after the first clear since fencing began
}

func (r *Runner) NeedLeaderElection() bool { return false }

// Start makes one round after the other until the context ends.
func (r *Runner) Start(ctx context.Context) error {
	for {
		pause, err := r.round(ctx)
		if err != nil && !errors.Is(err, context.Canceled) {
			r.Logger.Warn("a round of fencing by devices failed", "err", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// round looks at each managed node and each NodeFence once, and returns the time until the next round.
func (r *Runner) round(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	c, err := r.config(ctx)
	if err != nil {
		return busyRound, err
	}
	var fences NodeFenceList
	if err := r.Reader.List(ctx, &fences); err != nil {
		return busyRound, fmt.Errorf("list NodeFences: %w", err)
	}
	r.Metrics.show(fences.Items)
	r.askSchema(ctx)
	survey, nodes, err := r.survey(ctx, c, fences.Items)
	if err != nil {
		return busyRound, err
	}
	if r.Found != nil {
		r.Found(findings(fences.Items, nodes, r.ranOut))
	}
	work := map[string]bool{}
	r.wished = r.wishes(ctx, c, survey)
	for i := range fences.Items {
		f := &fences.Items[i]
		if f.Name != NameOf(f.Spec.NodeName) {
			r.Logger.Warn("a NodeFence is ignored, because its name is not derived from its node's name", "name", f.Name, "want", NameOf(f.Spec.NodeName))
			continue
		}
		work[f.Spec.NodeName] = true
		if d := deathOf(f); d != nil && !d.Contradicted {
			r.Proven(d.Node)
		}
	}
	for name := range c.Nodes {
		if n, ok := nodes[name]; ok && !n.Ready {
			work[name] = true
		}
	}
	if r.cleared = r.cleared && len(work) > 0; len(work) > 0 {
		if err := r.clear(ctx); err != nil { // a device may answer in spite of it
			r.Logger.Warn("cannot delete the Jobs that ask devices", "err", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(work)) {
		if r.Now().Sub(survey.At()) > oldSurvey {
			if survey, err = r.again(ctx, c); err != nil {
				return busyRound, err
			}
		}
		if err := r.node(ctx, name, c, survey); err != nil {
			r.Logger.Warn("fencing by devices failed for a node", "node", name, "err", err)
		}
	}
	maps.DeleteFunc(r.wanted, func(name string, _ time.Time) bool { return !work[name] })
	maps.DeleteFunc(r.held, func(name, _ string) bool { return !work[name] })
	maps.DeleteFunc(r.returns, func(name string, _ held) bool { return !work[name] })
	maps.DeleteFunc(r.leases, func(name string, _ held) bool { return !work[name] })
	if len(work) > 0 {
		return busyRound, nil
	}
	if err := r.monitor(ctx, c); err != nil {
		r.Logger.Warn("cannot ask devices whether they answer", "err", err)
	}
	return c.Cluster.Poll, nil
}

// again makes another pass of a round, which also sees what the round has begun.
func (r *Runner) again(ctx context.Context, c *fenceconfig.Config) (*storm.Survey, error) {
	var fences NodeFenceList
	if err := r.Reader.List(ctx, &fences); err != nil {
		return nil, fmt.Errorf("list NodeFences: %w", err)
	}
	survey, _, err := r.survey(ctx, c, fences.Items)
	return survey, err
}

// config reads all ConfigMaps of the namespace.
func (r *Runner) config(ctx context.Context) (*fenceconfig.Config, error) {
	var list corev1.ConfigMapList
	if err := r.Reader.List(ctx, &list, client.InNamespace(r.Namespace)); err != nil {
		return nil, fmt.Errorf("list ConfigMaps of %s: %w", r.Namespace, err)
	}
	if err := r.hear(ctx, &list); err != nil {
		return nil, err
	}
	objects := fenceconfig.Objects{}
	for i := range list.Items {
		objects[list.Items[i].Name] = list.Items[i].Data
	}
	c := fenceconfig.Read(objects, nil)
	// Options that agents do not know are reported before they are needed, and do not stop a fencing: the ConfigMap may
	// be older than the image, and the executor itself asks the agents in the image.
	problems, serious := fenceconfig.CheckAgents(objects, json.Unmarshal).Problems, 0
	for _, p := range problems {
		if !p.Warning {
			serious++
		}
	}
	r.Metrics.problems.Set(float64(serious))
	if text := fmt.Sprint(problems); text != r.problems {
		r.problems = text
		for _, p := range problems {
			r.Logger.Warn("the configuration of fencing has a problem", "problem", p.String())
		}
	}
	return c, nil
}

// node carries out writes until none is left, or until the survey that allows them is too old. Then the next round
// continues.
func (r *Runner) node(ctx context.Context, name string, c *fenceconfig.Config, survey *storm.Survey) error {
	for i := range mostWrites {
		if i > 0 && r.Now().Sub(survey.At()) > oldSurvey {
			return nil
		}
		f, object, err := r.facts(ctx, name, c, survey)
		if err != nil {
			return err
		}
		a := nodefence.Decide(f)
		if a.Kind == nodefence.Wait {
			delete(r.wanted, name)
			r.waits(name, f, a)
			return nil
		}
		if !r.turn(name, f.Now) {
			return nil
		}
		if err := r.write(ctx, name, a, object); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
				return nil // another writer was faster: the next round reads the result
			}
			if lacks(err) {
				r.notStored(name, err)
				return nil // the next round tries again
			}
			return err
		}
		if a.Kind == nodefence.Create || a.Status.Phase == nodefence.Running && a.Status.Step != nodefence.Recovery {
			survey.Begun(name)
		}
		delete(r.held, name)
		r.tell(name, f.Object, a)
	}
	return nil
}

// turn reports whether this replica writes now, or leaves the write to the replicas before it.
func (r *Runner) turn(name string, now time.Time) bool {
	if r.wanted == nil {
		r.wanted = map[string]time.Time{}
	}
	if r.wanted[name].IsZero() {
		r.wanted[name] = now
	}
	return now.Sub(r.wanted[name]) >= ownership.Delay(name, r.Self, r.Replicas(), r.Pause)
}

// write carries out one action.
func (r *Runner) write(ctx context.Context, node string, a nodefence.Action, object *NodeFence) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: a.Name, Namespace: r.Namespace}}
	switch a.Kind {
	case nodefence.Create:
		return r.Writer.Create(ctx, &NodeFence{
			TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "NodeFence"},
			ObjectMeta: metav1.ObjectMeta{
				Name: NameOf(node), Finalizers: []string{finalizer}, Labels: wishedBy(a.Wish),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(a.Spec.NodeUID)}},
			},
			Spec: a.Spec, Status: a.Status,
		}, strict)
	case nodefence.Update:
		object.Status = a.Status
		if object.DeletionTimestamp == nil && !slices.Contains(object.Finalizers, finalizer) {
			object.Finalizers = append(object.Finalizers, finalizer) // a person created it by hand
		}
		return r.Writer.Update(ctx, object, strict)
	case nodefence.CreateJob:
		return r.Writer.Create(ctx, r.job(a, object))
	case nodefence.StartJob:
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": a.UID}, "spec": map[string]any{"suspend": false}})
		if err != nil {
			return fmt.Errorf("start Job %s: %w", a.Name, err)
		}
		return r.Writer.Patch(ctx, job, client.RawPatch(types.MergePatchType, body))
	case nodefence.DeleteJob:
		return r.Writer.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{UID: uidOf(a.UID), ResourceVersion: &a.Version})
	case nodefence.Delete:
		return r.Writer.Delete(ctx, object, client.Preconditions{UID: uidOf(a.UID)})
	case nodefence.RemoveFinalizer:
		object.Finalizers = slices.DeleteFunc(object.Finalizers, func(s string) bool { return s == finalizer })
		return r.Writer.Update(ctx, object)
	default:
		return nil
	}
}

// wishedBy returns the labels of a NodeFence that a remediation asked for.
func wishedBy(uid string) map[string]string {
	if uid == "" {
		return nil
	}
	return map[string]string{wishLabel: uid}
}

// reasons maps actions to the reasons of Events.
var reasons = map[nodefence.Kind]string{
	nodefence.Create: "NodeFenceStarted", nodefence.CreateJob: "FenceJob", nodefence.RemoveFinalizer: "NodeFenceEnded",
}

// tell informs people about a write. was is the NodeFence before the write; nil if there was none.
func (r *Runner) tell(node string, was *nodefence.Object, a nodefence.Action) {
	step, phase := a.Status.Step, a.Status.Phase
	r.Logger.Info("fencing by devices took a step", "node", node, "wrote", a.Why, "job", a.Name, "step", string(step), "phase", string(phase))
	reason, note, kind := reasons[a.Kind], a.Why, corev1.EventTypeNormal
	if a.Kind == nodefence.Update {
		r.Metrics.ended(was.Status, a.Status)
		switch {
		case a.Status.Held() != "" && a.Status.Held() != was.Status.Held():
			reason, kind = skippedReason, corev1.EventTypeWarning
			r.Metrics.skipped.WithLabelValues(a.Status.Held()).Inc()
		case phase == nodefence.GivenUp:
			reason, kind = "FenceGivenUp", corev1.EventTypeWarning
		case phase == nodefence.Error && was.Status.Phase != phase:
			reason, kind = "FenceFailed", corev1.EventTypeWarning
		case a.Status.Proof != nil && was.Status.Proof == nil && a.Status.Proof.Kind == nodefence.ByPower:
			reason = "PowerOffConfirmed"
		case a.Status.Proof != nil && was.Status.Proof == nil && a.Status.Proof.Kind == nodefence.ByKdump:
			reason = "CrashKernelHeard"
		case phase == nodefence.Done && was.Status.Phase != phase:
			reason = "FenceStepDone"
		}
	}
	if reason == "" {
		return
	}
	about := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID(node)}}
	r.Events.Eventf(about, nil, kind, reason, "Fencing-"+string(step)+string(phase)+a.Name, "%s", clip(note))
}
