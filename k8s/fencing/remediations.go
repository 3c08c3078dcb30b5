package fencing

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/remediation"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// Names from medik8s' contract for remediators.
const (
	nodeNameAnnotation = "remediation.medik8s.io/node-name"
	timedOutAnnotation = "remediation.medik8s.io/nhc-timed-out"

	remediationFinalizer = "fencing-agent.io/remediation"
	// wishLabel is a label of a NodeFence; its value is the UID of the remediation that created it.
	wishLabel = "fencing-agent.io/remediation-uid"
)

// FencingRemediation is a request of medik8s' NodeHealthCheck to fence a node. Its status is not a subresource, so its
// subject and the finalizer are set in one write.
type FencingRemediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   remediation.Spec   `json:"spec,omitzero"`
	Status remediation.Status `json:"status,omitzero"`

	read []byte // the object as it was read; nil: it was not read. See unknown.go
}

// FencingRemediationList is a list of FencingRemediations.
type FencingRemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FencingRemediation `json:"items"`
}

func (m *FencingRemediation) DeepCopyObject() runtime.Object {
	return deepCopy(m, &FencingRemediation{})
}

func (l *FencingRemediationList) DeepCopyObject() runtime.Object {
	return deepCopy(l, &FencingRemediationList{})
}

// node returns the node that a remediation is about.
func (m *FencingRemediation) node() string {
	if name := m.Annotations[nodeNameAnnotation]; name != "" {
		return name
	}
	return m.Name
}

// wishes reads the remediations in the Runner's namespace, where only accounts that may fence nodes can create them. It
// carries out the next write of each, and returns by node those that ask for a new NodeFence. A cluster without this
// type has no remediations.
func (r *Runner) wishes(ctx context.Context, c *fenceconfig.Config, survey *storm.Survey) map[string]*FencingRemediation {
	var list FencingRemediationList
	if err := r.Reader.List(ctx, &list, client.InNamespace(r.Namespace)); err != nil {
		if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) && r.unread != err.Error() {
			r.unread = err.Error() // an older role does not allow it: log it once
			r.Logger.Warn("remediations are not read: apply nodefence.yaml of this version", "err", err)
		}
		return nil
	}
	r.unread = ""
	out, facts := map[string]*FencingRemediation{}, make([]*remediation.Facts, len(list.Items))
	for i := range list.Items {
		f, err := r.remediationFacts(ctx, &list.Items[i], c, survey)
		if err != nil {
			r.Logger.Warn("cannot handle a remediation", "namespace", list.Items[i].Namespace, "name", list.Items[i].Name, "err", err)
			continue
		}
		if facts[i] = f; remediation.Wishes(*f) && out[f.Name] == nil {
			out[f.Name] = &list.Items[i]
		}
	}
	for i := range list.Items {
		m, f := &list.Items[i], facts[i]
		if f == nil {
			continue
		}
		f.Others = out[f.Name] != nil
		if err := r.remedy(ctx, m, *f); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			r.Logger.Warn("cannot handle a remediation", "namespace", m.Namespace, "name", m.Name, "err", err)
		}
	}
	return out
}

