package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

const (
	requestTimeout = 5 * time.Second
	mostAccusers   = 8
)

// calls carries out the requests of one machine. It is used by one goroutine at a time.
type calls struct {
	options *Options
	name    string
	node    *corev1.Node // as it was last read: a patch of its taints starts from it
}

// do carries out one request. question is what ReadReporters asks about.
func (c *calls) do(ctx context.Context, r recovery.Request, q question) recovery.Reply {
	timeout := requestTimeout
	if !r.Deadline.IsZero() {
		left := r.Deadline.Sub(c.options.Now())
		if left <= 0 {
			return recovery.Reply{Outcome: recovery.Late}
		}
		timeout = min(timeout, left)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch r.Kind {
	case recovery.ReadPods:
		return c.readPods(ctx)
	case recovery.ReadNode:
		return c.readNode(ctx)
	case recovery.ReadReporters:
		return c.readReporters(ctx, r, q)
	case recovery.ReadLease:
		l, err := c.lease(ctx, c.name)
		return reply(err, recovery.Reply{Lease: l})
	default:
		return c.write(ctx, r)
	}
}

// write distinguishes a write that was too late to be sent from one that may have been carried out. A request that had
// a connection may have been sent. If the write has no deadline of its own, a request that was not sent is a failure.
func (c *calls) write(ctx context.Context, r recovery.Request) recovery.Reply {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	var err error
	switch r.Kind {
	case recovery.DeletePod:
		err = c.deletePod(ctx, r.Pod)
	case recovery.SetNote:
		err = c.patchNote(ctx, r)
	default:
		err = c.patchTaint(ctx, r)
	}
	if err != nil && !r.Deadline.IsZero() && tooLate(ctx, err) && !sent.Load() {
		return recovery.Reply{Outcome: recovery.Late}
	}
	return reply(err, recovery.Reply{})
}

// tooLate reports whether a deadline has passed, or would pass before the client's rate limiter lets the request go.
// The rate limiter returns its error at once. An error of a connection, or of the lack of one, is a *url.Error.
func tooLate(ctx context.Context, err error) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.As(err, new(*url.Error))
}

func reply(err error, r recovery.Reply) recovery.Reply {
	switch {
	case err == nil:
	case apierrors.IsConflict(err):
		r.Outcome = recovery.Conflict
	case apierrors.IsNotFound(err):
		r.Outcome = recovery.Missing
	default:
		r.Outcome, r.Error = recovery.Failed, err.Error()
	}
	return r
}

func (c *calls) readPods(ctx context.Context) recovery.Reply {
	var list corev1.PodList
	err := c.options.Reader.List(ctx, &list, client.MatchingFields{"spec.nodeName": c.name})
	var out []recovery.Pod
	for i := range list.Items {
		out = append(out, c.options.podOf(&list.Items[i]))
	}
	return reply(err, recovery.Reply{Pods: out})
}

func (c *calls) readNode(ctx context.Context) recovery.Reply {
	n, err := c.getNode(ctx, c.name)
	if c.node = n; n == nil {
		return reply(err, recovery.Reply{})
	}
	return recovery.Reply{Node: nodeOf(n)}
}

// getNode returns nil for a Node that does not exist.
func (c *calls) getNode(ctx context.Context, name string) (*corev1.Node, error) {
	var n corev1.Node
	if err := c.options.Reader.Get(ctx, types.NamespacedName{Name: name}, &n); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &n, nil
}

// lease returns the zero value if there is no Lease.
func (c *calls) lease(ctx context.Context, node string) (recovery.Lease, error) {
	var l coordinationv1.Lease
	if err := c.options.Reader.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node}, &l); err != nil {
		return recovery.Lease{}, client.IgnoreNotFound(err)
	}
	return leaseOf(&l), nil
}

// question holds what the index knew when the reporters were to be read.
type question struct {
	tellers  []string // Nodes that call the Node dead
	accusers []string // Nodes that call one of the tellers dead
	size     int      // of the group
	dead     int      // nodes of the group that this replica works on
}

