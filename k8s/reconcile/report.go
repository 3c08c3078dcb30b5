package reconcile

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

// reasons maps phases to the reasons of Events about Nodes.
var reasons = map[recovery.Phase]string{
	recovery.Unproven:  "DeathUnproven",
	recovery.Proven:    "DeathProven",
	recovery.Draining:  "BarrierSet",
	recovery.Released:  "NodeReleased",
	recovery.Returning: "NodeReturns",
	recovery.Held:      "RecoveryHeld",
	recovery.InDispute: "DeathDisputed",
	recovery.Foreign:   "ForeignTaint",
	recovery.WouldAct:  "DryRun",
}

// report tells people what has changed: by the log, by Events on the Node, and by metrics.
func (r *Reconciler) report(name string, w *work, request recovery.Request, a recovery.Reply) {
	r.mu.Lock()
	s, told, since := w.machine.State(), w.told, w.since
	if s.Phase != told.Phase {
		w.since = r.options.Now()
	}
	w.told = s
	r.mu.Unlock()

	boot := ""
	if n := w.calls.node; n != nil {
		boot = n.Status.NodeInfo.BootID
	}
	m, log := r.options.Metrics, r.options.Logger.With("node", name)
	if a.Outcome == recovery.Failed {
		m.failures.Inc()
		log.Warn("request to the API server failed", "request", requestNames[request.Kind], "err", a.Error)
	}
	m.taints.WithLabelValues("set").Add(float64(s.Writes.Tainted - told.Writes.Tainted))
	m.taints.WithLabelValues("removed").Add(float64(s.Writes.Removed - told.Writes.Removed))
	m.conflicts.Add(float64(s.Writes.Conflicts - told.Writes.Conflicts))
	if n := s.Writes.Deleted - told.Writes.Deleted; n > 0 {
		m.deleted.Add(float64(n))
		log.Info("pod deleted: the boot that ran it has ended", "namespace", s.Last.Namespace, "pod", s.Last.Name, "uid", s.Last.UID)
		pod := &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Last.Namespace, Name: s.Last.Name, UID: types.UID(s.Last.UID)},
		}
		r.event(name, boot, pod, "PodDeleted", "deleted %s/%s: the boot of %s that ran it has ended", s.Last.Namespace, s.Last.Name, name)
	}
	if s.Phase == told.Phase && s.Held == told.Held {
		return
	}
	if s.Held != "" && s.Held != told.Held {
		m.held.WithLabelValues(s.Held).Inc()
	}
	m.move(name, told.Phase, s.Phase, r.options.Now().Sub(since))
	log.Log(context.Background(), level(s.Phase), "recovery of a node has reached another phase", "phase", string(s.Phase), "was", string(told.Phase), "detail", s.Text,
		"after", r.options.Now().Sub(since).Round(time.Millisecond))
	if reason := reasons[s.Phase]; reason != "" {
		r.event(name, boot, nil, reason, "%s", s.Text)
	}
}

func level(p recovery.Phase) slog.Level {
	switch p {
	case recovery.InDispute, recovery.Held, recovery.Foreign:
		return slog.LevelWarn
	default:
		return slog.LevelInfo
	}
}

var requestNames = map[recovery.Kind]string{
	recovery.ReadPods: "list pods", recovery.ReadNode: "get node", recovery.ReadReporters: "get reporters", recovery.ReadLease: "get lease",
	recovery.SetTaint: "set taint", recovery.RemoveTaint: "remove taint", recovery.SetNote: "note a dispute", recovery.DeletePod: "delete pod",
}

// event creates an Event on the Node. kubectl describe node looks for the name, which Events about Nodes have as their
// UID.
func (r *Reconciler) event(node, boot string, related runtime.Object, reason, format string, args ...any) {
	kind := corev1.EventTypeNormal
	if reason == reasons[recovery.InDispute] || reason == reasons[recovery.Held] || reason == reasons[recovery.Foreign] {
		kind = corev1.EventTypeWarning
	}
	about := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID(node)}}
	note := fmt.Sprintf(format, args...)
	r.options.Events.Eventf(about, related, kind, reason, action(boot, note), "%s", note)
}

// action distinguishes Events with different notes, or about different boots. client-go merges Events with one action
// and one reason within minutes into one, which keeps the first note.
func action(boot, note string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(boot + "\x00" + note)) // never fails
	return fmt.Sprintf("Recovery-%016x", h.Sum64())
}
