package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
)

// recorder records when each step of a recovery was first seen, with watches of the API server.
type recorder struct {
	node, uid string // the victim, and the UID of the pod that it ran

	mu     sync.Mutex
	at     map[string]time.Time
	who    map[string]bool // the agents that report the death
	broken []string
	has    map[string]bool // nodes to which the volume is attached, according to Kubernetes' objects
	next   string          // UID of the replacement pod
	onto   string          // node of the replacement pod
}

const outOfService = "node.kubernetes.io/out-of-service"

// record watches until the context ends. It returns when the watches have begun.
func record(ctx context.Context, c *cluster.Cluster, node, uid string) (*recorder, error) {
	r := &recorder{node: node, uid: uid, at: map[string]time.Time{}, who: map[string]bool{}, has: map[string]bool{}}
	o := meta.ListOptions{}
	for _, begin := range []func() (watch.Interface, error){
		func() (watch.Interface, error) { return c.Client.CoreV1().Nodes().Watch(ctx, o) },
		func() (watch.Interface, error) { return c.Client.CoreV1().Pods("default").Watch(ctx, o) },
		func() (watch.Interface, error) { return c.Client.StorageV1().VolumeAttachments().Watch(ctx, o) },
	} {
		w, err := begin()
		if err != nil {
			return nil, err
		}
		go func() {
			defer w.Stop()
			for e := range w.ResultChan() {
				r.take(e.Type, e.Object)
			}
			if ctx.Err() == nil { // from now on VolumeAttachments would not be checked
				r.mu.Lock()
				defer r.mu.Unlock()
				r.broken = append(r.broken, "a watch of the API server has ended: what followed was not seen")
			}
		}()
	}
	return r, nil
}

func (r *recorder) take(kind watch.EventType, o runtime.Object) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	step := func(name string) {
		if _, ok := r.at[name]; !ok {
			r.at[name] = now
		}
	}
	switch o := o.(type) {
	case *core.Node:
		r.takeNode(o, step)
	case *core.Pod:
		switch {
		case o.Name != "db-0":
		case string(o.UID) == r.uid && kind == watch.Deleted:
			step("gone")
		case string(o.UID) == r.uid && o.DeletionTimestamp != nil:
			step("evicted")
		case string(o.UID) != r.uid:
			r.next = string(o.UID)
			step("created")
			if o.Spec.NodeName != "" {
				r.onto = o.Spec.NodeName
				step("scheduled")
			}
			if o.DeletionTimestamp != nil {
				step("replacement evicted")
			}
			if cluster.Ready(o) {
				step("ready")
			}
		}
	case *storagev1.VolumeAttachment:
		if kind == watch.Deleted || !o.Status.Attached {
			delete(r.has, o.Spec.NodeName)
		} else {
			r.has[o.Spec.NodeName] = true
		}
		if len(r.has) > 1 {
			r.broken = append(r.broken, fmt.Sprintf("VolumeAttachments on two nodes at once: %v", r.has))
		}
		switch {
		case o.Spec.NodeName == r.node && kind == watch.Deleted:
			step("detached")
		case o.Spec.NodeName != r.node && o.Status.Attached:
			step("attached")
		}
	}
}

func (r *recorder) takeNode(n *core.Node, step func(string)) {
	if strings.Contains(n.Annotations["fencing-agent.io/deaths"], fmt.Sprintf("%q", r.node)) {
		r.who[n.Name] = true
		step(fmt.Sprintf("told by %d", min(2, len(r.who))))
	}
	if n.Name != r.node {
		return
	}
	for _, t := range n.Spec.Taints {
		if t.Key == outOfService {
			step("tainted")
		}
	}
	if _, was := r.at["tainted"]; was && !tainted(n) {
		step("untainted")
	}
	if !nodeIsReady(n) {
		step("not ready")
	}
}

func tainted(n *core.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == outOfService {
			return true
		}
	}
	return false
}

func nodeIsReady(n *core.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == core.NodeReady {
			return c.Status == core.ConditionTrue
		}
	}
	return false
}

// when returns when a step was seen; the zero time: it was not.
func (r *recorder) when(step string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at[step]
}

// note adds a step that was observed elsewhere.
func (r *recorder) note(step string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[step] = at
}

// replacement returns the pod that replaces the first one, as far as it is known.
func (r *recorder) replacement() (uid, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next, r.onto
}

// fenced returns, in order, the moments at which the agents of the other nodes have taken the node for dead, according
// to their logs.
func fenced(t *testing.T, c *cluster.Cluster, node string, since time.Time) (times []time.Time) {
	t.Helper()
	v := look(t, c)
	for _, by := range without(c.Names(), node) {
		log, err := c.Client.CoreV1().Pods(cluster.Space).GetLogs(v.AgentPod(by).Name, &core.PodLogOptions{SinceTime: &meta.Time{Time: since}}).DoRaw(t.Context())
		do(t, err)
		for line := range bytes.Lines(log) {
			var entry struct {
				Time      time.Time
				Msg, Peer string
				Fenced    bool
			}
			if json.Unmarshal(line, &entry) == nil && entry.Msg == "death of a node confirmed" && entry.Peer == node && entry.Fenced && entry.Time.After(since) {
				times = append(times, entry.Time)
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}