// readReporters reads the Nodes that report the death, a part of them if there are many, those that reported it before,
// and those that call a reporter dead.
func (c *calls) readReporters(ctx context.Context, r recovery.Request, q question) recovery.Reply {
	power := false
	if c.node != nil && c.options.Power != nil {
		var err error
		if power, err = c.options.Power(ctx, c.name, r.Boot); err != nil {
			return reply(err, recovery.Reply{})
		}
	}
	if c.node == nil || !power && len(q.tellers) == 0 && len(r.Before) == 0 {
		return recovery.Reply{}
	}
	// Besides the earlier reporters, read as many others as are needed to believe the death without them.
	need := c.options.Belief.Need(c.node.Labels[c.options.GroupLabel], q.size)
	others := max(need, recovery.MostReporters-len(r.Before))
	names := slices.Concat(r.Before, some(q.tellers, others), some(q.accusers, mostAccusers))
	slices.Sort(names)
	var nodes []belief.Node
	for _, name := range slices.Compact(names) {
		l, err := c.lease(ctx, name)
		if err != nil {
			return reply(err, recovery.Reply{})
		}
		n, err := c.getNode(ctx, name)
		if err != nil {
			return reply(err, recovery.Reply{})
		}
		if n == nil {
			continue
		}
		var told *deaths.Report
		if c.options.Reported != nil {
			// Such a Node may have withdrawn what its annotation reports: it is not a reporter.
			if told, err = c.options.Reported(ctx, name); errors.Is(err, deaths.ErrUnreadable) {
				continue
			}
			if err != nil {
				return reply(err, recovery.Reply{})
			}
		}
		nodes = append(nodes, beliefOf(n, told, c.options.GroupLabel, l, c.options.Now()))
	}
	group := c.node.Labels[c.options.GroupLabel]
	var seen []string
	if c.options.Seen != nil {
		seen = c.options.Seen(c.name, r.Boot)
	}
	v := belief.Judge(c.options.Belief, belief.Question{
		Node: c.name, Group: group, Boot: r.Boot, GroupSize: q.size, Unknown: r.Unknown, Before: r.Before, Power: power, Seen: seen,
	}, nodes)
	return recovery.Reply{Verdict: v, Group: recovery.Group{Name: group, Size: q.size, Dead: q.dead}}
}

// some returns up to n of the names, different ones each time: a reporter that does not count must not be in the way
// for ever.
func some(names []string, n int) []string {
	names = slices.Clone(names)
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:min(n, len(names))]
}

var errStale = errors.New("the Node has been read again since then")

// metadata and spec are the parts of a merge patch of a Node.
type metadata struct {
	ResourceVersion string             `json:"resourceVersion"`
	Annotations     map[string]*string `json:"annotations,omitempty"`
}

type spec struct {
	Taints []corev1.Taint `json:"taints"`
}

// patchNote changes only the annotation, and only on the version of the Node that was read.
func (c *calls) patchNote(ctx context.Context, r recovery.Request) error {
	var value *string // null removes it
	if r.Value != "" {
		value = &r.Value
	}
	return c.patch(ctx, r, struct {
		Metadata metadata `json:"metadata"`
	}{metadata{r.Version, map[string]*string{recovery.NoteKey: value}}})
}

// patchTaint changes only this taint, and only on the version of the Node that was read: a list in a merge patch
// replaces the whole list.
func (c *calls) patchTaint(ctx context.Context, r recovery.Request) error {
	if c.node == nil {
		return errStale
	}
	taints := slices.DeleteFunc(slices.Clone(c.node.Spec.Taints), func(t corev1.Taint) bool { return t.Key == recovery.TaintKey })
	if r.Kind == recovery.SetTaint {
		added := metav1.NewTime(c.options.Now())
		taints = append(taints, corev1.Taint{Key: recovery.TaintKey, Value: r.Value, Effect: corev1.TaintEffectNoExecute, TimeAdded: &added})
	}
	return c.patch(ctx, r, struct {
		Metadata metadata `json:"metadata"`
		Spec     spec     `json:"spec"`
	}{metadata{r.Version, nil}, spec{taints}})
}

func (c *calls) patch(ctx context.Context, r recovery.Request, what any) error {
	if c.node == nil || string(c.node.UID) != r.UID || c.node.ResourceVersion != r.Version {
		return errStale
	}
	body, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("patch of Node %s: %w", c.name, err)
	}
	return c.options.Writer.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.name}}, client.RawPatch(types.MergePatchType, body))
}

func (c *calls) deletePod(ctx context.Context, p recovery.Pod) error {
	uid := types.UID(p.UID)
	return c.options.Writer.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}},
		client.GracePeriodSeconds(0), client.Preconditions{UID: &uid, ResourceVersion: &p.Version})
}
