package fencing

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// Before there is a NodeFence: an Event and a count, once; and after the storm it begins.
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

// A NodeFence that is there: its condition, an Event, and a person's word.
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

// Kubelets that are cut off together stop being Ready one after the other. Leases that cannot be listed are none.
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