// remediationFacts reads the objects of one remediation: the NodeFence first, then the Node.
func (r *Runner) remediationFacts(ctx context.Context, m *FencingRemediation, c *fenceconfig.Config, survey *storm.Survey) (*remediation.Facts, error) {
	name := m.node()
	_, timedOut := m.Annotations[timedOutAnnotation]
	f := &remediation.Facts{
		Name: name, Deleting: m.DeletionTimestamp != nil, TimedOut: timedOut, Finalizer: slices.Contains(m.Finalizers, remediationFinalizer),
		Spec: m.Spec, Status: m.Status,
	}
	if v := survey.Allow(name, ""); !v.Allowed {
		f.Hindrance = v.Text
	}
	if n := c.Nodes[name]; n == nil {
		f.Hindrance = "there is no ConfigMap fence-config-" + name
	} else if n.Broken {
		f.Hindrance = "the node's configuration has problems: kubectl fence config check"
	}
	var fence NodeFence
	err := r.Reader.Get(ctx, types.NamespacedName{Name: NameOf(name)}, &fence)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read NodeFence: %w", err)
	}
	if err == nil {
		s := fence.Status
		f.Fence = &remediation.Fence{
			UID: string(fence.UID), Mine: fence.Labels[wishLabel] == string(m.UID), Deleting: fence.DeletionTimestamp != nil, Boot: s.Boot,
			GivenUp: s.Phase == nodefence.GivenUp, Message: text(s),
		}
		if p := s.Proof; p != nil && p.Boot == s.Boot {
			f.Fence.Proven, f.Fence.Contradicted = !p.Contradicted, p.Contradicted
		}
	}
	var n corev1.Node
	switch err := r.Reader.Get(ctx, types.NamespacedName{Name: name}, &n); {
	case err == nil:
		if f.Node = nodeOf(&n); f.Fence != nil {
			r.doubt(f, fence.Status.Proof)
		}
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("read Node: %w", err)
	}
	f.Now = r.Now().Truncate(time.Second)
	return f, nil
}

// doubt adds what disputes the proof of a NodeFence before the NodeFence itself has recorded it. Otherwise a
// remediation could end on the answer of devices that lie.
func (r *Runner) doubt(f *remediation.Facts, p *nodefence.Proof) {
	boot := f.Fence.Boot
	if p == nil || p.Boot != boot {
		return
	}
	is, devices := f.Node.Boot == boot, p.Kind != nodefence.ByAgents
	spoken := p.Contradicted || is && (f.Node.Disputed == boot || len(r.Seen(f.Name, boot)) > 0 || devices && f.Node.Heartbeat != p.Heartbeat)
	f.Fence.Lies, f.Fence.Proven = spoken && devices, f.Fence.Proven && !spoken
}

// text describes the state of a NodeFence for people.
func text(s nodefence.Status) string {
	out := fmt.Sprintf("%s is %s", s.Step, s.Phase)
	if s.Message != "" {
		out += ": " + s.Message
	}
	return out
}

// remedy carries out the next write of one remediation. Each replica may do so: each write names the version that it is
// based on.
func (r *Runner) remedy(ctx context.Context, m *FencingRemediation, f remediation.Facts) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	a := remediation.Decide(f)
	if a.Kind == remediation.Wait {
		return nil
	}
	r.Logger.Info("starting the next step of a remediation", "namespace", m.Namespace, "name", m.Name, "node", f.Name, "step", a.Why)
	switch a.Kind {
	case remediation.Update:
		m.Status = a.Status
		if !f.Finalizer && !f.Deleting {
			m.Finalizers = append(m.Finalizers, remediationFinalizer)
		}
		return r.Writer.Update(ctx, m)
	case remediation.DeleteFence:
		fence := &NodeFence{ObjectMeta: metav1.ObjectMeta{Name: NameOf(f.Name)}}
		return r.Writer.Delete(ctx, fence, client.Preconditions{UID: uidOf(a.UID)})
	default: // RemoveFinalizer
		m.Finalizers = slices.DeleteFunc(m.Finalizers, func(s string) bool { return s == remediationFinalizer })
		return r.Writer.Update(ctx, m)
	}
}

// wish checks again whether a remediation still asks for what it asked for when the round began: a fencing that has
// begun is not undone as easily as one that waits.
func (r *Runner) wish(ctx context.Context, m *FencingRemediation, n nodefence.Node) (string, nodefence.Step) {
	if m == nil {
		return "", ""
	}
	var now FencingRemediation
	if err := r.Reader.Get(ctx, types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, &now); err != nil || now.UID != m.UID {
		return "", ""
	}
	_, timedOut := now.Annotations[timedOutAnnotation]
	f := remediation.Facts{
		Deleting: now.DeletionTimestamp != nil, TimedOut: timedOut, Finalizer: slices.Contains(now.Finalizers, remediationFinalizer), Status: now.Status,
		Node: n,
	}
	if !remediation.Wishes(f) {
		return "", ""
	}
	return string(now.UID), nodefence.Step(now.Spec.Step)
}
