package distributedapp

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	// stable is the time for which the list of replicas has to be unchanged before the finalizer of a deleted app is
	// removed. The wait is at most stableLimit times as long: otherwise a replica that keeps restarting would keep
	// every app.
	stable      = 20 * time.Second
	stableLimit = 6
)

// facts is the whole input of a plan: the app and its pods as they were read from the API server, the app first.
type facts struct {
	now     time.Time
	self    string
	app     *DistributedApp
	pods    []corev1.Pod // all pods of the namespace
	version uint64       // of the configuration that this replica has read; 0: none
	members []string     // the replicas that it knows
	changed time.Time    // when that list last changed
}

// step is what comes next for an app: a write, or a wait, or nothing. At most one is set.
type step struct {
	app    *DistributedApp // as it should be, without the status
	status *Status         // the status that it should have
	remove *corev1.Pod
	create string // the name of a pod

	after  time.Duration // when to look again; 0: after an event
	behind bool          // another replica has read a newer configuration than this one
}

// writes reports whether there is a write.
func (s step) writes() bool {
	return s.app != nil || s.status != nil || s.remove != nil || s.create != ""
}

// plan returns what comes next.
func plan(f facts) step {
	mine := slices.DeleteFunc(slices.Clone(f.pods), func(p corev1.Pod) bool { // D3
		o := metav1.GetControllerOf(&p)
		return o == nil || o.UID != f.app.UID
	})
	slices.SortFunc(mine, func(a, b corev1.Pod) int {
		return cmp.Or(ordinal(f.app.Name, a.Name)-ordinal(f.app.Name, b.Name), strings.Compare(a.Name, b.Name))
	})
	with := f.app.DeepCopyObject().(*DistributedApp)
	switch {
	case f.app.DeletionTimestamp != nil:
		return f.collect(mine, with)
	case f.version == 0 || versionOf(f.app.Status.ConfigVersion) > f.version: // D4
		return step{behind: true, after: time.Second}
	case controllerutil.AddFinalizer(with, finalizer): // D2: before the first pod
		return step{app: with}
	}
	if s := f.adjust(mine); s.writes() {
		return s
	}
	if s := f.app.Status; s.ObservedGeneration != f.app.Generation || versionOf(s.ConfigVersion) != f.version {
		return step{status: &Status{
			ReconciledByPod: f.self, LastReconcileTime: metav1.NewTime(f.now), ActivePods: f.members, ObservedGeneration: f.app.Generation,
			ConfigVersion: strconv.FormatUint(f.version, 10),
		}}
	}
	return step{}
}

// collect removes an app that is being deleted: its pods first, then the finalizer.
func (f *facts) collect(mine []corev1.Pod, without *DistributedApp) step {
	if !controllerutil.RemoveFinalizer(without, finalizer) {
		return step{}
	}
	for i := range mine {
		if mine[i].DeletionTimestamp == nil {
			return step{remove: &mine[i]}
		}
	}
	if len(mine) > 0 { // D2: an event comes when they are gone
		return step{after: time.Second}
	}
	// While replicas come and go, another replica may be creating a pod by what it read before the deletion. The
	// deletion does not make that write fail. Kubernetes would remove such a pod, whose owner is gone, but waiting is
	// cheaper.
	if calm := f.changed.Add(stable); f.now.Before(calm) && f.now.Before(f.app.DeletionTimestamp.Add(stableLimit*stable)) {
		return step{after: calm.Sub(f.now)}
	}
	return step{app: without}
}

// adjust returns the write that brings the number of pods closer to the wanted one.
func (f *facts) adjust(mine []corev1.Pod) step {
	var live []*corev1.Pod
	for i := range mine {
		p := &mine[i]
		switch {
		case p.DeletionTimestamp != nil:
		case p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded:
			return step{remove: p}
		default:
			live = append(live, p)
		}
	}
	switch want := int(f.app.Spec.Replicas); {
	case len(live) > want:
		return step{remove: live[len(live)-1]}
	case len(live) == want:
		return step{}
	}
	for i := 0; ; i++ {
		name := f.app.Name + "-" + strconv.Itoa(i)
		if !slices.ContainsFunc(f.pods, func(p corev1.Pod) bool { return p.Name == name }) { // the pod is not the app's, or is still terminating
			return step{create: name}
		}
	}
}

// ordinal returns the ordinal in a pod's name; a pod without one counts as the youngest.
func ordinal(app, pod string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(pod, app+"-"))
	if err != nil {
		return 1 << 30
	}
	return n
}

// versionOf reads a version; a text that is not a number counts as none.
func versionOf(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}
