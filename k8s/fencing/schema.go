package fencing

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

const (
	notStoredReason = "NodeFenceNotStored"
	applyFirst      = "NodeFences are not stored, and fencing by devices is stopped: the CustomResourceDefinition of NodeFences is older " +
		"than this controller. Apply nodefence.yaml of this version"
	// schemaAge is the time for which the answer that the schema has all fields is valid; schemaAgain is that time for
	// any other answer.
	schemaAge   = 10 * time.Minute
	schemaAgain = 30 * time.Second
)

// strict makes the API server refuse a NodeFence with a field that its schema does not have. Without it the server
// would drop the field.
//
// Invariant: a NodeFence is stored completely, or not at all. Without this, a Job would count as confirmed although its
// executor had to report more, and a storage would be noted again and again.
const strict = client.FieldValidation(metav1.FieldValidationStrict)

// lacks reports whether a write was refused because of a field that is not in the schema.
func lacks(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "unknown field")
}

// askSchema checks from time to time whether the API server would store every field that a NodeFence may have: people
// should know about an old schema before a node fails. The request is a dry run.
func (r *Runner) askSchema(ctx context.Context) {
	now := r.Now()
	if now.Before(r.schemaNext) {
		return
	}
	r.schemaNext = now.Add(schemaAgain)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	switch err := r.Writer.Create(ctx, whole(), client.DryRunAll, strict); {
	case lacks(err):
		r.notStored("", err)
	case err == nil || apierrors.IsAlreadyExists(err):
		r.schemaNext = now.Add(schemaAge)
		r.stored()
	default: // the answer proves nothing about the schema
	}
}

// notStored informs people that a schema is too old, once for each node and answer. node is empty if no node waits for
// it.
func (r *Runner) notStored(node string, err error) {
	r.Metrics.schemaOld.Set(1)
	if next := r.Now().Add(schemaAgain); next.Before(r.schemaNext) {
		r.schemaNext = next
	}
	if r.unstored != err.Error() {
		r.unstored = err.Error()
		r.Logger.Error(applyFirst, "node", node, "err", err)
	}
	if node == "" || r.waiting[node] {
		return
	}
	if r.waiting == nil {
		r.waiting = map[string]bool{}
	}
	r.waiting[node] = true
	about := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID(node)}}
	r.Events.Eventf(about, nil, corev1.EventTypeWarning, notStoredReason, "FencingNotStored", "%s: %v", applyFirst, err)
}

// stored notes that the schema has all fields.
func (r *Runner) stored() {
	if r.unstored != "" {
		r.Logger.Info("the CustomResourceDefinition of NodeFences has all fields now: fencing by devices continues")
	}
	r.Metrics.schemaOld.Set(0)
	r.unstored, r.waiting = "", nil
}

// whole returns a NodeFence with every field set. It is never stored.
func whole() *NodeFence {
	const node, boot = "schema-of-this-version", "024bc581b3a34be3"
	at := time.Unix(1, 0).UTC()
	return &NodeFence{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "NodeFence"},
		ObjectMeta: metav1.ObjectMeta{Name: NameOf(node)},
		Spec:       nodefence.Spec{NodeName: node, NodeUID: node, Boot: boot, Step: nodefence.Isolation, Paused: true},
		Status: nodefence.Status{
			Boot: boot, NodeUID: node, Step: nodefence.Isolation, Phase: nodefence.GivenUp, StartedAt: at, DoneAt: at, ReadyAt: at, Retries: 1,
			Jobs: []nodefence.Entry{{
				Name: node, UID: node, Method: node, Action: "off", Role: nodefence.Main, Step: nodefence.Isolation, Try: 1, State: nodefence.Failed,
				Node: node, Message: node, StartedAt: at, NotAfter: at, FinishedAt: at, Unclear: true, Confirm: true, Barrier: true,
			}},
			Failed: []string{node}, Proof: &nodefence.Proof{Kind: nodefence.ByPower, Boot: boot, At: at, Heartbeat: node, Contradicted: true},
			Dump: &nodefence.Dump{Since: at, Last: at}, Storages: []nodefence.Severed{{Driver: node, From: at, Barrier: node, Returned: at}},
			NotReady: true, Isolated: true, Switched: true, Message: node, Ordered: nodefence.Isolation,
			Conditions: []nodefence.Condition{{Type: nodefence.PolicyAllows, Status: "False", Reason: node, Message: node, LastTransitionTime: at}},
		},
	}
}
