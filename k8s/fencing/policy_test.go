package fencing

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// While a storm keeps a NodeFence from being created, there is one Event and one count. After the storm the fencing
// begins.
func TestHeldUpBeforeItBegins(t *testing.T) {
	s := newStage(t)
	s.configure("trigger_after=0", "cooldown=20")
	s.node("n2", false, "0", s.now)
	s.node("n3", false, "0", s.now)
	s.rounds(5)
	if n := testutil.ToFloat64(s.r.Metrics.skipped.WithLabelValues(storm.TooManyUnhealthy)); s.fence() != nil || !slices.Equal(s.events.reasons, []string{"FencingSkipped"}) || n != 1 {
		t.Fatalf("Events %v, counted %v", s.events.reasons, n)
	}
	if n := testutil.ToFloat64(s.r.Metrics.unhealthy.WithLabelValues("")); n != 3 {
		t.Errorf("%v are not Ready", n)
	}
	s.node("n2", true, "0", s.now)
	s.node("n3", true, "0", s.now)
	if s.rounds(5); s.fence() != nil || s.events.reasons[1] != "FencingSkipped" {
		t.Errorf("it begins during the cooldown: %v", s.events.reasons)
	}
	if s.rounds(8); s.fence() == nil {
		t.Error("it never begins")
	}
}

// If a storm holds up an existing NodeFence, its condition and an Event show that, and a person can permit it to go on.
func TestHeldUpOnItsWay(t *testing.T) {
	s := newStage(t)
	s.configure("trigger_after=0", "cooldown=0")
	if _, err := s.r.round(t.Context()); err != nil { // it begins, and asks whether the plug is off
		t.Fatal(err)
	}
	s.node("n2", false, "0", s.now)
	s.node("n3", false, "0", s.now)
	s.rounds(12)
	f := s.fence()
	if f == nil || f.Status.Held() != storm.TooManyUnhealthy || slices.Contains(s.ran, "bmc-off") || !slices.Contains(s.events.reasons, "FencingSkipped") {
		t.Fatalf("ran %v, Events %v: %+v", s.ran, s.events.reasons, f)
	}
	_, word, _ := strings.Cut(f.Status.Conditions[0].Message, nodefence.AnywayAnnotation+"=")
	f.Annotations = map[string]string{nodefence.AnywayAnnotation: word}
	s.put(f)
	if s.rounds(12); !slices.Contains(s.ran, "bmc-off") {
		t.Errorf("a person's word is nothing: %+v", s.fence().Status)
	}
}

// Kubelets that are cut off together stop being Ready one after the other. If Leases cannot be listed, none has run
// out.
func TestSilentLeases(t *testing.T) {
	for _, forbidden := range []string{"", "Lease"} {
		s := newStage(t)
		for _, n := range []string{"n1", "n2", "n4"} {
			at := metav1.NewMicroTime(s.now.Add(-time.Minute))
			s.put(&coordinationv1.Lease{ObjectMeta: s.meta(n), Spec: coordinationv1.LeaseSpec{RenewTime: &at}})
		}
		s.forbidden = forbidden
		s.rounds(3)
		if begun := s.fence() != nil; begun != (forbidden != "") {
			t.Errorf("forbidden %q: begun %v, Events %v", forbidden, begun, s.events.reasons)
		}
	}
}

