package distributedapp

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestPlan(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	ended := func(d time.Duration) *metav1.Time { at := metav1.NewTime(now.Add(d)); return &at }
	app := func() *DistributedApp {
		return &DistributedApp{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web", UID: "u", ResourceVersion: "7", Generation: 4, Finalizers: []string{finalizer}},
			Spec: Spec{Replicas: 2}, Status: Status{ObservedGeneration: 4, ConfigVersion: "2"}}
	}
	pod := func(n int, owner string) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", n)}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: new(true)}}
		}
		return p
	}
	for name, c := range map[string]struct {
		change func(f *facts)
		want   string
	}{
		"all is well":                     {func(*facts) {}, "nothing"},
		"no finalizer":                    {func(f *facts) { f.app.Finalizers = nil }, "finalizers [fencing-agent.io/distributed-app]"},
		"one is missing":                  {func(f *facts) { f.pods = f.pods[1:] }, "create web-0"},
		"somebody else's has the name":    {func(f *facts) { f.pods = []corev1.Pod{pod(0, ""), pod(1, "u")} }, "create web-2"},
		"one ends":                        {func(f *facts) { f.pods[0].DeletionTimestamp = ended(0) }, "create web-2"},
		"one has failed":                  {func(f *facts) { f.pods[1].Status.Phase = corev1.PodFailed }, "delete web-1"},
		"one too many, newest first":      {func(f *facts) { f.pods = append(f.pods, pod(10, "u"), pod(9, "u")) }, "delete web-10"},
		"another generation":              {func(f *facts) { f.app.Generation = 5 }, "status 5 by 2"},
		"a newer configuration":           {func(f *facts) { f.version = 3 }, "status 4 by 3"},
		"this replica is behind":          {func(f *facts) { f.version = 1 }, "read and wait"},
		"it has read none":                {func(f *facts) { f.version, f.app.Status.ConfigVersion = 0, "" }, "read and wait"},
		"deleted, pods there":             {func(f *facts) { f.app.DeletionTimestamp = ended(0) }, "delete web-0"},
		"deleted, pods of others":         {func(f *facts) { f.app.DeletionTimestamp, f.pods = ended(0), []corev1.Pod{pod(0, "")} }, "finalizers []"},
		"deleted, replicas come and go":   {func(f *facts) { f.app.DeletionTimestamp, f.pods, f.changed = ended(0), nil, now }, "wait"},
		"deleted, they do so for minutes": {func(f *facts) { f.app.DeletionTimestamp, f.pods, f.changed = ended(-2*time.Minute), nil, now }, "finalizers []"},
		"deleted, and not ours":           {func(f *facts) { f.app.DeletionTimestamp, f.app.Finalizers = ended(0), nil }, "nothing"},
		"deleted, pods end": {func(f *facts) {
			f.app.DeletionTimestamp, f.pods[0].DeletionTimestamp, f.pods[1].DeletionTimestamp = ended(0), ended(0), ended(0)
		}, "wait"},
	} {
		f := facts{now: now, self: "a", app: app(), version: 2, members: []string{"a"}, changed: now.Add(-time.Hour), pods: []corev1.Pod{pod(0, "u"), pod(1, "u")}}
		c.change(&f)
		if got := told(plan(f)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// told is a step for people.
func told(s step) string {
	switch {
	case s.create != "":
		return "create " + s.create
	case s.remove != nil:
		return "delete " + s.remove.Name
	case s.status != nil:
		return fmt.Sprintf("status %d by %s", s.status.ObservedGeneration, s.status.ConfigVersion)
	case s.app != nil:
		return fmt.Sprint("finalizers ", s.app.Finalizers)
	case s.behind:
		return "read and wait"
	case s.after > 0:
		return "wait"
	}
	return "nothing"
}
