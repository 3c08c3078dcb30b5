package fencing

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// labelled is a council whose control plane has the label of today, and no etcd that can be seen.
func labelled(t *testing.T) *council {
	c := newCouncil(t, 11)
	for _, m := range c.machines {
		delete(c.objects, "Pod/etcd-"+m.name)
		if m.labels = map[string]string{}; m.rules {
			m.labels[partLabels[0]] = ""
		}
		c.show(m)
	}
	return c
}

// A person orders two that are Ready: the second one waits for the first, and says so.
func TestTwoOrdersForTheControlPlane(t *testing.T) {
	c := labelled(t)
	for _, name := range []string{"m0", "m1"} {
		f := &NodeFence{ObjectMeta: metav1.ObjectMeta{Name: NameOf(name)}, Spec: nodefence.Spec{NodeName: name, Step: nodefence.Power}}
		if err := c.stage.Create(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	begun, held := 0, 0
	for range 4 {
		_, _ = c.r.round(t.Context())
		c.now = c.now.Add(time.Second)
	}
	var list NodeFenceList
	_ = c.stage.List(t.Context(), &list)
	for i := range list.Items {
		switch s := &list.Items[i].Status; {
		case s.Phase == nodefence.Running:
			begun++
		case s.Held() == storm.ControlPlane:
			held++
		}
	}
	if begun != 1 || held != 1 {
		t.Errorf("%d have begun, %d are held up", begun, held)
	}
	// A word, whatever it is, does not let it begin beside the first.
	for i := range list.Items {
		if f := &list.Items[i]; f.Status.Held() != "" {
			if strings.Contains(f.Status.Conditions[0].Message, nodefence.AnywayAnnotation) {
				t.Errorf("a word is offered: %s", f.Status.Conditions[0].Message)
			}
			f.Annotations = map[string]string{nodefence.AnywayAnnotation: "cbf29ce484222325"} // what an empty set comes to
			c.put(f)
		}
	}
	for range 4 {
		_, _ = c.r.round(t.Context())
		c.now = c.now.Add(time.Second)
	}
	_ = c.stage.List(t.Context(), &list)
	for i := range list.Items {
		if f := &list.Items[i]; f.Annotations != nil && f.Status.Phase == nodefence.Running {
			t.Error("it begins by a word")
		}
	}
}

// Another one has just come back: its member of etcd may still be behind.
func TestSettleOfTheControlPlane(t *testing.T) {
	c := labelled(t)
	c.configure("trigger_after=0", "settle=60", "monitor_interval=0")
	c.machines[1].since, c.machines[0].ready = c.now.Add(-5*time.Second), false
	c.show(c.machines[0])
	c.show(c.machines[1])
	for range 10 {
		if _, _ = c.r.round(t.Context()); c.fence0() != nil {
			t.Fatalf("it begins after %v", c.now.Sub(begin))
		}
		c.now = c.now.Add(5 * time.Second)
	}
	c.now = c.now.Add(6 * time.Second)
	if _, _ = c.r.round(t.Context()); c.fence0() == nil {
		t.Error("it never begins")
	}
}