// Between two tries for a node whose power may be off, no other node of its group is fenced, if only one of them may be
// dead.
func TestAnOffThatFailedCountsAsDead(t *testing.T) {
	s := newStage(t)
	s.r.GroupLabel, s.r.MaxDeadPercent = "group", 50
	s.configure("trigger_after=0", "cooldown=0", "max_unhealthy_percent=100", "max_silent_percent=100", "max_concurrent=5")
	for _, n := range []string{"n3", "n4"} {
		s.node(n, n == "n3", "0", s.now)
		var node corev1.Node
		if err := s.Get(t.Context(), clientKey(n), &node); err != nil {
			t.Fatal(err)
		}
		node.Labels = map[string]string{"group": "pair"}
		s.put(&node)
	}
	c, err := s.r.config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, phase := range []nodefence.Phase{nodefence.New, nodefence.Error, nodefence.GivenUp} {
		for _, switched := range []bool{true, false} {
			f := NodeFence{Spec: nodefence.Spec{NodeName: "n3"}, Status: nodefence.Status{Step: nodefence.Power, Phase: phase, Switched: switched}}
			survey, _, err := s.r.survey(t.Context(), c, []NodeFence{f})
			if err != nil {
				t.Fatal(err)
			}
			if v := survey.Allow("n4", ""); v.Allowed == switched || switched && v.Reason != storm.TooManyDead {
				t.Errorf("%s, switched %v: %+v", phase, switched, v)
			}
		}
	}
}

// lateAPI is an API server that takes its time for each write of a NodeFence.
type lateAPI struct {
	*api
	late func()
}

func (a lateAPI) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if _, is := o.(*NodeFence); is && !dryRun(opts) {
		a.late()
	}
	return a.api.Create(ctx, o, opts...)
}

func (a lateAPI) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if _, is := o.(*NodeFence); is {
		a.late()
	}
	return a.api.Update(ctx, o, opts...)
}

// A step does not begin long after the look that has allowed it: a storm may have come.
func TestStormInALongRound(t *testing.T) {
	s := newStage(t)
	s.r.Writer = lateAPI{s.api, func() {
		s.now = s.now.Add(oldSurvey + time.Second)
		s.node("n2", false, "0", s.now)
		s.node("n3", false, "0", s.now)
	}}
	if s.rounds(3); s.fence() == nil || s.fence().Status.Phase != nodefence.New || s.fence().Status.Held() != storm.TooManyUnhealthy {
		t.Errorf("%+v", s.fence())
	}
}

// A look that is too old is repeated in the middle of a round: it sees what has begun in this round.
func TestLimitInALongRound(t *testing.T) {
	s := newStage(t)
	s.configure("trigger_after=0", "max_concurrent=1", "max_unhealthy_percent=100", "max_silent_percent=100")
	for _, n := range []string{"n1", "n2", "n3"} {
		s.node(n, false, "0", s.now)
		s.put(&corev1.ConfigMap{ObjectMeta: s.meta("fence-config-" + n), Data: map[string]string{"config.properties": "node_name=" + n + "\npower_management=bmc-off bmc-on"}})
		for _, action := range []string{"off", "on"} {
			s.put(&corev1.ConfigMap{ObjectMeta: s.meta("fence-method-bmc-" + action + "-" + n), Data: map[string]string{"method.properties": "template=fence-method-template-bmc\nplug=" + n + "\naction=" + action}})
		}
	}
	s.r.Writer = lateAPI{s.api, func() { s.now = s.now.Add(oldSurvey + time.Second) }}
	most := 0
	for range 8 {
		if _, err := s.r.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		var list NodeFenceList
		if err := s.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(slices.DeleteFunc(list.Items, func(f NodeFence) bool { return f.Status.Phase != nodefence.Running })))
	}
	if most != 1 {
		t.Errorf("steps of %d nodes run at one time", most)
	}
}

// noLeases is an API server that does not answer requests for Leases.
type noLeases struct{ *api }

func (a noLeases) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, is := list.(*coordinationv1.LeaseList); is {
		return errors.New("etcdserver: request timed out")
	}
	return a.api.List(ctx, list, opts...)
}

// max_silent_percent is meant for an API server in trouble, so such trouble does not remove that limit.
func TestLeasesThatCannotBeListedNow(t *testing.T) {
	s := newStage(t)
	s.r.Reader = noLeases{s.api}
	if _, err := s.r.round(t.Context()); err == nil || s.fence() != nil {
		t.Errorf("%v: %+v", err, s.fence())
	}
	s.r.Reader = s.api
	if s.rounds(2); s.fence() == nil {
		t.Error("it never begins")
	}
}
