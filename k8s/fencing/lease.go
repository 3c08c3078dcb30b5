package fencing

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaseLasts is the duration of a kubelet's Lease that states none, or that does not exist.
const leaseLasts = 40 * time.Second

// Held records for each node what a process sees of its Lease, and since when. It only uses the process's own clock, so
// a process that has just started begins at zero. It is not safe for concurrent use.
type Held map[string]held

type held struct {
	what  string
	since time.Time
}

// For returns how long this has been seen of a node.
func (h *Held) For(node, what string, now time.Time) time.Duration {
	was, known := (*h)[node]
	if !known || was.what != what || was.since.After(now) {
		if *h == nil {
			*h = Held{}
		}
		was = held{what, now}
		(*h)[node] = was
	}
	return now.Sub(was.since)
}

// Silent reports whether a kubelet's Lease was not renewed for its whole duration. It does not use the time in the
// Lease, since the node's clock may differ.
func (h *Held) Silent(node string, l *coordinationv1.Lease, now time.Time) bool {
	text, lasts := renewalOf(l)
	return h.For(node, text, now) > lasts
}

// ReadLease reads the Lease of a node's kubelet. If there is none, it returns an empty Lease.
func ReadLease(ctx context.Context, r client.Reader, node string) (*coordinationv1.Lease, error) {
	var l coordinationv1.Lease
	if err := r.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node}, &l); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Lease of %s: %w", node, err)
	}
	return &l, nil
}

// renewalOf identifies the renewal of a Lease, and returns how long it lasts.
func renewalOf(l *coordinationv1.Lease) (text string, lasts time.Duration) {
	if l.Spec.RenewTime == nil {
		return "", leaseLasts
	}
	text, lasts = string(l.UID)+l.Spec.RenewTime.UTC().Format(time.RFC3339Nano), leaseLasts
	if s := l.Spec.LeaseDurationSeconds; s != nil {
		lasts = time.Duration(*s) * time.Second
	}
	return text, lasts
}
