package fencing

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/remediation"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// ask does what medik8s' NodeHealthCheck does for a node.
func (s *stage) ask(name string, annotations map[string]string) {
	s.t.Helper()
	s.put(&FencingRemediation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("wish-" + name), Annotations: annotations}})
}

func (s *stage) wish(name string) *FencingRemediation {
	m := &FencingRemediation{}
	if s.Get(context.Background(), types.NamespacedName{Name: name}, m) != nil {
		return nil
	}
	return m
}

// change is an update by somebody else.
func (s *stage) change(name string, how func(m *FencingRemediation)) {
	s.t.Helper()
	m := s.wish(name)
	how(m)
	if err := s.Update(context.Background(), m); err != nil {
		s.t.Fatal(err)
	}
}

func (m *FencingRemediation) condition(kind string) string {
	for _, c := range m.Status.Conditions {
		if c.Type == kind {
			return c.Status + " " + c.Reason
		}
	}
	return ""
}

func (s *stage) expect(name, processing, succeeded string) {
	s.t.Helper()
	m := s.wish(name)
	if m == nil || m.condition(remediation.Processing) != processing || m.condition(remediation.Succeeded) != succeeded {
		s.t.Fatalf("%+v, want %s and %s", m, processing, succeeded)
	}
}

// slow returns a stage on which only remediations begin a NodeFence.
func slow(t *testing.T) *stage {
	s := newStage(t)
	s.configure("begin_by=remediation", "cooldown=0")
	return s
}

// A remediation begins a NodeFence, succeeds with its proof, and is removed when the NodeFence is gone.
func TestRemediationToItsEnd(t *testing.T) {
	s := slow(t)
	s.rounds(10)
	if s.fence() != nil {
		t.Fatal("a NodeFence has begun, and nobody wanted it")
	}
	s.ask("n4", nil)
	s.rounds(2)
	if f := s.fence(); f == nil || f.Labels[wishLabel] != "wish-n4" {
		t.Fatalf("no NodeFence has begun, or it is nobody's: %+v", f)
	}
	s.rounds(20)
	s.expect("n4", "False BootEnded", "True BootEnded")
	s.node("n4", true, "1", s.now)
	s.change("n4", func(m *FencingRemediation) { now := metav1.NewTime(s.now); m.DeletionTimestamp = &now })
	s.rounds(3)
	if s.wish("n4") == nil || s.fence() == nil {
		t.Fatal("the remediation went before its NodeFence")
	}
	s.rounds(60)
	if s.wish("n4") != nil || s.fence() != nil || !s.on {
		t.Fatalf("%+v %+v, power is on: %v", s.wish("n4"), s.fence(), s.on)
	}
}

// Guard: a request that was taken back begins nothing, and what it has begun is undone.
func TestRemediationTimesOut(t *testing.T) {
	s := slow(t)
	s.ask("n4", nil)
	for range 30 { // until the power is off
		if s.round(); !s.on {
			break
		}
	}
	if s.on {
		t.Fatal("the power was never off")
	}
	s.change("n4", func(m *FencingRemediation) {
		m.Annotations = map[string]string{timedOutAnnotation: s.now.Format(time.RFC3339)}
	})
	s.rounds(60)
	if f := s.fence(); f != nil || !s.on {
		t.Fatalf("the NodeFence is still there, or the node is without power: %+v", f)
	}
	runs := len(s.ran)
	s.rounds(30)
	if len(s.ran) != runs || s.fence() != nil {
		t.Errorf("%v after it timed out", s.ran[runs:])
	}
}

// A node that is Ready is not fenced, nor an unmanaged node, nor a node beyond the limit of storms.
func TestRemediationIsAWish(t *testing.T) {
	s := slow(t)
	s.node("n4", true, "0", s.now)
	s.ask("n4", nil)
	s.ask("n3-abc", map[string]string{nodeNameAnnotation: "n3"})
	s.rounds(3)
	s.expect("n4", "True Waiting", "Unknown Waiting")
	s.expect("n3-abc", "True Waiting", "Unknown Waiting")
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		s.node(n, false, "0", s.now)
	}
	s.rounds(10)
	if s.fence() != nil {
		t.Fatal("a storm was fenced")
	}
	if m := s.wish("n4"); !strings.Contains(m.Status.Conditions[1].Message, "not Ready, more than") {
		t.Errorf("%+v", m.Status)
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		s.node(n, true, "0", s.now)
	}
	s.rounds(3)
	if s.fence() == nil {
		t.Error("nothing begins after the storm")
	}
}

// With a first step of power_management nothing is isolated.
func TestRemediationNamesItsStep(t *testing.T) {
	s := slow(t)
	s.put(&FencingRemediation{ObjectMeta: metav1.ObjectMeta{Name: "n4", UID: "wish-n4"}, Spec: remediation.Spec{Step: "power_management"}})
	s.rounds(3)
	if f := s.fence(); f == nil || f.Status.Step != nodefence.Power || f.Spec.Step != nodefence.Power {
		t.Errorf("%+v", f)
	}
}

// Guard: a request that was taken back during the round begins nothing.
func TestWishIsAskedForAgain(t *testing.T) {
	s := slow(t)
	s.ask("n4", nil)
	calm := storm.Policy{MaxConcurrent: 1}.Look(nil, s.now, &storm.History{})
	s.r.wished = s.r.wishes(s.t.Context(), &fenceconfig.Config{}, calm)
	s.r.wished = s.r.wishes(s.t.Context(), &fenceconfig.Config{}, calm) // the first call records the boot
	stale := s.r.wished["n4"]
	if stale == nil {
		t.Fatal("it wishes nothing")
	}
	n := nodefence.Node{Exists: true, UID: stale.Status.NodeUID, Boot: stale.Status.Boot}
	if uid, _ := s.r.wish(t.Context(), stale, n); uid != "wish-n4" {
		t.Errorf("%q", uid)
	}
	s.change("n4", func(m *FencingRemediation) { m.Annotations = map[string]string{timedOutAnnotation: "now"} })
	if uid, _ := s.r.wish(t.Context(), stale, n); uid != "" {
		t.Error("it begins although it has timed out")
	}
}

// Fields of a later version in a remediation stay, whatever this version writes to it.
func TestARemediationKeepsWhatALaterVersionHasNoted(t *testing.T) {
	s := newStage(t)
	var later map[string]any
	text, err := json.Marshal(&FencingRemediation{ObjectMeta: metav1.ObjectMeta{Name: "n4", UID: "wish-n4"}, Status: remediation.Status{Conditions: []remediation.Condition{{Type: remediation.Processing}}}})
	if err == nil {
		err = json.Unmarshal(text, &later)
	}
	if err != nil {
		t.Fatal(err)
	}
	status := later["status"].(map[string]any)
	later["spec"] = map[string]any{"laterSpec": "s"}
	status["laterStatus"] = 12345678901234567
	status["conditions"].([]any)[0].(map[string]any)["laterCondition"] = true
	if text, err = json.Marshal(later); err != nil {
		t.Fatal(err)
	}
	m := &FencingRemediation{}
	if err := json.Unmarshal(text, m); err != nil {
		t.Fatal(err)
	}
	s.put(m)
	version := m.ResourceVersion
	s.rounds(5)
	is := string(s.objects["FencingRemediation/n4"])
	for _, field := range []string{`"laterSpec":"s"`, `"laterStatus":12345678901234567`, `"laterCondition":true`, `"nodeName":"n4"`} {
		if !strings.Contains(is, field) || strings.Contains(is, `"resourceVersion":"`+version+`"`) {
			t.Errorf("%s is gone, or nothing was written: %s", field, is)
		}
	}
}
