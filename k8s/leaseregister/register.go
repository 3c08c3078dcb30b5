package leaseregister

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
)

// Config is what a [Register] needs.
type Config struct {
	Client    *client.Client
	Namespace string
	Name      string        // of the Lease, see Name
	Timeout   time.Duration // of one operation
	Clock     boottime.Clock
	// OnCompletion is called at the end of each operation. It runs on Run's goroutine.
	OnCompletion func(leasequorum.Completion)
}

// Register is one Lease.
type Register struct {
	config Config
	rest   rest.Interface
	ops    chan leasequorum.Op
}

// Name returns the name of a group's Lease. A character that is not allowed in the name of an object becomes a hyphen.
// The role and the policy of the chart use the same name.
func Name(cluster, group string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower("fencing-agent-"+cluster+"-"+group))
}

// Log identifies the Lease in relays.
func (r *Register) Log() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.config.Namespace + "/" + r.config.Name))
	return max(1, h.Sum64())
}

// New returns a register. It does not connect.
func New(c Config) (*Register, error) {
	if c.Clock == nil || c.OnCompletion == nil || c.Timeout <= 0 || c.Name == "" || c.Namespace == "" {
		return nil, errors.New("lease register: clock, completion function, timeout, name and namespace are mandatory")
	}
	api, err := c.Client.For(client.Coordination)
	if err != nil {
		return nil, err
	}
	return &Register{config: c, rest: api, ops: make(chan leasequorum.Op, 1)}, nil
}

// Submit hands over an operation. There is room for one besides the operation that runs, which is more than an Arbiter
// ever needs; ok is false if there is no room.
func (r *Register) Submit(op leasequorum.Op) (ok bool) {
	select {
	case r.ops <- op:
		return true
	default:
		return false
	}
}

// Run performs the submitted operations until ctx ends.
func (r *Register) Run(ctx context.Context) {
	for {
		select {
		case op := <-r.ops:
			done := r.Do(ctx, op)
			if ctx.Err() != nil {
				return
			}
			r.config.OnCompletion(done)
		case <-ctx.Done():
			return
		}
	}
}

// Do performs one operation and blocks until it has ended or Timeout is over.
func (r *Register) Do(ctx context.Context, op leasequorum.Op) leasequorum.Completion {
	done := leasequorum.Completion{ID: op.ID, Started: r.config.Clock()}
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	lease, err := r.request(ctx, &op)
	done.Ended = r.config.Clock()
	if err == nil {
		done.Record, done.Version, err = decodeLease(lease)
	}
	switch {
	case err == nil && op.Kind != leasequorum.Read && done.Record.Tag != op.Record.Tag:
		// The write was changed, for example by an admission webhook.
		done.Outcome, done.Err = leasequorum.Unknown, fmt.Errorf("lease %s/%s: its content differs from what was written", r.config.Namespace, r.config.Name)
	case err == nil:
		done.Outcome = leasequorum.Done
	case op.Kind != leasequorum.Create && apierrors.IsNotFound(err):
		done.Outcome = leasequorum.Absent
	case op.Kind == leasequorum.Create && apierrors.IsAlreadyExists(err), op.Kind == leasequorum.Write && apierrors.IsConflict(err):
		done.Outcome = leasequorum.Conflict
	default:
		done.Outcome, done.Err = leasequorum.Unknown, err
	}
	return done
}

func (r *Register) request(ctx context.Context, op *leasequorum.Op) (*coordinationv1.Lease, error) {
	var q *rest.Request
	switch op.Kind {
	case leasequorum.Read:
		// Without a resourceVersion the answer is not from a cache.
		q = r.rest.Get().Name(r.config.Name)
	case leasequorum.Create:
		q = r.rest.Post()
	case leasequorum.Write:
		if op.Base.UID == "" || op.Base.Resource == "" {
			return nil, errors.New("a write must name the version that it replaces") // K1
		}
		q = r.rest.Put().Name(r.config.Name)
	default:
		return nil, fmt.Errorf("operation %d is not known", op.Kind)
	}
	if op.Kind != leasequorum.Read {
		l, err := r.lease(op)
		if err != nil {
			return nil, err
		}
		q = q.Body(l)
	}
	// client-go must not repeat a write: the second attempt would be refused because of the first.
	out := &coordinationv1.Lease{}
	err := q.MaxRetries(0).Namespace(r.config.Namespace).Resource("leases").Do(ctx).Into(out)
	return out, err
}

// shownHolders is the number of holders that spec shows.
const shownHolders = 8

func (r *Register) lease(op *leasequorum.Op) (*coordinationv1.Lease, error) {
	text, err := encode(&op.Record)
	if err != nil {
		return nil, err
	}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.config.Namespace, Name: r.config.Name, Annotations: map[string]string{Annotation: text},
		Labels: map[string]string{"app.kubernetes.io/name": "fencing-agent"},
		UID:    types.UID(op.Base.UID), ResourceVersion: op.Base.Resource,
	}}
	now := metav1.NowMicro()
	l.Spec.RenewTime = &now
	if holders := op.Record.Grant.Holders; len(holders) > 0 {
		var names []string
		for _, h := range holders[:min(len(holders), shownHolders)] {
			names = append(names, h.Node)
		}
		if more := len(holders) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		shown := strings.Join(names, ",")
		l.Spec.HolderIdentity = &shown
	}
	return l, nil
}
